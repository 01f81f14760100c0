// A sender whose application has nothing to send, or comes back: reduction of the window of paths,
// restart, growth.
#include <gtest/gtest.h>

#include "tests/support/print.hpp"
#include "tests/unit/transport/stream/many_path_sender.hpp"

namespace mprdma::transport {
namespace {

using many_paths::clocked_params;
using many_paths::kOne;
using many_paths::Stream;

// Sends a message of `packets` and acknowledges all of it.
void exchange(Stream& s, int* acked, int packets) {
  s.sender.on_backlog(s.now);
  ASSERT_EQ(s.sends(packets), packets);
  s.pass(Duration::us(10));
  s.backlog = false;
  for (int i = 0; i < packets; ++i, ++*acked) s.ack(*acked + 1, *acked);
  s.backlog = true;
}

TEST(PathWindowReduction, AnAckThatFindsNothingToSendTakesAPacket) {
  Params p = clocked_params(8);
  p.window_give_back = false;
  p.restart = RestartRule::kNever;
  Stream s(p);
  int acked = 0;
  exchange(s, &acked, 3);
  EXPECT_EQ(s.window_raw(), 5 * kOne);
  EXPECT_EQ(s.counters.window_reductions, 3u);
  exchange(s, &acked, 5);
  EXPECT_EQ(s.window_raw(), kOne) << "never below one";
  EXPECT_EQ(s.sends(), 1) << "what is posted with nothing outstanding leaves at once";
}

TEST(PathWindowReduction, WhatItTookComesBackWhenTheApplicationHasPacketsAgain) {
  Stream s(clocked_params(8));
  int acked = 0;
  for (int n = 0; n < 5; ++n) exchange(s, &acked, 8);
  EXPECT_EQ(s.window_raw(), kOne);
  s.sender.on_backlog(s.now);
  EXPECT_EQ(s.window_raw(), 8 * kOne);
  EXPECT_EQ(s.sends(), 8);
}

TEST(PathWindowReduction, ItGivesNothingBackThatCongestionTook) {
  Stream s(clocked_params(8));
  s.send();
  s.backlog = false;
  for (int i = 0; i < 4; ++i) s.ack(i + 1, i, 60'000, wire::kMpAckEce);  // two packets
  const uint32_t congested = s.window_raw() + s.sender.window().owed().raw();
  for (int i = 4; i < 8; ++i) s.ack(i + 1, i);
  s.sender.on_backlog(s.now);
  EXPECT_EQ(s.window_raw(), congested);
  EXPECT_EQ(congested, 6 * kOne);
}

TEST(PathWindowReduction, APostWithSomethingOutstandingLeavesAtOnceIfItFits) {
  Stream s(clocked_params(8));
  int acked = 0;
  exchange(s, &acked, 8);
  s.sender.on_backlog(s.now);
  EXPECT_EQ(s.sends(1), 1);
  // The owner's next packet comes while the first is under way.
  s.sender.on_backlog(s.now);
  EXPECT_EQ(s.sends(1), 1);
}

TEST(PathWindowReduction, ByThePaperAPostBringsNoCredits) {
  Params p = clocked_params(8);
  p.window_give_back = p.own_ack_credit = false;
  p.restart = RestartRule::kIdle;
  Stream s(p);
  s.send();
  s.ack(4, 3);
  ASSERT_EQ(s.sends(), 2) << "burst control";
  s.sender.on_backlog(s.now);
  EXPECT_EQ(s.sends(), 0);
}

// Marks until the window is half of the initial one, or less; everything is acknowledged then.
void congest(Stream& s, int* acked) {
  s.sender.on_backlog(s.now);
  const int packets = s.sends();
  s.pass(Duration::us(10));
  s.backlog = false;
  for (int i = 0; i < packets; ++i, ++*acked) s.ack(*acked + 1, *acked, 60'000, wire::kMpAckEce);
  s.backlog = true;
}

TEST(Restart, CongestionIsRememberedForThirtyRoundTrips) {
  Stream s(clocked_params(8));
  int acked = 0;
  congest(s, &acked);
  s.sender.on_backlog(s.now);
  const uint32_t congested = s.window_raw();
  ASSERT_LE(congested, 4 * kOne);
  s.pass(Duration::us(299));
  s.sender.on_backlog(s.now);
  EXPECT_EQ(s.window_raw(), congested);
  s.pass(Duration::us(2));
  s.sender.on_backlog(s.now);
  EXPECT_EQ(s.window_raw(), 8 * kOne);
  EXPECT_EQ(s.sends(), 8);
}

TEST(Restart, APostBesideOthersChangesNothing) {
  Stream s(clocked_params(8));
  int acked = 0;
  congest(s, &acked);
  s.sender.on_backlog(s.now);
  const uint32_t congested = s.window_raw();
  ASSERT_EQ(s.sends(1), 1);
  s.pass(Duration::us(400));
  s.sender.on_backlog(s.now);
  EXPECT_EQ(s.window_raw(), congested) << "something is outstanding";
}

TEST(Restart, ByThePaperAfterThreeIdleRoundTrips) {
  Params p = clocked_params(8);
  p.restart = RestartRule::kIdle;
  Stream s(p);
  int acked = 0;
  congest(s, &acked);
  s.pass(Duration::us(29));
  s.sender.on_backlog(s.now);
  EXPECT_EQ(s.counters.window_restarts, 0u);
  s.pass(Duration::us(2));
  s.sender.on_backlog(s.now);
  EXPECT_EQ(s.counters.window_restarts, 1u);
  EXPECT_EQ(s.window_raw(), 8 * kOne);
}

TEST(Restart, SmallMessagesDoNotSlowTheBigOneDown) {
  Params p = clocked_params(54);
  Stream s(p);
  int acked = 0;
  for (int i = 0; i < 200; ++i) {
    exchange(s, &acked, 1);
    s.pass(Duration::us(2));
  }
  s.sender.on_backlog(s.now);
  EXPECT_EQ(s.sends(), 54) << "from the initial window";
  EXPECT_EQ(s.counters.packets_retransmitted, 0u);
}

// Of a window of eight, messages of two packets have used two.
TEST(Growth, AWindowThatWasNotInUseDoesNotOutliveAMark) {
  Params p = clocked_params(8);
  for (const bool limited : {true, false}) {
    p.limit_growth = limited;
    Stream s(p);
    int acked = 0;
    for (int n = 0; n < 2; ++n) exchange(s, &acked, 2);
    s.sender.on_backlog(s.now);
    ASSERT_EQ(s.sends(2), 2);
    s.pass(Duration::us(10));
    s.ack(acked + 1, acked, 60'000, wire::kMpAckEce);
    EXPECT_EQ(s.window_raw(), (limited ? 3 : 8) * kOne - kOne / 2);
  }
}

TEST(Growth, NotWhileMoreThanEightPacketsWaitForTheWire) {
  Params p = clocked_params(32);
  p.window_max = 200;
  p.limit_growth = true;
  Stream s(p);
  s.send();
  int acked = 0;
  for (; acked < 9; ++acked) {  // nothing is sent meanwhile
    s.pass(Duration::us(1));
    s.ack(acked + 1, acked);
  }
  const uint32_t grown = s.window_raw();
  EXPECT_GT(grown, 32 * kOne);
  s.pass(Duration::us(1));
  s.ack(acked + 1, acked);
  EXPECT_EQ(s.window_raw(), grown);
}

TEST(Growth, ABurstOfAcknowledgementsIsNoWaitForTheWire) {
  Params p = clocked_params(32);
  p.window_max = 200;
  p.limit_growth = true;
  Stream s(p);
  s.send();
  s.pass(Duration::us(10));
  uint32_t before = s.window_raw();
  for (int i = 0; i < 20; ++i) {  // at one point in time
    s.ack(i + 1, i);
    EXPECT_GT(s.window_raw(), before);
    before = s.window_raw();
  }
}

}  // namespace
}  // namespace mprdma::transport
