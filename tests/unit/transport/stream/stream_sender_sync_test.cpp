// Synchronise operations at the sender: transport/stream/stream_sender_sync.cpp. Which of them
// wait, and that the receiver refuses what comes too early, is held by ordering_test.cpp.
#include <gtest/gtest.h>

#include <vector>

#include "tests/support/print.hpp"
#include "tests/unit/transport/stream/lone_sender.hpp"

namespace mprdma::transport {
namespace {

using Kind = StreamSender::Choice::Kind;

Params params_with_delay() {
  Params p = params_with(8);
  p.reorder_delta = 32;  // 32 * 10 us / 8 packets: a delay of 40 us
  return p;
}

TEST(Synchronise, WhatCameTooEarlyIsSentAgainAfterTheDelayAndCostsNothing) {
  Params p = params_with(4);
  p.reorder_delta = 32;
  Sender s(p);
  s.send(2);
  s.send(1);
  const uint32_t window = s.window_raw();
  const Time start = s.now;
  s.ack(0, 2, 0, wire::NackCode::kSyncTooEarly);
  EXPECT_EQ(s.sender.in_flight(), 2u) << "the receiver has dropped it";
  EXPECT_EQ(s.send(1000, false), 0);
  // 32 * 10 us / 4 packets
  EXPECT_EQ(s.sender.sync_delay(), Duration::us(80));
  EXPECT_EQ(s.sender.next_deadline(true), start + Duration::us(80));
  EXPECT_EQ(s.send(1), 1) << "what was posted later may overtake it";
  EXPECT_EQ(s.index(s.last.psn), 3);
  s.now = start + Duration::us(80);
  s.sender.on_deadline(s.now);
  EXPECT_EQ(s.send(1000, false), 1);
  EXPECT_EQ(s.index(s.last.psn), 2);
  EXPECT_TRUE(s.last.retransmits());
  EXPECT_EQ(s.window_raw(), window);
  EXPECT_EQ(s.counters.retransmitted_sync, 1u);
  EXPECT_EQ(s.counters.retransmitted_nack + s.counters.retransmitted_rto, 0u);
}

// The receiver's window does not move until it has taken the operation, however much arrives.
TEST(Synchronise, NothingNewLeavesBeyondTheWindowOfAReceiverThatRefused) {
  Params p = params_with(40);
  p.window_slots = 8;
  p.reorder_delta = 8;
  Sender s(p);
  s.send(1);
  s.send(1);
  s.ack(0, 1, 0, wire::NackCode::kSyncTooEarly);
  EXPECT_EQ(s.send(), 7) << "2 to 8: the window begins at 1 or before";
  EXPECT_EQ(s.index(s.last.psn), 8);
  s.ack(1, 0);
  EXPECT_EQ(s.send(), 1) << "its turn has come";
  EXPECT_EQ(s.index(s.last.psn), 1);
  EXPECT_EQ(s.send(), 0) << "it is under way";
  s.ack(2, 1, wire::kMpAckReTx);
  EXPECT_GT(s.send(), 20);
}

TEST(Synchronise, ARefusedSynchroniseDoesNotKeepTheTimeoutOfWhatItWaitsForAway) {
  Params p = params_with(4);
  p.tail_probe = false;
  Sender s(p);
  s.send(1);
  s.send(1);
  const Time timeout = s.now + s.sender.base_rto();
  while (s.now < timeout) {  // packet 0 is lost; packet 1 comes too early again and again
    s.ack(0, 1, 0, wire::NackCode::kSyncTooEarly);
    s.now = s.sender.next_deadline(true);
    s.sender.on_deadline(s.now);
    if (s.now < timeout) {
      EXPECT_EQ(s.send(1000, false), 1);
      EXPECT_EQ(s.index(s.last.psn), 1);
    }
  }
  EXPECT_EQ(s.now, timeout);
  EXPECT_EQ(s.send(1, false), 1);
  EXPECT_EQ(s.index(s.last.psn), 0);
}

TEST(Synchronise, AlphaStretchesTheDelayOfSynchroniseOperations) {
  Params p = params_with(3);
  p.reorder_delta = 32;
  p.sync_alpha = Fixed16::from_raw(Fixed16::kOneRaw / 2);
  EXPECT_EQ(Sender(p).sender.sync_delay(), Duration::ns(32 * 10'000 / 2 / 3));
}

// Packet 0, and two synchronise operations of two packets each that come before it.
struct TwoRefused : Sender {
  TwoRefused() : Sender(params_with_delay()) {
    send(1);
    for (int op = 0; op < 2; ++op) {
      send(2);
    }
    for (int packet = 1; packet <= 4; ++packet) {
      ack(0, packet, 0, wire::NackCode::kSyncTooEarly);
    }
  }
  // Returns the packets that the sender sends by itself at its next deadline.
  std::vector<int> at_deadline() {
    now = sender.next_deadline(false);
    sender.on_deadline(now);
    return sent_again();
  }
  std::vector<int> sent_again() {
    std::vector<int> out;
    while (send(1, false) == 1) out.push_back(index(last.psn));
    return out;
  }
};

TEST(Synchronise, OperationsThatCameTooEarlyGoAgainADelayLater) {
  TwoRefused s;
  const Time start = s.now;
  EXPECT_EQ(s.sent_again(), std::vector<int>());
  EXPECT_EQ(s.at_deadline(), (std::vector<int>{1, 2, 3, 4}));
  EXPECT_EQ(s.now, start + Duration::us(40));
}

TEST(Synchronise, AnOperationThatWasRefusedGoesAgainAsSoonAsEverythingBeforeItHasArrived) {
  TwoRefused s;
  s.now += Duration::us(1);
  s.ack(1, 0);
  EXPECT_EQ(s.sent_again(), (std::vector<int>{1, 2, 3, 4}));
}

TEST(Synchronise, TheDelayCountsFromWhatIsSentAgainBeforeIt) {
  TwoRefused s;
  s.now += Duration::us(30);
  s.overflow(0, 0);  // packet 0 is lost
  EXPECT_EQ(s.sent_again(), std::vector<int>{0});
  const Time resent = s.now;
  EXPECT_EQ(s.at_deadline(), (std::vector<int>{1, 2, 3, 4}));
  EXPECT_EQ(s.now, resent + s.sender.sync_delay());
}

// A packet that is missing behind a refused operation does not delay it.
TEST(Synchronise, WhatIsMissingBehindARefusedOperationDoesNotHoldItUp) {
  TwoRefused s;
  s.send(1);
  s.overflow(0, 0);
  EXPECT_EQ(s.sent_again(), std::vector<int>{0});
  const Time release = s.now + s.sender.sync_delay();
  s.overflow(0, 5);
  EXPECT_EQ(s.at_deadline(), (std::vector<int>{1, 2, 3, 4, 5}));
  EXPECT_EQ(s.now, release);
}

TEST(Synchronise, NothingNewFollowsWhileSomethingIsToBeSentAgain) {
  TwoRefused s;
  EXPECT_TRUE(s.sender.sync_release().is_never());
  s.at_deadline();
  EXPECT_EQ(s.sender.sync_release(), s.now + Duration::us(40));
  for (int packet = 0; packet <= 4; ++packet) s.ack(packet + 1, packet);
  EXPECT_EQ(s.sender.sync_release(), Time()) << "everything has arrived";
}

// The order is kept if acknowledgements overtake each other.
TEST(Synchronise, AnOperationWhoseFirstPacketHasArrivedIsNotRefusedAgain) {
  TwoRefused late;
  late.ack(2, 1);  // 0 and 1 have arrived
  EXPECT_EQ(late.sent_again(), (std::vector<int>{2, 3, 4}));
  Sender s(params_with_delay());
  s.send(1);
  s.send(1);
  s.send(1);
  s.ack(1, 0);
  s.ack(2, 1);
  s.ack(0, 2, 0, wire::NackCode::kSyncTooEarly);
  EXPECT_EQ(s.send(1000, false), 1);
}

// No peer that keeps to the protocol says both.
TEST(Synchronise, APeerThatTakesWhatItRefusedIsBelieved) {
  Sender s(params_with_delay());
  s.send(4);
  s.ack(0, 2, 0, wire::NackCode::kSyncTooEarly);
  s.ack(0, 2);
  s.ack(3, 0);
  EXPECT_EQ(s.sender.in_flight(), 1u);
  ASSERT_EQ(s.send(1), 1);
  EXPECT_EQ(s.last.kind, Kind::kNew);
}

TEST(Synchronise, ATimeoutThatIsUndoneDoesNotUndoARefusal) {
  Sender s(params_with_delay());
  s.send(1);
  s.send(1);
  s.now = s.sender.next_deadline(true);
  s.sender.on_deadline(s.now);
  s.ack(0, 1, 0, wire::NackCode::kSyncTooEarly);
  s.ack(1, 0);  // the original: the timeout was too early
  EXPECT_EQ(s.counters.timeouts_undone, 1u);
  EXPECT_EQ(s.sender.in_flight(), 0u);
  EXPECT_EQ(s.send(1000, false), 1);
  EXPECT_EQ(s.index(s.last.psn), 1);
}

TEST(Synchronise, WhatLeavesWhileTheTimersRestIsTimedFromThen) {
  Params p = params_with(2);
  p.reorder_delta = 32;  // a delay of 160 us
  p.rto_floor = Duration::us(50);
  Sender s(p);
  s.send(1);
  s.send(1);
  s.ack(0, 0);  // it is there, and the receiver not ready: nothing is under way
  s.ack(0, 1, 0, wire::NackCode::kSyncTooEarly);
  s.send(1);  // asks
  s.now += s.sender.base_rto();
  ASSERT_EQ(s.send(1), 1);
  EXPECT_EQ(s.last.kind, Kind::kNew);
  EXPECT_GT(s.sender.next_deadline(true), s.now);
}

}  // namespace
}  // namespace mprdma::transport
