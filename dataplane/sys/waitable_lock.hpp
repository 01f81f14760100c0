// A lock that most threads only try, and some may wait for: a futex. Its holder pays for waking
// somebody only if somebody waits. Any thread may give it up, not only the one that took it.
//
// try_lock() and unlock() are sequentially consistent with each other and with whatever else is:
// whoever fails to have the lock and leaves a note first, is seen by the holder that looks for
// notes after unlock().
#pragma once

#include <atomic>
#include <cstdint>

#include "base/units.hpp"

namespace mprdma::dataplane {

class WaitableLock {
 public:
  [[nodiscard]] bool try_lock() {
    uint32_t free = kFree;
    return state_.load(std::memory_order_seq_cst) == kFree &&
           state_.compare_exchange_strong(free, kTaken, std::memory_order_seq_cst);
  }
  void unlock() {
    if (state_.exchange(kFree, std::memory_order_seq_cst) == kAwaited) wake_one();
  }
  // As try_lock(), for about as long as a burst takes: its holder may be about to give it up.
  [[nodiscard]] bool lock_soon();
  // Sleeps until it has the lock, or for `patience`: false. Others may be faster each time.
  [[nodiscard]] bool lock_within(Duration patience);
  void lock() {
    while (!lock_within(Duration::ms(10))) {
    }
  }

 private:
  static constexpr uint32_t kFree = 0;
  static constexpr uint32_t kTaken = 1;
  static constexpr uint32_t kAwaited = 2;  // taken, and somebody may sleep until it is free

  void wake_one();

  std::atomic<uint32_t> state_{kFree};
};

}  // namespace mprdma::dataplane
