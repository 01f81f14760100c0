// Acknowledgements of runs, and of packets for which the receiver kept the acknowledgement back.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "base/prng.hpp"
#include "tests/support/print.hpp"
#include "tests/unit/transport/stream/lone_sender.hpp"
#include "transport/stream/stream_sender_steady.hpp"

namespace mprdma::transport {
namespace {

using AckResult = StreamSender::AckResult;

constexpr uint32_t kOne = Fixed16::kOneRaw;

// An acknowledgement of the packets sack - run .. sack.
wire::Packet ack_of_run(const Sender& s, int sack, int run, uint32_t delay_us = 0) {
  wire::Packet ack;
  ack.opcode = wire::Opcode::kMpAck;
  ack.psn = s.psn(sack + 1);
  ack.mp_ack.flags = wire::kMpAckSackValid;
  ack.mp_ack.sack = s.psn(sack);
  ack.mp_ack.run = static_cast<uint8_t>(run);
  ack.mp_ack.echoed_timestamp = static_cast<uint32_t>((s.now - s.rtt).ns());
  ack.mp_ack.delay_us = static_cast<uint8_t>(delay_us);
  return ack;
}

TEST(AckRun, CountsForEachOfItsPackets) {
  Sender s(params_with(4), Psn(kPsnMask - 1));  // across the wrap
  s.send();
  EXPECT_EQ(s.sender.on_ack(s.now, ack_of_run(s, 2, 2), true), AckResult::kProgress);
  EXPECT_EQ(s.sender.una(), Psn(1));
  EXPECT_EQ(s.sender.in_flight(), 1u);
  Sender each(params_with(4), Psn(kPsnMask - 1));
  each.send();
  for (int i = 0; i < 3; ++i) each.ack(i + 1, i);
  EXPECT_EQ(s.window_raw(), each.window_raw());
  EXPECT_GT(s.window_raw(), 4 * kOne + kOne / 2) << "the window grew with each packet";
}

TEST(AckRun, TheTimeThatItWasKeptIsNotPartOfTheRoundTrip) {
  Sender s(params_with(4));
  s.send();
  s.rtt = Duration::us(100);
  s.sender.on_ack(s.now, ack_of_run(s, 0, 0, 30), true);
  EXPECT_EQ(s.sender.srtt(), Duration::us(70));
}

TEST(AckRun, WhoKeptItTooLongToSayGivesNoSample) {
  Sender s(params_with(4));
  s.send();
  s.rtt = Duration::us(900);
  s.sender.on_ack(s.now, ack_of_run(s, 0, 0, wire::kMpAckDelayMax), true);
  EXPECT_EQ(s.sender.stats().srtt_ns, 0);
  EXPECT_EQ(s.index(s.sender.una()), 1) << "an acknowledgement all the same";
  s.rtt = Duration::us(10);
  s.sender.on_ack(s.now, ack_of_run(s, 1, 0), true);
  EXPECT_EQ(s.sender.srtt(), Duration::us(10));
}

TEST(AckRun, APeerThatClaimsToHaveKeptItLongerThanTheRoundTripIsNotBelieved) {
  Sender s(params_with(4));
  s.send();
  s.rtt = Duration::us(50);
  s.sender.on_ack(s.now, ack_of_run(s, 0, 0, 254), true);
  EXPECT_EQ(s.sender.srtt(), Duration::us(50));
}

TEST(AckRun, GivesOneSampleOfTheRoundTrip) {
  Sender s(params_with(4));
  s.send();
  s.ack(1, 0);  // SRTT 10 us
  s.rtt = Duration::us(90);
  s.sender.on_ack(s.now, ack_of_run(s, 3, 2), true);
  EXPECT_EQ(s.sender.srtt(), Duration::us(20)) << "an eighth of the way";
}

// ---- What a run may claim
// Reaches back before what is outstanding: those packets were acknowledged.
TEST(AckRun, ARunThatIsTooLongCountsForWhatIsOutstanding) {
  Sender honest(params_with(8));
  Sender s(params_with(8));
  for (Sender* sender : {&honest, &s}) {
    sender->send();
    sender->ack(1, 0);
  }
  honest.sender.on_ack(honest.now, ack_of_run(honest, 3, 2), true);
  s.sender.on_ack(s.now, ack_of_run(s, 3, 255), true);
  EXPECT_EQ(s.index(s.sender.una()), 4);
  EXPECT_EQ(s.window_raw(), honest.window_raw());
  EXPECT_EQ(s.sender.in_flight(), honest.sender.in_flight());
}

TEST(AckRun, PacketsThatWereNeverSentAreNotAcknowledged) {
  Sender s(params_with(4));
  s.send();
  EXPECT_EQ(s.sender.on_ack(s.now, ack_of_run(s, 300, 200), true), AckResult::kGhost);
  EXPECT_EQ(s.sender.in_flight(), 4u);
  EXPECT_EQ(s.sender.on_ack(s.now, ack_of_run(s, 4, 2), true), AckResult::kProgress);
  EXPECT_EQ(s.index(s.sender.una()), 4) << "what the run names of the packets that were sent";
  EXPECT_TRUE(s.sender.idle());
  EXPECT_LT(s.window_raw(), 5 * kOne);
}

TEST(AckRun, WhateverAnAcknowledgementSaysTheStreamStaysWhole) {
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    Prng prng(seed);
    Sender s(params_with(16), Psn(kPsnMask - 100));
    for (int step = 0; step < 200; ++step) {
      s.send(static_cast<int>(prng.below(8)), prng.chance(1, 2));
      s.now += Duration::us(static_cast<int64_t>(prng.below(200)));
      if (s.sender.next_deadline(true) <= s.now) s.sender.on_deadline(s.now);
      const int una = s.index(s.sender.una());
      wire::Packet ack = ack_of_run(s, una + static_cast<int>(prng.below(24)) - 4,
                                    static_cast<int>(prng.below(prng.chance(1, 2) ? 8 : 256)));
      if (prng.chance(1, 4)) ack.psn = s.psn(una + static_cast<int>(prng.below(24)) - 4);
      if (prng.chance(1, 4)) ack.mp_ack.flags = static_cast<uint8_t>(prng.below(64));
      if (prng.chance(1, 4)) ack.mp_ack.nack = static_cast<wire::NackCode>(prng.below(9));
      if (prng.chance(1, 4)) ack.vp = static_cast<uint16_t>(prng.next_u64());
      const Psn nxt = s.sender.nxt();
      s.sender.on_ack(s.now, ack, prng.chance(1, 2));
      ASSERT_EQ(s.sender.nxt(), nxt) << "seed " << seed;
      ASSERT_TRUE(s.sender.una().at_or_before(nxt)) << "seed " << seed;
      ASSERT_GE(s.index(s.sender.una()), una) << "seed " << seed << ": nothing moves back";
      ASSERT_LE(s.sender.in_flight(), s.sender.span()) << "seed " << seed;
      ASSERT_LE(s.sender.window().packets(), 200u) << "seed " << seed;
    }
  }
}

// ---- A run against its packets one by one -------------------------------------------------------

class NoSink final : public TraceSink {
 public:
  void on_event(const TraceEvent&) override {}
};

// Two streams with the same packets and the same receiver. The first takes runs. The second takes
// an acknowledgement of each packet, without the short ways, which a traced stream does not have.
class Twins {
 public:
  Twins(const Params& params, uint64_t seed)
      : prng_(seed), runs_(params, &counters_[0]), each_(params, &counters_[1], {.sink = &sink_}) {
    for (StreamSender* s : {&runs_, &each_}) {
      s->reset(kFirst, 50'000, Prng(seed));
      s->on_backlog(now_);
    }
  }

  void step() {
    now_ += Duration::us(static_cast<int64_t>(prng_.below(prng_.chance(1, 30) ? 20'000 : 30)));
    if (runs_.next_deadline(has_new_) <= now_) {
      for (StreamSender* s : {&runs_, &each_}) s->on_deadline(now_);
    }
    const bool was_new = has_new_;
    has_new_ = prng_.chance(3, 4);
    if (has_new_ && !was_new) {
      for (StreamSender* s : {&runs_, &each_}) s->on_backlog(now_);
    }
    if (prng_.chance(1, 16)) {
      for (StreamSender* s : {&runs_, &each_}) s->on_back_pressure();
    }
    send(prng_.below(12));
    if (runs_.idle()) return;
    now_ += Duration::us(1);  // no round trip takes no time
    if (prng_.chance(1, 12)) return sack_behind_a_hole();
    acknowledge();
  }

  void expect_same() const {
    ASSERT_EQ(runs_.una(), each_.una());
    ASSERT_EQ(runs_.nxt(), each_.nxt());
    ASSERT_EQ(runs_.window().exact().raw(), each_.window().exact().raw());
    ASSERT_EQ(runs_.credits(), each_.credits());
    ASSERT_EQ(runs_.in_flight(), each_.in_flight());
    ASSERT_EQ(runs_.srtt(), each_.srtt());
    ASSERT_EQ(runs_.base_rto(), each_.base_rto());
    for (const bool has_new : {false, true}) {
      ASSERT_EQ(runs_.next_deadline(has_new), each_.next_deadline(has_new));
      ASSERT_EQ(runs_.choose(has_new).kind, each_.choose(has_new).kind);
      ASSERT_EQ(runs_.choose(has_new).psn, each_.choose(has_new).psn);
    }
    ASSERT_TRUE(counters_[0] == counters_[1]);
  }
  [[nodiscard]] uint64_t steady_runs() const { return steady_runs_; }

 private:
  static constexpr Psn kFirst = Psn(kPsnMask - 200);

  void send(uint64_t most) {
    for (; most > 0; --most) {
      const StreamSender::Choice choice = runs_.choose(has_new_);
      if (!choice.any()) return;
      if (choice.kind == StreamSender::Choice::Kind::kNew) sent_[choice.psn.value()] = now_;
      const bool steady = runs_.steady() && choice.kind == StreamSender::Choice::Kind::kNew;
      const uint16_t vp = steady ? runs_.send_steady(now_) : runs_.on_sent(now_, choice);
      ASSERT_EQ(vp, each_.on_sent(now_, choice));
    }
  }
  // What the receiver answers to the packets sack - run .. sack.
  void tell(Psn aack, Psn sack, uint32_t run, uint8_t flags) {
    wire::Packet ack;
    ack.opcode = wire::Opcode::kMpAck;
    ack.vp = static_cast<uint16_t>(prng_.chance(1, 8) ? 7 : 50'000 + prng_.below(8));
    ack.psn = aack;
    ack.mp_ack.flags = static_cast<uint8_t>(flags | wire::kMpAckSackValid);
    ack.mp_ack.sack = sack;
    ack.mp_ack.run = static_cast<uint8_t>(run);
    ack.mp_ack.echoed_timestamp = static_cast<uint32_t>(sent_[sack.value()].ns());
    ack.mp_ack.delay_us = static_cast<uint8_t>(prng_.chance(1, 8) ? 255 : prng_.below(6));
    steady_runs_ += run > 0 && runs_.steady() ? 1 : 0;
    runs_.on_ack(now_, ack, has_new_);
    for (uint32_t left = run + 1; left-- > 0;) {
      wire::Packet one = ack;
      one.mp_ack.run = 0;
      if (left > 0) one.mp_ack.delay_us = wire::kMpAckDelayMax;  // only the last gives a sample
      if (run > 0) one.psn = (one.mp_ack.sack = sack - left) + 1;
      each_.on_ack(now_, one, has_new_);
    }
  }
  void acknowledge() {
    Psn end = received_up_to_;
    const auto most = static_cast<uint32_t>(received_up_to_.distance_to(runs_.nxt()));
    const uint64_t wanted = prng_.range(1, 10);
    uint32_t count = 0;
    while (count < std::min<uint64_t>(most, wanted) && !ahead_.contains(end.value())) {
      ++end;
      ++count;
    }
    const bool fills = ahead_.contains(end.value());
    if (count == 0) return;
    if (prng_.chance(1, 10) || fills) {  // not plain: one packet, at once
      const Psn sack = received_up_to_++;
      while (ahead_.erase(received_up_to_.value()) > 0) ++received_up_to_;
      return tell(received_up_to_, sack, 0, prng_.chance(1, 2) ? wire::kMpAckEce : 0);
    }
    received_up_to_ = end;
    tell(end, end - 1, count - 1, 0);
  }
  void sack_behind_a_hole() {
    const auto open = static_cast<uint32_t>(received_up_to_.distance_to(runs_.nxt()));
    if (open < 2) return;
    const Psn sack = received_up_to_ + static_cast<uint32_t>(prng_.range(1, open - 1));
    ahead_.insert(sack.value());
    tell(received_up_to_, sack, 0, 0);
  }

  Prng prng_;
  NoSink sink_;
  TransportCounters counters_[2];
  StreamSender runs_;
  StreamSender each_;
  Time now_ = Time::from_ns(5'000'000);
  bool has_new_ = true;
  Psn received_up_to_ = kFirst;
  std::set<uint32_t> ahead_;
  std::map<uint32_t, Time> sent_;  // by PSN
  uint64_t steady_runs_ = 0;
};

TEST(AckRun, LeavesTheStreamAsItsPacketsOneByOneWould) {
  uint64_t steady_runs = 0;
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    Params params;
    if (seed % 3 == 0) params.path_policy = PathPolicy::kSingle;
    if (seed % 3 == 1) params.limit_growth = !params.limit_growth;
    params.initial_window = static_cast<uint32_t>(4 + seed % 13);
    Twins twins(params, seed);
    for (int step = 0; step < 300; ++step) {
      twins.step();
      twins.expect_same();
      if (::testing::Test::HasFatalFailure()) FAIL() << "seed " << seed << ", step " << step;
    }
    steady_runs += twins.steady_runs();
  }
  EXPECT_GT(steady_runs, 1'000u) << "the short way was taken";
}

}  // namespace
}  // namespace mprdma::transport
