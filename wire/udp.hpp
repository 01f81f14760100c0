// UDP header (RFC 768). RoCEv2 sends checksum 0 under both IP versions, because the ICRC protects
// the packet (annex A17); on receipt the field is not looked at.
//
//   byte  0..1   source port: the virtual path
//         2..3   destination port: 4791
//         4..5   length, header included
//         6..7   checksum
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/byte_order.hpp"
#include "wire/constants.hpp"

namespace mprdma::wire {

struct Udp {
  static constexpr size_t kBytes = 8;
  static constexpr size_t kLengthOffset = 4;

  uint16_t src_port = 0;
  uint16_t dst_port = kRoceUdpPort;
  uint16_t length = 0;
  uint16_t checksum = 0;

  constexpr bool operator==(const Udp&) const = default;

  // Requires kBytes bytes at `in`.
  static Udp load(const unsigned char* in) {
    return {.src_port = load_be16(in),
            .dst_port = load_be16(in + 2),
            .length = load_be16(in + 4),
            .checksum = load_be16(in + 6)};
  }

  // Requires room for kBytes bytes at `out`.
  void store(unsigned char* out) const {
    store_be16(out, src_port);
    store_be16(out + 2, dst_port);
    store_be16(out + 4, length);
    store_be16(out + 6, checksum);
  }
};

std::string_view to_string(const Udp& udp, std::span<char> out);

}  // namespace mprdma::wire
