// Which paths are stragglers, and how often another one is looked for.
#include "transport/path/stragglers.hpp"

#include <gtest/gtest.h>

#include <array>

namespace mprdma::transport {
namespace {

constexpr Duration kUsual = Duration::us(100);
constexpr Duration kLate = Duration::us(126);
constexpr uint16_t kPath = 60'000;

// Round trips until a packet is to explore, while this path is in use.
int rounds_until_explored(Stragglers& paths, uint16_t vp = kPath) {
  for (int rounds = 1; rounds <= 5000; ++rounds) {
    paths.judge(vp, kLate, kUsual);
    paths.on_round();
    if (!paths.seeks()) continue;
    EXPECT_TRUE(paths.seeks()) << "until a packet leaves";
    paths.on_explore(kPath + 1);
    return rounds;
  }
  return 0;
}

TEST(Stragglers, ThreePacketsInARowAQuarterLongerThanUsual) {
  Stragglers paths;
  EXPECT_FALSE(paths.judge(kPath, kLate, kUsual));
  EXPECT_FALSE(paths.judge(kPath, kLate, kUsual));
  EXPECT_FALSE(paths.judge(kPath, Duration::us(125), kUsual)) << "not late: from the beginning";
  EXPECT_FALSE(paths.judge(kPath, kLate, kUsual));
  EXPECT_FALSE(paths.judge(kPath, Duration::zero(), kUsual)) << "says nothing";
  EXPECT_FALSE(paths.judge(kPath, kLate, kUsual));
  EXPECT_FALSE(paths.judge(kPath + 1, kLate, kUsual)) << "another path";
  EXPECT_TRUE(paths.judge(kPath, kLate, kUsual));
  EXPECT_TRUE(paths.judge(kPath, kLate, kUsual));
  EXPECT_TRUE(paths.judge(kPath, Duration::zero(), kUsual)) << "as before";
  EXPECT_FALSE(paths.judge(kPath, kUsual, kUsual));
  EXPECT_FALSE(paths.judge(kPath, kLate, kUsual)) << "all is forgotten";
}

TEST(Stragglers, OthersAreLookedForEveryTimeHalfAsOften) {
  Stragglers paths;
  for (const int rounds : {8, 16, 32, 64, 128, 256, 512, 1024, 1024}) {
    EXPECT_EQ(rounds_until_explored(paths), rounds) << "what explored before was lost";
  }
  paths.judge(kPath + 1, kLate, kUsual);
  EXPECT_EQ(rounds_until_explored(paths), 1024) << "a straggler as well";
  paths.judge(kPath + 1, kUsual, kUsual);
  EXPECT_EQ(rounds_until_explored(paths), 8);
}

// The table has one place for them. (While they hid each other, half of ten loops of 16 KB never
// left their paths that were 40 us longer.)
TEST(Stragglers, PathsWithTheSameLastBitsAreFoundOneAfterTheOther) {
  Stragglers paths;
  std::array<int, 3> found{};
  for (int turn = 0; turn < 60; ++turn) {
    for (size_t i = 0; i < found.size(); ++i) {
      // What straggles is not used any more.
      if (found[i] == 0 && paths.judge(static_cast<uint16_t>(kPath + 32 * i), kLate, kUsual)) {
        found[i] = turn;
      }
    }
  }
  for (const int turn : found) EXPECT_GT(turn, 0);
}

TEST(Stragglers, OneThatDoesNotComeBackGivesItsPlace) {
  Stragglers paths;
  paths.judge(kPath, kLate, kUsual);
  int late = 1;
  while (late < 50 && !paths.judge(kPath + 32, kLate, kUsual)) ++late;
  EXPECT_EQ(late, 10);
}

TEST(Stragglers, WhatExploresMayTakeAsLongAsThey) {
  Stragglers paths;
  const auto straggle = [&](Duration rtt) {
    for (int i = 0; i < 3; ++i) paths.judge(kPath, rtt, kUsual);
  };
  paths.judge(kPath, kUsual * 3, kUsual);
  EXPECT_EQ(paths.takes(), Duration::zero()) << "there was none";
  straggle(kUsual * 3);
  EXPECT_EQ(paths.takes(), kUsual * 6);
  straggle(kUsual * 100);
  EXPECT_EQ(paths.takes(), kUsual * 8) << "the host stopped";
  straggle(kUsual * 2);
  EXPECT_EQ(paths.takes(), kUsual * 8) << "others are slower";
  paths.on_explore(kPath + 1);
  EXPECT_EQ(paths.takes(), kUsual * 8 * 31 / 32);
}

TEST(Stragglers, NothingIsLookedForWhileNoneIsLateThreeTimesInARow) {
  Stragglers paths;
  for (int rounds = 0; rounds < 2000; ++rounds) {
    paths.judge(kPath, rounds % 3 == 0 ? kUsual : kLate, kUsual);
    paths.on_round();
    EXPECT_FALSE(paths.seeks());
  }
}

}  // namespace
}  // namespace mprdma::transport
