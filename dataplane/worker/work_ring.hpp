// The engine's view of a send or receive ring in the provider's memory.
//
// Other code writes this memory: indices, counts and entries may be anything. An entry is read
// once, into memory of ours, and counts are limited to those that the ring was created with.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "abi/mprdma_abi.h"
#include "transport/core/types.hpp"

namespace mprdma::dataplane {

struct WorkRing {
  void* ring = nullptr;
  mprdma_abi_queue_dbr* dbr = nullptr;
  uint32_t depth = 0;  // 0: no such queue
  uint32_t stride = 0;
  uint32_t max_sge = 0;
  uint32_t max_inline = 0;
  uint32_t next = 0;           // first slot that the transport has not been given
  uint32_t completed = 0;      // first slot that has not completed
  bool atomic_writes = false;  // an ATOMIC_WRITE has ever been posted

  explicit WorkRing(const mprdma_abi_queue& queue)
      : ring(reinterpret_cast<void*>(queue.ring)),
        dbr(reinterpret_cast<mprdma_abi_queue_dbr*>(queue.dbr)),
        depth(queue.depth),
        stride(queue.stride),
        max_sge(queue.max_sge),
        max_inline(queue.max_inline) {}
};

// Reads `num_sge` entries from `first` on; at most kMaxSge.
inline uint32_t read_sges(const void* first, uint32_t num_sge, transport::Sge* out) {
  const auto* sges = static_cast<const mprdma_abi_sge*>(first);
  for (uint32_t i = 0; i < num_sge; ++i) {
    out[i] = {sges[i].addr, sges[i].length, Key(sges[i].lkey)};
  }
  return num_sge;
}

}  // namespace mprdma::dataplane
