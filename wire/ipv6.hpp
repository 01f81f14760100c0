// IPv6 header (RFC 8200). RoCEv2 puts UDP right behind it (annex A17); extension headers are not
// for us.
//
//   byte  0..3   version (4 bits) | traffic class: DSCP (6), ECN (2) | flow label (20)
//         4..5   payload length
//         6      next header
//         7      hop limit
//         8..23  source
//         24..39 destination
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

#include "base/byte_order.hpp"
#include "wire/constants.hpp"
#include "wire/ip_address.hpp"
#include "wire/ipv4.hpp"

namespace mprdma::wire {

inline constexpr uint8_t kIpv6NextHeaderFragment = 44;

struct Ipv6 {
  static constexpr size_t kBytes = 40;

  uint8_t dscp = 0;  // 6 bits
  Ecn ecn = Ecn::kNotEct;
  uint32_t flow_label = 0;  // 20 bits
  uint16_t payload_length = 0;
  uint8_t next_header = kIpProtocolUdp;
  uint8_t hop_limit = kDefaultTtl;
  IpAddress src{};
  IpAddress dst{};

  constexpr bool operator==(const Ipv6&) const = default;

  static uint8_t version(const unsigned char* in) { return in[0] >> 4; }

  // Requires kBytes bytes at `in`.
  static Ipv6 load(const unsigned char* in) {
    const uint32_t word = load_be32(in);
    Ipv6 ip;
    ip.dscp = static_cast<uint8_t>(word >> 22 & 0x3f);
    ip.ecn = static_cast<Ecn>(word >> 20 & 0x3);
    ip.flow_label = word & 0xfffff;
    ip.payload_length = load_be16(in + 4);
    ip.next_header = in[6];
    ip.hop_limit = in[7];
    std::memcpy(ip.src.data(), in + 8, ip.src.size());
    std::memcpy(ip.dst.data(), in + 24, ip.dst.size());
    return ip;
  }

  // Requires room for kBytes bytes at `out`.
  void store(unsigned char* out) const {
    store_be32(out, 6U << 28 | uint32_t{dscp} << 22 | static_cast<uint32_t>(ecn) << 20 |
                        (flow_label & 0xfffff));
    store_be16(out + 4, payload_length);
    out[6] = next_header;
    out[7] = hop_limit;
    std::memcpy(out + 8, src.data(), src.size());
    std::memcpy(out + 24, dst.data(), dst.size());
  }
};

std::string_view to_string(const Ipv6& ip, std::span<char> out);

}  // namespace mprdma::wire
