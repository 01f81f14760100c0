// Spreads the bits of a number over all of it: splitmix64's finalizer (Steele, Lea, Flood: Fast
// Splittable Pseudorandom Number Generators, OOPSLA 2014), a permutation of 64-bit numbers. For
// hash tables; with a secret in it where somebody else chooses the keys.
#pragma once

#include <cstdint>

namespace mprdma {

constexpr uint64_t mix64(uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

}  // namespace mprdma
