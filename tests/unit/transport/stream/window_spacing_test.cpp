// A window of one packet that is still too much (D18): the time between two packets.
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "tests/support/print.hpp"
#include "tests/unit/transport/stream/lone_sender.hpp"
#include "tests/unit/transport/stream/many_path_sender.hpp"

namespace mprdma::transport {
namespace {

// A closed loop of single packets, each answered a round trip after it left.
class Loop : public Sender {
 public:
  explicit Loop(const Params& params) : Sender(params) {}

  // Sends the next packet, which has to leave now, and takes its acknowledgement.
  void exchange(bool marked) {
    ASSERT_EQ(send(1), 1);
    now += rtt;
    ++answered_;
    ack(answered_, answered_ - 1, marked ? wire::kMpAckEce : uint8_t{0});
  }
  void exchange_all(int count, bool marked) {
    for (int i = 0; i < count; ++i) {
      exchange(marked);
      if (sender.spaced()) wait();
    }
  }
  // The time until the next packet may leave, which passes.
  Duration wait() {
    const Time until = sender.next_deadline(true);
    const Duration length = until - now;
    now = until;
    sender.on_deadline(now);
    return length;
  }

 private:
  int answered_ = 0;
};

Params one_packet() {
  Params p = params_with(1);
  p.initial_rtt = Duration::us(16);
  p.rto_floor = Duration::ms(4);
  return p;
}

// Two packets' worth of marks more than not, an eighth each.
constexpr int kMarksFree = 16;

TEST(WindowSpacing, MarksAtOnePacketSpaceTheNextOnes) {
  Loop s(one_packet());
  s.rtt = Duration::us(16);
  s.exchange_all(kMarksFree, true);
  EXPECT_FALSE(s.sender.spaced()) << "a few marks space nothing";
  for (int eighths = 1; eighths <= 24; ++eighths) {
    s.exchange(true);
    ASSERT_TRUE(s.sender.spaced());
    EXPECT_EQ(s.send(), 0);
    EXPECT_EQ(s.sender.next_deadline(false), Time::never()) << "nobody waits for it";
    s.sender.on_deadline(s.now);
    EXPECT_EQ(s.send(), 0) << "a deadline of somebody else";
    EXPECT_EQ(s.wait(), s.rtt * eighths / 8);
  }
  EXPECT_EQ(s.counters.rto_expired, 0U);
}

TEST(WindowSpacing, AcknowledgementsWithoutMarksBringPacketsTogetherAgain) {
  Loop s(one_packet());
  s.exchange_all(kMarksFree + 8 * 30, true);  // a packet in 31 round trips
  s.exchange(false);
  EXPECT_EQ(s.wait(), s.rtt * 28) << "a sixteenth of 32 less";
  int more = 0;
  for (; s.sender.window().has_deficit(); ++more) s.exchange_all(1, false);
  EXPECT_GT(more, 40);
  EXPECT_LT(more, 70);
  EXPECT_EQ(s.window_raw(), Fixed16::kOneRaw) << "meanwhile the window does not grow";
  s.exchange(false);
  EXPECT_EQ(s.window_raw(), 2 * Fixed16::kOneRaw);
}

TEST(WindowSpacing, WhatIsPostedWhenTheTimeHasPassedLeavesAtOnce) {
  Loop s(one_packet());
  s.exchange_all(kMarksFree, true);
  s.backlog = false;
  s.exchange(true);
  s.sender.on_backlog(s.now);
  EXPECT_EQ(s.send(), 0);
  s.now += s.rtt;
  s.sender.on_backlog(s.now);
  EXPECT_EQ(s.send(), 1);
}

TEST(WindowSpacing, NobodyIsSilentForATimeout) {
  Loop s(one_packet());
  s.rtt = Duration::us(100);
  s.exchange_all(kMarksFree + 8 * 30, true);
  s.exchange(true);
  EXPECT_EQ(s.wait(), s.sender.base_rto() / 2);
}

// Packets far apart make congestion seem long ago.
TEST(WindowSpacing, TheInitialWindowComesBackWhenNothingIsOwed) {
  Params p = one_packet();
  p.initial_window = 8;
  p.path_policy = PathPolicy::kAckClocked;
  Loop s(p);
  s.exchange_all(14 + kMarksFree + 8 * 8, true);
  int unmarked = 0;
  for (; s.sender.window().has_deficit(); ++unmarked) {
    s.sender.on_backlog(s.now);
    ASSERT_EQ(s.window_raw(), Fixed16::kOneRaw) << unmarked;
    s.exchange_all(1, false);
  }
  EXPECT_GT(unmarked, 20);
  s.sender.on_backlog(s.now);
  EXPECT_EQ(s.window_raw(), 8 * Fixed16::kOneRaw);
}

// A wait between two packets is no rest after which the paths may have changed.
TEST(WindowSpacing, IsNoRestThatTheIdleRuleRestartsAfter) {
  Params p = one_packet();
  p.initial_window = 8;
  p.path_policy = PathPolicy::kAckClocked;
  p.restart = RestartRule::kIdle;
  Loop s(p);
  s.backlog = false;
  s.exchange_all(14 + kMarksFree + 8 * 20, true);
  s.sender.on_backlog(s.now);
  EXPECT_EQ(s.sender.stats().restarts, 0U);
  s.now += s.sender.srtt() * 100;
  s.sender.on_backlog(s.now);
  EXPECT_EQ(s.sender.stats().restarts, 1U);
}

TEST(WindowSpacing, ALongRestIsForgottenOnAnyPath) {
  for (const PathPolicy paths : {PathPolicy::kAckClocked, PathPolicy::kSingle}) {
    Params p = one_packet();
    p.path_policy = paths;
    p.restart = RestartRule::kNever;
    Loop s(p);
    s.exchange_all(kMarksFree + 8 * 30, true);  // a packet in 31 round trips
    s.now += s.rtt * 100;
    s.sender.on_backlog(s.now);
    EXPECT_TRUE(s.sender.window().has_deficit());
    s.now += s.rtt * 31 * 30;
    s.sender.on_backlog(s.now);
    EXPECT_FALSE(s.sender.window().has_deficit());
    s.exchange(true);
    EXPECT_FALSE(s.sender.spaced());
  }
}

// What left long ago is still the newest that is known of a path.
TEST(WindowSpacing, ACreditKeepsItsPathWhileItWaits) {
  Params p = many_paths::clocked_params(1);
  p.rto_floor = Duration::ms(4);
  many_paths::Stream s(p);
  for (int i = 0; i < kMarksFree + 8 * 20; ++i) {
    ASSERT_EQ(s.send(1).size(), 1U);
    s.pass(s.echo_age);
    s.ack(i + 1, i, 60'000, wire::kMpAckEce);
    if (s.sender.spaced()) s.time_out();
  }
  EXPECT_EQ(s.send(1), std::vector<uint16_t>{60'000});
}

TEST(WindowSpacing, CanBeOff) {
  Params p = one_packet();
  p.window_spacing = false;
  Loop s(p);
  for (int i = 0; i < 100; ++i) s.exchange(true);
  EXPECT_FALSE(s.sender.spaced());
}

// Swift may fall below one packet while what it sent before is in flight.
Params swift() {
  Params p = params_with(4);
  p.window_control = cc::WindowControl::kSwift;
  p.base_rtt = p.target_delay = Duration::us(16);
  return p;
}

// Sends the whole window; each acknowledgement takes so long that it falls below one packet.
void fall_below_one(Sender& s) {
  s.rtt = Duration::us(200);
  ASSERT_EQ(s.send(), 4);
  for (int i = 0; i < 4; ++i) {
    EXPECT_FALSE(s.sender.spaced()) << "before the last packet in flight is acknowledged";
    s.now += s.rtt;
    s.ack(i + 1, i);
  }
}

TEST(WindowSpacing, WaitsForTheLastPacketInFlight) {
  Sender s(swift());
  fall_below_one(s);
  EXPECT_EQ(s.sender.window().spacing().floor(), 3U);
  EXPECT_TRUE(s.sender.spaced());
}

// The peer is not asked meanwhile, so that its silence means nothing.
TEST(WindowSpacing, ACopyWaitsForItsTimeAndNobodyGivesUp) {
  Params p = swift();
  p.loss_trigger = 2;
  Sender s(p);
  s.rtt = Duration::us(200);
  ASSERT_EQ(s.send(), 4);
  for (int i = 1; i < 4; ++i) {  // the first one is lost
    s.now += s.rtt;
    s.ack(0, i);
  }
  ASSERT_TRUE(s.sender.spaced());
  EXPECT_EQ(s.send(), 0);
  const Time until = s.sender.next_deadline(true);
  EXPECT_GE(until, s.now + s.rtt);
  s.now = until;
  s.sender.on_deadline(s.now);
  EXPECT_EQ(s.sender.last_progress(), s.now);
  EXPECT_EQ(s.sender.next_deadline(true), s.now + s.sender.base_rto()) << "silence begins anew";
  ASSERT_EQ(s.send(1), 1);
  EXPECT_EQ(s.last.kind, StreamSender::Choice::Kind::kRetransmit);
}

// Swift knows congestion by delay: the last mark may never have come.
TEST(WindowSpacing, APostForgetsNothingWhereNothingMarks) {
  Sender s(swift());
  fall_below_one(s);
  s.now += Duration::us(10);
  s.sender.on_backlog(s.now);
  EXPECT_TRUE(s.sender.spaced());
  EXPECT_TRUE(s.sender.window().has_deficit());
}

TEST(WindowSpacing, TheWaitForAnUnreadyReceiverTakesItsPlace) {
  Sender s(swift());
  s.rtt = Duration::us(200);
  ASSERT_EQ(s.send(), 4);
  for (int i = 1; i < 4; ++i) {
    s.now += s.rtt;
    s.ack(0, i);
  }
  s.now += s.rtt;
  s.ack(1, 1, 0, wire::NackCode::kRnr);  // the others came before it, and it holds them
  ASSERT_TRUE(s.sender.spaced());
  const Time until = s.now + Duration::ms(100);
  s.sender.pause(s.now, until);
  EXPECT_FALSE(s.sender.spaced());
  EXPECT_EQ(s.sender.next_deadline(true), until);
  s.sender.on_backlog(s.now + Duration::ms(50));
  EXPECT_EQ(s.sender.last_progress(), until) << "the peer is not silent before";
}

}  // namespace
}  // namespace mprdma::transport
