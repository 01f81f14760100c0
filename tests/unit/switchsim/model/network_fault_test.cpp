// Faults that a scenario asks for: a switch that drops each n-th packet, packets that are flooded,
// classes that end with the VLAN, Global Pause, a port that is given up.
#include <gtest/gtest.h>

#include "switchsim/model/network.hpp"
#include "tests/unit/switchsim/model/support.hpp"

namespace mprdma::switchsim {
namespace {

constexpr uint32_t kBytes = 1000;
const PortConfig kPort = port_of(40, SimSpan::us(1));

Topology with_pfc(Topology topology) {
  topology.pfc.on = true;
  topology.pfc.pause_bytes = 1'000'000;
  topology.pfc.mtu_bytes = kBytes;
  return topology;
}

std::vector<uint32_t> contents_of(const Recorder& run) {
  std::vector<uint32_t> out;
  for (const Arrival& arrival : run.arrivals) out.push_back(arrival.contents);
  return out;
}

TEST(NetworkFault, EachNthPacketOfADirectionIsLost) {
  Topology topology = chain(1, kPort);
  topology.links[1].ab.drop_every = 3;
  Recorder run(config_of(topology));
  for (uint32_t i = 1; i <= 7; ++i) run.send(0, 1, kBytes, i);
  run.run_checked();
  EXPECT_EQ(contents_of(run), (std::vector<uint32_t>{1, 2, 4, 5, 7}));
  EXPECT_EQ(run.net.counters(2).drop_loss, 2U);
  run.send(1, 0, kBytes);
  run.send(1, 0, kBytes);
  run.send(1, 0, kBytes);
  run.run_checked();
  EXPECT_EQ(run.arrivals.size(), 8U) << "the other direction loses nothing";
}

TEST(NetworkFault, APacketForADeadHostLeavesByAllOtherPorts) {
  Topology topology = star(4, kPort);
  topology.flood = true;
  Recorder run(config_of(topology));
  run.net.set_link_up(3, false);
  run.send(0, 3, kBytes, 9);
  run.run_checked();
  EXPECT_TRUE(run.arrivals.empty()) << "nobody takes a copy";
  EXPECT_EQ(run.dropped, std::vector<uint32_t>{9}) << "the packet, once";
  for (const PortId port : {3U, 5U}) {  // of the switch, to hosts 1 and 2
    EXPECT_EQ(run.net.counters(port).flooded, 1U);
    EXPECT_EQ(run.net.counters(port).drop_flooded, 1U);
  }
  EXPECT_EQ(run.net.counters(1).flooded, 0U) << "not where it came from";
  EXPECT_EQ(run.net.counters(7).drop_down, 1U);
  EXPECT_EQ(run.net.packets_in_use(), 0U);
}

TEST(NetworkFault, WithoutFloodingItIsDropped) {
  Recorder run(config_of(star(4, kPort)));
  run.net.set_link_up(3, false);
  run.send(0, 3, kBytes, 9);
  run.run_checked();
  EXPECT_EQ(run.dropped, std::vector<uint32_t>{9});
  for (PortId port = 0; port < 8; ++port) EXPECT_EQ(run.net.counters(port).flooded, 0U);
}

// Host 0 - switch - switch - host 1, which pauses; port 4 is the last switch's to host 1.
TEST(NetworkFault, AClassInTheVlanEndsAtTheFirstSwitch) {
  for (const bool pcp : {false, true}) {
    Topology topology = with_pfc(chain(2, kPort));
    topology.pfc.pcp = pcp;
    Recorder run(config_of(topology));
    run.net.set_host_pausing(1, true);
    run.net.run_until(SimTime() + SimSpan::us(10));
    run.send(0, 1, kBytes);
    run.run_checked();
    EXPECT_EQ(run.arrivals.size(), pcp ? 1U : 0U) << "its class decides whether the pause stops it";
  }
}

TEST(NetworkFault, GlobalPauseStopsEveryClass) {
  for (const bool global : {false, true}) {
    Topology topology = with_pfc(chain(1, kPort));
    topology.pfc.global = global;
    Recorder run(config_of(topology));
    run.net.set_host_pausing(1, true);
    run.net.run_until(SimTime() + SimSpan::us(10));
    const PacketId id = run.make(1, kBytes);
    run.net.packet(id).priority = kLossyPriority;
    run.net.send(0, id);
    run.run_checked();
    EXPECT_EQ(run.arrivals.size(), global ? 0U : 1U);
  }
}

// The pause of one class leaves the host's other class to it.
TEST(NetworkFault, AHostThatIsPausedIsAskedForItsOtherClass) {
  for (const bool global : {false, true}) {
    Topology topology = with_pfc(chain(1, kPort));
    topology.pfc.pause_bytes = 2 * kBytes;
    topology.pfc.global = global;
    Recorder run(config_of(topology));
    run.net.set_host_pausing(1, true);
    run.net.run_until(SimTime() + SimSpan::us(10));
    for (uint32_t i = 0; i < 8; ++i) run.send(0, 1, kBytes, i);
    run.net.run_until(SimTime() + SimSpan::us(20));
    ASSERT_TRUE(run.net.pause_state(run.net.nic(0)).paused);
    EXPECT_FALSE(run.net.nic_takes(0, kLosslessPriority));
    EXPECT_EQ(run.net.nic_takes(0, kLossyPriority), !global);
    const PacketId id = run.make(1, kBytes);
    run.net.packet(id).priority = kLossyPriority;
    run.backlog[0].push_back(id);
    run.net.want_pull(0);
    run.net.run_until(SimTime() + SimSpan::us(40));
    EXPECT_EQ(run.arrivals.size(), global ? 0U : 1U);
    run.net.set_host_pausing(1, false);
    run.run_checked();
    EXPECT_EQ(run.arrivals.size(), 9U);
  }
}

// What the search for deadlocks asks.
TEST(NetworkFault, APauseEndsWhenSomethingLeavesAndTheRestIsBelowTheThreshold) {
  Topology topology = with_pfc(chain(1, kPort));
  topology.pfc.pause_bytes = 5 * kBytes;
  topology.pfc.hysteresis_bytes = 3 * kBytes;
  Recorder run(config_of(topology));
  run.net.set_host_pausing(1, true);
  run.net.run_until(SimTime() + SimSpan::us(10));
  for (uint32_t i = 0; i < 10; ++i) run.send(0, 1, kBytes, i);
  run.net.run_until(SimTime() + SimSpan::us(20));
  const PortId ingress = run.net.nic(0);
  const uint64_t total = run.net.queue_bytes(2);
  ASSERT_GT(total, 5 * kBytes) << "some of it in the headroom";
  EXPECT_TRUE(run.net.would_resume(ingress, 2 * kBytes, 0));
  EXPECT_FALSE(run.net.would_resume(ingress, 2 * kBytes + 1, 0));
  EXPECT_FALSE(run.net.would_resume(ingress, total, 0)) << "nothing leaves";
}

TEST(NetworkFault, AThresholdOfWhatIsFreeFallsWithWhatIsTaken) {
  Topology topology = with_pfc(chain(1, kPort));
  topology.pfc.pause_bytes = 0;
  topology.pfc.hysteresis_bytes = 15 * kBytes;
  topology.switch_buffer_bytes = 100 * kBytes;
  topology.buffer_alpha_q16 = 1 << 15;
  Recorder run(config_of(topology));
  run.net.set_host_pausing(1, true);
  run.net.run_until(SimTime() + SimSpan::us(10));
  for (uint32_t i = 0; i < 90; ++i) run.send(0, 1, kBytes, i);
  run.net.run_until(SimTime() + SimSpan::us(60));
  const PortId ingress = run.net.nic(0);
  ASSERT_TRUE(run.net.stopped(ingress));
  EXPECT_TRUE(run.net.would_resume(ingress, 10 * kBytes, 10 * kBytes));
  EXPECT_FALSE(run.net.would_resume(ingress, 10 * kBytes, 75 * kBytes)) << "13 KB are free";

  // Nothing of it waits in the headroom any more, and it is below the threshold of an empty switch.
  run.net.set_host_pausing(1, false);
  while (run.net.queue_bytes(2) > 24 * kBytes) ASSERT_TRUE(run.net.step());
  run.net.set_host_pausing(1, true);
  run.net.run_until(run.net.now() + SimSpan::us(5));
  ASSERT_TRUE(run.net.stopped(ingress));
  const uint64_t total = run.net.queue_bytes(2);
  EXPECT_TRUE(run.net.would_resume(ingress, total - 1, 0));
  EXPECT_FALSE(run.net.would_resume(ingress, total, 0)) << "no packet that leaves ends the pause";
}

// A port is stopped when the packets that it sent before the pause have arrived.
TEST(NetworkFault, WhatIsOnTheWireStopsBehindThePause) {
  Topology topology = with_pfc(chain(1, kPort));
  topology.pfc.pause_bytes = 2 * kBytes;
  Recorder run(config_of(topology));
  run.net.set_host_pausing(1, true);
  run.net.run_until(SimTime() + SimSpan::us(10));
  for (uint32_t i = 0; i < 20; ++i) run.send(0, 1, kBytes, i);
  const PortId nic = run.net.nic(0);
  while (!run.net.pause_state(nic).paused) ASSERT_TRUE(run.net.step());
  EXPECT_FALSE(run.net.stopped(nic));
  uint64_t waiting = run.net.queue_bytes(2);
  run.net.run_until(run.net.now() + SimSpan::us(2));
  EXPECT_TRUE(run.net.stopped(nic));
  EXPECT_GT(run.net.queue_bytes(2), waiting) << "they were on the wire";
  waiting = run.net.queue_bytes(2);
  run.net.run_until(run.net.now() + SimSpan::us(20));
  EXPECT_EQ(run.net.queue_bytes(2), waiting);
}

TEST(NetworkFault, APortThatIsGivenUpDropsUntilItIsTakenBack) {
  Recorder run(config_of(with_pfc(chain(1, kPort))));
  run.net.set_host_pausing(1, true);
  run.net.run_until(SimTime() + SimSpan::us(10));
  run.send(0, 1, kBytes, 1);
  run.run_checked();
  EXPECT_EQ(run.net.queue_bytes(2), kBytes);
  run.net.set_discarding(1, true);
  run.net.check();
  EXPECT_EQ(run.net.queue_bytes(2), 0U);
  run.send(0, 1, kBytes, 2);
  run.run_checked();
  EXPECT_EQ(run.dropped, (std::vector<uint32_t>{1, 2}));
  run.net.set_host_pausing(1, false);
  run.net.run_until(run.net.now() + SimSpan::us(10));
  run.send(0, 1, kBytes, 3);
  run.run_checked();
  EXPECT_EQ(run.dropped, (std::vector<uint32_t>{1, 2, 3})) << "also when the pause has ended";
  EXPECT_EQ(run.net.counters(2).drop_paused, 3U);
  run.net.set_discarding(1, false);
  run.send(0, 1, kBytes, 4);
  run.run_checked();
  EXPECT_EQ(contents_of(run), std::vector<uint32_t>{4});
}

}  // namespace
}  // namespace mprdma::switchsim
