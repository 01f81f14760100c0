#include "transport/stream/stream_receiver.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "tests/support/print.hpp"
#include "tests/unit/transport/stream/lone_receiver.hpp"

namespace mprdma::transport {
namespace {

using List = std::vector<int>;

TEST(StreamReceiver, AcknowledgesEachPacketWithItsEchoes) {
  Receiver r;
  EXPECT_EQ(r.take(0, wire::kMpDataReTx, true), RxVerdict::kDone);
  ASSERT_TRUE(r.actions.has_ack);
  const wire::Packet& ack = r.actions.ack;
  EXPECT_EQ(r.aack(), 1);
  EXPECT_EQ(r.sack(), 0);
  EXPECT_EQ(ack.dest_qpn, Qpn(77));
  EXPECT_EQ(ack.vp, 50000);
  EXPECT_EQ(ack.mp_ack.echoed_timestamp, 0x1000u);
  EXPECT_EQ(ack.mp_ack.flags, wire::kMpAckSackValid | wire::kMpAckEce | wire::kMpAckReTx |
                                  wire::kMpAckOrderedPlacement);
}

TEST(StreamReceiver, ExecutesInOrderAndGivesHeldFramesBack) {
  Receiver r;
  EXPECT_EQ(r.take(2), RxVerdict::kHeld);
  EXPECT_EQ(r.aack(), 0);
  EXPECT_EQ(r.sack(), 2);
  EXPECT_EQ(r.take(1), RxVerdict::kHeld);
  EXPECT_EQ(r.take(0), RxVerdict::kDone);
  EXPECT_EQ(r.executed, (List{0, 1, 2}));
  EXPECT_EQ(r.aack(), 3);
  EXPECT_EQ(r.released(), (std::vector<FrameHandle>{1, 2}));
  EXPECT_EQ(r.held.in_use(), 0u);
}

TEST(StreamReceiver, ADuplicateIsAcknowledgedAndDroppedHeldOrExecuted) {
  Receiver r;
  r.take(0);
  r.take(2);
  EXPECT_EQ(r.take(0), RxVerdict::kDone);
  EXPECT_EQ(r.aack(), 1);
  EXPECT_EQ(r.take(2), RxVerdict::kDone);
  EXPECT_EQ(r.sack(), 2);
  EXPECT_EQ(r.counters.drop_duplicate, 2u);
  r.take(1);
  EXPECT_EQ(r.executed, (List{0, 1, 2}));
}

TEST(StreamReceiver, BeyondTheWindowIsDroppedAndNackedByName) {
  Receiver r(8);
  EXPECT_EQ(r.take(7), RxVerdict::kHeld);
  EXPECT_EQ(r.take(8), RxVerdict::kDone);
  EXPECT_EQ(r.nack(), wire::NackCode::kWindowOverflow);
  EXPECT_EQ(r.aack(), 0);
  EXPECT_EQ(r.sack(), 8);
  r.take(0);
  EXPECT_EQ(r.take(8), RxVerdict::kHeld) << "the window moved on";
}

TEST(StreamReceiver, ABudgetOfOneIsEnoughForProgress) {
  Receiver r(8, 1);
  EXPECT_EQ(r.take(2), RxVerdict::kHeld);
  EXPECT_EQ(r.take(1), RxVerdict::kDone);
  EXPECT_EQ(r.nack(), wire::NackCode::kBudgetExhausted);
  EXPECT_EQ(r.sack(), 1) << "the packet that was dropped";
  EXPECT_EQ(r.take(0), RxVerdict::kDone);
  EXPECT_EQ(r.aack(), 1) << "the head of line needs no budget";
  EXPECT_EQ(r.take(1), RxVerdict::kDone);
  EXPECT_EQ(r.executed, (List{0, 1, 2}));
  EXPECT_EQ(r.counters.drop_held_budget, 1u);
}

TEST(StreamReceiver, WhatIsNotReadyIsHeldAndTriedAgain) {
  Receiver r;
  r.not_ready_for = 0;
  EXPECT_EQ(r.take(0), RxVerdict::kHeld);
  EXPECT_EQ(r.nack(), wire::NackCode::kRnr);
  EXPECT_EQ(r.actions.ack.mp_ack.detail, 12);
  EXPECT_NE(r.actions.ack.mp_ack.flags & wire::kMpAckHeld, 0);
  EXPECT_EQ(r.take(1), RxVerdict::kHeld);
  EXPECT_EQ(r.take(0), RxVerdict::kDone) << "a probe: not ready still";
  EXPECT_EQ(r.nack(), wire::NackCode::kRnr);
  EXPECT_FALSE(r.resume());
  r.not_ready_for = -1;
  EXPECT_TRUE(r.resume());
  EXPECT_EQ(r.executed, (List{0, 1}));
  EXPECT_EQ(r.aack(), 2);
  EXPECT_EQ(r.actions.ack.mp_ack.flags & wire::kMpAckSackValid, 0) << "it answers no packet";
}

TEST(StreamReceiver, WithoutBudgetWhatIsNotReadyIsDroppedAndSaysSo) {
  Receiver r(8, 0);
  r.not_ready_for = 0;
  EXPECT_EQ(r.take(0), RxVerdict::kDone);
  EXPECT_EQ(r.nack(), wire::NackCode::kRnr);
  EXPECT_EQ(r.actions.ack.mp_ack.flags & wire::kMpAckHeld, 0);
}

TEST(StreamReceiver, BehindAReceiverThatIsNotReadyFewWait) {
  Receiver r(128, 128);
  r.not_ready_for = 0;
  EXPECT_EQ(r.take(0), RxVerdict::kHeld);
  for (int i = 1; i < 100; ++i) r.take(i);
  EXPECT_EQ(r.held.in_use(), 7U) << "of 128: a sixteenth of what is left";
  EXPECT_EQ(r.nack(), wire::NackCode::kBudgetExhausted);
  r.not_ready_for = -1;
  EXPECT_TRUE(r.resume());
  EXPECT_EQ(r.executed.size(), 7U);
  for (int i = 109; i > 7; --i) r.take(i);
  EXPECT_EQ(r.held.in_use(), 64U) << "it is ready again: half of the budget";
}

TEST(StreamReceiver, ARefusalNamesTheHeadAndIsRepeated) {
  Receiver r;
  r.refuses = 1;
  r.take(2);
  r.take(1);
  EXPECT_TRUE(r.executed.empty()) << "an error waits for its turn";
  r.take(0);
  EXPECT_EQ(r.nack(), wire::NackCode::kRemoteAccessError);
  EXPECT_EQ(r.aack(), 1);
  EXPECT_EQ(r.executed, (List{0}));
  r.take(0);
  EXPECT_EQ(r.nack(), wire::NackCode::kRemoteAccessError);
  EXPECT_EQ(r.aack(), 1);
}

TEST(StreamReceiver, ReleaseGivesEveryHeldFrameBack) {
  Receiver r(8, 64, Psn(kPsnMask - 3));
  for (const int i : {1, 3, 5, 7}) r.take(i);
  r.actions.clear();
  r.receiver.release_held(r.actions);
  EXPECT_EQ(r.released(), (std::vector<FrameHandle>{1, 3, 5, 7}));
  EXPECT_EQ(r.held.in_use(), 0u);
}

TEST(StreamReceiver, TheWindowRunsAcrossTheWrapOfThePsn) {
  Receiver r(8, 64, Psn(kPsnMask - 3));
  for (const int i : {6, 5, 4, 3, 2, 1}) EXPECT_EQ(r.take(i), RxVerdict::kHeld);
  r.take(0);
  EXPECT_EQ(r.executed, (List{0, 1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(r.receiver.rcv_nxt(), Psn(3));
  r.take(-(1 << 22));
  EXPECT_EQ(r.executed.size(), 7u);
  r.take(1 << 22);
  EXPECT_EQ(r.nack(), wire::NackCode::kWindowOverflow);
}

// ---- Placement on arrival ----------------------------------------------------------------------

TEST(StreamReceiver, WhatMayBePlacedEarlyNeedsNoFrameAndIsExecutedInItsTurn) {
  Receiver r(8, 0);
  r.placeable = {2, 3};
  EXPECT_EQ(r.take(3), RxVerdict::kDone) << "the frame goes back at once";
  EXPECT_EQ(r.sack(), 3);
  EXPECT_EQ(r.take(2), RxVerdict::kDone);
  EXPECT_EQ(r.aack(), 0);
  EXPECT_TRUE(r.executed.empty()) << "in memory, but not its turn";
  EXPECT_EQ(r.take(1), RxVerdict::kDone);
  EXPECT_EQ(r.nack(), wire::NackCode::kBudgetExhausted) << "no budget for what has to wait";
  r.take(0);
  EXPECT_EQ(r.aack(), 1);
  r.take(1);
  EXPECT_EQ(r.executed, (List{0, 1, 2, 3}));
  EXPECT_EQ(r.aack(), 4);
  EXPECT_TRUE(r.released().empty());
  EXPECT_EQ(r.counters.packets_placed_early, 2u);
}

TEST(StreamReceiver, NothingIsPlacedTwice) {
  Receiver r;
  r.placeable = {1, 2};
  r.take(2);
  r.take(2);
  EXPECT_EQ(r.counters.drop_duplicate, 1u);
  EXPECT_EQ(r.sack(), 2);
  r.take(0);
  r.take(1);
  r.take(2);
  EXPECT_EQ(r.aack(), 3);
  EXPECT_EQ(r.counters.drop_duplicate, 2u);
  EXPECT_EQ(r.executed, (List{0, 1, 2}));
}

TEST(StreamReceiver, ASlotIsFreeAgainForTheNextPacketOfItsPlace) {
  Receiver r(8);
  r.placeable = {1, 9};
  r.take(1);
  for (const int i : {0, 2, 3, 4, 5, 6, 7, 8}) r.take(i);
  EXPECT_EQ(r.aack(), 9);
  r.take(9);
  EXPECT_EQ(r.aack(), 10);
  r.placeable.clear();
  EXPECT_EQ(r.take(17), RxVerdict::kHeld) << "same slot, held this time";
  for (const int i : {10, 11, 12, 13, 14, 15, 16}) r.take(i);
  EXPECT_EQ(r.aack(), 18);
  EXPECT_EQ(r.released(), (std::vector<FrameHandle>{17}));
}

TEST(StreamReceiver, AnErrorOfAPlacedPacketWaitsForItsTurn) {
  Receiver r;
  r.placeable = {1};
  r.refuses = 1;
  r.take(1);
  EXPECT_EQ(r.nack(), wire::NackCode::kNone);
  r.take(0);
  EXPECT_EQ(r.nack(), wire::NackCode::kRemoteAccessError);
  EXPECT_EQ(r.aack(), 1);
  r.placeable = {3};
  r.take(3);
  EXPECT_FALSE(r.placed.contains(3)) << "nothing is placed after a refusal";
}

TEST(StreamReceiver, WhatIsNotReadyIsPlacedAndNeedsNoBudget) {
  Receiver r(8, 0);
  r.placeable = {0, 1};
  r.not_ready_for = 0;
  EXPECT_EQ(r.take(0), RxVerdict::kDone);
  EXPECT_EQ(r.nack(), wire::NackCode::kRnr);
  EXPECT_NE(r.actions.ack.mp_ack.flags & wire::kMpAckHeld, 0) << "it need not come again";
  r.take(0);
  EXPECT_EQ(r.nack(), wire::NackCode::kRnr);
  r.take(1);
  r.not_ready_for = -1;
  EXPECT_TRUE(r.resume());
  EXPECT_EQ(r.executed, (List{0, 1}));
  EXPECT_EQ(r.aack(), 2);
}

TEST(StreamReceiver, ASynchroniseTooSoonIsDroppedAndNackedByName) {
  Receiver r;
  r.too_early = {2};
  EXPECT_EQ(r.take(2, wire::kMpDataSync), RxVerdict::kDone);
  EXPECT_EQ(r.nack(), wire::NackCode::kSyncTooEarly);
  EXPECT_EQ(r.aack(), 0);
  EXPECT_EQ(r.sack(), 2);
  EXPECT_EQ(r.counters.drop_sync_too_early, 1u);
  EXPECT_EQ(r.counters.acks_sent, 0u);
  EXPECT_EQ(r.counters.nacks_sent, 1u);
  r.too_early.clear();
  r.placeable = {2};
  r.take(2);
  EXPECT_EQ(r.nack(), wire::NackCode::kNone) << "nothing was kept of the first copy";
}

TEST(StreamReceiver, ForcedOrderPlacesNothingEarly) {
  Receiver r(8, 64, Psn(50), PlacementPolicy::kOrdered);
  r.placeable = {1};
  EXPECT_EQ(r.take(1), RxVerdict::kHeld);
  EXPECT_TRUE(r.placed.empty());
}

TEST(StreamReceiver, SaysOrderedOnlyWhileNothingMayBePlacedEarly) {
  const auto says_ordered = [](Receiver& r) {
    r.take(0);
    return (r.actions.ack.mp_ack.flags & wire::kMpAckOrderedPlacement) != 0;
  };
  Receiver r;
  EXPECT_TRUE(says_ordered(r));
  const Key key = MemoryTable::make_key(1, 0);
  r.memory.set({.length = 1, .access = kRemoteWrite | kRelaxedOrdering, .key = key});
  EXPECT_FALSE(says_ordered(r));
  r.memory.remove(key);
  EXPECT_TRUE(says_ordered(r));
  Receiver relaxed(8, 64, Psn(50), PlacementPolicy::kRelaxed);
  EXPECT_FALSE(says_ordered(relaxed));
  Receiver ordered(8, 64, Psn(50), PlacementPolicy::kOrdered);
  ordered.memory.set({.length = 1, .access = kRelaxedOrdering, .key = key});
  EXPECT_TRUE(says_ordered(ordered));
}

TEST(StreamReceiver, ReleaseForgetsPlacedPacketsAndGivesBackOnlyFrames) {
  Receiver r;
  r.placeable = {1, 3};
  for (const int i : {1, 2, 3}) r.take(i);
  r.actions.clear();
  r.receiver.release_held(r.actions);
  EXPECT_EQ(r.released(), (std::vector<FrameHandle>{2}));
  EXPECT_FALSE(r.receiver.has_head());
}

}  // namespace
}  // namespace mprdma::transport
