// The fix point of TIMELY with the correction of "ECN or Delay" (Zhu et al., CoNEXT 2016, equations
// 29 and 30), for round trips: N flows at a bottleneck of C share it equally where
// N delta = b C (rtt - low) / low, so
//   rtt = low (1 + N delta / (b C)),   queue = C (rtt - base)
// The original has no such point: its queue stays below T_high, and what each flow gets is not
// determined. Both modes have the controller: `roce` times packets, `mp` has echoes.
#include <gtest/gtest.h>

#include <cstdio>
#include <string>

#include "switchsim/sim/scenario/scenario.hpp"
#include "switchsim/sim/simulation.hpp"
#include "tests/sim/dumbbell_pair.hpp"

namespace mprdma::switchsim {
namespace {

using transport::Congestion;
using transport::Params;
using transport::Protocol;

constexpr uint64_t kGbps = 10;
constexpr int64_t kBaseUs = 20;
constexpr double kLowUs = 50;
constexpr double kHighUs = 500;
// N delta / (b C) of one flow: delta is a thousandth of the link.
constexpr double kRiseOfAFlow = 0.001 / 0.008;

Params params_of(Protocol protocol, Congestion congestion) {
  Params params = Params::roce_with(congestion);
  if (protocol == Protocol::kMp) {
    params = Params::mp_single();
    params.set_congestion(congestion);
    // The rate is to be the limit.
    params.window_max = transport::kSendSpanMax;
    params.loss_shrinks_window = false;
  }
  params.base_rtt = Duration::us(kBaseUs);
  return params;
}

Scenario flows_at_one_bottleneck(uint32_t flows, const Params& params) {
  Scenario scenario;
  DumbbellSpec spec;
  spec.pairs = flows;
  spec.access = spec.bottleneck = LinkRate::gbps(kGbps);
  spec.base_rtt = SimSpan::us(kBaseUs);
  spec.red = {};
  spec.queue_bytes_max = 8'000'000;
  make_dumbbell(spec, &scenario);
  scenario.duration = SimSpan::ms(300);
  scenario.warm_up = SimSpan::ms(150);
  for (uint32_t i = 0; i < flows; ++i) {
    FlowSpec flow = flow_of_pair(scenario, i);
    flow.params = params;
    // The first one has the link for itself for a while.
    flow.start = SimTime() + SimSpan::ms(5) * i;
    scenario.flows.push_back(flow);
  }
  return scenario;
}

struct Case {
  uint32_t flows;
  Protocol protocol;
};

Result run(const Case& c, Congestion congestion, double* queue_us) {
  const Scenario scenario = flows_at_one_bottleneck(c.flows, params_of(c.protocol, congestion));
  Result result = simulate(scenario);
  EXPECT_TRUE(result.errors.empty()) << result.errors.front();
  const PortResult& bottleneck = result.ports[2 * scenario.link("bottleneck")];
  *queue_us = bottleneck.queue_mean_bytes * 8 / (kGbps * 1e3);
  std::printf("%u flows, mode %s: queue %.1f us, use %.4f, Jain %.4f, goodput", c.flows,
              c.protocol == Protocol::kMp ? "mp" : "roce", *queue_us, bottleneck.utilisation,
              result.jain);
  for (const FlowResult& flow : result.flows) std::printf(" %.2f", flow.goodput_bps / 1e9);
  std::printf(" Gb/s\n");
  EXPECT_GE(bottleneck.utilisation, 0.95);
  EXPECT_EQ(result.retransmitted(), 0U);
  return result;
}

class TimelyFixPoint : public testing::TestWithParam<Case> {};

TEST_P(TimelyFixPoint, PatchedFlowsShareEquallyAtTheModelsQueue) {
  double queue_us = 0;
  const Result result = run(GetParam(), Congestion::kTimelyPatched, &queue_us);
  const double model_us = kLowUs * (1 + GetParam().flows * kRiseOfAFlow) - double{kBaseUs};
  EXPECT_NEAR(queue_us, model_us, 0.05 * model_us);
  EXPECT_GE(result.jain, 0.999);
}

TEST_P(TimelyFixPoint, TheOriginalKeepsTheQueueBetweenItsThresholds) {
  double queue_us = 0;
  run(GetParam(), Congestion::kTimely, &queue_us);
  EXPECT_LE(queue_us + double{kBaseUs}, kHighUs);
}

INSTANTIATE_TEST_SUITE_P(Flows, TimelyFixPoint,
                         testing::Values(Case{2, Protocol::kRoce}, Case{4, Protocol::kRoce},
                                         Case{2, Protocol::kMp}));

}  // namespace
}  // namespace mprdma::switchsim
