#include "transport/stream/stream_sender.hpp"

#include <gtest/gtest.h>

#include "tests/support/print.hpp"
#include "tests/unit/transport/stream/lone_sender.hpp"

namespace mprdma::transport {
namespace {

using Kind = StreamSender::Choice::Kind;

constexpr uint32_t kOne = Fixed16::kOneRaw;

// ---- The window --------------------------------------------------------------------------------

TEST(StreamSender, SendsTheInitialWindowAndWaits) {
  Sender s(params_with(4));
  EXPECT_EQ(s.send(), 4);
  EXPECT_EQ(s.sender.in_flight(), 4u);
  EXPECT_EQ(s.send(), 0);
}

TEST(StreamSender, EveryAckAddsOneOverTheWindow) {
  Sender s(params_with(4));
  s.send();
  s.ack(1, 0);
  EXPECT_EQ(s.window_raw(), 4 * kOne + kOne / 4);
  s.ack(2, 1);
  // floor(2^32 / 4.25) in units of 2^-16.
  EXPECT_EQ(s.window_raw(), 4 * kOne + kOne / 4 + 15420);
}

TEST(StreamSender, AnEchoOfCongestionTakesHalfAPacket) {
  Sender s(params_with(2));
  s.send();
  s.ack(1, 0, wire::kMpAckEce);
  EXPECT_EQ(s.window_raw(), kOne + kOne / 2);
  s.ack(2, 1, wire::kMpAckEce);
  EXPECT_EQ(s.window_raw(), kOne);
  s.send();
  s.ack(3, 2, wire::kMpAckEce);
  EXPECT_EQ(s.window_raw(), kOne) << "never below one packet";
}

TEST(StreamSender, TheWindowEndsAtItsMaximum) {
  Sender s(params_with(4, 4));
  s.send();
  s.ack(1, 0);
  EXPECT_EQ(s.window_raw(), 4 * kOne);
}

TEST(StreamSender, DoesNotGrowUnlessTheWindowWasTheLimit) {
  Params p = params_with(8);
  p.limit_growth = true;
  Sender s(p);
  s.send(3);
  s.ack(1, 0);
  EXPECT_EQ(s.window_raw(), 8 * kOne);
  s.send();  // to the limit
  s.ack(2, 1);
  EXPECT_EQ(s.window_raw(), 8 * kOne + kOne / 8);
  s.send();
  s.sender.on_back_pressure();
  s.ack(3, 2);
  EXPECT_EQ(s.window_raw(), 8 * kOne + kOne / 8) << "the wire was the limit";
}

TEST(StreamSender, AHoleCostsHalfOnceAWindowDropAQuarterOnce) {
  Sender s(params_with(16));
  s.send();
  s.overflow(0, 9);
  EXPECT_EQ(s.window_raw(), 16 * kOne - kOne / 2 - kOne / 4);
  s.overflow(0, 9);
  EXPECT_EQ(s.window_raw(), 16 * kOne - kOne / 2 - kOne / 4) << "known already";
}

TEST(StreamSender, ATimeoutHalvesTheWindowButNotAboveTheInitial) {
  Sender s(params_with(16));
  s.send();
  s.now = s.sender.next_deadline(true);
  s.sender.on_deadline(s.now);
  EXPECT_EQ(s.window_raw(), 8 * kOne);
  for (int i = 0; i < 3; ++i) {
    s.now = s.sender.next_deadline(true);
    s.sender.on_deadline(s.now);
  }
  EXPECT_EQ(s.counters.rto_expired, 4u);
  EXPECT_EQ(s.window_raw(), 8 * kOne) << "once for each silence";
}

// ---- In flight, SACK, loss ---------------------------------------------------------------------

TEST(StreamSender, ASackMakesRoomForOnePacket) {
  Sender s(params_with(4, 4));
  s.send();
  s.ack(0, 2);
  EXPECT_EQ(s.sender.in_flight(), 3u);
  EXPECT_EQ(s.send(), 1);
  s.ack(0, 2);
  EXPECT_EQ(s.sender.in_flight(), 4u) << "the same SACK again says nothing";
}

TEST(StreamSender, ANackNamesTheHoleAndTheDroppedPacket) {
  Params p = params_with(8, 8);
  p.loss_shrinks_window = false;
  Sender s(p);
  s.send();
  s.overflow(0, 5);
  EXPECT_EQ(s.sender.in_flight(), 6u);
  ASSERT_EQ(s.send(1), 1);
  EXPECT_EQ(s.index(s.last.psn), 0);
  EXPECT_EQ(s.last.kind, Kind::kRetransmit);
  ASSERT_EQ(s.send(1), 1);
  EXPECT_EQ(s.index(s.last.psn), 5) << "exactly what is marked, lowest first";
  EXPECT_EQ(s.counters.retransmitted_nack, 2u);
}

// Until the hole is sent again, it would be dropped again.
TEST(StreamSender, WhatTheWindowDroppedFollowsTheCopyThatFillsTheHole) {
  Params p = params_with(8);
  p.window_slots = p.reorder_delta = 8;
  p.loss_shrinks_window = false;
  p.loss_by_time = true;
  Sender s(p);
  s.send();
  for (int i = 1; i < 8; ++i) s.ack(0, i);
  ASSERT_EQ(s.send(), 7);
  s.overflow(-1, 8);  // an old one: the hole is not known as lost
  EXPECT_EQ(s.send(), 0) << "nor does anything new leave";
  s.overflow(0, 8);
  ASSERT_EQ(s.send(1), 1);
  EXPECT_EQ(s.index(s.last.psn), 0);
  ASSERT_EQ(s.send(1), 1);
  EXPECT_EQ(s.index(s.last.psn), 8);
}

TEST(StreamSender, AHoleThatWasJustSentAgainIsNotMarkedTwice) {
  Sender s(params_with(8, 8));
  s.send();
  s.overflow(0, 5);
  s.send();
  const uint32_t in_flight = s.sender.in_flight();
  s.overflow(0, 6);
  EXPECT_EQ(s.sender.in_flight(), in_flight - 1) << "only the newly dropped one";
}

// The network copies NACKs, and delays them.
TEST(StreamSender, ANackSpeaksOfTheCopyThatItAnswers) {
  Params p = params_with(16);
  p.loss_by_time = true;
  Sender s(p);
  s.send(6);
  s.overflow(0, 5);
  s.now += Duration::us(1);
  ASSERT_EQ(s.send(1000, false), 2);
  const auto nack_of = [&](Time sent, uint8_t flags) {
    const uint64_t before = s.counters.retransmitted_nack;
    s.rtt = s.now - sent;
    s.ack(0, 5, flags, wire::NackCode::kWindowOverflow);
    return s.counters.retransmitted_nack - before;
  };
  const Time first_copy = s.now;
  s.now += Duration::us(1);
  EXPECT_EQ(nack_of(first_copy - Duration::us(1), 0), 0U) << "of the original";
  EXPECT_EQ(nack_of(first_copy, wire::kMpAckReTx), 1U) << "it was dropped as well";
  s.now += Duration::us(8);
  ASSERT_EQ(s.send(1000, false), 1);
  const Time second_copy = s.now;
  s.now += Duration::us(10);
  EXPECT_EQ(nack_of(first_copy, wire::kMpAckReTx), 0U) << "known already";
  EXPECT_EQ(nack_of(second_copy, wire::kMpAckReTx), 1U);
}

TEST(StreamSender, APsnFarBelowTheHighestSackIsLost) {
  Params p = params_with(64);
  p.loss_trigger = 8;
  Sender s(p);
  s.send(20);
  for (int i = 1; i <= 7; ++i) s.ack(0, i);
  EXPECT_EQ(s.counters.retransmitted_trigger, 0u);
  s.ack(0, 8);
  EXPECT_EQ(s.counters.retransmitted_trigger, 1u);
  ASSERT_EQ(s.send(1), 1);
  EXPECT_EQ(s.index(s.last.psn), 0);
}

TEST(StreamSender, NeverMorePacketsThanTheMapsHold) {
  Params p = params_with(140, 256);
  p.window_slots = 128;
  Sender s(p);
  s.send();
  // The hole at 0 is lost on the wire for ever; everything else arrives.
  for (int i = 1; i < 128; ++i) s.ack(0, i);
  while (s.sender.span() < send_span(128) && s.send(1) == 1) {
  }
  EXPECT_EQ(s.sender.span(), send_span(128));
  EXPECT_LT(s.sender.in_flight(), s.sender.window().packets());
  EXPECT_EQ(s.send(), 0);
}

// ---- What an acknowledgement may say -----------------------------------------------------------

TEST(StreamSender, AcknowledgementsOfWhatWasNeverSentAreGhosts) {
  Sender s(params_with(4));
  s.send();
  EXPECT_EQ(s.ack(5, 0), StreamSender::AckResult::kGhost);
  EXPECT_EQ(s.ack(0, 4), StreamSender::AckResult::kGhost);
  EXPECT_EQ(s.ack(1 << 22, 1), StreamSender::AckResult::kGhost);
  EXPECT_EQ(s.sender.span(), 4u);
  EXPECT_EQ(s.sender.in_flight(), 4u);
}

TEST(StreamSender, AStaleAcknowledgementMovesNothingBack) {
  Sender s(params_with(4));
  s.send();
  s.ack(3, 2);
  EXPECT_EQ(s.ack(1, 0), StreamSender::AckResult::kStale);
  EXPECT_EQ(s.index(s.sender.una()), 3);
  EXPECT_EQ(s.ack(-(1 << 22), -(1 << 22)), StreamSender::AckResult::kStale);
  EXPECT_EQ(s.index(s.sender.una()), 3);
}

// The trigger judges again once per epoch, at any acknowledgement.
TEST(StreamSender, AStaleAcknowledgementIsNoNewsThoughTimeShowsALoss) {
  Params p = params_with(32);
  p.loss_trigger = 8;
  Sender s(p);
  s.send();
  ASSERT_EQ(s.ack(0, 20), StreamSender::AckResult::kProgress);
  s.send();  // what the trigger found is sent again
  const uint64_t marked = s.counters.retransmitted_trigger;
  ASSERT_GT(marked, 0u);
  for (int i = 0; i < 4; ++i) {
    s.now += Duration::us(100);
    EXPECT_EQ(s.ack(-100, -101), StreamSender::AckResult::kStale);
  }
  EXPECT_GT(s.counters.retransmitted_trigger, marked);
}

// A NACK looks for holes that reordering does not explain. It may name nothing itself.
TEST(StreamSender, AStaleNackIsNoNewsThoughReorderingShowsALoss) {
  Params p = params_with(32);
  p.reorder_delta = 8;
  Sender s(p);
  s.send();
  ASSERT_EQ(s.ack(0, 20), StreamSender::AckResult::kProgress);
  EXPECT_EQ(s.overflow(-100, -101), StreamSender::AckResult::kStale);
  EXPECT_GT(s.counters.retransmitted_nack, 0u);
}

TEST(StreamSender, AllOfItHoldsAcrossTheWrapOfThePsn) {
  Sender s(params_with(8, 8), Psn(kPsnMask - 2));
  EXPECT_EQ(s.send(), 8);
  s.ack(0, 5);
  s.overflow(0, 7);
  s.send(1);
  EXPECT_EQ(s.index(s.last.psn), 0);
  s.ack(4, 3);
  EXPECT_EQ(s.sender.una(), Psn(1));
  EXPECT_EQ(s.ack(4, 9), StreamSender::AckResult::kGhost);
  s.send();
  s.ack(8, 7);
  EXPECT_EQ(s.index(s.sender.una()), 8);
}

// ---- Time --------------------------------------------------------------------------------------

TEST(StreamSender, TimeoutsBackOffUpToTheCeilingAndNewsResetsThem) {
  Params p = params_with(2);
  p.rto_ceiling = Duration::us(1500);
  Sender s(p);
  s.send();
  const Duration expected[] = {Duration::us(500), Duration::us(1000), Duration::us(1500),
                               Duration::us(1500)};
  for (const Duration rto : expected) {
    EXPECT_EQ(s.sender.next_deadline(true) - s.now, rto);
    s.now = s.sender.next_deadline(true);
    s.sender.on_deadline(s.now);
    s.send();
  }
  EXPECT_EQ(s.counters.rto_expired, 4u);
  s.ack(1, 0);
  EXPECT_EQ(s.sender.next_deadline(true) - s.now, Duration::us(500));
}

TEST(StreamSender, BackOffEndsAtTheVerbsTimeoutButMayDoubleOnce) {
  for (const auto& [timeout, last] :
       {std::pair{Duration::us(1200), Duration::us(1200)}, {Duration::us(1), Duration::us(1000)}}) {
    Sender s(params_with(2));
    s.sender.limit_timeouts(timeout);
    s.send();
    for (const Duration rto : {Duration::us(500), Duration::us(1000), last, last}) {
      EXPECT_EQ(s.sender.next_deadline(true) - s.now, rto);
      s.now = s.sender.next_deadline(true);
      s.sender.on_deadline(s.now);
      s.send();
    }
  }
}

TEST(StreamSender, OneSlowPathDoesNotMakeTheTimeoutLongerThanTheVerbs) {
  for (const auto& [timeout, rto] :
       {std::pair{Duration::ms(67), Duration::ms(67)}, {Duration::ms(1), kTimeoutLimitMin}}) {
    Params p = params_with(2);
    p.adapt_timeout = true;
    p.rto_ceiling = Duration::ms(500);
    Sender s(p);
    s.sender.limit_timeouts(timeout);
    s.send();
    s.rtt = Duration::ms(100);
    s.ack(1, 0);
    EXPECT_EQ(s.sender.srtt(), s.rtt);
    EXPECT_EQ(s.sender.base_rto(), rto);
  }
}

TEST(StreamSender, ATimeoutMarksWhatIsNotSackedAndNothingElse) {
  Sender s(params_with(4, 4));
  s.send();
  s.ack(0, 1);
  s.send();
  s.now = s.sender.next_deadline(true);
  s.sender.on_deadline(s.now);
  EXPECT_EQ(s.sender.in_flight(), 0u);
  s.send(1);
  EXPECT_EQ(s.index(s.last.psn), 0);
  s.send(1);
  EXPECT_EQ(s.index(s.last.psn), 2) << "1 was SACKed";
}

TEST(StreamSender, TheTailProbeLeavesThroughAClosedWindow) {
  Params p = params_with(4, 4);
  p.tail_probe = true;
  p.probe_floor = Duration::us(100);
  Sender s(p);
  s.send();
  EXPECT_EQ(s.sender.next_deadline(true) - s.now, Duration::us(100));
  s.now = s.sender.next_deadline(true);
  s.sender.on_deadline(s.now);
  ASSERT_EQ(s.send(), 1) << "one probe for each silence";
  EXPECT_EQ(s.last.kind, Kind::kProbe);
  EXPECT_EQ(s.index(s.last.psn), 3) << "its SACK shows every hole below it";
  EXPECT_EQ(s.sender.window().packets(), 4u);
}

TEST(StreamSender, AnUnreadyReceiverIsAskedAgainAfterTheWait) {
  Sender s(params_with(4));
  s.send();
  s.sender.pause(s.now, s.now + Duration::ms(1));
  EXPECT_FALSE(s.sender.choose(true).any());
  EXPECT_EQ(s.sender.next_deadline(true) - s.now, Duration::ms(1));
  s.now = s.sender.next_deadline(true);
  s.sender.on_deadline(s.now);
  ASSERT_EQ(s.send(1), 1);
  EXPECT_EQ(s.index(s.last.psn), 0);
}

TEST(StreamSender, AQuestionToAnUnreadyReceiverIsAskedUntilTheHeadOfLineMoves) {
  Sender s(params_with(4));
  s.send();
  s.sender.pause(s.now, s.now + Duration::ms(1));
  s.now = s.sender.next_deadline(true);
  s.sender.on_deadline(s.now);
  s.ack(0, 1);  // news, but not of the head of line
  ASSERT_EQ(s.send(1), 1);
  EXPECT_EQ(s.last.kind, Kind::kProbe);
  EXPECT_EQ(s.index(s.last.psn), 0);

  Sender t(params_with(4));
  t.send();
  t.sender.pause(t.now, t.now + Duration::ms(1));
  t.now = t.sender.next_deadline(true);
  t.sender.on_deadline(t.now);
  t.ack(1, 0);
  ASSERT_EQ(t.send(1), 1);
  EXPECT_EQ(t.last.kind, Kind::kNew) << "it moved";
}

TEST(StreamSender, ATimeoutThatTheOriginalOutlivesIsUndone) {
  Sender s(params_with(20));
  s.send();
  s.now += Duration::us(500);
  s.sender.on_deadline(s.now);
  ASSERT_EQ(s.counters.rto_expired, 1u);
  ASSERT_EQ(s.sender.window().packets(), 10u);
  ASSERT_EQ(s.send(3), 3);  // copies of 0, 1 and 2
  EXPECT_EQ(s.sender.in_flight(), 3u);
  s.ack(0, 4);  // the first copy of 4 arrived after all
  EXPECT_EQ(s.counters.timeouts_undone, 1u);
  EXPECT_GE(s.sender.window().packets(), 20u);
  EXPECT_EQ(s.sender.in_flight(), 19u) << "everything but 4 is on its way";
  s.ack(0, 5);
  EXPECT_EQ(s.counters.timeouts_undone, 1u) << "once";
}

TEST(StreamSender, ATimeoutStandsWhenACopyIsAcknowledgedFirstOrOnlyNewData) {
  Sender s(params_with(20));
  s.send(10);
  s.now += Duration::us(500);
  s.sender.on_deadline(s.now);
  s.send(3);
  s.ack(0, 0 + 1, wire::kMpAckReTx);
  s.ack(0, 4);
  EXPECT_EQ(s.counters.timeouts_undone, 0u);
  EXPECT_LE(s.sender.window().packets(), 11u);

  Sender t(params_with(20));
  t.send(2);
  t.now += Duration::us(500);
  t.sender.on_deadline(t.now);
  t.send(2);  // both again
  t.ack(2, 1, wire::kMpAckReTx);
  t.send(1);  // new, not outstanding at the timeout
  t.ack(3, 2);
  EXPECT_EQ(t.counters.timeouts_undone, 0u);
}

TEST(StreamSender, ATimeoutStandsWhenACopyMadeByTheNetworkComes) {
  Sender s(params_with(20));
  s.send(10);
  s.ack(0, 1);
  s.now += Duration::us(500);
  s.sender.on_deadline(s.now);
  ASSERT_EQ(s.counters.rto_expired, 1u);
  s.send(1);
  s.ack(2, 1);  // packet 1 once more: SACKed before the timeout
  EXPECT_EQ(s.counters.timeouts_undone, 0u);
  EXPECT_LE(s.sender.window().packets(), 11u);
}

TEST(StreamSender, WhatIsSentAfterATimeoutDoesNotUndoIt) {
  Sender s(params_with(20));
  s.send(2);
  s.now += Duration::us(500);
  s.sender.on_deadline(s.now);
  ASSERT_EQ(s.send(3), 3);  // both again, lost again, and packet 2
  s.now += Duration::ms(1);
  s.sender.on_deadline(s.now);
  ASSERT_EQ(s.counters.rto_expired, 2u);
  s.ack(0, 2);
  EXPECT_EQ(s.counters.timeouts_undone, 0u);
  EXPECT_LE(s.sender.window().packets(), 11u);
  s.ack(1, 0);  // now it is known
  EXPECT_EQ(s.counters.timeouts_undone, 1u);
}

TEST(StreamSender, TheTimeoutAllowsForTheVarianceOfTheRoundTrip) {
  Sender s(params_with(20));
  s.send(2);
  s.rtt = Duration::us(100);
  s.now += Duration::us(100);
  s.ack(1, 0);
  EXPECT_EQ(s.sender.base_rto(), Duration::us(500)) << "the floor";
  s.rtt = Duration::us(1100);
  s.now += Duration::us(1000);
  s.ack(2, 1);  // SRTT 225, RTTVAR 50 + (1000 - 50) / 4 = 287.5 us
  EXPECT_EQ(s.sender.base_rto(), Duration::ns(225'000 + 4 * 287'500));
}

TEST(StreamSender, AHeadOfLineThatIsHeldIsAskedForOnTimeoutAndOnOverflow) {
  for (const bool by_timeout : {true, false}) {
    Sender s(params_with(4, 4));
    s.send();
    for (const int i : {0, 1, 2}) s.ack(0, i);  // all SACKed, AACK stays: its RNR was lost
    if (by_timeout) {
      s.now = s.sender.next_deadline(true);
      s.sender.on_deadline(s.now);
    } else {
      s.overflow(0, 3);
    }
    ASSERT_GE(s.send(1), 1);
    EXPECT_EQ(s.index(s.last.psn), 0);
    EXPECT_EQ(s.last.kind, Kind::kProbe);
  }
}

}  // namespace
}  // namespace mprdma::transport
