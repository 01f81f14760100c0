// The lock that is tried: who waits for it can be seen, and no longer once he has it or leaves.
#include "dataplane/sys/try_lock.hpp"

#include <gtest/gtest.h>

#include <thread>

namespace mprdma::dataplane {
namespace {

TEST(TryLock, ItsHolderSeesWhoWantsIt) {
  TryLock lock;
  ASSERT_TRUE(lock.try_lock());
  std::thread waiter([&] {
    while (!lock.lock_soon()) {
    }
    EXPECT_FALSE(lock.try_lock());
    lock.unlock();
  });
  while (lock.wanted() == 0) std::this_thread::yield();
  lock.unlock();
  waiter.join();
  EXPECT_EQ(lock.wanted(), 0U);
  ASSERT_TRUE(lock.lock_soon()) << "free again";
  EXPECT_FALSE(lock.lock_soon()) << "it gives up after a while";
  EXPECT_EQ(lock.wanted(), 0U);
}

}  // namespace
}  // namespace mprdma::dataplane
