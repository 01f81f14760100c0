// The fluid model: its fixed point is at rest, and the integrator approaches it.
#include "switchsim/fluid/mp_fluid.hpp"

#include <gtest/gtest.h>

namespace mprdma::fluid {
namespace {

constexpr double kPacketBytes = 1138;

// Figure 4 of the paper: eight flows, 10 Gb/s, 100 us.
Model one_path(const Red& red) {
  return {8, kPacketBytes, {{10e9 / 8, 100e-6, red}}};
}
constexpr Red kRed = {20e3, 200e3, 0.8};
constexpr Red kStep = {65e3, 65e3, 1};

// Figure 5: ten flows, paths of 20 to 80 Gb/s with RED curves of their own.
Model four_paths() {
  Model model{10, kPacketBytes, {}};
  for (int i = 1; i <= 4; ++i) {
    model.paths.push_back({i * 20e9 / 8, 16e-6, {20e3, 200e3, 0.2 * i}});
  }
  return model;
}

TEST(MpFluid, NothingMovesAtTheFixPoint) {
  for (const Model& model : {one_path(kRed), four_paths()}) {
    const FixPoint rest = fix_point(model);
    std::vector<double> marked;
    for (size_t i = 0; i < model.paths.size(); ++i) {
      marked.push_back(model.paths[i].red.marked(rest.state.queue_bytes[i]));
      EXPECT_NEAR(marked[i], rest.marked, 1e-9);
    }
    const State slope = derivative(model, rest.state, marked);
    for (size_t i = 0; i < model.paths.size(); ++i) {
      EXPECT_NEAR(slope.window[i] * model.paths[i].base_rtt_s, 0, 1e-6);
      EXPECT_NEAR(slope.queue_bytes[i] / model.paths[i].bytes_per_s, 0, 1e-6);
    }
  }
}

TEST(MpFluid, OnePathRestsWhereWindowQueueAndMarksAgree) {
  const Model model = one_path(kRed);
  const FixPoint rest = fix_point(model);
  const double queue = rest.state.queue_bytes[0];
  EXPECT_NEAR(rest.marked, 2 / (rest.cwnd + 2), 1e-9);
  EXPECT_NEAR(rest.cwnd, 2 * (1 - rest.marked) / rest.marked, 1e-6);
  EXPECT_NEAR(queue, 8 * rest.cwnd * kPacketBytes - 10e9 / 8 * 100e-6, 1);
  EXPECT_NEAR(rest.marked, 0.8 * (queue - 20e3) / 180e3, 1e-9);
  // The fixed point, computed by hand: W = 18.3, F = 0.0985, q = 42.2 KB.
  EXPECT_NEAR(rest.cwnd, 18.36, 0.1);
  EXPECT_NEAR(queue, 42.1e3, 0.3e3);
}

TEST(MpFluid, StandardRedComesToRestFromBothSides) {
  const Model model = one_path(kRed);
  const FixPoint rest = fix_point(model);
  for (const double start : {4.0, 60.0}) {
    const Trace trace = integrate(model, {.duration_s = 40e-3, .initial_cwnd = start});
    const Moments queue = moments(trace, trace.queue_bytes[0], 20e-3);
    EXPECT_NEAR(queue.mean, rest.state.queue_bytes[0], 0.01 * rest.state.queue_bytes[0]) << start;
    EXPECT_LT(queue.deviation, 0.01 * rest.state.queue_bytes[0]) << start;
    EXPECT_NEAR(trace.cwnd.back(), rest.cwnd, 0.01 * rest.cwnd) << start;
  }
}

TEST(MpFluid, AStepNeverComesToRest) {
  const Model model = one_path(kStep);
  const Trace trace = integrate(model, {.duration_s = 40e-3, .initial_cwnd = 16});
  const Moments queue = moments(trace, trace.queue_bytes[0], 20e-3);
  EXPECT_GT(queue.deviation, 15e3);
  for (const double bytes : trace.queue_bytes[0]) EXPECT_GE(bytes, 0);
}

TEST(MpFluid, PathsOfAllKindsAreMarkedAlike) {
  const Model model = four_paths();
  const FixPoint rest = fix_point(model);
  const Trace trace = integrate(model, {.duration_s = 60e-3, .initial_cwnd = 54});
  for (size_t i = 0; i < model.paths.size(); ++i) {
    const Moments marked = moments(trace, trace.marked[i], 40e-3);
    EXPECT_NEAR(marked.mean, rest.marked, 0.03 * rest.marked) << i;
  }
  EXPECT_NEAR(trace.cwnd.back(), rest.cwnd, 0.03 * rest.cwnd);
}

TEST(MpFluid, TheStepOfTheIntegratorDoesNotMatter) {
  const Model model = one_path(kRed);
  const Trace coarse = integrate(model, {.duration_s = 2e-3, .step_s = 2e-6, .initial_cwnd = 16});
  const Trace fine = integrate(model, {.duration_s = 2e-3, .step_s = 0.5e-6, .initial_cwnd = 16});
  for (size_t i = 0; i < std::min(coarse.cwnd.size(), fine.cwnd.size()); ++i) {
    EXPECT_NEAR(coarse.cwnd[i], fine.cwnd[i], 0.02 * fine.cwnd[i]) << i;
  }
}

}  // namespace
}  // namespace mprdma::fluid
