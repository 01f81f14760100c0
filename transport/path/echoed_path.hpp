// The virtual path that an acknowledgement echoes.
#pragma once

#include <cstdint>

#include "wire/constants.hpp"

namespace mprdma::transport {

// 0, which stands for none, where `vp` is no virtual path: a peer may echo anything, and data must
// not leave from the port of somebody else. (An acknowledgement leaves from the port that its data
// had.)
inline uint16_t echoed_path(uint16_t vp) {
  return vp >= wire::kVirtualPathMin ? vp : uint16_t{0};
}

}  // namespace mprdma::transport
