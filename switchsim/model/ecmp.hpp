// Equal-cost multi-path: which of several ports a flow takes. The five-tuple is hashed once, where
// the packet is made; each switch mixes the result with a seed of its own, so that the choices of
// two switches on the way are independent (no polarisation).
#pragma once

#include <array>
#include <cstdint>

namespace mprdma::switchsim {

// The finaliser of splitmix64: every bit of the argument reaches every bit of the result.
constexpr uint64_t mix64(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

// Addresses as two words: an IPv6 address, or an IPv4 one (or a simulated host's number) in the
// second.
struct FiveTuple {
  std::array<uint64_t, 2> source{};
  std::array<uint64_t, 2> destination{};
  uint16_t source_port = 0;
  uint16_t destination_port = 0;
  uint8_t protocol = 17;  // UDP
};

constexpr uint64_t flow_hash(const FiveTuple& tuple) {
  constexpr uint64_t kStep = 0x9e3779b97f4a7c15;
  uint64_t hash = kStep;
  for (const uint64_t word :
       {tuple.source[0], tuple.source[1], tuple.destination[0], tuple.destination[1]}) {
    hash = mix64(hash ^ word) + kStep;
  }
  return mix64(hash ^ (uint64_t{tuple.source_port} | uint64_t{tuple.destination_port} << 16 |
                       uint64_t{tuple.protocol} << 32));
}

// In [0, count); count > 0.
constexpr uint32_t ecmp_index(uint64_t flow, uint64_t switch_seed, uint32_t count) {
  return static_cast<uint32_t>(((mix64(flow ^ switch_seed) >> 32) * count) >> 32);
}

}  // namespace mprdma::switchsim
