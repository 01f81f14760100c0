// A virtual path at random.
#pragma once

#include <cstdint>

#include "base/prng.hpp"
#include "wire/constants.hpp"

namespace mprdma::transport {

inline uint16_t random_path(Prng& prng) {
  static_assert((wire::kVirtualPathCount & (wire::kVirtualPathCount - 1)) == 0);
  const auto index = static_cast<uint32_t>(prng.next_u64() >> 32) % wire::kVirtualPathCount;
  return static_cast<uint16_t>(wire::kVirtualPathMin + index);
}

}  // namespace mprdma::transport
