// The traffic that application and NIC make of a flow: synchronise messages, turns, flowlets.
#include <gtest/gtest.h>

#include "switchsim/sim/hosts/flowlets.hpp"
#include "switchsim/sim/hosts/virtual_paths.hpp"
#include "switchsim/sim/simulation.hpp"
#include "tests/unit/switchsim/sim/scenarios.hpp"

namespace mprdma::switchsim {
namespace {

// Small messages over four paths, placed as they arrive.
Scenario synchronised(uint32_t share_ppm, double alpha) {
  transport::Params params = transport::Params::mp();
  params.placement = transport::PlacementPolicy::kRelaxed;
  params.sync_alpha = Fixed16::from_raw(static_cast<uint32_t>(alpha * 65536));
  Scenario scenario = permutation(params);
  for (FlowSpec& flow : scenario.flows) {
    flow.message_bytes = 16 * 1024;
    flow.post_depth = 8;
    flow.synchronise_ppm = share_ppm;
  }
  return scenario;
}

TEST(Synchronise, TheShareIsThatOfTheMessages) {
  for (const uint32_t share_ppm : {0U, 300'000U, 1'000'000U}) {
    const Result result = simulate(synchronised(share_ppm, 1));
    ASSERT_TRUE(result.errors.empty()) << result.errors.front();
    double posted = 0;
    double all = 0;
    for (const FlowResult& flow : result.flows) {
      posted += static_cast<double>(flow.sync_posted);
      all += static_cast<double>(flow.messages_posted);
    }
    EXPECT_GT(all, 500);
    EXPECT_NEAR(posted / all, share_ppm / 1e6, 0.05);
  }
}

// Several packets of a message may be refused, repeatedly; they count as one message.
TEST(Synchronise, AMessageThatComesTooEarlyCountsOnce) {
  const Result result = simulate(synchronised(500'000, 0));
  ASSERT_TRUE(result.errors.empty()) << result.errors.front();
  uint64_t early = 0;
  uint64_t refused = 0;
  for (const FlowResult& flow : result.flows) {
    EXPECT_LE(flow.sync_early, flow.sync_posted);
    EXPECT_LE(flow.sync_early, flow.receiver.drop_sync_too_early);
    early += flow.sync_early;
    refused += flow.receiver.drop_sync_too_early;
  }
  EXPECT_GT(early, 0U);
  EXPECT_GT(refused, early);
}

TEST(Flowlets, PausesAreCountedByWhatTheyExceed) {
  FlowletMeter meter;
  const SimSpan wire = SimSpan::ns(200);
  SimTime at = SimTime() + SimSpan::us(50);
  meter.note(at, wire, 1000);  // the first has nothing before it
  at = at + wire + SimSpan::ns(1500);
  meter.note(at, wire, 1000);
  at = at + wire + SimSpan::us(60);
  meter.note(at, wire, 500);
  EXPECT_EQ(meter.bytes(), 2500U);
  for (size_t i = 0; i < kFlowletGapsNs.size(); ++i) {
    const int64_t gap = kFlowletGapsNs[i];
    EXPECT_EQ(meter.pauses()[i], (gap < 1500 ? 1U : 0U) + (gap < 60'000 ? 1U : 0U)) << gap;
  }
}

// Eight flows of one host. A packet at a turn: seven packets of the others between two of one. 16
// at a turn: 16 back to back, then 112 of the others.
TEST(Turns, AreAsLongAsTheFlowSays) {
  for (const uint32_t turn : {1U, 16U}) {
    Scenario scenario;
    make_testbed({}, &scenario);
    for (int i = 0; i < 8; ++i) {
      FlowSpec flow = flow_between(scenario, "a1", "b1", transport::Params::mp_single());
      flow.name = "flow" + std::to_string(i);
      flow.turn_packets = turn;
      flow.measure_flowlets = true;
      scenario.flows.push_back(flow);
    }
    scenario.duration = SimSpan::ms(2);
    const Result result = simulate(scenario);
    ASSERT_TRUE(result.errors.empty()) << result.errors.front();
    for (const FlowResult& flow : result.flows) {
      ASSERT_EQ(flow.flowlet_pauses.size(), kFlowletGapsNs.size());
      const double flowlets_20us = static_cast<double>(flow.flowlet_pauses[5]) + 1;
      const double packets = static_cast<double>(flow.flowlet_bytes) / 1024 / flowlets_20us;
      if (turn == 1) {
        EXPECT_EQ(flow.flowlet_pauses[2], 0U) << flow.name;  // 2 us
      } else {
        EXPECT_NEAR(packets, turn, 2) << flow.name;
      }
    }
  }
}

TEST(VirtualPaths, AreCountedOnceAndSinceTheLastLook) {
  VirtualPathMeter meter;
  meter.note(wire::kVirtualPathMin);
  meter.note(wire::kVirtualPathMin + 1);
  meter.note(wire::kVirtualPathMin);
  EXPECT_EQ(meter.drain_recent(), 2U);
  meter.note(wire::kVirtualPathMin + 1);
  meter.note(wire::kVirtualPathMax);
  EXPECT_EQ(meter.drain_recent(), 2U);
  EXPECT_EQ(meter.drain_recent(), 0U);
  EXPECT_EQ(meter.ever(), 3U);
}

// A packet of the initial window takes a path of its own, later ones those of the acknowledgements.
// A single path stays one.
TEST(VirtualPaths, AreTheInitialWindowAtFirst) {
  for (const bool single : {false, true}) {
    Scenario scenario;
    make_testbed({}, &scenario);
    FlowSpec flow = flow_between(scenario, "a1", "b2",
                                 single ? transport::Params::mp_single() : transport::Params::mp());
    flow.params.initial_window = 32;
    flow.measure_paths = true;
    scenario.flows.push_back(flow);
    scenario.duration = SimSpan::us(400);
    scenario.sample = SimSpan::us(11);  // before the first acknowledgement
    const Result result = simulate(scenario);
    ASSERT_TRUE(result.errors.empty()) << result.errors.front();
    const FlowResult& measured = result.flows[0];
    EXPECT_EQ(measured.from, "a1");
    EXPECT_EQ(measured.to, "b2");
    ASSERT_GT(measured.virtual_paths_series.size(), 30U);
    EXPECT_NEAR(measured.virtual_paths_series[1], single ? 1 : 32, 1);
    EXPECT_NEAR(measured.virtual_paths_series.back(), single ? 1 : 32, single ? 0 : 16);
    EXPECT_LE(measured.virtual_paths_recent_series.back(), measured.virtual_paths_series.back());
    EXPECT_GE(measured.virtual_paths_recent_series.back(), 1U);
  }
}

}  // namespace
}  // namespace mprdma::switchsim
