// When packets arrive, to the picosecond.
#include <gtest/gtest.h>

#include "switchsim/model/network.hpp"
#include "tests/unit/switchsim/model/support.hpp"

namespace mprdma::switchsim {
namespace {

constexpr uint32_t kBytes = 1122;
constexpr int64_t kWirePs = 1122 * 200;  // at 40 Gb/s

TEST(NetworkTiming, ALonePacketIsStoredAndForwardedAtEveryHop) {
  for (uint32_t switches = 1; switches <= 5; ++switches) {
    Recorder run(config_of(chain(switches, port_of(40, SimSpan::us(1)))));
    run.send(0, 1, kBytes);
    run.run_checked();
    ASSERT_EQ(run.arrivals.size(), 1U);
    EXPECT_EQ(run.arrivals[0].at.ps(), (switches + 1) * (kWirePs + 1'000'000));
    EXPECT_EQ(run.net.packet_hops(), switches + 1);
    EXPECT_EQ(run.net.events_handled(), switches + 1);  // one event for each hop
    EXPECT_EQ(run.net.packets_in_use(), 0U);
  }
}

TEST(NetworkTiming, ABurstArrivesBackToBackBehindItsFirstPacket) {
  constexpr uint32_t kSwitches = 3;
  constexpr uint32_t kPackets = 50;
  Recorder run(config_of(chain(kSwitches, port_of(40, SimSpan::us(1)))));
  for (uint32_t i = 0; i < kPackets; ++i) run.send(0, 1, kBytes, i);
  run.run_checked();
  ASSERT_EQ(run.arrivals.size(), kPackets);
  for (uint32_t i = 0; i < kPackets; ++i) {
    EXPECT_EQ(run.arrivals[i].contents, i);
    EXPECT_EQ(run.arrivals[i].at.ps(), (kSwitches + 1) * (kWirePs + 1'000'000) + i * kWirePs);
  }
}

TEST(NetworkTiming, PulledPacketsLeaveBackToBackAndNeverQueue) {
  Recorder run(config_of(chain(2, port_of(40, SimSpan::us(1)))));
  for (uint32_t i = 0; i < 20; ++i) run.backlog[0].push_back(run.make(1, kBytes, i));
  run.net.want_pull(0);
  EXPECT_EQ(run.backlog[0].size(), 19U);  // the first one at once
  run.run_checked();
  ASSERT_EQ(run.arrivals.size(), 20U);
  EXPECT_EQ(run.arrivals.back().at.ps(), 3 * (kWirePs + 1'000'000) + 19 * kWirePs);
  for (PortId port = 0; port < run.net.topology().ports(); ++port) {
    EXPECT_EQ(run.net.queue_bytes_peak(port), 0U);
  }
}

}  // namespace
}  // namespace mprdma::switchsim
