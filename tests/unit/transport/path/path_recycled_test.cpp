// Paths that worked are used again: which, in which order, and when not.
#include "transport/path/path_recycled.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "tests/unit/transport/stream/many_path_sender.hpp"

namespace mprdma::transport {
namespace {

using many_paths::params_with;
using many_paths::Stream;

constexpr Time kNow = Time::from_ns(1'000);

Params recycled(uint32_t window) {
  Params p = params_with(window);
  p.path_policy = PathPolicy::kRecycled;
  return p;
}

TEST(RecycledPaths, TheNewestUnmarkedFirstThenTheNewest) {
  RecycledPaths paths;
  paths.hold(8);
  paths.reset(0);
  Prng prng(1);
  for (const auto& [vp, ece] :
       {std::pair{60'000, false}, {60'001, true}, {60'002, false}, {60'003, true}}) {
    paths.on_spare(static_cast<uint16_t>(vp), ece);
  }
  for (const uint16_t expected : {60'002, 60'000, 60'003, 60'001}) {
    EXPECT_EQ(paths.next(kNow, prng), expected);
  }
}

TEST(RecycledPaths, ItHoldsTheNewestOfAWindowAndFewThatAreFull) {
  RecycledPaths paths;
  paths.hold(100);
  paths.reset(0);
  Prng prng(1);
  for (int i = 0; i < 350; ++i) paths.on_spare(static_cast<uint16_t>(60'000 + i), i % 2 == 0);
  for (int i = 349; i > 149; i -= 2) EXPECT_EQ(paths.next(kNow, prng), 60'000 + i);
  for (int i = 348; i > 316; i -= 2)
    EXPECT_EQ(paths.next(kNow, prng), 60'000 + i) << "few of these";
  Prng same = prng;
  EXPECT_EQ(paths.next(kNow, prng), random_path(same)) << "older ones are gone";
}

TEST(RecycledPaths, ACopyAvoidsThePathOfTheLoss) {
  RecycledPaths paths;
  paths.reset(0);
  Prng prng(1);
  for (const uint16_t vp : {60'000, 60'001, 60'001}) paths.on_ack({.vp = vp});
  EXPECT_EQ(paths.retry(60'001, 0, prng), 60'000);
  paths.on_ack({.vp = 60'002});
  EXPECT_EQ(paths.retry(0, 0, prng), 60'002);
  EXPECT_EQ(paths.retry(0, 0, prng), 60'001) << "in turn";
  EXPECT_NE(paths.retry(0, 1, prng), paths.retry(0, 1, prng)) << "random ones";
}

// A message that fits the window finds the paths of the one before.
TEST(RecycledPaths, ACleanMessageKeepsToPathsThatWorked) {
  Stream s(recycled(16));
  std::vector<uint16_t> before = s.send(8);
  for (int message = 1; message < 5; ++message) {
    s.pass(Duration::us(10));
    s.backlog = false;
    for (int i = 0; i < 8; ++i) {
      const int n = 8 * (message - 1) + i;
      s.ack(n + 1, n, before[static_cast<size_t>(i)]);
    }
    s.backlog = true;
    s.sender.on_backlog(s.now);
    std::vector<uint16_t> now = s.send(8);
    ASSERT_EQ(now.size(), 8u);
    std::vector<uint16_t> sorted = now;
    std::sort(sorted.begin(), sorted.end());
    std::sort(before.begin(), before.end());
    EXPECT_EQ(sorted, before) << message;
    before = now;
  }
}

// While the window has more room than the application needs, too, the next packet follows the last
// acknowledgement: its credit would lie behind those of the window, and lose the path before its
// turn.
TEST(RecycledPaths, AnAcknowledgementIsFollowedThoughTheWindowHasRoom) {
  Stream s(recycled(16));
  const std::vector<uint16_t> first = s.send(8);
  s.pass(Duration::us(10));
  for (int i = 0; i < 8; ++i) {
    const auto arrived = first[static_cast<size_t>(i)];
    s.ack(i + 1, i, arrived);
    EXPECT_EQ(s.send(1), std::vector<uint16_t>{arrived}) << i;
  }
  EXPECT_EQ(s.window(), 16u);
}

// A mark takes the room of the packet, and its path with it.
TEST(RecycledPaths, WhatTheWindowTakesByFallingIsNotFollowed) {
  Params p = recycled(16);
  p.limit_growth = false;
  Stream s(p);
  const std::vector<uint16_t> first = s.send(8);
  s.pass(Duration::us(10));
  s.ack(1, 0, first[0], wire::kMpAckEce);
  ASSERT_EQ(s.window(), 15u);
  EXPECT_NE(s.send(1), std::vector<uint16_t>{first[0]});
}

TEST(RecycledPaths, ACopyDoesNotTakeTheCreditOfThePathWhereItWasLost) {
  Params p = recycled(4);
  p.loss_shrinks_window = false;
  Stream s(p);
  const uint16_t dead = s.send()[0];
  s.ack(0, 1, dead);
  s.overflow(0, 3, dead);  // 0 is a hole
  const std::vector<uint16_t> copy = s.send(1);
  ASSERT_EQ(copy.size(), 1u);
  EXPECT_EQ(s.index(s.last.psn), 0);
  EXPECT_NE(copy[0], dead);
}

// A packet that the receiver's window dropped has arrived, so its path works.
TEST(RecycledPaths, ACopyOfWhatTheReceiversWindowDroppedKeepsToThePath) {
  Params p = recycled(4);
  p.loss_shrinks_window = false;
  Stream s(p);
  const std::vector<uint16_t> first = s.send();
  s.overflow(0, 3, first[3]);  // 0 is a hole
  ASSERT_EQ(s.send(1), std::vector<uint16_t>{first[3]});
  EXPECT_EQ(s.index(s.last.psn), 0);
  s.ack(1, 0, first[3]);
  EXPECT_EQ(s.send(1), std::vector<uint16_t>{first[3]});
  EXPECT_EQ(s.index(s.last.psn), 3);
}

TEST(RecycledPaths, ATimeoutForgetsThem) {
  RecycledPaths paths;
  paths.reset(0);
  Prng prng(1);
  paths.on_spare(60'000, false);
  paths.on_timeout(kNow);
  Prng same(1);
  EXPECT_EQ(paths.next(kNow, prng), random_path(same));
}

}  // namespace
}  // namespace mprdma::transport
