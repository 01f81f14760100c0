// Faults and changes while packets are on their way.
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "switchsim/model/network.hpp"
#include "tests/unit/switchsim/model/support.hpp"

namespace mprdma::switchsim {
namespace {

constexpr uint32_t kBytes = 1000;
constexpr int64_t kWirePs = 200'000;  // at 40 Gb/s
const PortConfig kPort = port_of(40, SimSpan::us(1));

SimTime at_ns(int64_t ns) {
  return SimTime() + SimSpan::ns(ns);
}

TEST(NetworkChange, ALinkThatGoesDownLosesItsQueueAndWhatIsOnTheWireForGood) {
  Recorder run(config_of(chain(1, kPort)));
  for (uint32_t i = 0; i < 10; ++i) run.send(0, 1, kBytes, i);
  run.net.run_until(at_ns(700));  // 0 to 2 are out, 3 is halfway out, 4 to 9 wait
  run.net.set_link_up(0, false);
  run.net.check();
  EXPECT_EQ(run.dropped.size(), 10U);
  EXPECT_EQ(run.net.packets_in_use(), 0U);
  run.net.run_until(at_ns(750));
  run.net.set_link_up(0, true);
  run.send(0, 1, kBytes, 10);  // before the others would have arrived
  run.run_checked();
  ASSERT_EQ(run.arrivals.size(), 1U);
  EXPECT_EQ(run.arrivals[0].contents, 10U);
  EXPECT_EQ(run.arrivals[0].at.ps(), 750'000 + 2 * (kWirePs + 1'000'000));
  EXPECT_EQ(run.net.counters(0).packets, 5U);
  EXPECT_EQ(run.net.counters(0).drop_down, 10U);
}

TEST(NetworkChange, BothDirectionsGoDownAndOtherLinksKeepWhatTheyHold) {
  Recorder run(config_of(chain(1, kPort)));
  run.send(0, 1, kBytes, 1);
  run.send(1, 0, kBytes, 2);
  run.net.run_until(at_ns(1300));  // both have passed the switch
  run.net.set_link_up(0, false);   // host 0's
  run.run_checked();
  ASSERT_EQ(run.arrivals.size(), 1U);
  EXPECT_EQ(run.arrivals[0].contents, 1U);
  EXPECT_EQ(run.dropped, (std::vector<uint32_t>{2}));
  EXPECT_EQ(run.net.counters(1).drop_down, 1U);
}

TEST(NetworkChange, WhatIsSentIntoADownLinkIsDroppedAndCounted) {
  Recorder run(config_of(chain(1, kPort)));
  run.net.set_link_up(0, false);
  EXPECT_FALSE(run.net.nic_idle(0));
  run.send(0, 1, kBytes, 4);
  EXPECT_EQ(run.dropped, (std::vector<uint32_t>{4}));
  EXPECT_EQ(run.net.counters(0).drop_down, 1U);
}

TEST(NetworkChange, AHostIsPulledWhenItsLinkComesUpAgain) {
  Recorder run(config_of(chain(1, kPort)));
  run.net.set_link_up(0, false);
  for (uint32_t i = 0; i < 3; ++i) run.backlog[0].push_back(run.make(1, kBytes, i));
  run.net.want_pull(0);
  run.run_checked();
  EXPECT_EQ(run.backlog[0].size(), 3U);
  run.net.set_link_up(0, true);
  run.run_checked();
  EXPECT_EQ(run.arrivals.size(), 3U);
}

TEST(NetworkChange, ARateChangeTakesEffectWithTheNextPacket) {
  Recorder run(config_of(chain(1, kPort)));
  for (uint32_t i = 0; i < 3; ++i) run.send(0, 1, kBytes, i);
  run.net.run_until(at_ns(100));
  run.net.set_rate(0, LinkRate::gbps(10));
  run.run_checked();
  ASSERT_EQ(run.arrivals.size(), 3U);
  const int64_t first = 2 * (kWirePs + 1'000'000);
  EXPECT_EQ(run.arrivals[0].at.ps(), first);
  EXPECT_EQ(run.arrivals[1].at.ps(), first + 4 * kWirePs);
  EXPECT_EQ(run.arrivals[2].at.ps(), first + 8 * kWirePs);
}

TEST(NetworkChange, ARateThatDividesNoByteIsRoundedUpPerPacket) {
  PortConfig port = kPort;
  port.rate = LinkRate::bps(7'000'000'000);
  Recorder run(config_of(chain(1, port)));
  run.send(0, 1, kBytes);
  run.run_checked();
  EXPECT_EQ(run.arrivals[0].at.ps(), 2 * (1'142'858 + 1'000'000));
}

TEST(NetworkChange, AShorterDelayMakesNoPacketOvertake) {
  Recorder run(config_of(chain(1, kPort)));
  run.send(0, 1, kBytes, 0);
  run.net.run_until(at_ns(300));
  run.net.set_delay(0, SimSpan::ns(100));
  run.send(0, 1, kBytes, 1);  // would arrive at the switch at 600 ns, packet 0 does at 1200
  run.net.run_until(at_ns(5000));
  run.send(0, 1, kBytes, 2);
  run.run_checked();
  ASSERT_EQ(run.arrivals.size(), 3U);
  EXPECT_EQ(run.arrivals[0].at, at_ns(2400));
  EXPECT_EQ(run.arrivals[1].contents, 1U);
  EXPECT_EQ(run.arrivals[1].at, at_ns(2600));
  EXPECT_EQ(run.arrivals[2].at, at_ns(5000 + 200 + 100 + 1200));
}

TEST(NetworkChange, ALongerDelayCountsFromTheNextPacket) {
  Recorder run(config_of(chain(1, kPort)));
  run.send(0, 1, kBytes, 0);
  run.net.set_delay(0, SimSpan::us(5));
  run.run_checked();
  run.send(0, 1, kBytes, 1);
  run.run_checked();
  EXPECT_EQ(run.arrivals[0].at, at_ns(2400));
  EXPECT_EQ(run.arrivals[1].at, at_ns(2400 + 6400));
}

TEST(NetworkChange, RandomLossHasItsRateInItsDirectionOnly) {
  constexpr uint32_t kPackets = 100'000;
  PortConfig port = kPort;
  port.queue_bytes_max = UINT64_MAX;
  NetworkConfig config = config_of(chain(1, port));
  config.packets_max = 2 * kPackets;
  Recorder run(config);
  run.net.set_loss(0, 10'000);  // 1 %
  for (uint32_t i = 0; i < kPackets; ++i) {
    run.send(0, 1, kBytes);
    run.send(1, 0, kBytes);
  }
  run.net.run_until(SimTime::never());
  run.net.check();
  const auto lost = static_cast<double>(run.net.counters(0).drop_loss);
  EXPECT_NEAR(lost, 0.01 * kPackets, 4 * std::sqrt(0.01 * 0.99 * kPackets));
  EXPECT_EQ(run.net.counters(0).packets, kPackets);  // they did leave
  EXPECT_EQ(run.net.counters(1).drop_loss, 0U);
  EXPECT_EQ(run.arrivals.size(), 2 * kPackets - run.net.counters(0).drop_loss);
}

// Hosts 0 and 1 on leaves 2 and 3, spines 4 to 7; links 2 to 5 are leaf 2's, 6 to 9 leaf 3's.
class Fabric : public testing::Test {
 protected:
  static NetworkConfig config(bool reroute) {
    NetworkConfig result = config_of(leaf_spine(2, 4, 1, kPort, kPort));
    result.reroute = reroute;
    result.reroute_after = SimSpan::us(50);
    return result;
  }
  // Sends one packet of each of 400 flows; returns how many arrive.
  static size_t deliver(Recorder& run) {
    const size_t before = run.arrivals.size();
    for (uint64_t flow = 0; flow < 400; ++flow) run.send(0, 1, kBytes, 0, mix64(flow));
    run.net.run_until(run.net.now() + SimSpan::us(200));
    return run.arrivals.size() - before;
  }
  static std::vector<PortId> paths(const Recorder& run) {
    std::vector<PortId> result;
    for (uint64_t flow = 0; flow < 400; ++flow) {
      std::vector<PortId> path(8);
      path.resize(run.net.path_of(0, 1, mix64(flow), path));
      result.insert(result.end(), path.begin(), path.end());
    }
    return result;
  }
};

TEST_F(Fabric, AllPathsAreUsedAndPathOfTellsWhich) {
  Recorder run(config(false));
  std::vector<uint64_t> expected(run.net.topology().ports());
  for (const PortId port : paths(run)) ++expected[port];
  EXPECT_EQ(deliver(run), 400U);
  for (PortId port = 0; port < expected.size(); ++port) {
    EXPECT_EQ(run.net.counters(port).packets, expected[port]) << port;
  }
  for (LinkId link = 2; link < 6; ++link) EXPECT_GT(run.net.counters(link * 2).packets, 60U);
}

TEST_F(Fabric, WithoutReroutingADeadLinkIsABlackHole) {
  Recorder run(config(false));
  run.net.set_link_up(2, false);
  const size_t first = deliver(run);
  EXPECT_LT(first, 340U);
  EXPECT_EQ(deliver(run), first);
  EXPECT_EQ(run.net.counters(4).drop_down, 2 * (400 - first));
}

TEST_F(Fabric, ReroutingLeavesOutADeadLinkAfterTheDelayAndTakesItBack) {
  Recorder run(config(true));
  const auto whole = paths(run);
  run.net.set_link_up(2, false);
  run.net.run_until(SimTime::from_ps(49'999'999));
  EXPECT_EQ(paths(run), whole);
  run.net.run_until(SimTime() + SimSpan::us(50));
  EXPECT_EQ(deliver(run), 400U);
  EXPECT_EQ(run.net.counters(4).packets, 0U);
  run.net.set_link_up(2, true);
  EXPECT_EQ(deliver(run), 400U);
  EXPECT_EQ(paths(run), whole);
}

TEST_F(Fabric, ReroutingReachesTheSwitchAtTheOtherEnd) {
  Recorder run(config(true));
  run.net.set_link_up(6, false);  // the first spine to leaf 3: leaf 2 must not use that spine
  EXPECT_LT(deliver(run), 400U);  // all left before the change was known
  EXPECT_EQ(deliver(run), 400U);
}

TEST_F(Fabric, ASwitchWithoutAnyWayOnCountsTheDropWhereThePacketCameIn) {
  Recorder run(config(true));
  for (LinkId link = 2; link < 6; ++link) run.net.set_link_up(link, false);
  run.net.run_until(SimTime() + SimSpan::us(50));
  EXPECT_EQ(deliver(run), 0U);
  EXPECT_EQ(run.net.counters(0).drop_route, 400U);
  std::vector<PortId> path(8);
  EXPECT_EQ(run.net.path_of(0, 1, 1, path), 0U);
}

TEST_F(Fabric, ALinkThatFlapsFasterThanTheDelayIsJudgedByItsLastState) {
  Recorder run(config(true));
  const auto whole = paths(run);
  run.net.set_link_up(2, false);
  run.net.run_until(SimTime() + SimSpan::us(40));
  run.net.set_link_up(2, true);
  run.net.run_until(SimTime() + SimSpan::us(60));
  EXPECT_EQ(paths(run), whole);
  EXPECT_EQ(deliver(run), 400U);
}

}  // namespace
}  // namespace mprdma::switchsim
