// How often a packet explores a path, and what it may take: stream_sender_credits.cpp.
#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "tests/support/print.hpp"
#include "tests/unit/transport/stream/many_path_sender.hpp"

namespace mprdma::transport {
namespace {

using many_paths::clocked_params;
using many_paths::Stream;
using Paths = std::vector<uint16_t>;

TEST(PathExploration, OncePerRoundTripAPacketProbesANewPath) {
  Params p = clocked_params(8);
  p.path_probe_per_mille = 1000;
  Stream s(p);
  s.send();
  int strange = 0;
  int acked = 0;
  for (int round = 0; round < 10; ++round) {
    s.pass(Duration::us(10));
    for (int i = 0; i < 8; ++i, ++acked) {
      s.ack(acked + 1, acked, 50'001);
      for (const uint16_t vp : s.send()) strange += vp == 50'001 ? 0 : 1;
    }
  }
  EXPECT_EQ(strange, 10);
  EXPECT_EQ(s.counters.path_probes, 10u);
}

// A path that is explored may have a queue, which takes longer than the quarter of a round trip
// that packets on known paths have.
TEST(PathExploration, APacketThatExploresHasTwoRoundTripsBeforeItIsLate) {
  Params p = clocked_params(4);
  p.path_policy = PathPolicy::kRecycled;
  p.path_probe_per_mille = 1000;
  p.loss_by_time = true;
  Stream s(p);
  s.send();
  int acked = 0;
  for (int round = 0; round < 40; ++round) {
    s.pass(Duration::us(10));
    for (int i = 0; i < 4; ++i, ++acked) s.ack(acked + 1, acked, 50'001);
    const Paths paths = s.send();
    ASSERT_NE(paths[0], 50'001) << "the first of each round trip explores";
    ASSERT_EQ(paths[1], 50'001);
  }
  s.pass(Duration::us(10));
  for (int i = 1; i < 4; ++i) s.ack(acked, acked + i, 50'001);
  const auto look_at = [&, from = s.now](int us) {
    s.now = from + Duration::us(us - 10);
    if (s.sender.next_deadline(true) <= s.now) s.sender.on_deadline(s.now);
    return s.counters.retransmitted_early;
  };
  EXPECT_EQ(look_at(19), 0u);
  EXPECT_EQ(look_at(21), 1u) << "but not for ever";
}

TEST(PathExploration, LongRoundTripsProbeMoreOftenButNotMoreThanOneInTen) {
  for (const auto& [rtt_us, expected] : {std::pair{10, 1}, {500, 50}, {20'000, 100}}) {
    Params p = clocked_params(2);
    p.path_probe_per_mille = 1;
    p.path_probe_interval = Duration::ms(10);
    p.initial_rtt = Duration::us(rtt_us);
    Stream s(p);
    s.echo_age = p.initial_rtt;
    s.send();
    for (int round = 0; round < 2000; ++round) {
      s.pass(p.initial_rtt);
      s.ack(round + 1, round, 50'001);
      s.send();
    }
    const auto probes = static_cast<int>(s.counters.path_probes);
    EXPECT_NEAR(probes, 2 * expected, 0.4 * expected + 3) << rtt_us << " us";
  }
}

// The packets that explore in 4000 round trips of 10 us with so many packets each, where each fifth
// round trip is to have one.
int explored(uint32_t packets, Duration probe_floor) {
  Params p = clocked_params(packets);
  p.path_probe_per_mille = 200;
  p.tail_probe = true;
  p.probe_floor = probe_floor;
  Stream s(p);
  s.echo_age = Duration::us(10);
  s.send();
  int acked = 0;
  for (int round = 0; round < 4000; ++round) {
    s.pass(Duration::us(10));
    for (uint32_t i = 0; i < packets; ++i, ++acked) s.ack(acked + 1, acked, 50'001);
    s.send();
  }
  return static_cast<int>(s.counters.path_probes);
}

TEST(PathExploration, AnOnlyPacketExploresAsMuchRarerAsItsTailProbeIsFar) {
  EXPECT_NEAR(explored(2, Duration::us(400)), 800, 100) << "another packet shows the loss";
  EXPECT_NEAR(explored(1, Duration::us(20)), 800, 100);
  EXPECT_NEAR(explored(1, Duration::us(40)), 400, 80) << "two round trips of four";
  EXPECT_NEAR(explored(1, Duration::us(400)), 40, 25);
}

TEST(PathExploration, AnOnlyPacketExploresHoweverFarItsTailProbeIs) {
  EXPECT_GE(explored(1, Duration::ms(100)), 1);
}

}  // namespace
}  // namespace mprdma::transport
