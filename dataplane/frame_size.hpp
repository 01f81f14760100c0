// How large a port's frames have to be for a path MTU.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "wire/frame.hpp"

namespace mprdma::dataplane {

// The largest frame of this path MTU: all headers, payload, pad and ICRC.
constexpr uint32_t frame_bytes_of(uint32_t mtu) {
  return static_cast<uint32_t>(wire::kMaxFrameHeaderBytes + wire::kMaxFrameTrailerBytes) + mtu;
}

// A frame of AF_XDP is in a chunk of the kernel's, which is a page at most. DPDK's driver makes a
// whole buffer one chunk: its pool's header, its descriptor and its headroom; the kernel leaves as
// much again as XDP programs may put before a frame that it receives (XDP_PACKET_HEADROOM).
constexpr uint32_t kXdpChunkBytes = 4096;
constexpr uint32_t kXdpBufferBytes = kXdpChunkBytes - 64 - 128 - 128;
constexpr uint32_t kXdpFrameBytes = kXdpBufferBytes - 256;

// Empty, or why a port of this text, with frames of so many bytes at most, does not carry this path
// MTU, and what would help. `key` is where the MTU is set.
std::string check_frames(std::string_view port, uint32_t frame_bytes_max, uint32_t mtu,
                         std::string_view key);

}  // namespace mprdma::dataplane
