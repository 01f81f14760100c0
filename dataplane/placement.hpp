// The copy from a frame to the application's memory.
//
// An application may poll on the last byte of a WRITE instead of a completion (design, idea 6), so
// the last bytes must not become visible before those in front of them. A library memcpy promises
// nothing of the kind: it may store the tail of a block first. Here everything but the last cache
// line is copied first, then that line but for its last eight bytes, then those in one store; each
// step is ordered after the one before.
#pragma once

#include <cstdint>
#include <cstring>

#include <atomic>

namespace mprdma::dataplane {

inline void copy_tail_last(unsigned char* to, const unsigned char* from, uint32_t bytes) {
  constexpr uint32_t kLine = 64;
  constexpr uint32_t kWord = 8;
  uint32_t done = 0;
  if (bytes > kLine) {
    done = bytes - kLine;
    std::memcpy(to, from, done);
    std::atomic_thread_fence(std::memory_order_release);
  }
  const uint32_t tail = bytes - done >= kWord ? kWord : (bytes - done > 0 ? 1 : 0);
  const uint32_t middle = bytes - done - tail;
  if (middle > 0) {
    std::memcpy(to + done, from + done, middle);
    std::atomic_thread_fence(std::memory_order_release);
    done += middle;
  }
  if (tail == kWord) {
    uint64_t word;
    std::memcpy(&word, from + done, kWord);
    std::memcpy(to + done, &word, kWord);
  } else if (tail == 1) {
    to[done] = from[done];
  }
}

}  // namespace mprdma::dataplane
