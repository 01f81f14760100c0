// How large a port's frames have to be for a path MTU.
#pragma once

#include <cstdint>

#include "wire/frame.hpp"

namespace mprdma::dataplane {

// The largest frame of this path MTU: all headers, payload, pad and ICRC.
constexpr uint32_t frame_bytes_of(uint32_t mtu) {
  return static_cast<uint32_t>(wire::kMaxFrameHeaderBytes + wire::kMaxFrameTrailerBytes) + mtu;
}

}  // namespace mprdma::dataplane
