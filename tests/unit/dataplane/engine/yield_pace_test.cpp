#include "dataplane/engine/yield_pace.hpp"

#include <gtest/gtest.h>

namespace mprdma::dataplane {
namespace {

class YieldPaceTest : public ::testing::Test {
 protected:
  // A yield, and the first poll after it.
  void yield(Duration away, bool answer) {
    pace.on_yield(now);
    now = now + away;
    pace.on_poll(answer, now);
  }

  YieldPace pace;
  Time now = Time::from_ns(1'000'000);
};

TEST_F(YieldPaceTest, APeerOnThisCoreGetsItSooner) {
  EXPECT_EQ(pace.polls(), YieldPace::kPollsMax);
  yield(Duration::us(3), true);
  EXPECT_EQ(pace.polls(), YieldPace::kPollsMax / 2);
  for (int i = 0; i < 10; ++i) yield(Duration::us(3), true);
  EXPECT_EQ(pace.polls(), YieldPace::kPollsMin);
  // Only the first poll after a yield tells.
  pace.on_poll(false, now);
  pace.on_poll(true, now + Duration::us(3));
  EXPECT_EQ(pace.polls(), YieldPace::kPollsMin);
}

TEST_F(YieldPaceTest, YieldsThatBringNoAnswerTakeItBack) {
  const auto soon = [&] {
    for (int i = 0; i < 10; ++i) yield(Duration::us(3), true);
  };
  soon();
  yield(Duration::us(3), false);
  EXPECT_EQ(pace.polls(), YieldPace::kPollsMin * 2);
  soon();
  yield(Duration::ms(3), true);  // a busy loop had the core for its slice
  EXPECT_EQ(pace.polls(), YieldPace::kPollsMin * 2);
  soon();
  yield(Duration::ns(300), true);  // nobody had it
  EXPECT_EQ(pace.polls(), YieldPace::kPollsMin * 2);
  for (int i = 0; i < 10; ++i) yield(Duration::us(3), false);
  EXPECT_EQ(pace.polls(), YieldPace::kPollsMax);
}

// Each of a crowd has a short turn, whether it gets an answer or not.
TEST_F(YieldPaceTest, ACrowdTakesShortTurns) {
  for (int i = 0; i < 10; ++i) yield(Duration::us(300), i % 2 == 0);
  EXPECT_EQ(pace.polls(), YieldPace::kPollsMin);
  EXPECT_TRUE(pace.crowded());
  EXPECT_FALSE(pace.loses_slices());
  yield(Duration::ms(3), true);
  EXPECT_FALSE(pace.crowded()) << "a slice";
  EXPECT_EQ(pace.polls(), YieldPace::kPollsMin * 2);
  yield(Duration::us(300), true);
  yield(Duration::us(3), true);
  EXPECT_FALSE(pace.crowded()) << "the peer alone";
  yield(Duration::us(300), true);
  pace.on_end();
  EXPECT_FALSE(pace.crowded());
}

// Two threads poll: the last yield that ended is an earlier one, of whoever.
TEST_F(YieldPaceTest, AnEarlierYieldSaysNothing) {
  while (!pace.loses_slices()) yield(Duration::ms(8), false);
  pace.on_yield(now);
  pace.on_poll(false, Time());
  EXPECT_TRUE(pace.loses_slices());
  pace.on_poll(false, now + Duration::ms(8));
  EXPECT_TRUE(pace.sleeps(now + Duration::ms(8))) << "that one has ended";
  pace.on_end();
  EXPECT_FALSE(pace.loses_slices());
  yield(Duration::ms(8), false);
  EXPECT_TRUE(pace.loses_slices()) << "so soon again";
}

// Not for one slice among many short yields.
TEST_F(YieldPaceTest, YieldsThatTakeSlicesBecomeSleeps) {
  yield(Duration::ms(8), false);
  EXPECT_FALSE(pace.loses_slices());
  for (int i = 0; i < 40; ++i) yield(Duration::us(3), true);
  yield(Duration::ms(8), false);
  EXPECT_FALSE(pace.loses_slices());
  for (int i = 0; i < 10; ++i) yield(Duration::ms(8), false);
  EXPECT_TRUE(pace.loses_slices());
  EXPECT_TRUE(pace.sleeps(now));
}

// A yield tells whether they still do: soon at first, and ever more seldom.
TEST_F(YieldPaceTest, ASleeperYieldsNowAndThen) {
  const auto sleeps_for = [&] {
    Duration found;
    while (pace.sleeps(now + found)) found = found + YieldPace::kLookMin;
    return found;
  };
  while (!pace.loses_slices()) yield(Duration::ms(8), false);
  for (int i = 0; i < 10; ++i) yield(Duration::ms(8), false);
  EXPECT_EQ(sleeps_for(), YieldPace::kLookMax);
  yield(Duration::us(30), false);
  EXPECT_EQ(sleeps_for(), YieldPace::kLookMin) << "one that did not";
  yield(Duration::ms(8), false);
  EXPECT_EQ(sleeps_for(), YieldPace::kLookMin * 2);
  int looks = 0;
  for (; pace.loses_slices(); ++looks) yield(Duration::us(30), false);
  EXPECT_GT(looks, 30) << "where most sleep, most yields are short";
  EXPECT_FALSE(pace.sleeps(now));
}

}  // namespace
}  // namespace mprdma::dataplane
