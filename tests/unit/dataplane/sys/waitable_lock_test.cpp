#include "dataplane/sys/waitable_lock.hpp"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "dataplane/sys/clock.hpp"

namespace mprdma::dataplane {
namespace {

TEST(WaitableLock, IsHadByOneAtATime) {
  WaitableLock lock;
  ASSERT_TRUE(lock.try_lock());
  EXPECT_FALSE(lock.try_lock());
  EXPECT_FALSE(lock.lock_soon());
  EXPECT_FALSE(lock.lock_within(Duration::us(100)));
  lock.unlock();
  EXPECT_TRUE(lock.try_lock());
}

// Those that wait are woken: a lost wake-up would leave somebody asleep for the whole patience.
TEST(WaitableLock, WhoeverWaitsGetsIt) {
  constexpr int kThreads = 4;
  constexpr int kTurns = 2000;
  constexpr Duration kPatience = Duration::s(60);
  WaitableLock lock;
  int64_t turns = 0;  // under the lock
  std::vector<std::thread> threads;
  const Time start = clock_now();
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < kTurns; ++i) {
        ASSERT_TRUE(lock.lock_within(kPatience));
        const int64_t before = turns;
        if (i % 16 == 0) std::this_thread::yield();
        turns = before + 1;
        lock.unlock();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(turns, kThreads * kTurns);
  EXPECT_LT(clock_now() - start, kPatience);
}

}  // namespace
}  // namespace mprdma::dataplane
