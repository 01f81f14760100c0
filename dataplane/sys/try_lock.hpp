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
    if (try_lock()) return true;
    wanted_.fetch_add(1, std::memory_order_relaxed);
    bool locked = false;
    for (uint32_t look = 1; look < kLooks && !locked; ++look) {
      __builtin_ia32_pause();
      locked = try_lock();
    }
    wanted_.fetch_sub(1, std::memory_order_relaxed);
    return locked;
  }
  // Not zero: somebody is in lock_soon(), and the lock's holder may give it up early.
  [[nodiscard]] const std::atomic<uint32_t>& wanted() const { return wanted_; }
  void unlock() { taken_.store(false, std::memory_order_seq_cst); }

 private:
  // Some microseconds, less than it takes to leave the core and to come back.
  static constexpr uint32_t kLooks = 200;

  std::atomic<bool> taken_{false};
  std::atomic<uint32_t> wanted_{0};
};

}  // namespace mprdma::dataplane
