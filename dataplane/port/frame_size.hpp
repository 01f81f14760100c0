// Frame size that a port needs for a path MTU.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/status.hpp"
#include "wire/frame.hpp"

namespace mprdma::dataplane {

// The largest frame of this path MTU: all headers, payload, pad and ICRC.
constexpr uint32_t frame_bytes_of(uint32_t mtu) {
  return static_cast<uint32_t>(wire::kMaxFrameHeaderBytes + wire::kMaxFrameTrailerBytes) + mtu;
}

// An AF_XDP frame lies in a chunk of at most one page. DPDK's driver uses a whole buffer as a
// chunk, with its pool header, descriptor and headroom; before a received frame the kernel also
// reserves the room that XDP programs may use (XDP_PACKET_HEADROOM).
constexpr uint32_t kXdpChunkBytes = 4096;
constexpr uint32_t kXdpBufferBytes = kXdpChunkBytes - 64 - 128 - 128;
constexpr uint32_t kXdpFrameBytes = kXdpBufferBytes - 256;

// An error if the port with this spec and frame limit in bytes cannot carry this path MTU; its text
// says what would help. `key` is where the MTU is set.
Status check_frames(std::string_view port, uint32_t frame_bytes_max, uint32_t mtu,
                    std::string_view key);

}  // namespace mprdma::dataplane
