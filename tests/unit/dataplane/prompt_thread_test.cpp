// A thread that has to run at once may not take the core from those whom it serves.
#include "dataplane/prompt_thread.hpp"

#include <gtest/gtest.h>

namespace mprdma::dataplane {
namespace {

TEST(PromptBudget, AThreadThatMostlySleepsMayRunAtOnceEachTime) {
  Time now;
  PromptBudget budget(now);
  EXPECT_FALSE(budget.slept_until(now += Duration::us(150))) << "not worth a system call yet";
  EXPECT_TRUE(budget.slept_until(now += Duration::us(150)));
  for (int i = 0; i < 1000; ++i) {
    EXPECT_TRUE(budget.ran_until(now += Duration::us(20)));
    EXPECT_TRUE(budget.slept_until(now += Duration::us(100)));
  }
}

TEST(PromptBudget, AThreadThatHardlySleepsIsAnOrdinaryOne) {
  Time now;
  PromptBudget budget(now);
  budget.slept_until(now += Duration::s(1));
  Duration real_time;
  Duration all;
  for (int i = 0; i < 1000; ++i) {
    const bool granted = budget.slept_until(now += Duration::us(10));
    budget.ran_until(now += Duration::us(90));
    if (granted) real_time += Duration::us(90);
    all += Duration::us(100);
  }
  EXPECT_LE(real_time, all / 5);
  EXPECT_FALSE(budget.ran_until(now += PromptBudget::kBurst));
}

}  // namespace
}  // namespace mprdma::dataplane
