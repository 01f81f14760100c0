// IP addresses of either version in one form: 16 bytes, IPv4 as ::ffff:a.b.c.d (RFC 4291, section
// 2.5.5.2), which is also how a RoCEv2 GID holds them.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

#include "base/byte_order.hpp"
#include "base/ipv4.hpp"

namespace mprdma::wire {

using IpAddress = std::array<uint8_t, 16>;

// a == b in four instructions: compilers call memcmp().
inline bool same_ip(const IpAddress& a, const IpAddress& b) {
  uint64_t of_a[2];
  uint64_t of_b[2];
  std::memcpy(of_a, a.data(), sizeof(of_a));
  std::memcpy(of_b, b.data(), sizeof(of_b));
  return ((of_a[0] ^ of_b[0]) | (of_a[1] ^ of_b[1])) == 0;
}

constexpr IpAddress map_ipv4(Ipv4 ipv4) {
  IpAddress address{};
  address[10] = 0xff;
  address[11] = 0xff;
  store_be32(address.data() + 12, ipv4.value());
  return address;
}

constexpr bool is_mapped_ipv4(const IpAddress& address) {
  for (int i = 0; i < 10; ++i) {
    if (address[static_cast<size_t>(i)] != 0) return false;
  }
  return address[10] == 0xff && address[11] == 0xff;
}

// The low four bytes; meaningful for a mapped address.
constexpr Ipv4 unmap_ipv4(const IpAddress& address) {
  return Ipv4(load_be32(address.data() + 12));
}

// A group of receivers: 224.0.0.0/4 (RFC 5771).
constexpr bool is_multicast_ipv4(Ipv4 ipv4) {
  return (ipv4.value() & 0xf0000000) == 0xe0000000;
}

// A group of either IP version; IPv6: ff00::/8 (RFC 4291, section 2.7).
constexpr bool is_multicast(const IpAddress& address) {
  return is_mapped_ipv4(address) ? is_multicast_ipv4(unmap_ipv4(address)) : address[0] == 0xff;
}

// "10.1.0.2", or the full form of an IPv6 address, which is not shortened.
std::string_view to_string(const IpAddress& address, std::span<char> out);

}  // namespace mprdma::wire
