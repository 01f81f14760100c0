// Thresholds and reserves of a switch's memory. run_checked() holds, after every event, what
// accounts, ports and the buffer itself say of it against the packets that are there.
#include "switchsim/model/shared_buffer.hpp"

#include <gtest/gtest.h>

#include "tests/unit/switchsim/model/support.hpp"

namespace mprdma::switchsim {
namespace {

constexpr uint32_t kBytes = 1000;

uint32_t alpha(double value) {
  return static_cast<uint32_t>(value * 65536);
}

// Host i < queues receives from the hosts queues + 2 i and queues + 2 i + 1: twice its rate.
void overload(uint32_t queues, uint32_t packets, Recorder* run) {
  for (NodeId to = 0; to < queues; ++to) {
    for (const NodeId from : {queues + 2 * to, queues + 2 * to + 1}) {
      for (uint32_t i = 0; i < packets; ++i) run->send(from, to, kBytes);
    }
  }
}

TEST(SharedBuffer, QueuesThatWantMoreEndAtTheFixPointOfTheirThreshold) {
  constexpr uint64_t kBuffer = 300'000;
  for (const double a : {0.125, 0.5, 1.0, 2.0}) {
    for (const uint32_t queues : {1U, 2U, 4U}) {
      Topology topology = star(3 * queues, port_of(40, SimSpan::us(1)));
      topology.switch_buffer_bytes = kBuffer;
      topology.buffer_alpha_q16 = alpha(a);
      Recorder run(config_of(topology));
      overload(queues, 600, &run);
      run.net.run_until(SimTime() + SimSpan::us(100));
      run.net.check();
      const double expected = a * kBuffer / (1 + queues * a);
      // A packet is admitted whole, by what is free before it, and one may just have left.
      const double grain = (2 + queues * a) * kBytes;
      for (NodeId to = 0; to < queues; ++to) {
        EXPECT_NEAR(static_cast<double>(run.net.queue_bytes(2 * to + 1)), expected, grain)
            << a << ", " << queues << " queues";
        EXPECT_GT(run.net.counters(2 * to + 1).drop_buffer, 0U);
      }
      EXPECT_LE(run.net.buffer(topology.hosts).bytes(), kBuffer);
    }
  }
}

TEST(SharedBuffer, AReserveIsThereWhateverTheOthersHold) {
  constexpr uint32_t kReserve = 5 * kBytes;
  Topology topology = star(6, port_of(40, SimSpan::us(1)));
  topology.switch_buffer_bytes = 6 * kReserve + 40'000;  // 40 KB are for who comes first
  topology.reserve_bytes = kReserve;
  Recorder run(config_of(topology));
  for (uint32_t i = 0; i < 100; ++i) {
    for (const NodeId from : {2U, 3U}) run.send(from, 0, kBytes);
  }
  run.net.run_until(SimTime() + SimSpan::us(15));
  EXPECT_EQ(run.net.queue_bytes_peak(1), kReserve + 40'000);
  EXPECT_GT(run.net.counters(1).drop_buffer, 0U);
  for (uint32_t i = 0; i < 10; ++i) {
    for (const NodeId from : {4U, 5U}) run.send(from, 1, kBytes);
  }
  run.run_checked();
  EXPECT_GE(run.net.queue_bytes_peak(3), kReserve);
  EXPECT_EQ(run.net.buffer(6).shared_bytes(), 0U);
}

TEST(SharedBuffer, EveryByteComesBackWhenQueuesDrainOrTheirLinkIsCut) {
  Topology topology = star(6, port_of(40, SimSpan::us(1)));
  topology.switch_buffer_bytes = 40'000;
  topology.buffer_alpha_q16 = alpha(1);
  topology.reserve_bytes = 1500;
  Recorder run(config_of(topology));
  Prng prng(3);
  for (uint32_t i = 0; i < 60; ++i) {
    for (const NodeId from : {2U, 3U, 4U, 5U}) {
      run.send(from, static_cast<NodeId>(prng.below(2)),
               static_cast<uint32_t>(prng.range(64, 1500)));
    }
  }
  for (int i = 0; i < 300; ++i) {
    ASSERT_TRUE(run.net.step());
    run.net.check();
  }
  EXPECT_GT(run.net.buffer(6).shared_bytes(), 0U);
  run.net.set_link_up(0, false);
  run.net.check();
  run.run_checked();
  EXPECT_EQ(run.net.buffer(6).bytes(), 0U);
  EXPECT_EQ(run.net.buffer(6).shared_bytes(), 0U);
  EXPECT_EQ(run.net.packets_in_use(), 0U);
}

TEST(SharedBuffer, WhatIsAskedOfItDecidesHowItIsManaged) {
  Topology topology = star(3, port_of(40, SimSpan::us(1)));
  topology.switch_buffer_bytes = 1'000'000;
  EXPECT_FALSE(managed(topology));
  EXPECT_EQ(dedicated_bytes(topology), (std::vector<uint64_t>{0}));
  topology.reserve_bytes = 4096;
  EXPECT_TRUE(managed(topology));
  EXPECT_EQ(dedicated_bytes(topology), (std::vector<uint64_t>{3 * 4096}));
  topology.pfc.on = true;
  topology.pfc.mtu_bytes = kBytes;
  EXPECT_EQ(headroom_bytes(topology, 0), 10'000U + 2 * kBytes);  // 2 x 40 Gb/s x 1 us + 2 MTU
  EXPECT_EQ(headroom_bytes(topology, 1), 0U);                    // a host receives
  EXPECT_EQ(dedicated_bytes(topology), (std::vector<uint64_t>{3 * (2 * 4096 + 12'000)}));
  topology.pfc.headroom = Headroom::kHpcc;
  EXPECT_EQ(headroom_bytes(topology, 0), 15'000U);
  topology.pfc.headroom = Headroom::kBytes;
  topology.pfc.headroom_bytes = 7;
  EXPECT_EQ(headroom_bytes(topology, 0), 7U);
  // The way there and the way back may differ, and what is odd is rounded up.
  topology.pfc.headroom = Headroom::kAuto;
  topology.links[0].ba.delay = SimSpan::us(3);
  topology.links[0].ab.rate = LinkRate::bps(7'000'000'001);
  EXPECT_EQ(headroom_bytes(topology, 0), 3501U + 2 * kBytes);
}

}  // namespace
}  // namespace mprdma::switchsim
