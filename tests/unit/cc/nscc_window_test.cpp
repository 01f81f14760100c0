// NSCC against its rules, computed here in floating point from their constants: each of the four
// quadrants, quick adapt, and what several flows at one queue come to.
#include "cc/nscc_window.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "base/prng.hpp"
#include "tests/unit/cc/shared_queue.hpp"

namespace mprdma::cc {
namespace {

// The network of the constants: a = 1.
constexpr double kBaseUs = 12;
constexpr double kTargetUs = 9;
constexpr Setup kSetup = {.initial_packets = 64,
                          .max_packets = 256,
                          .link_bps = 100'000'000'000,
                          .base_rtt = Duration::us(12),
                          .target_delay = Duration::us(9)};

struct Flow {
  explicit Flow(const Setup& setup = kSetup) : control(setup) {}
  void ack(double delay_us, bool ece, uint32_t packets = 1) {
    control.on_ack({.now = now,
                    .rtt = Duration::ns(std::llround((kBaseUs + delay_us) * 1000)),
                    .packets = packets,
                    .in_flight = in_flight,
                    .ece = ece});
  }
  void pass(double us) { now += Duration::ns(std::llround(us * 1000)); }
  // Ends an adjustment, so that the next one begins now.
  void settle() {
    pass(kBaseUs + 1);
    ack(2, true);
  }
  [[nodiscard]] double window() const { return exact_packets(control.window()); }
  NsccWindow control;
  Time now = Time::from_ns(1'000'000);
  uint32_t in_flight = 64;
};

TEST(Nscc, IncreasesScaleWithTheNetwork) {
  EXPECT_NEAR(static_cast<double>(Flow().control.scale_raw()) / 65536, 1, 1e-3);
  cc::Setup setup = kSetup;
  setup.link_bps = 40'000'000'000;
  setup.base_rtt = Duration::us(6);
  EXPECT_NEAR(static_cast<double>(Flow(setup).control.scale_raw()) / 65536, 0.2, 1e-3);
  setup.link_bps = 1'000'000'000'000;
  setup.base_rtt = Duration::ms(100);
  EXPECT_EQ(Flow(setup).control.scale_raw(), 64U << 16) << "bounded";
}

TEST(Nscc, NoMarkAndLittleDelayIncreaseInProportion) {
  for (const double delay_us : {2.0, 5.0, 8.0}) {
    Flow flow;
    flow.settle();
    const double before = flow.window();
    for (int i = 0; i < 9; ++i) flow.ack(delay_us, false);
    const double rise = 9 * 4 * (kTargetUs - delay_us) / 12;
    EXPECT_NEAR(flow.window(), before + rise / before, 1e-2) << delay_us;
  }
}

TEST(Nscc, NoMarkAndMuchDelayIncreaseFairly) {
  Flow flow;
  flow.settle();
  const double before = flow.window();
  for (int i = 0; i < 9; ++i) flow.ack(20, false);
  EXPECT_NEAR(flow.window(), before + 9 * 5 / before, 1e-2);
}

TEST(Nscc, AMarkAndLittleDelayDoNothing) {
  Flow flow;
  flow.settle();
  const double before = flow.window();
  for (int i = 0; i < 9; ++i) flow.ack(5, true);
  EXPECT_EQ(flow.window(), before);
}

// Whatever the mean of the other paths is.
TEST(Nscc, AMarkAndLittleDelayDoNothingToAFullNetwork) {
  Flow flow;
  flow.settle();
  for (int i = 0; i < 200; ++i) flow.ack(30, true);
  ASSERT_GT(flow.control.mean_delay(), Duration::us(9));
  const double before = flow.window();
  flow.pass(kBaseUs + 0.1);
  flow.ack(5, true);
  EXPECT_GE(flow.window(), before);
}

TEST(Nscc, AMarkAndMuchDelayDecreaseByTheMeanDelayOnceInARoundTrip) {
  Flow flow;
  // No adjustment between: time stands still.
  flow.settle();
  const double before = flow.window();
  double mean = 2.0 / 80;
  double expected = before;
  bool cut = false;
  for (int i = 0; i < 200; ++i) {
    flow.ack(30, true);
    mean += (30 - mean) / 80;
    if (!cut && mean > kTargetUs) {
      cut = true;
      expected *= std::max(1 - 0.8 * (mean - kTargetUs) / mean, 0.5);
    }
  }
  EXPECT_TRUE(cut);
  EXPECT_NEAR(static_cast<double>(flow.control.mean_delay().count_ns()) / 1000, mean, 0.1);
  EXPECT_NEAR(flow.window(), expected, 0.5);
  flow.pass(kBaseUs + 0.1);
  flow.ack(30, true);
  mean += (30 - mean) / 80;
  expected *= std::max(1 - 0.8 * (mean - kTargetUs) / mean, 0.5);
  EXPECT_NEAR(flow.window(), expected + 0.15, 0.5) << "0.15 a for the round trip";
}

TEST(Nscc, DelayWithoutAMarkIsNoCongestionToTheMean) {
  Flow flow;
  for (int i = 0; i < 1000; ++i) flow.ack(50, false);
  EXPECT_NEAR(static_cast<double>(flow.control.mean_delay().count_ns()) / 1000, kBaseUs / 4, 0.1);
}

TEST(Nscc, AfterAWindowWithoutDelayItGrowsFast) {
  Flow flow;
  flow.settle();
  for (int i = 0; i < 70; ++i) flow.ack(0.5, false);
  const double before = flow.window();
  for (int i = 0; i < 8; ++i) flow.ack(0.5, false);
  EXPECT_NEAR(flow.window(), before + 8 * 0.25, 0.2);
}

TEST(Nscc, AMarkAndMuchDelayEndFastIncrease) {
  Flow flow;
  flow.settle();
  for (int i = 0; i < 70; ++i) flow.ack(0.5, false);
  flow.ack(30, true);
  flow.settle();
  const double before = flow.window();
  for (int i = 0; i < 8; ++i) flow.ack(0.5, false);
  EXPECT_EQ(flow.window(), before) << "until a window has come without delay again";
}

TEST(Nscc, QuickAdaptTakesWhatHasArrived) {
  Flow flow;
  flow.ack(2, true);
  flow.pass(kBaseUs + kTargetUs + 1);
  flow.ack(2, true);  // a period begins
  for (int i = 0; i < 10; ++i) flow.ack(2, true);
  flow.pass(kBaseUs + kTargetUs + 1);
  flow.ack(4 * kTargetUs + 1, true);
  EXPECT_EQ(flow.window(), 11);
  // What was in flight is not held against it twice.
  for (int i = 0; i < 30; ++i) flow.ack(100, true);
  EXPECT_EQ(flow.window(), 11);
}

TEST(Nscc, QuickAdaptSparesWhatDelivers) {
  Flow flow;
  flow.ack(2, true);
  flow.pass(kBaseUs + kTargetUs + 1);
  flow.ack(2, true);
  for (int i = 0; i < 40; ++i) flow.ack(2, true);  // an eighth of the maximum is 32
  const double before = flow.window();
  flow.pass(kBaseUs + kTargetUs + 1);
  flow.ack(4 * kTargetUs + 1, true);
  EXPECT_GE(flow.window(), before);
}

TEST(Nscc, QuickAdaptNeedsFourTimesTheTarget) {
  Flow flow;
  flow.ack(2, true);
  flow.pass(kBaseUs + kTargetUs + 1);
  flow.ack(2, true);
  const double before = flow.window();
  flow.pass(kBaseUs + kTargetUs + 1);
  flow.ack(4 * kTargetUs - 1, true);
  EXPECT_GE(flow.window(), before);
}

// Begins a period in which eleven packets arrive and one is lost.
void lose_one(Flow& flow) {
  flow.ack(2, true);
  flow.pass(kBaseUs + kTargetUs + 1);
  flow.ack(2, true);
  for (int i = 0; i < 10; ++i) flow.ack(2, true);
  flow.control.on_loss({.now = flow.now});
  flow.pass(kBaseUs + kTargetUs + 1);
}

TEST(Nscc, QuickAdaptNeedsNoDelayWhereAPacketWasLost) {
  Flow flow;
  lose_one(flow);
  flow.ack(2, true);
  EXPECT_EQ(flow.window(), 11);
  flow.pass(kBaseUs + kTargetUs + 1);
  flow.ack(2, false);
  EXPECT_GE(flow.window(), 11) << "that loss was answered";
}

TEST(Nscc, ANewConnectionKnowsNothingOfALoss) {
  Flow flow;
  lose_one(flow);
  flow.control.reset();
  flow.ack(2, true);
  EXPECT_NEAR(flow.window(), 64, 0.2);
}

TEST(Nscc, ATimeoutForgetsWhatWasToBeAdded) {
  Flow flow;
  flow.settle();
  for (int i = 0; i < 5; ++i) flow.ack(2, false);
  flow.control.on_timeout(flow.now);
  flow.settle();
  EXPECT_NEAR(flow.window(), 1.15, 0.01) << "0.15 a for the round trip";
}

TEST(Nscc, ALossTakesItsPacketAndSilenceTheWindow) {
  Flow flow;
  flow.ack(2, true);
  const double before = flow.window();
  flow.control.on_loss({.now = flow.now});
  EXPECT_EQ(flow.window(), before - 1);
  flow.control.on_timeout(flow.now);
  EXPECT_EQ(flow.window(), 1);
  flow.control.reset();
  EXPECT_EQ(flow.window(), 64);
  EXPECT_EQ(flow.control.mean_delay(), Duration::zero());
}

// Marks from the target on: the queue stays about it, and flows come to equal windows.
TEST(Nscc, FlowsShareAQueueEquallyAboutTheTarget) {
  for (const uint32_t flows : {2U, 4U}) {
    std::vector<NsccWindow> windows;
    for (uint32_t i = 0; i < flows; ++i) {
      cc::Setup setup = kSetup;
      setup.initial_packets = i == 0 ? 200 : 8;
      windows.emplace_back(setup);
    }
    const QueueOutcome outcome =
        share_a_queue(windows, {.base_us = kBaseUs, .packets_per_us = 12, .mark_us = kTargetUs});
    EXPECT_NEAR(outcome.rtt_us, kBaseUs + kTargetUs, 0.35 * kTargetUs) << flows;
    EXPECT_GE(outcome.jain, 0.98) << flows;
    EXPECT_GE(outcome.use, 0.99) << flows;
  }
}

TEST(Nscc, BoundsHoldWhateverComes) {
  NsccWindow nscc({.initial_packets = 16, .max_packets = 64, .link_bps = 40'000'000'000});
  Prng prng(1);
  Time now;
  for (int i = 0; i < 100'000; ++i) {
    now += Duration::ns(static_cast<int64_t>(prng.below(1'000'000)));
    const auto rtt_ns = static_cast<int64_t>(prng.below(uint64_t{1} << prng.below(32)));
    nscc.on_ack({.now = now,
                 .rtt = Duration::ns(rtt_ns),
                 .packets = static_cast<uint32_t>(prng.below(256)),
                 .in_flight = static_cast<uint32_t>(prng.below(256)),
                 .ece = prng.below(3) == 0});
    if (prng.below(64) == 0) nscc.on_loss({.now = now});
    if (prng.below(1024) == 0) nscc.on_timeout(now);
    ASSERT_GE(nscc.window().raw(), Fixed16::kOneRaw);
    ASSERT_LE(nscc.window().floor(), 64U);
  }
}

}  // namespace
}  // namespace mprdma::cc
