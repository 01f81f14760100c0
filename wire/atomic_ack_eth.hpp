// Atomic ACK extended transport header: what the memory held before the operation
// (InfiniBand Architecture Specification, volume 1, section 9.5.3).
//
//   byte  0..7   original remote data
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/byte_order.hpp"

namespace mprdma::wire {

struct AtomicAckEth {
  static constexpr size_t kBytes = 8;

  uint64_t original = 0;

  constexpr bool operator==(const AtomicAckEth&) const = default;

  // Requires kBytes bytes at `in`.
  static AtomicAckEth load(const unsigned char* in) { return {.original = load_be64(in)}; }

  // Requires room for kBytes bytes at `out`.
  void store(unsigned char* out) const { store_be64(out, original); }
};

std::string_view to_string(const AtomicAckEth& ack, std::span<char> out);

}  // namespace mprdma::wire
