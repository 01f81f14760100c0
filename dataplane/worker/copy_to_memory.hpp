// Effects of a packet on the application's memory: the copy from a frame, and the atomics.
//
// An application may poll on the last byte of a WRITE instead of a completion (design, idea 6), so
// the last bytes must not become visible before those in front of them. A library memcpy promises
// nothing of the kind: it may store the tail of a block first. Here everything but the last cache
// line is copied first, then that line but for its last aligned word (or byte), then that in one
// store; each step is ordered after the one before.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstring>

namespace mprdma::dataplane {

// As memcpy(), for fewer than 64 bytes: two or four moves that overlap, where a library decides
// among many ways first.
inline void copy_short(unsigned char* to, const unsigned char* from, uint32_t bytes) {
  const auto move = [=]<size_t kBytes>(uint32_t at) {
    unsigned char piece[kBytes];
    std::memcpy(piece, from + at, kBytes);
    std::memcpy(to + at, piece, kBytes);
  };
  if (bytes >= 32) {
    move.operator()<32>(0);
    move.operator()<32>(bytes - 32);
  } else if (bytes >= 16) {
    move.operator()<16>(0);
    move.operator()<16>(bytes - 16);
  } else if (bytes >= 8) {
    move.operator()<8>(0);
    move.operator()<8>(bytes - 8);
  } else {
    for (uint32_t i = 0; i < bytes; ++i) to[i] = from[i];
  }
}

inline void copy_tail_last(unsigned char* to, const unsigned char* from, uint32_t bytes) {
  constexpr uint32_t kLine = 64;
  constexpr uint32_t kWord = sizeof(uint64_t);
  if (bytes == 0) return;
  if (bytes > kLine) {
    const uint32_t bulk = bytes - kLine;
    std::memcpy(to, from, bulk);
    std::atomic_thread_fence(std::memory_order_release);
    to += bulk;
    from += bulk;
    bytes = kLine;
  }
  // Only an aligned word is stored whole; another could be torn at a cache line, with its end
  // visible first.
  const bool word = bytes >= kWord && (reinterpret_cast<uintptr_t>(to) + bytes) % kWord == 0;
  const uint32_t tail = word ? kWord : 1;
  const uint32_t middle = bytes - tail;
  copy_short(to, from, middle);
  if (word) {
    uint64_t value;
    std::memcpy(&value, from + middle, kWord);
    __atomic_store_n(reinterpret_cast<uint64_t*>(to + middle), value, __ATOMIC_RELEASE);
  } else {
    __atomic_store_n(to + middle, from[middle], __ATOMIC_RELEASE);
  }
}

// An atomic of the peer and the processor's own instructions see each other's as one access (the
// device's atomic capability is "global" for this reason). 8 aligned bytes, host byte order;
// returns the previous value.
inline uint64_t compare_swap(unsigned char* at, uint64_t compare, uint64_t swap) {
  uint64_t found = compare;
  __atomic_compare_exchange_n(reinterpret_cast<uint64_t*>(at), &found, swap, false,
                              __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
  return found;
}

inline uint64_t fetch_add(unsigned char* at, uint64_t add) {
  return __atomic_fetch_add(reinterpret_cast<uint64_t*>(at), add, __ATOMIC_SEQ_CST);
}

}  // namespace mprdma::dataplane
