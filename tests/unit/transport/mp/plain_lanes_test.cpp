// The functions of the common case do what the general ones do, or nothing.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/support/print.hpp"
#include "tests/support/wire.hpp"
#include "tests/unit/transport/mp/plain_world.hpp"

namespace mprdma::transport {
namespace {

using plain::Accepted;
using plain::Conditions;
using plain::World;

void expect_same_story(const World& a, const World& b) {
  for (size_t i = 0; i < std::min(a.sent.size(), b.sent.size()); ++i) {
    ASSERT_EQ(a.sent[i].at, b.sent[i].at) << "packet " << i;
    ASSERT_EQ(a.sent[i].from, b.sent[i].from) << "packet " << i;
    ASSERT_EQ(a.sent[i].header, b.sent[i].header) << "packet " << i;
    ASSERT_TRUE(a.sent[i].payload == b.sent[i].payload) << "packet " << i;
  }
  ASSERT_EQ(a.sent.size(), b.sent.size());
  for (size_t side = 0; side < 2; ++side) {
    ASSERT_EQ(a.hosts[side].story, b.hosts[side].story);
    ASSERT_TRUE(a.hosts[side].memory == b.hosts[side].memory);
    ASSERT_TRUE(a.hosts[side].counters == b.hosts[side].counters);
  }
}

// Runs both worlds for each seed; returns how often the common case was taken.
Accepted compare(Conditions conditions, uint64_t seeds) {
  Accepted sum;
  for (uint64_t seed = 1; seed <= seeds; ++seed) {
    constexpr uint32_t kRuns[] = {1, 3, 16, 256};
    conditions.seed = seed;
    conditions.ack_run = kRuns[seed % 4];
    conditions.segment = seed % 3 == 0 ? 4096 : 0;
    conditions.one_path = seed % 5 < 2;
    conditions.narrow = seed % 7 < 3;
    conditions.first = seed % 2 == 0 ? Psn(kPsnMask - 40) : Psn(100);
    World general(conditions, false);
    World plain(conditions, true);
    general.run();
    plain.run();
    expect_same_story(general, plain);
    if (::testing::Test::HasFailure()) {
      ADD_FAILURE() << "seed " << seed;
      return sum;
    }
    for (const plain::Host& host : plain.hosts) {
      sum.posts += host.accepted.posts;
      sum.packets += host.accepted.packets;
      sum.at_once += host.accepted.at_once;
      sum.kept += host.accepted.kept;
      sum.owed += host.accepted.owed;
      sum.writes += host.accepted.writes;
      sum.planned += host.accepted.planned;
      sum.sends += host.accepted.sends;
      sum.acks += host.accepted.acks;
      sum.completions += host.accepted.completions;
      sum.receives += host.accepted.receives;
    }
  }
  return sum;
}

TEST(PlainLanes, OverAPerfectWireTellTheStoryOfTheGeneralFunctions) {
  const Accepted taken = compare({}, 30);
  EXPECT_GT(taken.posts, 30u * 100);
  EXPECT_GT(taken.packets, 30u * 100);
  EXPECT_GT(taken.at_once, 30u * 20);
  EXPECT_GT(taken.kept, 30u);
  EXPECT_GT(taken.owed, 30u * 20);
  EXPECT_GT(taken.writes, 30u * 100);
  EXPECT_GT(taken.planned, 30u * 10);
  EXPECT_GT(taken.acks, 30u * 30);
  EXPECT_GT(taken.completions, 30u * 100);
  EXPECT_GT(taken.receives, 30u * 10);
  EXPECT_GT(taken.sends, 30u * 10);
}

TEST(PlainLanes, OverABadWireTellTheStoryOfTheGeneralFunctions) {
  const Accepted taken = compare({.lossy = true}, 30);
  EXPECT_GT(taken.packets, 30u * 20);
  EXPECT_GT(taken.writes, 30u * 20);
}

// As the receiver of `ib_write_bw` is.
TEST(PlainLanes, OfAQueuePairInRtrTellTheStoryOfTheGeneralFunctions) {
  const Accepted taken = compare({.one_way = true}, 30);
  EXPECT_GT(taken.writes, 30u * 50);
  EXPECT_GT(taken.sends, 30u * 5);
  EXPECT_GT(taken.receives, 30u * 5);
  EXPECT_GT(taken.owed, 30u * 10);
  compare({.lossy = true, .others = true, .breaks = true, .one_way = true}, 30);
}

TEST(PlainLanes, AmongOtherRequestsTellTheStoryOfTheGeneralFunctions) {
  compare({.others = true}, 30);
  compare({.lossy = true, .others = true}, 30);
}

TEST(PlainLanes, WithRequestsThatFailTellTheStoryOfTheGeneralFunctions) {
  compare({.breaks = true}, 30);
  compare({.lossy = true, .others = true, .breaks = true}, 40);
}

TEST(PlainLanes, RefuseAPacketOfAHostilePeerOrTakeItAsTheGeneralFunctionsDo) {
  compare({.forged = true}, 120);
  compare({.lossy = true, .forged = true, .others = true}, 60);
}

}  // namespace
}  // namespace mprdma::transport
