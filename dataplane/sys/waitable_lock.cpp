#include "dataplane/sys/waitable_lock.hpp"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <ctime>

#include "dataplane/sys/clock.hpp"

namespace mprdma::dataplane {

// Some microseconds: to sleep and to be woken by the holder costs both of them more.
constexpr uint32_t kLooks = 200;

static_assert(sizeof(std::atomic<uint32_t>) == sizeof(uint32_t), "the kernel reads it");

bool WaitableLock::lock_soon() {
  for (uint32_t look = 0; look < kLooks; ++look) {
    if (try_lock()) return true;
    __builtin_ia32_pause();
  }
  return false;
}

bool WaitableLock::lock_within(Duration patience) {
  if (lock_soon()) return true;
  const Time until = clock_now() + patience;
  for (;;) {
    // Whoever gets it here leaves the state `awaited`: another thread may sleep, too.
    if (state_.exchange(kAwaited, std::memory_order_seq_cst) == kFree) return true;
    const Duration left = until - clock_now();
    if (left <= Duration::zero()) return false;
    const timespec timeout{left.count_ns() / 1'000'000'000, left.count_ns() % 1'000'000'000};
    (void)syscall(SYS_futex, &state_, FUTEX_WAIT_PRIVATE, kAwaited, &timeout, nullptr, 0);
  }
}

void WaitableLock::wake_one() {
  (void)syscall(SYS_futex, &state_, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
}

}  // namespace mprdma::dataplane
