// Losses by time: what is late, when nothing else tells, and what comes of a wrong verdict.
#include <gtest/gtest.h>

#include "tests/support/print.hpp"
#include "tests/unit/transport/stream/lone_sender.hpp"
#include "transport/stream/send_times.hpp"

namespace mprdma::transport {
namespace {

using Kind = StreamSender::Choice::Kind;

// A packet is late at the largest round trip + SRTT/4, and at SRTT + 4 RTTVAR, whatever is more.
Params timed(uint32_t window) {
  Params p = params_with(window);
  p.loss_by_time = true;
  return p;
}

// Round trips of 10 us, for so long that much is known and they vary no more.
void warm_up(Sender& s, int* next) {
  for (int i = 0; i < 40; ++i, ++*next) {
    s.send(1);
    s.now += s.rtt;
    s.ack(*next + 1, *next);
  }
}

TEST(LossByTime, APacketIsLateWhenALaterOneHasArrivedAndTheLargestRoundTripHasPassed) {
  Sender s(timed(8));
  int next = 0;
  warm_up(s, &next);
  s.send(4);
  s.now += s.rtt;
  s.ack(next, next + 2);
  EXPECT_EQ(s.counters.retransmitted_early, 0u);
  const Duration late = s.sender.next_deadline(false) - s.now;
  EXPECT_GE(late, Duration::ns(2500)) << "a quarter of SRTT after the largest round trip";
  EXPECT_LE(late, Duration::ns(2700));
  s.now += late;
  s.sender.on_deadline(s.now);
  EXPECT_EQ(s.counters.retransmitted_early, 2u) << "both below, none above";
  ASSERT_EQ(s.send(1, false), 1);
  EXPECT_EQ(s.last.kind, Kind::kRetransmit);
  EXPECT_EQ(s.index(s.last.psn), next);
}

TEST(LossByTime, AHeadOfLineThatTheReceiverWasNotReadyForIsNotLate) {
  Sender s(timed(8));
  int next = 0;
  warm_up(s, &next);
  s.send(1);
  s.now += Duration::us(5);
  s.send(2);
  s.now += Duration::us(5);
  const uint32_t window = s.window_raw();
  s.ack(next, next + 1);
  s.sender.pause(s.now, s.now + Duration::us(40));  // the RNR NAK of the first
  s.now += Duration::us(30);
  s.ack(next, next + 2);
  EXPECT_EQ(s.sender.next_deadline(true) - s.now, Duration::us(10)) << "the end of the wait";
  s.now = s.sender.next_deadline(true);
  s.sender.on_deadline(s.now);
  s.ack(next, next + 2);  // before the question leaves
  s.sender.on_deadline(s.now);
  EXPECT_EQ(s.counters.retransmitted_early, 0u);
  EXPECT_GE(s.window_raw(), window);
  ASSERT_EQ(s.send(8), 1);
  EXPECT_EQ(s.last.kind, Kind::kProbe) << "it is asked, not lost";
  EXPECT_EQ(s.index(s.last.psn), next);
}

TEST(LossByTime, ALongerPathIsNotLate) {
  Sender s(timed(8));
  int next = 0;
  warm_up(s, &next);
  for (int round = 0; round < 20; ++round) {  // one of two paths takes 9 us more
    s.send(2);
    s.now += Duration::us(10);
    s.rtt = Duration::us(10);
    s.ack(next, next + 1);
    s.sender.on_deadline(s.now);
    if (round > 0) {
      s.now += Duration::us(9);
      if (s.sender.next_deadline(false) <= s.now) s.sender.on_deadline(s.now);
    }
    s.rtt = round > 0 ? Duration::us(19) : Duration::us(10);
    s.ack(next + 2, next);
    next += 2;
  }
  EXPECT_LE(s.counters.retransmitted_early, 1u) << "once, before it is known";
}

// Sends so many packets, of which the second arrives and the first is held for lost. Its copy
// leaves. Returns the first.
int lose_first(Sender& s, int packets) {
  int next = 0;
  warm_up(s, &next);
  s.send(packets);
  s.now += s.rtt;
  s.ack(next, next + 1);
  s.now = s.sender.next_deadline(false);
  s.sender.on_deadline(s.now);
  EXPECT_EQ(s.send(1, false), 1);
  return next;
}

TEST(LossByTime, ACopyIsLateOnlyWhenSomethingSentAfterItHasArrived) {
  Sender s(timed(8));
  const int next = lose_first(s, 3);  // and the copy is lost, too
  s.now += Duration::us(1);
  s.rtt = Duration::us(14);  // of the third packet, which left before the copy
  s.ack(next, next + 2);
  s.now += Duration::us(100);
  s.ack(next, next + 2);
  EXPECT_EQ(s.counters.retransmitted_early, 1u);
  s.send(1);  // another one, after the copy
  s.now += Duration::us(20);
  s.rtt = Duration::us(20);
  s.ack(next, next + 3);
  s.now += Duration::us(20);
  s.ack(next, next + 3);
  EXPECT_EQ(s.counters.retransmitted_early, 2u);
}

TEST(LossByTime, WhoWasWrongIsMorePatient) {
  Sender s(timed(8));
  int next = 0;
  warm_up(s, &next);
  Duration patience[2];
  for (Duration& p : patience) {
    s.send(2);
    s.now += Duration::us(10);
    s.rtt = Duration::us(10);
    s.ack(next, next + 1);
    p = s.sender.next_deadline(false) - s.now;
    s.now += p;
    s.sender.on_deadline(s.now);
    EXPECT_EQ(s.send(1, false), 1);
    s.ack(next + 2, next);  // the original
    next += 2;
    for (int i = 0; i < 40; ++i) {  // the long round trip is forgotten
      s.send(1);
      s.now += Duration::us(10);
      s.ack(next + 1, next);
      ++next;
    }
  }
  EXPECT_GE(patience[1], patience[0] * 3 / 2);
}

constexpr uint32_t kHalf = Fixed16::kOneRaw / 2;

TEST(LossByTime, APacketThatWasNotLostGivesTheWindowBack) {
  for (const bool original : {true, false}) {
    Sender s(timed(8));
    const int lost = lose_first(s, 2);
    const uint32_t window = s.window_raw();
    // Marked, so that the acknowledgement itself takes as much.
    const uint8_t copy = original ? 0 : wire::kMpAckReTx;
    s.ack(lost + 2, lost, wire::kMpAckEce | copy);
    EXPECT_EQ(s.counters.losses_undone, original ? 1U : 0U);
    EXPECT_EQ(s.window_raw(), original ? window : window - kHalf);
    s.ack(lost + 2, lost);  // the network copied it
    EXPECT_EQ(s.counters.losses_undone, original ? 1U : 0U);
  }
}

TEST(LossByTime, AcrossTheWrapOfThePsn) {
  Sender s(timed(8), Psn(kPsnMask - 41));
  int next = 0;
  warm_up(s, &next);
  s.send(4);
  s.now += s.rtt;
  s.ack(next, next + 3);
  s.now = s.sender.next_deadline(false);
  s.sender.on_deadline(s.now);
  EXPECT_EQ(s.counters.retransmitted_early, 3u);
}

// ---- Tail probes -------------------------------------------------------------------------------

Params probing() {
  Params p = timed(8);
  p.tail_probe = true;
  p.probe_floor = Duration::us(50);
  p.rto_floor = Duration::ms(4);
  return p;
}

TEST(TailProbes, FiveRoundsComeAtOnceAndOthersEverLater) {
  Sender s(probing());
  int next = 0;
  warm_up(s, &next);
  s.send(3);
  const Time silent = s.now;
  const int64_t expected_us[] = {50, 100, 150, 200, 250, 350, 550, 950, 1750, 3350};
  for (int round = 0; round < 10; ++round) {
    s.now = s.sender.next_deadline(false);
    EXPECT_EQ((s.now - silent).count_ns(), expected_us[round] * 1000) << round;
    s.sender.on_deadline(s.now);
    ASSERT_EQ(s.send(9, false), round == 0 ? 1 : 2);
    EXPECT_EQ(s.index(s.last.psn), round == 0 ? next + 2 : next);
    EXPECT_EQ(s.last.kind, Kind::kProbe);
  }
  s.now = s.sender.next_deadline(false);
  s.sender.on_deadline(s.now);
  EXPECT_EQ(s.counters.rto_expired, 1u);
}

TEST(TailProbes, ItsAcknowledgementShowsTheHolesBelow) {
  Sender s(probing());
  int next = 0;
  warm_up(s, &next);
  s.send(3);
  s.now = s.sender.next_deadline(false);
  s.sender.on_deadline(s.now);
  ASSERT_EQ(s.send(9, false), 1);
  s.now += s.rtt;
  s.ack(next, next + 2, wire::kMpAckReTx);
  EXPECT_EQ(s.counters.retransmitted_early, 2u) << "they left long before the probe";
}

// The first packets of a connection: 50 us is the round trip that it begins with.
Params first_packets() {
  Params p = probing();
  p.initial_window = 16;
  p.initial_rtt = Duration::us(50);
  p.adapt_timeout = false;
  return p;
}

// How long the sender waits for its fourth packet, which leaves at the time that is given, when the
// third comes after 200 us with these flags.
Duration patience_with_the_fourth(Duration leaves, uint8_t flags) {
  Sender s(first_packets());
  s.send(3);
  s.now += leaves;
  s.send(1);
  s.now += Duration::us(200) - leaves;
  s.rtt = Duration::us(200);
  s.ack(0, 2, flags);
  s.ack(2, 1, flags);
  s.ack(3, 0, flags);
  return s.sender.next_deadline(false) - s.now;
}

TEST(TailProbes, OfTheFirstPacketsThoseThatLeftTogetherComeTogether) {
  EXPECT_EQ(patience_with_the_fourth(Duration::ns(0), 0), Duration::us(400)) << "2 SRTT";
  EXPECT_EQ(patience_with_the_fourth(Duration::us(60), 0), Duration::us(600));
}

// A pair of ways in four works where half of the paths are dead: the tries of a first packet must
// not become rare while they are few.
TEST(TailProbes, BeforeTheFirstSampleFiveRoundsComeSoon) {
  Sender s(first_packets());
  const Time began = s.now;
  s.send(1);
  std::vector<int64_t> rounds;
  while (rounds.size() < 7) {
    s.now = s.sender.next_deadline(false);
    s.sender.on_deadline(s.now);
    ASSERT_GT(s.send(9, false), 0);
    rounds.push_back((s.now - began).count_ns() / 1000);
  }
  EXPECT_EQ(rounds, (std::vector<int64_t>{500, 600, 700, 800, 900, 1100, 1500}));
}

TEST(TailProbes, AQueueThatMarksMayGrowWhileLittleIsKnown) {
  EXPECT_EQ(patience_with_the_fourth(Duration::us(60), wire::kMpAckEce), Duration::us(1000));
}

// ---- Send times --------------------------------------------------------------------------------

TEST(SendTimes, NothingSeemsOlderThanItIs) {
  SendTimes times;
  const Time start = Time::from_ns(1'000'000'000);
  const Duration grain = Duration::us(1);
  constexpr int kPackets = 200;
  const auto sent = [&](int i) { return start + Duration::ns(137) * i; };
  for (int i = 0; i < kPackets; ++i) times.note(sent(i), Psn(kPsnMask - 100) + uint32_t(i), grain);
  const Time now = sent(kPackets);
  for (int i = 0; i < kPackets; ++i) {
    const Time told = times.of(Psn(kPsnMask - 100) + uint32_t(i)).near(now);
    EXPECT_GT(told, sent(i) - Duration::ns(1)) << i;
    if (i >= kPackets - 100) {
      EXPECT_LE(told, sent(i) + grain + Duration::ns(137 + 64)) << i;
    }
  }
}

TEST(SendTimes, ACopyCountsFromItsLastTime) {
  CopyTimes copies(256);
  const Duration grain = Duration::us(3);
  Time now = Time::from_ns(77'000);
  for (int i = 0; i < 40; ++i, now += Duration::us(1))
    copies.note(now, Psn(uint32_t(i % 10)), grain);
  for (int i = 0; i < 10; ++i) {
    int found = 0;
    for (const CopyTimes::Generation& g : copies.generations()) {
      if (!g.psns.test(uint32_t(i))) continue;
      ++found;
      const Time sent = now - Duration::us(10 - i);
      EXPECT_GE(g.last.near(now), sent) << i;
      EXPECT_LE(g.last.near(now), sent + Duration::us(5)) << i;
    }
    EXPECT_EQ(found, 1) << i;
  }
  copies.forget(Psn(0), 10);
  EXPECT_FALSE(copies.any());
}

}  // namespace
}  // namespace mprdma::transport
