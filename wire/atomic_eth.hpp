// Atomic extended transport header
// (InfiniBand Architecture Specification, volume 1, section 9.3.4).
//
//   byte  0..7   virtual address, 8-byte aligned
//         8..11  remote key
//         12..19 swap (compare-and-swap) or add (fetch-and-add) data
//         20..27 compare data (compare-and-swap)
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/byte_order.hpp"
#include "base/key.hpp"

namespace mprdma::wire {

// An atomic operation works on this many bytes.
inline constexpr uint32_t kAtomicBytes = 8;

struct AtomicEth {
  static constexpr size_t kBytes = 28;

  uint64_t va = 0;
  Key rkey{};
  uint64_t swap_add = 0;
  uint64_t compare = 0;

  constexpr bool operator==(const AtomicEth&) const = default;

  // Requires kBytes bytes at `in`.
  static AtomicEth load(const unsigned char* in) {
    return {.va = load_be64(in),
            .rkey = Key(load_be32(in + 8)),
            .swap_add = load_be64(in + 12),
            .compare = load_be64(in + 20)};
  }

  // Requires room for kBytes bytes at `out`.
  void store(unsigned char* out) const {
    store_be64(out, va);
    store_be32(out + 8, rkey.value());
    store_be64(out + 12, swap_add);
    store_be64(out + 20, compare);
  }
};

std::string_view to_string(const AtomicEth& atomic, std::span<char> out);

}  // namespace mprdma::wire
