// Ethernet II header (IEEE 802.3, clause 3). Without a VLAN tag: a port whose wire has them takes
// them off and puts them on (vlan_tag.hpp).
//
//   byte  0..5   destination address
//         6..11  source address
//         12..13 EtherType
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

#include "base/byte_order.hpp"

namespace mprdma::wire {

using MacAddress = std::array<uint8_t, 6>;

inline constexpr MacAddress kBroadcastMac = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff};

// A group of receivers, or all of them: the I/G bit (IEEE 802.3, 3.2.3).
// a == b without a call of memcmp().
inline bool same_mac(const MacAddress& a, const MacAddress& b) {
  uint32_t of_a;
  uint32_t of_b;
  uint16_t end_of_a;
  uint16_t end_of_b;
  std::memcpy(&of_a, a.data(), sizeof(of_a));
  std::memcpy(&of_b, b.data(), sizeof(of_b));
  std::memcpy(&end_of_a, a.data() + sizeof(of_a), sizeof(end_of_a));
  std::memcpy(&end_of_b, b.data() + sizeof(of_b), sizeof(end_of_b));
  return ((of_a ^ of_b) | static_cast<uint32_t>(end_of_a ^ end_of_b)) == 0;
}

constexpr bool is_multicast(const MacAddress& mac) {
  return (mac[0] & 1) != 0;
}

inline constexpr uint16_t kEtherTypeIpv4 = 0x0800;
inline constexpr uint16_t kEtherTypeArp = 0x0806;
inline constexpr uint16_t kEtherTypeIpv6 = 0x86dd;

// Shortest frame that may go to a wire, without the frame check sequence.
inline constexpr size_t kMinFrameBytes = 60;

struct Ethernet {
  static constexpr size_t kBytes = 14;

  MacAddress dst{};
  MacAddress src{};
  uint16_t ether_type = 0;

  constexpr bool operator==(const Ethernet&) const = default;

  // Requires kBytes bytes at `in`.
  static Ethernet load(const unsigned char* in) {
    Ethernet ethernet;
    std::memcpy(ethernet.dst.data(), in, 6);
    std::memcpy(ethernet.src.data(), in + 6, 6);
    ethernet.ether_type = load_be16(in + 12);
    return ethernet;
  }

  // Requires room for kBytes bytes at `out`.
  void store(unsigned char* out) const {
    std::memcpy(out, dst.data(), 6);
    std::memcpy(out + 6, src.data(), 6);
    store_be16(out + 12, ether_type);
  }
};

std::string_view to_string(const MacAddress& mac, std::span<char> out);
std::string_view to_string(const Ethernet& ethernet, std::span<char> out);

}  // namespace mprdma::wire
