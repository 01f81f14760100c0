// Distributions from which scenarios are drawn.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <initializer_list>

#include "base/prng.hpp"
#include "base/units.hpp"

namespace mprdma::swarm {

// Draws uniformly in the exponent: small values are as frequent as large ones.
inline uint64_t log_uniform(Prng& prng, uint64_t low, uint64_t high) {
  const auto bits_low = static_cast<uint64_t>(std::bit_width(low));
  const auto bits_high = static_cast<uint64_t>(std::bit_width(high));
  const uint64_t bits = prng.range(bits_low, bits_high);
  const uint64_t from = std::max(low, bits == 0 ? 0 : uint64_t{1} << (bits - 1));
  const uint64_t to = std::min(high, (uint64_t{1} << bits) - 1);
  return prng.range(from, std::max(from, to));
}

inline Duration log_duration(Prng& prng, Duration low, Duration high) {
  return Duration::ns(static_cast<int64_t>(log_uniform(prng, static_cast<uint64_t>(low.count_ns()),
                                                       static_cast<uint64_t>(high.count_ns()))));
}

template <class T>
T pick(Prng& prng, std::initializer_list<T> values) {
  return *(values.begin() + prng.below(values.size()));
}

}  // namespace mprdma::swarm
