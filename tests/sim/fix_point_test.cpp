// The fix point of MP-RDMA's fluid model: a packet is marked with F, (1 - F) / w = F / 2, so
// F* = 2 / (w + 2); n w = C R0 / MTU + q, and RED's curve F(q) ties the two (switchsim/fluid).
#include <gtest/gtest.h>

#include "switchsim/fluid/mp_fluid.hpp"
#include "switchsim/sim/scenario/scenario.hpp"
#include "switchsim/sim/simulation.hpp"
#include "tests/sim/dumbbell_pair.hpp"

namespace mprdma::switchsim {
namespace {

Scenario flows_at_one_bottleneck(uint32_t flows, const DumbbellSpec& spec) {
  Scenario scenario;
  make_dumbbell(spec, &scenario);
  scenario.duration = SimSpan::ms(100);
  scenario.warm_up = SimSpan::ms(30);
  for (uint32_t i = 0; i < flows; ++i) {
    FlowSpec flow = flow_of_pair(scenario, i);
    flow.params.initial_window = 16;
    flow.params.rto_floor = Duration::ms(2);
    flow.params.initial_rtt = Duration::us(100);
    // Flows start half a millisecond apart, so that they are not in step.
    flow.start = SimTime() + SimSpan::us(500) * i;
    scenario.flows.push_back(flow);
  }
  return scenario;
}

TEST(FixPoint, QueueWindowAndMarksAreThoseOfTheFluidModel) {
  DumbbellSpec spec;
  spec.pairs = 8;
  spec.access = LinkRate::gbps(10);
  spec.bottleneck = LinkRate::gbps(10);
  spec.base_rtt = SimSpan::us(100);
  spec.red = {.kmin_bytes = 20'000, .kmax_bytes = 200'000, .pmax_ppm = 800'000};
  const Scenario scenario = flows_at_one_bottleneck(spec.pairs, spec);
  const fluid::Model model{8,
                           static_cast<double>(data_wire_bytes(FlowOperation::kWrite, 1024)),
                           {{10e9 / 8, 100e-6, {20e3, 200e3, 0.8}}}};
  const fluid::FixPoint theory = fluid::fix_point(model);
  const double queue = theory.state.queue_bytes[0];

  const Result result = simulate(scenario);
  ASSERT_TRUE(result.errors.empty()) << result.errors.front();
  const PortResult& bottleneck = result.ports[2 * scenario.link("bottleneck")];
  double window = 0;
  for (const FlowResult& flow : result.flows) window += flow.window_mean / spec.pairs;
  EXPECT_NEAR(bottleneck.queue_mean_bytes, queue, 0.15 * queue);
  EXPECT_NEAR(window, theory.cwnd, 0.15 * theory.cwnd);
  EXPECT_NEAR(bottleneck.mark_ratio, 2 / (window + 2), 0.15 * 2 / (window + 2));
  EXPECT_GE(bottleneck.utilisation, 0.99);
}

}  // namespace
}  // namespace mprdma::switchsim
