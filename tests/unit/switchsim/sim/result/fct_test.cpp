// Completion times by size, and the ideal that they are measured by: a lone flow takes exactly
// that.
#include "switchsim/sim/result/fct.hpp"

#include <gtest/gtest.h>

#include "switchsim/sim/result/ideal_time.hpp"
#include "tests/unit/switchsim/sim/scenarios.hpp"

namespace mprdma::switchsim {
namespace {

Result lone(const Scenario& topology, FlowSpec flow, uint64_t bytes) {
  Scenario scenario = topology;
  flow.message_bytes = bytes;
  flow.messages = 1;
  scenario.flows = {flow};
  scenario.end_when_idle = true;
  const Result result = simulate(scenario);
  EXPECT_TRUE(result.errors.empty());
  return result;
}

// One path, whatever the rates on it, the operation and the size of the last packet.
TEST(IdealTime, IsWhatALoneFlowOnOnePathTakes) {
  for (const uint64_t gbps : {10U, 40U, 100U}) {
    Scenario scenario;
    make_dumbbell({.pairs = 1, .bottleneck = LinkRate::gbps(gbps)}, &scenario);
    for (const FlowOperation operation : {FlowOperation::kWrite, FlowOperation::kSend}) {
      for (const uint64_t bytes : {1U, 1000U, 1024U, 1500U, 2048U, 30'000U, 40'960U}) {
        FlowSpec flow = flow_between(scenario, "l1", "r1");
        flow.operation = operation;
        const Result result = lone(scenario, flow, bytes);
        const IdealTime ideal(scenario.topology);
        EXPECT_EQ(result.flows[0].messages.at(0).fct(), IdealTime::of(ideal.way(flow), flow, bytes))
            << bytes << " bytes at " << gbps << " Gb/s";
        EXPECT_DOUBLE_EQ(result.fct.all().slowdown_mean, 1);
      }
    }
  }
}

// The request is acknowledged before the data arrives.
TEST(IdealTime, OfAReadIncludesTheRequestsWay) {
  Scenario scenario;
  make_dumbbell({.pairs = 1}, &scenario);
  FlowSpec flow = flow_between(scenario, "l1", "r1");
  flow.operation = FlowOperation::kRead;
  const Result result = lone(scenario, flow, 20'000);
  EXPECT_NEAR(result.fct.all().slowdown_mean, 1, 0.002);
}

TEST(IdealTime, OfThreeTiersIsTheAccessLinksAndIsReached) {
  Scenario scenario;
  make_fat_tree({.k = 4}, &scenario);
  const FlowSpec flow = flow_between(scenario, "h1", "h16");
  const Result result = lone(scenario, flow, 40'000);
  EXPECT_GE(result.fct.all().slowdown_mean, 0.999);
  EXPECT_LE(result.fct.all().slowdown_mean, 1.1);
}

// Four paths of a quarter of the rate together take what the host sends; one of them does not.
TEST(IdealTime, CountsThePathsThatAFlowMayUse) {
  Scenario scenario;
  make_testbed({.path_rate = LinkRate::gbps(10)}, &scenario);
  const IdealTime ideal(scenario.topology);
  FlowSpec flow = flow_between(scenario, "a1", "b1");
  const double all_ps =
      static_cast<double>(IdealTime::of(ideal.way(flow), flow, 10'000'000).count_ps());
  flow.params = transport::Params::mp_single();
  const double one_ps =
      static_cast<double>(IdealTime::of(ideal.way(flow), flow, 10'000'000).count_ps());
  EXPECT_NEAR(one_ps / all_ps, 4, 0.05);
}

TEST(FctSummary, TellsSizesApartAndLeavesOutTheWarmUp) {
  Scenario scenario;
  make_dumbbell({.pairs = 1}, &scenario);
  FlowSpec flow = flow_between(scenario, "l1", "r1");
  for (const auto& [us, bytes] :
       {std::pair(0, 500), std::pair(1000, 1000), std::pair(1100, 99'999), std::pair(1200, 100'000),
        std::pair(2000, 10'000'000), std::pair(6000, 10'000'001)}) {
    flow.timed_messages.push_back({SimTime() + SimSpan::us(us), static_cast<uint64_t>(bytes)});
  }
  scenario.flows = {flow};
  scenario.warm_up = SimSpan::us(500);
  const Result result = simulate(scenario);
  EXPECT_EQ(result.fct.all().messages, 5U);
  EXPECT_EQ(result.fct.small().messages, 2U);
  EXPECT_EQ(result.fct.medium().messages, 2U);
  EXPECT_EQ(result.fct.large().messages, 1U);
  EXPECT_EQ(result.fct.unfinished, 0U);
  EXPECT_GT(result.fct.small().p99_us, result.fct.small().p50_us);
  EXPECT_NEAR(result.fct.small().mean_us,
              (result.fct.small().p50_us + result.fct.small().p99_us) / 2, 1e-9);
  scenario.duration = SimSpan::us(6500);
  const Result cut = simulate(scenario);
  EXPECT_EQ(cut.fct.all().messages, 4U);
  EXPECT_EQ(cut.fct.unfinished, 1U);
}

}  // namespace
}  // namespace mprdma::switchsim
