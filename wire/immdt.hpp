// Immediate data extended transport header
// (InfiniBand Architecture Specification, volume 1, section 9.3.6).
//
//   byte  0..3   immediate data
//
// The verbs hand immediate data over in network order (__be32) and so does this: the four bytes are
// opaque and keep their order in memory, on the wire and in the work completion.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

namespace mprdma::wire {

struct ImmDt {
  static constexpr size_t kBytes = 4;

  uint32_t data_be = 0;

  constexpr bool operator==(const ImmDt&) const = default;

  // Requires kBytes bytes at `in`.
  static ImmDt load(const unsigned char* in) {
    ImmDt immdt;
    std::memcpy(&immdt.data_be, in, kBytes);
    return immdt;
  }

  // Requires room for kBytes bytes at `out`.
  void store(unsigned char* out) const { std::memcpy(out, &data_be, kBytes); }
};

std::string_view to_string(const ImmDt& immdt, std::span<char> out);

}  // namespace mprdma::wire
