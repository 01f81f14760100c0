// RDMA extended transport header: the remote memory of a WRITE or a READ request
// (InfiniBand Architecture Specification, volume 1, section 9.3.3).
//
//   byte  0..7   virtual address
//         8..11  remote key
//         12..15 DMA length
//
// In mp it is the same in every packet of a WRITE: address of the message's first byte and length
// of the whole message. A packet's own place is the address plus the offset of the mp data
// extension.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/byte_order.hpp"
#include "base/key.hpp"

namespace mprdma::wire {

struct Reth {
  static constexpr size_t kBytes = 16;

  uint64_t va = 0;
  Key rkey{};
  uint32_t dma_len = 0;

  constexpr bool operator==(const Reth&) const = default;

  // Requires kBytes bytes at `in`.
  static Reth load(const unsigned char* in) {
    return {.va = load_be64(in), .rkey = Key(load_be32(in + 8)), .dma_len = load_be32(in + 12)};
  }

  // Requires room for kBytes bytes at `out`.
  void store(unsigned char* out) const {
    store_be64(out, va);
    store_be32(out + 8, rkey.value());
    store_be32(out + 12, dma_len);
  }
};

std::string_view to_string(const Reth& reth, std::span<char> out);

}  // namespace mprdma::wire
