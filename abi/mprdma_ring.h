/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory ordering of the queue ABI, in one place: how an index, an entry and a doorbell are
 * published and observed. Both sides call these; nobody touches the shared words directly.
 */
#pragma once

#include "abi/mprdma_abi.h"

#ifdef __cplusplus
extern "C" {
#endif

static inline uint32_t mprdma_abi_load_acquire(const uint32_t* word) {
  return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

static inline void mprdma_abi_store_release(uint32_t* word, uint32_t value) {
  __atomic_store_n(word, value, __ATOMIC_RELEASE);
}

/* Provider, after the producer index: marks the QP as having work. The bit's word first, then its
 * summary bit; the engine takes them in the opposite order, so a bit is never lost. */
static inline void mprdma_abi_ring_doorbell(struct mprdma_abi_doorbell_page* page, uint32_t index) {
  uint64_t bit = 1ull << (index % 64u);
  uint32_t word = index / 64u;
  uint64_t old = __atomic_fetch_or(&page->word[word], bit, __ATOMIC_SEQ_CST);
  if (old == 0) {
    __atomic_fetch_or(&page->summary[word / 64u], 1ull << (word % 64u), __ATOMIC_SEQ_CST);
  }
}

/* Provider, after the doorbell (a full barrier): must the engine be kicked? */
static inline int mprdma_abi_engine_sleeps(const struct mprdma_abi_doorbell_page* page) {
  return __atomic_load_n(&page->sleeping, __ATOMIC_SEQ_CST) != 0;
}

/* Provider: has nobody taken the doorbell of this QP yet? */
static inline int mprdma_abi_doorbell_waits(const struct mprdma_abi_doorbell_page* page,
                                            uint32_t index) {
  return (__atomic_load_n(&page->word[index / 64u], __ATOMIC_SEQ_CST) >> (index % 64u) & 1u) != 0;
}

/* Provider, having taken completions. Two threads may count one step together: a hint. */
static inline void mprdma_abi_note_taken(struct mprdma_abi_doorbell_page* page) {
  uint32_t taken = __atomic_load_n(&page->taken, __ATOMIC_RELAXED);
  __atomic_store_n(&page->taken, taken + 1u, __ATOMIC_RELAXED);
}

/* Engine: takes and clears all bits of one summary word, then of one word. */
static inline uint64_t mprdma_abi_take_bits(uint64_t* word) {
  if (__atomic_load_n(word, __ATOMIC_RELAXED) == 0) {
    return 0;
  }
  return __atomic_exchange_n(word, 0, __ATOMIC_SEQ_CST);
}

/* Provider: the entry at free-running index `index`, or NULL when it is not there yet. */
static inline const struct mprdma_abi_cqe* mprdma_abi_peek_cqe(const struct mprdma_abi_cqe* ring,
                                                               uint32_t depth, uint32_t index) {
  const struct mprdma_abi_cqe* cqe = &ring[index & (depth - 1u)];
  return mprdma_abi_load_acquire(&cqe->sequence) == index + 1u ? cqe : NULL;
}

static inline struct mprdma_abi_send_wqe* mprdma_abi_send_slot(void* ring, uint32_t depth,
                                                               uint32_t stride, uint32_t index) {
  return (struct mprdma_abi_send_wqe*)((char*)ring + (size_t)(index & (depth - 1u)) * stride);
}

static inline struct mprdma_abi_recv_wqe* mprdma_abi_recv_slot(void* ring, uint32_t depth,
                                                               uint32_t stride, uint32_t index) {
  return (struct mprdma_abi_recv_wqe*)((char*)ring + (size_t)(index & (depth - 1u)) * stride);
}

#ifdef __cplusplus
}
#endif
