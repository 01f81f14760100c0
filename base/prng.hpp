// Prng: xoshiro256** (Blackman and Vigna, 2018), seeded through splitmix64. The same seed gives
// the same numbers on every machine and compiler; not for secrets.
//
// Each component draws from a stream of its own, split(tag) off one seeded generator. A stream
// depends on the seed and the tag only, not on what was drawn before, so adding a component or a
// draw does not reshuffle the others.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <string_view>

#include "base/check.hpp"

namespace mprdma {

class Prng {
 public:
  constexpr explicit Prng(uint64_t seed) : seed_(seed) {
    uint64_t mix = seed;
    for (uint64_t& word : state_) word = splitmix64(mix);
  }

  constexpr uint64_t next_u64() {
    const uint64_t result = std::rotl(state_[1] * 5, 7) * 9;
    const uint64_t shifted = state_[1] << 17;
    state_[2] ^= state_[0];
    state_[3] ^= state_[1];
    state_[1] ^= state_[2];
    state_[0] ^= state_[3];
    state_[2] ^= shifted;
    state_[3] = std::rotl(state_[3], 45);
    return result;
  }

  // Uniform in [0, bound), without bias; bound > 0.
  constexpr uint64_t below(uint64_t bound) {
    CHECK(bound > 0);
    // 2^64 mod bound: the draws below it would make the small remainders more frequent.
    const uint64_t rejected = (0 - bound) % bound;
    uint64_t draw = next_u64();
    while (draw < rejected) draw = next_u64();
    return draw % bound;
  }

  // True with probability numerator / denominator; always draws once, so that a change of the
  // odds leaves the rest of the stream in place.
  constexpr bool chance(uint64_t numerator, uint64_t denominator) {
    return below(denominator) < numerator;
  }

  // Uniform in [low, high], both included.
  constexpr uint64_t range(uint64_t low, uint64_t high) {
    CHECK(low <= high);
    const uint64_t span = high - low;
    return span == UINT64_MAX ? next_u64() : low + below(span + 1);
  }

  constexpr Prng split(uint64_t tag) const {
    uint64_t mix = tag;
    return Prng(seed_ ^ splitmix64(mix));
  }
  constexpr Prng split(std::string_view tag) const {
    uint64_t hash = 0xcbf29ce484222325;  // FNV-1a, 64 bits
    for (const char c : tag) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
    return split(hash);
  }

 private:
  static constexpr uint64_t splitmix64(uint64_t& state) {
    state += 0x9e3779b97f4a7c15;
    uint64_t z = state;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }

  uint64_t seed_;
  std::array<uint64_t, 4> state_{};
};

}  // namespace mprdma
