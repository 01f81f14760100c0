// The engine's view of a send or receive ring in the provider's memory.
//
// Other code writes this memory: indices, counts and entries may be anything. An entry is read
// once, into memory of ours, and counts are limited to those that the ring was created with.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "abi/mprdma_abi.h"
#include "abi/mprdma_ring.h"
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

// Reads the next request of the ring. False: it is not a plain one.
inline bool read_plain(const WorkRing& sq, transport::PlainRequest* request) {
  constexpr uint16_t kOthers = static_cast<uint16_t>(
      ~(MPRDMA_ABI_WQE_SIGNALED | MPRDMA_ABI_WQE_SOLICITED | MPRDMA_ABI_WQE_INLINE));
  mprdma_abi_send_wqe* const slot = mprdma_abi_send_slot(sq.ring, sq.depth, sq.stride, sq.next);
  // Each field is read once: other code may write the slot.
  const uint8_t opcode = __atomic_load_n(&slot->opcode, __ATOMIC_RELAXED);
  const uint16_t flags = __atomic_load_n(&slot->flags, __ATOMIC_RELAXED);
  const bool plain =
      (opcode == MPRDMA_ABI_WRITE || opcode == MPRDMA_ABI_SEND) && (flags & kOthers) == 0;
  if (!plain) return false;
  request->wr_id = slot->wr_id;
  request->remote_addr = slot->remote_addr;
  request->rkey = Key(slot->rkey);
  request->opcode = static_cast<transport::WorkOpcode>(opcode);
  request->flags = flags;
  if ((flags & MPRDMA_ABI_WQE_INLINE) != 0) {
    const uint32_t bytes = __atomic_load_n(&slot->inline_bytes, __ATOMIC_RELAXED);
    if (bytes == 0 || bytes > sq.max_inline) return false;
    request->sge = {reinterpret_cast<uint64_t>(slot + 1), bytes, Key(0)};
    return true;
  }
  if (__atomic_load_n(&slot->num_sge, __ATOMIC_RELAXED) != 1) return false;
  read_sges(slot + 1, 1, &request->sge);
  return true;
}

}  // namespace mprdma::dataplane
