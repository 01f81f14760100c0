#include "dataplane/engine/poll_sleep.hpp"

#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <thread>

#include "dataplane/sys/clock.hpp"
#include "tests/support/eventually.hpp"

namespace mprdma::dataplane {
namespace {

// Longer than any test waits for.
constexpr Duration kLong = Duration::s(3600);

class PollSleepTest : public ::testing::Test {
 protected:
  PollSleepTest() { EXPECT_TRUE(sleep.open(port)); }
  ~PollSleepTest() override { close(port); }
  void frame() const {
    const uint64_t one = 1;
    EXPECT_EQ(write(port, &one, sizeof one), static_cast<ssize_t>(sizeof one));
  }

  const int port = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  PollSleep sleep;
};

// Nobody reads the descriptor: each frame that wakes is an edge of its own.
TEST_F(PollSleepTest, EachFrameEndsOneSleep) {
  for (int i = 0; i < 3; ++i) {
    sleep.begin();
    std::thread wire([&] { frame(); });
    EXPECT_EQ(sleep.wait(clock_now(), kLong), PollSleep::End::kPort);
    wire.join();
    EXPECT_FALSE(sleep.asleep());
  }
}

TEST_F(PollSleepTest, ItEndsInTime) {
  sleep.begin();
  const Time before = clock_now();
  EXPECT_EQ(sleep.wait(before, Duration::ms(2)), PollSleep::End::kTime);
  EXPECT_GE(clock_now() - before, Duration::ms(2));
  // The alarm of a longer sleep does not stand in the way of a shorter one.
  sleep.begin();
  frame();
  EXPECT_EQ(sleep.wait(clock_now(), kLong), PollSleep::End::kPort);
  sleep.begin();
  EXPECT_EQ(sleep.wait(clock_now(), Duration::ms(1)), PollSleep::End::kTime);
}

TEST_F(PollSleepTest, ACallBeforeItSleepsIsNotLost) {
  EXPECT_FALSE(sleep.claim()) << "nobody sleeps";
  sleep.begin();
  EXPECT_TRUE(sleep.claim());
  EXPECT_FALSE(sleep.claim()) << "somebody calls already";
  sleep.call();
  EXPECT_EQ(sleep.wait(clock_now(), kLong), PollSleep::End::kCall);
}

TEST_F(PollSleepTest, OneThreadSleepsAtATime) {
  EXPECT_TRUE(sleep.free());
  sleep.begin();
  EXPECT_FALSE(sleep.free());
  EXPECT_TRUE(sleep.claim());
  EXPECT_FALSE(sleep.asleep());
  EXPECT_FALSE(sleep.free()) << "it has not woken yet";
  sleep.call();
  EXPECT_EQ(sleep.wait(clock_now(), kLong), PollSleep::End::kCall);
  EXPECT_TRUE(sleep.free());
}

TEST(PollSleep, WithoutADescriptorThereIsNone) {
  PollSleep sleep;
  EXPECT_FALSE(sleep.free()) << "not open";
  EXPECT_FALSE(sleep.open(-1));
  EXPECT_FALSE(sleep.free());
}

}  // namespace
}  // namespace mprdma::dataplane
