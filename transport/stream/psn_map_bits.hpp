// The maps of the offload context as numbers of 128 bits: bit i is PSN snd_una + i.
#pragma once

#include <bit>
#include <cstdint>

#include "transport/stream/offload_context.hpp"

namespace mprdma::transport {

constexpr PsnMap operator|(const PsnMap& a, const PsnMap& b) {
  return {{a.words[0] | b.words[0], a.words[1] | b.words[1]}};
}
constexpr PsnMap operator&(const PsnMap& a, const PsnMap& b) {
  return {{a.words[0] & b.words[0], a.words[1] & b.words[1]}};
}
constexpr PsnMap operator~(const PsnMap& a) {
  return {{~a.words[0], ~a.words[1]}};
}
constexpr bool any(const PsnMap& map) {
  return (map.words[0] | map.words[1]) != 0;
}
constexpr uint32_t count(const PsnMap& map) {
  return static_cast<uint32_t>(std::popcount(map.words[0]) + std::popcount(map.words[1]));
}
constexpr bool test(const PsnMap& map, uint32_t at) {
  return at < 128 && (map.words[at / 64] >> at % 64 & 1) != 0;
}
// Requires at < 128.
constexpr PsnMap with(PsnMap map, uint32_t at) {
  map.words[at / 64] |= uint64_t{1} << at % 64;
  return map;
}
constexpr PsnMap without(PsnMap map, uint32_t at) {
  map.words[at / 64] &= ~(uint64_t{1} << at % 64);
  return map;
}
// The bits move down: snd_una has moved up.
constexpr PsnMap shifted(const PsnMap& map, uint32_t by) {
  if (by >= 128) return {};
  if (by >= 64) return {{map.words[1] >> (by - 64), 0}};
  if (by == 0) return map;
  return {{map.words[0] >> by | map.words[1] << (64 - by), map.words[1] >> by}};
}
// So many of the lowest bits.
constexpr PsnMap lowest_bits(uint32_t bits) {
  const auto word = [](uint32_t n) { return n >= 64 ? ~uint64_t{0} : (uint64_t{1} << n) - 1; };
  return {{word(bits), bits > 64 ? word(bits - 64) : 0}};
}
// The lowest bit that is set; 128: none is.
constexpr uint32_t lowest(const PsnMap& map) {
  const auto low = static_cast<uint32_t>(std::countr_zero(map.words[0]));
  return low < 64 ? low : 64 + static_cast<uint32_t>(std::countr_zero(map.words[1]));
}

}  // namespace mprdma::transport
