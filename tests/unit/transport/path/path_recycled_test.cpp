// Paths that worked are used again: which, in which order, and when not.
#include "transport/path/path_recycled.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <vector>

#include "tests/unit/transport/stream/many_path_sender.hpp"

namespace mprdma::transport {
namespace {

using many_paths::clocked_params;
using many_paths::Stream;

constexpr Time kNow = Time::from_ns(1'000);
constexpr Duration kUsual = Duration::us(10);

PathSample spare(int vp, bool ece = false, Duration rtt = kUsual) {
  return {.now = kNow, .rtt = rtt, .vp = static_cast<uint16_t>(vp), .ece = ece};
}

Params recycled(uint32_t window) {
  Params p = clocked_params(window);
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
    paths.on_spare(spare(vp, ece), kUsual);
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
  for (int i = 0; i < 350; ++i) paths.on_spare(spare(60'000 + i, i % 2 == 0), kUsual);
  for (int i = 349; i > 149; i -= 2) EXPECT_EQ(paths.next(kNow, prng), 60'000 + i);
  for (int i = 348; i > 316; i -= 2)
    EXPECT_EQ(paths.next(kNow, prng), 60'000 + i) << "few of these";
  Prng same = prng;
  EXPECT_EQ(paths.next(kNow, prng), random_path(same)) << "older ones are gone";
}

TEST(RecycledPaths, ThePathOfAnAnswerStandsInForARandomOneOnce) {
  RecycledPaths paths;
  paths.hold(8);
  paths.reset(0);
  Prng prng(1);
  paths.on_peer(60'007);
  paths.on_spare(spare(60'000), kUsual);
  EXPECT_EQ(paths.next(kNow, prng), 60'000) << "an acknowledgement says more";
  EXPECT_EQ(paths.next(kNow, prng), 60'007);
  Prng same = prng;
  EXPECT_EQ(paths.next(kNow, prng), random_path(same));
  paths.on_peer(60'007);
  paths.on_timeout(kNow);
  same = prng;
  EXPECT_EQ(paths.next(kNow, prng), random_path(same)) << "silence says that it does not work";
}

TEST(RecycledPaths, AStragglerIsTheOldest) {
  RecycledPaths paths;
  paths.hold(3);
  paths.reset(0);
  Prng prng(1);
  constexpr uint16_t kStraggler = 60'002;
  for (const bool third : {false, false, true}) {
    for (const uint16_t vp : {60'000, 60'001}) paths.on_spare(spare(vp), kUsual);
    paths.on_spare(spare(kStraggler, false, kUsual * 2), kUsual);
    if (third) {
      EXPECT_EQ(paths.next(kNow, prng), 60'001);
      EXPECT_EQ(paths.next(kNow, prng), 60'000);
      EXPECT_EQ(paths.next(kNow, prng), kStraggler) << "a random one may be dead";
    } else {
      EXPECT_EQ(paths.next(kNow, prng), kStraggler) << "it may have met a queue";
      EXPECT_EQ(paths.next(kNow, prng), 60'001);
      EXPECT_EQ(paths.next(kNow, prng), 60'000);
    }
  }
  for (const uint16_t vp : {60'000, 60'001, 60'003}) paths.on_spare(spare(vp), kUsual);
  paths.on_spare(spare(kStraggler, false, kUsual * 2), kUsual);
  for (const uint16_t vp : {60'003, 60'001, 60'000}) EXPECT_EQ(paths.next(kNow, prng), vp);
  Prng same = prng;
  EXPECT_EQ(paths.next(kNow, prng), random_path(same)) << "there was no room for it";
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

// The path of a slow link has no mark and no loss; that its packets take long is all that tells.
void leave_a_straggler(Duration pause) {
  constexpr size_t kPackets = 4;
  Params p = recycled(16);
  p.path_probe_per_mille = 1;
  p.path_probe_interval = Duration::zero();
  Stream s(p);
  std::vector<uint16_t> used = s.send(kPackets);
  const uint16_t slow = used[1];
  int next = 0;
  int still_used = 0;
  for (int message = 0; message < 100; ++message) {
    std::stable_partition(used.begin(), used.end(), [=](uint16_t vp) { return vp != slow; });
    s.backlog = false;
    s.pass(Duration::us(10));
    for (const uint16_t vp : used) {
      if (vp == slow) s.pass(Duration::us(20));
      s.echo_age = Duration::us(vp == slow ? 30 : 10);
      s.ack(next + 1, next, vp);
      ++next;
    }
    s.pass(pause);
    s.backlog = true;
    s.sender.on_backlog(s.now);
    used = s.send(kPackets);
    ASSERT_EQ(used.size(), kPackets);
    if (std::find(used.begin(), used.end(), slow) != used.end()) still_used = message;
  }
  EXPECT_GE(still_used, 2) << "three packets late";
  EXPECT_LE(still_used, 10);
}

TEST(RecycledPaths, MessagesLeaveAStraggler) {
  leave_a_straggler(Duration::zero());
}

// Two round trips end in each message then, the first of them when nothing may leave.
TEST(RecycledPaths, MessagesWithPausesLeaveAStraggler) {
  leave_a_straggler(kUsual * 3);
}

// Against a list, over the end of the ring.
TEST(PathStack, TheNewestAreTakenAndTheOldestGo) {
  constexpr uint32_t kMost = 5;
  PathStack stack(kMost);
  std::deque<uint16_t> model;
  Prng prng(3);
  for (uint16_t vp = 1; vp < 3000; ++vp) {
    const uint32_t what = prng.below(3);
    if (what == 0 && !model.empty()) {
      ASSERT_EQ(stack.pop(), model.back());
      model.pop_back();
    } else if (what == 1) {
      stack.push(vp);
      model.push_back(vp);
      if (model.size() > kMost) model.pop_front();
    } else {
      stack.push_oldest(vp);
      if (model.size() < kMost) model.push_front(vp);
    }
    ASSERT_EQ(stack.empty(), model.empty());
  }
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

// A packet on an unknown path may take as long as stragglers do; the others are late after 10 us
// and a quarter.
TEST(RecycledPaths, APacketThatExploresIsGivenTheTimeOfAStraggler) {
  Params p = recycled(8);
  p.loss_by_time = p.tail_probe = true;
  p.path_probe_per_mille = 1000;
  p.path_probe_interval = Duration::zero();
  Stream s(p);
  int next = 0;
  const auto exchange = [&](Duration took) {
    s.send(1);
    s.pass(took);
    s.echo_age = took;
    s.backlog = false;
    s.ack(next + 1, next, took > kUsual ? 60'001 : 60'000);
    s.backlog = true;
    s.sender.on_backlog(s.now);
    ++next;
  };
  for (int i = 0; i < 20; ++i) exchange(kUsual);
  for (int i = 0; i < 3; ++i) exchange(kUsual * 8);
  for (int i = 0; i < 40; ++i) exchange(kUsual);  // longer than the detector remembers
  const uint64_t explored = s.counters.path_probes;
  ASSERT_EQ(s.sends(1), 1);
  ASSERT_EQ(s.counters.path_probes, explored + 1);
  EXPECT_GT(s.sender.next_deadline(false) - s.now, kUsual * 4) << "a tail probe waits as well";
  ASSERT_EQ(s.sends(3), 3);
  s.pass(kUsual);
  s.ack(next, next + 3);
  s.pass(kUsual / 2);
  s.sender.on_deadline(s.now);
  EXPECT_EQ(s.counters.retransmitted_early, 2u) << "those that do not explore";
  s.pass(kUsual * 8);
  s.sender.on_deadline(s.now);
  EXPECT_EQ(s.counters.retransmitted_early, 3u);
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
  paths.on_spare(spare(60'000), kUsual);
  paths.on_timeout(kNow);
  Prng same(1);
  EXPECT_EQ(paths.next(kNow, prng), random_path(same));
}

}  // namespace
}  // namespace mprdma::transport
