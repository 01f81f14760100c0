// The fix point of MP-RDMA's fluid model: a packet is marked with F, (1 - F) / w = F / 2, so
// F* = 2 / (w + 2); n w = C R0 / MTU + q, and RED's curve F(q) ties the two.
#include <gtest/gtest.h>

#include <algorithm>

#include "switchsim/sim/scenario.hpp"
#include "switchsim/sim/simulation.hpp"

namespace mprdma::switchsim {
namespace {

struct FixPoint {
  double queue_bytes = 0;
  double window = 0;
  double marked = 0;
};

// By bisection over the queue: more queue, more marks, and less window than the queue needs.
FixPoint solve(uint32_t flows, const DumbbellSpec& spec, uint32_t wire_bytes) {
  const double pipe_bytes = static_cast<double>(spec.bottleneck.bits_per_second()) / 8e12 *
                            static_cast<double>(spec.base_rtt.count_ps());
  double low = spec.red.kmin_bytes;
  double high = spec.red.kmax_bytes;
  FixPoint out;
  for (int i = 0; i < 60; ++i) {
    out.queue_bytes = (low + high) / 2;
    out.window = (pipe_bytes + out.queue_bytes) / wire_bytes / flows;
    out.marked = spec.red.pmax_ppm / 1e6 * (out.queue_bytes - spec.red.kmin_bytes) /
                 (spec.red.kmax_bytes - spec.red.kmin_bytes);
    (out.marked > 2 / (out.window + 2) ? high : low) = out.queue_bytes;
  }
  return out;
}

Scenario flows_at_one_bottleneck(uint32_t flows, const DumbbellSpec& spec) {
  Scenario scenario;
  make_dumbbell(spec, &scenario);
  scenario.duration = SimSpan::ms(100);
  scenario.warm_up = SimSpan::ms(30);
  for (uint32_t i = 0; i < flows; ++i) {
    FlowSpec flow;
    flow.from = scenario.host("l" + std::to_string(i + 1));
    flow.to = scenario.host("r" + std::to_string(i + 1));
    flow.params.initial_window = 16;
    flow.params.rto_floor = Duration::ms(2);
    flow.params.initial_rtt = Duration::us(100);
    // A new flow every half millisecond, so that nothing is in step.
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
  const uint32_t wire_bytes = data_wire_bytes(FlowOperation::kWrite, 1024);
  const FixPoint theory = solve(spec.pairs, spec, wire_bytes);

  const Result result = simulate(scenario);
  ASSERT_TRUE(result.errors.empty()) << result.errors.front();
  const PortResult& bottleneck = result.ports[2 * scenario.link("bottleneck")];
  double window = 0;
  for (const FlowResult& flow : result.flows) window += flow.window_mean / spec.pairs;
  EXPECT_NEAR(bottleneck.queue_mean_bytes, theory.queue_bytes, 0.15 * theory.queue_bytes);
  EXPECT_NEAR(window, theory.window, 0.15 * theory.window);
  EXPECT_NEAR(bottleneck.mark_ratio, 2 / (window + 2), 0.15 * 2 / (window + 2));
  EXPECT_GE(bottleneck.utilisation, 0.99);
}

}  // namespace
}  // namespace mprdma::switchsim
