// Packet spraying, the path policy of docs/extending.md, over equal and unequal paths.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "switchsim/sim/scenario/scenario.hpp"
#include "switchsim/sim/simulation.hpp"

namespace mprdma::switchsim {
namespace {

Scenario one_flow_over_four_paths(transport::PathPolicy policy) {
  Scenario scenario;
  make_testbed({.servers = 2, .path_rate = LinkRate::gbps(10)}, &scenario);
  scenario.duration = SimSpan::ms(10);
  scenario.warm_up = SimSpan::ms(2);
  FlowSpec flow;
  flow.from = scenario.host("a1");
  flow.to = scenario.host("b1");
  flow.params.path_policy = policy;
  scenario.flows.push_back(flow);
  return scenario;
}

TEST(Spraying, GivesEveryPathTheSameShare) {
  const Result result = simulate(one_flow_over_four_paths(transport::PathPolicy::kSpray));
  ASSERT_TRUE(result.errors.empty()) << result.errors.front();
  const std::vector<uint64_t>& bytes = result.flows[0].path_bytes;
  const auto [least, most] = std::minmax_element(bytes.begin(), bytes.end());
  EXPECT_LE(static_cast<double>(*most), 1.1 * static_cast<double>(*least));
  EXPECT_GE(result.goodput_bps, 0.8 * result.ceiling_bps);
}

// A path of a tenth of the others' rate: REPS leaves it, as it marks packets.
TEST(Reps, LeavesAPathThatMarks) {
  double goodput_bps[2];
  for (const bool reps : {false, true}) {
    Scenario scenario = one_flow_over_four_paths(reps ? transport::PathPolicy::kReps
                                                      : transport::PathPolicy::kSpray);
    for (LinkConfig& link : scenario.topology.links) {
      link.ab.red = {.kmin_bytes = 10'000, .kmax_bytes = 10'000};
    }
    scenario.topology.links[scenario.link("path4")].ab.rate = LinkRate::gbps(1);
    const Result result = simulate(scenario);
    EXPECT_TRUE(result.errors.empty());
    goodput_bps[reps ? 1 : 0] = result.goodput_bps;
  }
  EXPECT_GE(goodput_bps[1], 1.5 * goodput_bps[0]);
}

// Spraying is as slow as the slowest path; ACK clocking is not.
TEST(Spraying, WaitsForTheSlowestPath) {
  double goodput_bps[2];
  for (const bool spray : {false, true}) {
    Scenario scenario = one_flow_over_four_paths(spray ? transport::PathPolicy::kSpray
                                                       : transport::PathPolicy::kRecycled);
    scenario.topology.links[scenario.link("path4")].ab.rate = LinkRate::gbps(1);
    goodput_bps[spray ? 1 : 0] = simulate(scenario).goodput_bps;
  }
  EXPECT_GE(goodput_bps[0], 2 * goodput_bps[1]);
}

// The preset of Ultra Ethernet's algorithms, also with a path that loses everything.
TEST(SprayNscc, UsesAllPathsAndGoesOnWithADeadOne) {
  double goodput_bps[2];
  for (const bool dead : {false, true}) {
    Scenario scenario = one_flow_over_four_paths({});
    scenario.flows[0].params = transport::Params::of(transport::Preset::kSprayNscc);
    for (LinkConfig& link : scenario.topology.links) {
      link.ab.red = {.kmin_bytes = 20'000, .kmax_bytes = 60'000};
    }
    if (dead) scenario.topology.links[scenario.link("path4")].ab.loss_ppm = 1'000'000;
    const Result result = simulate(scenario);
    EXPECT_TRUE(result.errors.empty());
    goodput_bps[dead ? 1 : 0] = result.goodput_bps;
    if (!dead) {
      EXPECT_GE(result.goodput_bps, 0.85 * result.ceiling_bps);
    }
  }
  EXPECT_GE(goodput_bps[1], 0.5 * goodput_bps[0]);
}

// Nothing marks, and a neighbour keeps one of four paths full: Swift's delay tells PLB.
TEST(SwiftPlb, LeavesAPathWhoseDelayIsAboveTheTarget) {
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    Scenario scenario = one_flow_over_four_paths({});
    scenario.seed = seed;
    scenario.flows[0].params = transport::Params::of(transport::Preset::kSwiftPlb);
    FlowSpec neighbour = scenario.flows[0];
    neighbour.from = scenario.host("a2");
    neighbour.to = scenario.host("b2");
    neighbour.params = transport::Params::roce();
    neighbour.params.window_max = 128;
    scenario.flows.push_back(neighbour);
    const Result result = simulate(scenario);
    ASSERT_TRUE(result.errors.empty()) << result.errors.front();
    EXPECT_GE(result.flows[0].goodput_bps, 0.85 * result.ceiling_bps / 4) << "seed " << seed;
  }
}

}  // namespace
}  // namespace mprdma::switchsim
