// Invalidate extended transport header: the remote key that a SEND with invalidate revokes
// (InfiniBand Architecture Specification, volume 1, section 9.3.7).
//
//   byte  0..3   remote key
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/byte_order.hpp"
#include "base/key.hpp"

namespace mprdma::wire {

struct Ieth {
  static constexpr size_t kBytes = 4;

  Key rkey{};

  constexpr bool operator==(const Ieth&) const = default;

  // Requires kBytes bytes at `in`.
  static Ieth load(const unsigned char* in) { return {.rkey = Key(load_be32(in))}; }

  // Requires room for kBytes bytes at `out`.
  void store(unsigned char* out) const { store_be32(out, rkey.value()); }
};

std::string_view to_string(const Ieth& ieth, std::span<char> out);

}  // namespace mprdma::wire
