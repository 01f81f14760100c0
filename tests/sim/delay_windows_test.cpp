// Windows that follow the delay, at one bottleneck of C. Swift's round trip swings about its target
// (SIGCOMM 2020), so N flows share C equally at the fix point of
//   rtt = target(w),  w = C rtt / N,  target(w) = base + T + 5 T (1 / sqrt(w) - 1 / 10) / (1 /
//   sqrt(0.1) - 1 / 10)
// NSCC decreases only where mark and delay agree: with marks from the target's queue on, it stays
// about that queue.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string>

#include "switchsim/sim/scenario/scenario.hpp"
#include "switchsim/sim/simulation.hpp"
#include "tests/sim/dumbbell_pair.hpp"

namespace mprdma::switchsim {
namespace {

using cc::WindowControl;

constexpr uint64_t kGbps = 10;
constexpr double kBaseUs = 20;
constexpr double kTargetUs = 25;

double bytes_of_us(double us) {
  return us * kGbps * 1e3 / 8;
}

struct Measured {
  double queue_us;
  double use;
  double jain;
};

Measured run(const transport::Params& params, WindowControl which, uint32_t flows, bool marks) {
  Scenario scenario;
  DumbbellSpec spec;
  spec.pairs = flows;
  spec.access = LinkRate::gbps(kGbps);
  spec.bottleneck = LinkRate::gbps(kGbps);
  spec.base_rtt = SimSpan::us(static_cast<int64_t>(kBaseUs));
  const auto mark_bytes = static_cast<uint32_t>(bytes_of_us(kTargetUs));
  if (marks) spec.red = {.kmin_bytes = mark_bytes, .kmax_bytes = mark_bytes};
  make_dumbbell(spec, &scenario);
  scenario.duration = SimSpan::ms(200);
  scenario.warm_up = SimSpan::ms(100);
  for (uint32_t i = 0; i < flows; ++i) {
    FlowSpec flow = flow_of_pair(scenario, i);
    flow.params = params;
    flow.params.window_control = which;
    flow.params.window_max = transport::kSendSpanMax;
    flow.params.base_rtt = Duration::us(static_cast<int64_t>(kBaseUs));
    flow.params.target_delay = Duration::us(static_cast<int64_t>(kTargetUs));
    // A flow that begins at a full queue waits longer than it expects.
    flow.params.probe_floor = Duration::ms(1);
    // The first one has the link for itself for a while.
    flow.start = SimTime() + SimSpan::ms(5) * i;
    scenario.flows.push_back(flow);
  }
  const Result result = simulate(scenario);
  EXPECT_TRUE(result.errors.empty()) << result.errors.front();
  EXPECT_EQ(result.retransmitted(), 0U);
  const PortResult& bottleneck = result.ports[2 * scenario.link("bottleneck")];
  const Measured out{.queue_us = bottleneck.queue_mean_bytes / bytes_of_us(1),
                     .use = bottleneck.utilisation,
                     .jain = result.jain};
  std::printf("%u flows: queue %.1f us, use %.4f, Jain %.4f, goodput", flows, out.queue_us, out.use,
              out.jain);
  for (const FlowResult& flow : result.flows) std::printf(" %.2f", flow.goodput_bps / 1e9);
  std::printf(" Gb/s\n");
  return out;
}

double swift_target_us(double window) {
  const double scaling = 5 * kTargetUs * (1 / std::sqrt(window) - 0.1) / (1 / std::sqrt(0.1) - 0.1);
  return kBaseUs + kTargetUs + std::max(scaling, 0.0);
}

class DelayWindows : public testing::TestWithParam<uint32_t> {};

void expect_swift_flows_at_the_target(const transport::Params& params, uint32_t flows) {
  const double wire_bytes = data_wire_bytes(FlowOperation::kWrite, 1024);
  double rtt_us = kBaseUs + kTargetUs;
  for (int i = 0; i < 100; ++i) {
    rtt_us = swift_target_us(bytes_of_us(rtt_us) / wire_bytes / flows);
  }
  const Measured measured = run(params, WindowControl::kSwift, flows, false);
  EXPECT_NEAR(measured.queue_us, rtt_us - kBaseUs, 0.15 * (rtt_us - kBaseUs));
  EXPECT_GE(measured.use, 0.99);
  EXPECT_GE(measured.jain, 0.99);
}

TEST_P(DelayWindows, SwiftFlowsShareEquallyAtTheTarget) {
  expect_swift_flows_at_the_target(transport::Params::mp_single(), GetParam());
}

TEST_P(DelayWindows, SwiftFlowsOfTheStandardDoSo) {
  expect_swift_flows_at_the_target(transport::Params::roce(), GetParam());
}

TEST_P(DelayWindows, NsccFlowsShareEquallyAboutTheTarget) {
  const Measured measured =
      run(transport::Params::mp_single(), WindowControl::kNscc, GetParam(), true);
  EXPECT_NEAR(measured.queue_us, kTargetUs, 0.35 * kTargetUs);
  EXPECT_GE(measured.use, 0.99);
  EXPECT_GE(measured.jain, 0.95);
}

INSTANTIATE_TEST_SUITE_P(Flows, DelayWindows, testing::Values(2U, 4U, 8U));

}  // namespace
}  // namespace mprdma::switchsim
