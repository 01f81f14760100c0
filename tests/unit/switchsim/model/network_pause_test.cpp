// Priority flow control: when a pause takes effect, that nothing lossless is lost, what else it
// holds up.
#include <gtest/gtest.h>

#include <algorithm>

#include "switchsim/model/network.hpp"
#include "tests/unit/switchsim/model/support.hpp"

namespace mprdma::switchsim {
namespace {

constexpr uint32_t kBytes = 1000;
constexpr uint32_t kHysteresis = 3000;
const PortConfig kPort = port_of(40, SimSpan::us(1));

SimTime at_ns(int64_t ns) {
  return SimTime() + SimSpan::ns(ns);
}

// PFC with a static threshold and as much memory as anybody asks for.
Topology with_pfc(Topology topology, uint64_t pause_bytes) {
  topology.pfc.on = true;
  topology.pfc.pause_bytes = pause_bytes;
  topology.pfc.hysteresis_bytes = kHysteresis;
  topology.pfc.mtu_bytes = kBytes;
  return topology;
}

uint64_t drops(const Recorder& run) {
  uint64_t sum = 0;
  for (PortId port = 0; port < run.net.topology().ports(); ++port) {
    const LinkCounters& counters = run.net.counters(port);
    sum += counters.drop_queue + counters.drop_buffer;
  }
  return sum;
}

// ---- When

// host 0 - switch - host 1; port 2 is the switch's to host 1.
TEST(NetworkPause, TakesEffectAfterTheWayBackAndAtTheBoundaryOfAPacket) {
  Recorder run(config_of(with_pfc(chain(1, kPort), 1'000'000)));
  for (uint32_t i = 0; i < 30; ++i) run.send(0, 1, kBytes, i);
  // Packet i leaves the switch at 1200 + 200 i ns.
  run.net.run_until(at_ns(2450));
  run.net.set_host_pausing(1, true);
  run.net.run_until(at_ns(3449));
  EXPECT_FALSE(run.net.pause_state(2).paused);
  run.net.run_until(at_ns(3450));
  EXPECT_TRUE(run.net.pause_state(2).paused);
  run.net.run_until(at_ns(6000));
  run.net.check();
  ASSERT_EQ(run.arrivals.size(), 12U);  // packet 11 was halfway out
  EXPECT_EQ(run.arrivals.back().at, at_ns(1200 + 11 * 200 + 1200));
  run.net.set_host_pausing(1, false);  // takes effect at 7000
  run.run_checked();
  ASSERT_EQ(run.arrivals.size(), 30U);
  EXPECT_EQ(run.arrivals[12].at, at_ns(7000 + 1200));
  EXPECT_EQ(run.arrivals[29].at, at_ns(7000 + 1200 + 17 * 200));
  const PauseState state = run.net.pause_state(2);
  EXPECT_FALSE(state.paused);
  EXPECT_EQ(state.pause_sent, 1U);
  EXPECT_EQ(state.paused_time, SimSpan::ns(7000 - 3450));
  EXPECT_EQ(run.net.pause_state(0).pause_sent, 0U);
}

TEST(NetworkPause, ASignalTakesTheDelayOfTheWayBack) {
  Topology topology = with_pfc(chain(1, kPort), 1'000'000);
  topology.links[1].ba.delay = SimSpan::us(3);
  Recorder run(config_of(topology));
  run.net.set_host_pausing(1, true);
  run.net.run_until(at_ns(2999));
  EXPECT_FALSE(run.net.pause_state(2).paused);
  run.net.run_until(at_ns(3000));
  EXPECT_TRUE(run.net.pause_state(2).paused);
}

TEST(NetworkPause, AHostIsNotPulledWhileItsNicIsPaused) {
  // The switch cannot pass anything on: host 1 has paused it.
  Recorder run(config_of(with_pfc(chain(1, kPort), 5 * kBytes)));
  run.net.set_host_pausing(1, true);
  run.net.run_until(at_ns(1000));
  for (uint32_t i = 0; i < 60; ++i) run.backlog[0].push_back(run.make(1, kBytes, i));
  run.net.want_pull(0);
  run.run_checked();
  EXPECT_TRUE(run.net.pause_state(0).paused);
  EXPECT_FALSE(run.net.nic_idle(0));
  EXPECT_EQ(run.arrivals.size(), 0U);
  // The host sent before the pause came: five packets that fit, the sixth, whose arrival sent the
  // pause, and ten in the 2 us after that one had left.
  EXPECT_EQ(run.backlog[0].size(), 60U - 5 - 1 - 10);
  run.net.set_host_pausing(1, false);
  run.run_checked();
  EXPECT_EQ(run.arrivals.size(), 60U);
  EXPECT_EQ(run.backlog[0].size(), 0U);
  EXPECT_GT(run.net.pause_state(0).pause_sent, 0U);
  for (uint32_t i = 0; i < run.arrivals.size(); ++i) EXPECT_EQ(run.arrivals[i].contents, i);
}

// Without a delay, the sender knows at once: 40 Gb/s into 10.
TEST(NetworkPause, BeginsAboveTheThresholdAndEndsTheHysteresisBelowIt) {
  constexpr uint64_t kThreshold = 20 * kBytes;
  Topology topology = with_pfc(chain(1, port_of(40, SimSpan())), kThreshold);
  topology.links[1].ab.rate = LinkRate::gbps(10);
  Recorder run(config_of(topology));
  for (uint32_t i = 0; i < 200; ++i) run.send(0, 1, kBytes, i);
  bool paused = false;
  uint32_t changes = 0;
  while (run.net.step()) {
    run.net.check();
    if (run.net.pause_state(0).paused == paused) continue;
    paused = !paused;
    ++changes;
    // One event earlier or later, a packet has come or gone.
    const uint64_t bytes = run.net.queue_bytes(2);
    EXPECT_NEAR(static_cast<double>(bytes),
                static_cast<double>(paused ? kThreshold + kBytes : kThreshold - kHysteresis),
                kBytes);
  }
  EXPECT_GT(changes, 20U);
  EXPECT_EQ(run.net.pause_state(0).pause_sent, (changes + 1) / 2);
  EXPECT_EQ(run.arrivals.size(), 200U);
  EXPECT_EQ(drops(run), 0U);
}

TEST(NetworkPause, SignalsOnALongWayStayInOrderAndTheLastOneCounts) {
  Recorder run(config_of(with_pfc(chain(1, port_of(40, SimSpan::us(100))), 1'000'000)));
  for (uint32_t i = 0; i < 5 * PauseSignals::kMax; ++i) {
    for (const bool pausing : {true, false}) {
      run.net.set_host_pausing(1, pausing);
      run.net.check();
      run.net.run_until(run.net.now() + SimSpan::ns(100));
    }
  }
  run.run_checked();
  EXPECT_FALSE(run.net.pause_state(2).paused);
  EXPECT_EQ(run.net.pause_state(2).pause_sent, 5 * PauseSignals::kMax);
  run.send(0, 1, kBytes);
  run.run_checked();
  EXPECT_EQ(run.arrivals.size(), 1U);
}

// ---- Nothing is lost

// All other hosts send to host 0, as much as they can.
Recorder& incast(uint32_t packets, Recorder& run) {
  const uint32_t hosts = run.net.topology().hosts;
  for (uint32_t i = 0; i < packets; ++i) {
    for (NodeId from = 1; from < hosts; ++from) run.backlog[from].push_back(run.make(0, kBytes, i));
  }
  for (NodeId from = 1; from < hosts; ++from) run.net.want_pull(from);
  run.run_checked();
  return run;
}

Topology small_buffer(Headroom headroom, uint64_t headroom_bytes = 0) {
  Topology topology = star(9, kPort);
  topology.pfc.on = true;
  topology.pfc.mtu_bytes = kBytes;
  topology.pfc.headroom = headroom;
  topology.pfc.headroom_bytes = headroom_bytes;
  topology.reserve_bytes = 2000;
  topology.buffer_alpha_q16 = 1 << 13;  // 1/8
  topology.switch_buffer_bytes = dedicated_bytes(topology)[0] + 40'000;
  return topology;
}

TEST(NetworkPause, WithHeadroomAnIncastLosesNothing) {
  for (const Headroom headroom : {Headroom::kAuto, Headroom::kHpcc}) {
    Recorder run(config_of(small_buffer(headroom)));
    incast(150, run);
    EXPECT_EQ(drops(run), 0U);
    EXPECT_EQ(run.arrivals.size(), 8 * 150U);
    for (PortId nic = 2; nic < 18; nic += 2) {
      EXPECT_GT(run.net.pause_state(nic).pause_sent, 0U);
      EXPECT_GT(run.net.pause_state(nic).paused_time, SimSpan());
      EXPECT_GT(run.net.pause_state(nic).headroom_peak_bytes, 0U);
    }
    EXPECT_EQ(run.net.buffer(9).bytes(), 0U);
  }
}

TEST(NetworkPause, WithoutEnoughHeadroomAnIncastLosesPackets) {
  Recorder run(config_of(small_buffer(Headroom::kBytes, 4 * kBytes)));
  incast(150, run);
  EXPECT_GT(drops(run), 0U);
  EXPECT_EQ(drops(run), run.net.counters(1).drop_buffer);
  EXPECT_EQ(run.arrivals.size() + run.dropped.size(), 8 * 150U);
}

// A sender at full speed into a switch that can pass nothing on. The way takes a picosecond more
// than five packets, so that the pause comes just after a packet has begun: the worst case.
uint64_t drops_of_blocked_switch(uint64_t headroom_bytes, uint64_t* headroom_peak) {
  const SimSpan delay = SimSpan::us(1) + SimSpan::ps(1);
  Topology topology = with_pfc(chain(1, port_of(40, delay)), 20 * kBytes);
  if (headroom_bytes != 0) {
    topology.pfc.headroom = Headroom::kBytes;
    topology.pfc.headroom_bytes = headroom_bytes;
  }
  Recorder run(config_of(topology));
  run.net.set_host_pausing(1, true);
  run.net.run_until(SimTime() + SimSpan::us(2));
  for (uint32_t i = 0; i < 100; ++i) run.send(0, 1, kBytes, i);
  run.run_checked();
  *headroom_peak = run.net.pause_state(0).headroom_peak_bytes;
  return drops(run);
}

TEST(NetworkPause, TheComputedHeadroomIsEnoughWithNoneToSpare) {
  uint64_t peak = 0;
  EXPECT_EQ(drops_of_blocked_switch(0, &peak), 0U);
  EXPECT_EQ(peak, 12 * kBytes);  // 2 x 40 Gb/s x 1 us + 2 MTU
  EXPECT_GT(drops_of_blocked_switch(12 * kBytes - 1, &peak), 0U);
}

TEST(NetworkPause, TheSameRunGivesTheSameArrivals) {
  Recorder first(config_of(small_buffer(Headroom::kAuto)));
  Recorder second(config_of(small_buffer(Headroom::kAuto)));
  EXPECT_EQ(incast(100, first).arrivals, incast(100, second).arrivals);
}

TEST(NetworkPause, ALinkThatIsCutLeavesNobodyPausedForEver) {
  Recorder run(config_of(small_buffer(Headroom::kAuto)));
  for (uint32_t i = 0; i < 100; ++i) {
    for (NodeId from = 1; from < 9; ++from) run.send(from, 0, kBytes);
  }
  while (!run.net.pause_state(2).paused) ASSERT_TRUE(run.net.step());
  run.net.set_link_up(0, false);  // host 0's
  run.net.check();
  run.net.run_until(run.net.now() + SimSpan::us(50));
  run.net.set_link_up(1, false);  // and a sender's
  run.net.set_link_up(0, true);
  run.run_checked();
  for (PortId port = 0; port < 18; ++port) EXPECT_FALSE(run.net.pause_state(port).paused) << port;
  run.net.set_link_up(1, true);
  const size_t before = run.arrivals.size();
  run.send(1, 0, kBytes);
  run.run_checked();
  EXPECT_EQ(run.arrivals.size(), before + 1);
}

TEST(NetworkPause, WithoutHeadroomAndWithoutRoomNobodyIsPausedForEver) {
  Topology topology = small_buffer(Headroom::kBytes, 0);
  topology.reserve_bytes = 0;
  topology.switch_buffer_bytes = 3 * kBytes;
  topology.buffer_alpha_q16 = 1 << 16;
  Recorder run(config_of(topology));
  incast(50, run);
  EXPECT_GT(drops(run), 0U);
  EXPECT_EQ(run.arrivals.size() + run.dropped.size(), 8 * 50U);
  for (NodeId host = 1; host < 9; ++host) EXPECT_TRUE(run.backlog[host].empty()) << host;
}

// ---- Two classes

TEST(NetworkPause, TheRestIsDroppedAndNeverPaused) {
  Topology topology = small_buffer(Headroom::kAuto);
  Recorder run(config_of(topology));
  for (uint32_t i = 0; i < 150; ++i) {
    for (NodeId from = 1; from < 9; ++from) {
      const PacketId id = run.make(0, kBytes, from * 1000 + i);
      run.net.packet(id).priority = from % 2 == 0 ? kLosslessPriority : uint8_t{1};
      run.net.send(from, id);
    }
  }
  run.run_checked();
  EXPECT_GT(run.dropped.size(), 0U);
  std::vector<uint32_t> last(9);
  for (const uint32_t contents : run.dropped) EXPECT_EQ(contents / 1000 % 2, 1U);
  for (const Arrival& arrival : run.arrivals) {
    EXPECT_GE(arrival.contents % 1000, last[arrival.contents / 1000]);  // in order in its class
    last[arrival.contents / 1000] = arrival.contents % 1000;
  }
  for (NodeId from = 1; from < 9; ++from) {
    EXPECT_EQ(run.net.pause_state(2 * from).pause_sent > 0, from % 2 == 0) << from;
  }
}

TEST(NetworkPause, ClassesThatBothWaitShareTheWireByteByByte) {
  Topology topology = with_pfc(star(3, kPort), 10'000'000);
  Recorder run(config_of(topology));
  for (uint32_t i = 0; i < 400; ++i) run.send(1, 0, kBytes, 1);
  for (uint32_t i = 0; i < 400; ++i) {
    const PacketId id = run.make(0, 250, 2);
    run.net.packet(id).priority = 1;
    run.net.send(2, id);
  }
  run.net.run_until(SimTime() + SimSpan::us(30));
  std::vector<uint64_t> bytes(3);
  for (const Arrival& arrival : run.arrivals) {
    bytes[arrival.contents] += arrival.contents == 1 ? kBytes : 250;
  }
  EXPECT_NEAR(static_cast<double>(bytes[1]), static_cast<double>(bytes[2]), 2 * kBytes);
  run.run_checked();
  EXPECT_EQ(run.arrivals.size(), 800U);
}

TEST(NetworkPause, TheRestPassesAPausedNicAndTheLosslessWaits) {
  Recorder run(config_of(with_pfc(chain(1, kPort), kBytes)));
  run.net.set_host_pausing(1, true);
  for (uint32_t i = 0; i < 20; ++i) run.send(0, 1, kBytes, i);
  run.run_checked();
  ASSERT_TRUE(run.net.pause_state(0).paused);
  const size_t before = run.arrivals.size();
  for (uint32_t i = 0; i < 3; ++i) {
    const PacketId id = run.make(1, kBytes, 100 + i);
    run.net.packet(id).priority = 1;
    run.net.send(0, id);
  }
  run.run_checked();
  ASSERT_EQ(run.arrivals.size(), before + 3);
  EXPECT_EQ(run.arrivals.back().contents, 102U);
  EXPECT_TRUE(run.net.pause_state(0).paused);
}

// ---- What it costs others

// Host 0 sends to host 2, whose link has a quarter of the rate, host 1 to host 3; both cross the
// link between the switches. Returns the share of its link that the innocent flow gets.
double innocent_share(bool pfc) {
  Topology topology;
  topology.hosts = 4;
  topology.switches = 2;
  for (const auto& [host, node] : {std::pair{0U, 4U}, {1U, 4U}, {2U, 5U}, {3U, 5U}}) {
    topology.links.push_back({host, node, kPort, kPort, ""});
  }
  topology.links.push_back({4, 5, port_of(100, SimSpan::us(1)), port_of(100, SimSpan::us(1)), ""});
  topology.links[2].ba.rate = LinkRate::gbps(10);
  topology.links[2].ba.queue_bytes_max = 100'000;
  topology.switch_buffer_bytes = 400'000;
  if (pfc) topology = with_pfc(topology, 50'000);
  Recorder run(config_of(topology));
  for (uint32_t i = 0; i < 2000; ++i) {
    for (const NodeId from : {0U, 1U}) run.backlog[from].push_back(run.make(from + 2, kBytes));
  }
  for (const NodeId from : {0U, 1U}) run.net.want_pull(from);
  const SimTime end = at_ns(2000 * 200);
  run.net.run_until(end);
  run.net.check();
  EXPECT_EQ(drops(run) > 0, !pfc);
  const auto arrived = std::count_if(run.arrivals.begin(), run.arrivals.end(),
                                     [](const Arrival& arrival) { return arrival.host == 3; });
  return static_cast<double>(arrived) * 200e3 / static_cast<double>(end.ps());
}

TEST(NetworkPause, AnInnocentFlowIsBlockedBehindAPausedOne) {
  EXPECT_GT(innocent_share(false), 0.97);
  EXPECT_LT(innocent_share(true), 0.5);
}

TEST(NetworkPause, WithoutPfcNobodyIsPaused) {
  Recorder run(config_of(star(3, kPort)));
  run.net.set_host_pausing(0, true);
  for (uint32_t i = 0; i < 20; ++i) run.send(1, 0, kBytes);
  run.run_checked();
  EXPECT_EQ(run.arrivals.size(), 20U);
  EXPECT_EQ(run.net.pause_state(1).pause_sent, 0U);
}

}  // namespace
}  // namespace mprdma::switchsim
