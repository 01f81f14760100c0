// IPv4 addresses as numbers: 10.1.0.2 is 0x0a010002, whatever the machine's byte order. Bytes of
// the wire become one by load_be32 (base/byte_order.hpp), and nowhere else.
#pragma once

#include <compare>
#include <cstdint>

namespace mprdma {

class Ipv4 {
 public:
  constexpr Ipv4() = default;
  constexpr explicit Ipv4(uint32_t value) : value_(value) {}

  constexpr uint32_t value() const { return value_; }
  // 0.0.0.0, which names no host (RFC 1122, section 3.2.1.3): "not set".
  constexpr bool unspecified() const { return value_ == 0; }
  constexpr auto operator<=>(const Ipv4&) const = default;

 private:
  uint32_t value_ = 0;
};

// The bits that the addresses of a subnet have in common, for a prefix of 0 to 32 bits.
constexpr uint32_t netmask(uint32_t prefix_bits) {
  return prefix_bits == 0 ? 0 : UINT32_MAX << (32 - prefix_bits);
}

constexpr bool same_subnet(Ipv4 a, Ipv4 b, uint32_t mask) {
  return ((a.value() ^ b.value()) & mask) == 0;
}

}  // namespace mprdma
