// IPv4 header without options (RFC 791), all that RoCEv2 uses (annex A17).
//
//   byte  0      version (high 4 bits) | header length in words, always 5
//         1      DSCP (bits 7..2) | ECN (1..0)
//         2..3   total length
//         4..5   identification
//         6..7   reserved (bit 15) | DF (14) | MF (13) | fragment offset (12..0)
//         8      time to live
//         9      protocol
//         10..11 header checksum
//         12..15 source
//         16..19 destination
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/byte_order.hpp"
#include "base/ipv4.hpp"
#include "wire/constants.hpp"

namespace mprdma::wire {

inline constexpr uint8_t kIpProtocolUdp = 17;

struct Ipv4Header {
  static constexpr size_t kBytes = 20;
  static constexpr size_t kTosOffset = 1;  // DSCP and ECN
  static constexpr size_t kTotalLengthOffset = 2;
  static constexpr size_t kChecksumOffset = 10;

  uint8_t dscp = 0;  // 6 bits
  Ecn ecn = Ecn::kNotEct;
  uint16_t total_length = 0;
  uint16_t identification = 0;
  bool dont_fragment = true;
  bool more_fragments = false;
  uint16_t fragment_offset = 0;  // in units of 8 bytes
  uint8_t ttl = kDefaultTtl;
  uint8_t protocol = kIpProtocolUdp;
  Ipv4 src{};
  Ipv4 dst{};

  constexpr bool operator==(const Ipv4Header&) const = default;

  constexpr bool is_fragment() const { return more_fragments || fragment_offset != 0; }

  static uint8_t version(const unsigned char* in) { return in[0] >> 4; }
  static size_t header_length(const unsigned char* in) { return (in[0] & 0xfU) * 4U; }

  // One's complement sum over the header, complemented: what the checksum field has to hold when
  // it counts as zero, and zero over a header whose checksum is right.
  static uint16_t checksum(const unsigned char* in) { return checksum_of_sum(sum(in)); }
  // The sum of the header's 16-bit words, and the checksum that follows from such a sum.
  static uint32_t sum(const unsigned char* in) {
    uint32_t sum = 0;
    for (size_t i = 0; i < kBytes; i += 2) sum += load_be16(in + i);
    return sum;
  }
  static constexpr uint16_t checksum_of_sum(uint32_t sum) {
    sum = (sum & 0xffff) + (sum >> 16);
    sum = (sum & 0xffff) + (sum >> 16);
    return static_cast<uint16_t>(~sum);
  }
  static bool checksum_ok(const unsigned char* in) { return checksum(in) == 0; }

  // Requires kBytes bytes at `in`.
  static Ipv4Header load(const unsigned char* in) {
    const uint16_t fragment = load_be16(in + 6);
    return {.dscp = static_cast<uint8_t>(in[1] >> 2),
            .ecn = static_cast<Ecn>(in[1] & 0x3),
            .total_length = load_be16(in + 2),
            .identification = load_be16(in + 4),
            .dont_fragment = (fragment & 0x4000) != 0,
            .more_fragments = (fragment & 0x2000) != 0,
            .fragment_offset = static_cast<uint16_t>(fragment & 0x1fff),
            .ttl = in[8],
            .protocol = in[9],
            .src = Ipv4(load_be32(in + 12)),
            .dst = Ipv4(load_be32(in + 16))};
  }

  // Requires room for kBytes bytes at `out`. Computes the checksum.
  void store(unsigned char* out) const {
    out[0] = 0x45;
    out[1] = static_cast<uint8_t>(dscp << 2 | static_cast<uint8_t>(ecn));
    store_be16(out + 2, total_length);
    store_be16(out + 4, identification);
    store_be16(out + 6,
               static_cast<uint16_t>((dont_fragment ? 0x4000 : 0) | (more_fragments ? 0x2000 : 0) |
                                     (fragment_offset & 0x1fff)));
    out[8] = ttl;
    out[9] = protocol;
    store_be16(out + 10, 0);
    store_be32(out + 12, src.value());
    store_be32(out + 16, dst.value());
    store_be16(out + 10, checksum(out));
  }
};

std::string_view to_string(const Ipv4Header& ip, std::span<char> out);

}  // namespace mprdma::wire
