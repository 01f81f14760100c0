// XRC extended transport header: the shared receive queue that an XRC request is for
// (InfiniBand Architecture Specification, volume 1, annex A14).
//
//   byte  0      reserved
//         1..3   XRC shared receive queue number
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/byte_order.hpp"

namespace mprdma::wire {

struct Xrceth {
  static constexpr size_t kBytes = 4;

  uint32_t srqn = 0;  // 24 bits

  constexpr bool operator==(const Xrceth&) const = default;

  // Requires kBytes bytes at `in`.
  static Xrceth load(const unsigned char* in) { return {.srqn = load_be24(in + 1)}; }

  // Requires room for kBytes bytes at `out`.
  void store(unsigned char* out) const {
    out[0] = 0;
    store_be24(out + 1, srqn);
  }
};

std::string_view to_string(const Xrceth& xrceth, std::span<char> out);

}  // namespace mprdma::wire
