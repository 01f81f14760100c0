// How the fields of the offload context hold times and what may be too large for them. A time has
// 24 bits in units of 64 ns, and a flag that says that it is older than that range (1.07 s), which
// a sweep of the device sets.
#pragma once

#include <cstdint>

#include "base/units.hpp"

namespace mprdma::transport {

inline constexpr uint32_t kOffloadTimeBits = 24;
inline constexpr int64_t kOffloadUnitNs = 64;
inline constexpr int64_t kOffloadRange = int64_t{1} << kOffloadTimeBits;  // units

// As the context stores it.
constexpr uint32_t offload_units(Time time) {
  return static_cast<uint32_t>(time.ns() / kOffloadUnitNs) &
         static_cast<uint32_t>(kOffloadRange - 1);
}
// How long ago a stored time was, from the unit that `now` lies in; one that is old: the range.
constexpr Duration offload_since(Time now, uint32_t stored, bool old) {
  const uint32_t ago = (offload_units(now) - stored) & static_cast<uint32_t>(kOffloadRange - 1);
  return Duration::ns((old ? kOffloadRange : ago) * kOffloadUnitNs);
}
// The value, or the largest that a field of so many bytes holds.
constexpr uint32_t saturated_bytes(uint64_t value, uint32_t bytes) {
  const uint64_t largest = (uint64_t{1} << 8 * bytes) - 1;
  return static_cast<uint32_t>(value < largest ? value : largest);
}

}  // namespace mprdma::transport
