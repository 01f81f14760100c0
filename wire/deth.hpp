// Datagram extended transport header
// (InfiniBand Architecture Specification, volume 1, section 9.3.2).
//
//   byte  0..3   queue key
//         4      reserved
//         5..7   source queue pair
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/byte_order.hpp"
#include "base/qpn.hpp"

namespace mprdma::wire {

struct Deth {
  static constexpr size_t kBytes = 8;

  uint32_t q_key = 0;
  Qpn src_qpn{};  // 24 bits

  constexpr bool operator==(const Deth&) const = default;

  // Requires kBytes bytes at `in`.
  static Deth load(const unsigned char* in) {
    return {.q_key = load_be32(in), .src_qpn = Qpn(load_be24(in + 5))};
  }

  // Requires room for kBytes bytes at `out`.
  void store(unsigned char* out) const {
    store_be32(out, q_key);
    out[4] = 0;
    store_be24(out + 5, src_qpn.value());
  }
};

std::string_view to_string(const Deth& deth, std::span<char> out);

}  // namespace mprdma::wire
