// A lock that threads try, and do not sleep for: whoever gives it up need not look whether somebody
// is to be woken, which can cost more than what was done under the lock. Any thread may give it up.
//
// try_lock() and unlock() are sequentially consistent with each other and with whatever else is: a
// thread that leaves a note and then fails to have the lock is seen by the holder that looks for
// notes after unlock().
#pragma once

#include <atomic>
#include <cstdint>

namespace mprdma::dataplane {

class TryLock {
 public:
  [[nodiscard]] bool try_lock() {
    return !taken_.load(std::memory_order_seq_cst) &&
           !taken_.exchange(true, std::memory_order_seq_cst);
  }
  // For about as long as a burst takes: its holder may be about to give it up.
  [[nodiscard]] bool lock_soon() {
    for (uint32_t look = 0; look < kLooks; ++look) {
      if (try_lock()) return true;
      __builtin_ia32_pause();
    }
    return false;
  }
  void unlock() { taken_.store(false, std::memory_order_seq_cst); }

 private:
  // Some microseconds, less than it takes to leave the core and to come back.
  static constexpr uint32_t kLooks = 200;

  std::atomic<bool> taken_{false};
};

}  // namespace mprdma::dataplane
