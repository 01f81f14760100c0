// Swift against the equations of its paper, computed here in floating point: the target, one
// increase, one decrease, and what several flows at one queue come to.
#include "cc/swift_window.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "base/prng.hpp"
#include "tests/unit/cc/shared_queue.hpp"

namespace mprdma::cc {
namespace {

constexpr double kBaseUs = 20;
constexpr double kTargetUs = 25;

constexpr Setup kSetup = {.initial_packets = 16,
                          .max_packets = 256,
                          .base_rtt = Duration::us(20),
                          .target_delay = Duration::us(25)};

double packets(const SwiftWindow& swift) {
  return exact_packets(swift.window());
}

// Flow scaling, with fs_range = 5 T, fs_min_cwnd = 0.1, fs_max_cwnd = 100.
double target_us(double window) {
  const double a = 5 * kTargetUs / (1 / std::sqrt(0.1) - 1 / std::sqrt(100.0));
  const double scaling = a * (1 / std::sqrt(window) - 1 / std::sqrt(100.0));
  return kBaseUs + kTargetUs + std::clamp(scaling, 0.0, 5 * kTargetUs);
}

AckSample ack(double rtt_us, Time now = Time(), uint32_t acknowledged = 1) {
  return {.now = now, .rtt = Duration::ns(std::llround(rtt_us * 1000)), .packets = acknowledged};
}

TEST(Swift, TargetGrowsAsTheWindowShrinks) {
  for (const uint32_t window : {1U, 2U, 5U, 20U, 99U, 100U, 256U}) {
    cc::Setup setup = kSetup;
    setup.initial_packets = window;
    const SwiftWindow swift(setup);
    EXPECT_NEAR(static_cast<double>(swift.target().count_ns()) / 1000, target_us(window), 0.05)
        << window;
  }
}

TEST(Swift, BelowTheTargetTheWindowGrowsByOnePacketInARoundTrip) {
  SwiftWindow swift(kSetup);
  double expected = 16;
  for (int i = 0; i < 16; ++i) {
    swift.on_ack(ack(30));
    expected += 1 / expected;
  }
  EXPECT_NEAR(packets(swift), expected, 1e-2);
  swift.on_ack(ack(30, Time(), 4));
  EXPECT_NEAR(packets(swift), expected + 4 / expected, 1e-2) << "for each packet";
  const Fixed16 before = swift.window();
  AckSample unused = ack(30);
  unused.limited_by = LimitedBy::kApplication;
  swift.on_ack(unused);
  EXPECT_EQ(swift.window(), before) << "it was not the limit";
}

TEST(Swift, AboveTheTargetTheCutFollowsTheExcess) {
  for (const double rtt_us : {60.0, 70.0, 90.0, 120.0, 1000.0}) {
    SwiftWindow swift(kSetup);
    swift.on_ack(ack(rtt_us));
    const double excess = (rtt_us - target_us(16)) / rtt_us;
    const double expected = 16 * std::max(1 - 0.8 * std::max(excess, 0.0), 0.5);
    EXPECT_NEAR(packets(swift), excess > 0 ? expected : 16 + 1.0 / 16, 2e-2) << rtt_us;
  }
}

TEST(Swift, OneCutInARoundTripWhateverItsCause) {
  SwiftWindow swift(kSetup);
  const Time begin = Time::from_ns(1'000'000);
  swift.on_ack(ack(1000, begin));
  EXPECT_NEAR(packets(swift), 8, 1e-3);
  swift.on_ack(ack(1000, begin + Duration::us(999)));
  swift.on_loss({.now = begin + Duration::us(999)});
  swift.on_timeout(begin + Duration::us(999));
  EXPECT_NEAR(packets(swift), 8, 1e-3);
  swift.on_loss({.now = begin + Duration::us(1000)});
  EXPECT_NEAR(packets(swift), 4, 1e-3);
  swift.on_timeout(begin + Duration::us(2000));
  EXPECT_NEAR(packets(swift), 2, 1e-3);
}

TEST(Swift, WhatIsLostTogetherIsCutOnceBeforeAnyRoundTripIsKnown) {
  SwiftWindow swift(kSetup);
  for (int i = 0; i < 16; ++i) swift.on_loss({.now = Time::from_ns(1'000'000)});
  EXPECT_NEAR(packets(swift), 8, 1e-3);
}

TEST(Swift, TheSmallestSampleAndItsLengthAreTheDefaults) {
  SwiftWindow swift({.initial_packets = 100, .max_packets = 256});
  swift.on_ack(ack(40));
  EXPECT_NEAR(static_cast<double>(swift.target().count_ns()) / 1000, 80, 0.1);
  swift.on_ack(ack(30));
  EXPECT_NEAR(static_cast<double>(swift.target().count_ns()) / 1000, 60, 0.1);
  swift.reset();
  EXPECT_EQ(swift.window().floor(), 100U);
  EXPECT_EQ(swift.target(), Duration::zero());
}

TEST(Swift, ARoundTripOfTheTargetTellsOfCongestion) {
  SwiftWindow swift(kSetup);
  EXPECT_FALSE(swift.congested(ack(1000))) << "none was measured";
  swift.on_ack(ack(30));
  const double target = static_cast<double>(swift.target().count_ns()) / 1000;
  EXPECT_FALSE(swift.congested(ack(target - 0.1)));
  EXPECT_TRUE(swift.congested(ack(target)));
  swift.on_ack(ack(target + 10));
  EXPECT_TRUE(swift.congested(ack(0))) << "as the one before";
}

TEST(Swift, AnAcknowledgementWithoutARoundTripWaitsForOne) {
  SwiftWindow swift(kSetup);
  swift.on_ack({.ece = true});
  EXPECT_EQ(swift.window().floor(), 16U);
  swift.on_ack({.packets = 6});
  swift.on_ack(ack(30));
  EXPECT_NEAR(packets(swift), 16 + 8 / 16.0, 1e-2) << "the next one stands for its packets, too";
}

// The target is for the fair window, and each flow has it, whatever it began with.
TEST(Swift, FlowsShareAQueueEquallyAtTheTarget) {
  for (const uint32_t flows : {2U, 8U}) {
    std::vector<SwiftWindow> windows;
    for (uint32_t i = 0; i < flows; ++i) {
      cc::Setup setup = kSetup;
      setup.initial_packets = i == 0 ? 100 : 4;
      windows.emplace_back(setup);
    }
    const QueueOutcome outcome = share_a_queue(windows, {.base_us = kBaseUs});
    EXPECT_NEAR(outcome.rtt_us, target_us(outcome.window), 0.12 * target_us(outcome.window));
    EXPECT_GE(outcome.jain, 0.99) << flows;
    EXPECT_GE(outcome.use, 0.99) << flows;
  }
}

TEST(Swift, BelowOnePacketItSpacesPackets) {
  cc::Setup setup = kSetup;
  setup.initial_packets = 1;
  setup.spaces = true;
  SwiftWindow swift(setup);
  EXPECT_EQ(swift.deficit(), Fixed16());
  Time now;
  for (double window = 1; window > 1.0 / 100; window /= 2) {
    EXPECT_NEAR(exact_packets(swift.exact()), window, 1e-6);
    EXPECT_NEAR(exact_packets(swift.spacing()), 1 / window - 1, 1e-6);
    EXPECT_NEAR(static_cast<double>(swift.target().count_ns()) / 1000, target_us(window), 0.1);
    EXPECT_EQ(swift.window().floor(), 1U);
    now += Duration::ms(10);
    swift.on_ack(ack(10'000, now));
  }
  now += Duration::ms(10);
  swift.on_loss({.now = now});
  EXPECT_EQ(swift.spacing().floor(), 63U) << "the most";
  AckSample lone = ack(30, now);
  lone.limited_by = LimitedBy::kApplication;
  swift.on_ack(lone);
  EXPECT_NEAR(packets(swift), 1 + 1.0 / 64, 1e-4);
  EXPECT_EQ(swift.spacing(), Fixed16());

  setup.base_rtt = Duration::zero();
  SwiftWindow guesses(setup);
  for (int i = 0; i < 10; ++i) guesses.on_ack(ack(i == 0 ? 1 : 10'000, now + Duration::s(i)));
  EXPECT_EQ(guesses.exact().floor(), 1U) << "the smallest round trip is of an empty packet";
}

TEST(Swift, BoundsHoldWhateverComes) {
  SwiftWindow swift(
      {.initial_packets = 16, .max_packets = 64, .base_rtt = Duration::us(20), .spaces = true});
  Prng prng(1);
  Time now;
  for (int i = 0; i < 100'000; ++i) {
    now += Duration::ns(static_cast<int64_t>(prng.below(1'000'000)));
    const auto rtt_ns = static_cast<int64_t>(prng.below(uint64_t{1} << prng.below(32)));
    swift.on_ack({.now = now,
                  .rtt = Duration::ns(rtt_ns),
                  .packets = static_cast<uint32_t>(prng.below(256))});
    if (prng.below(64) == 0) swift.on_loss({.now = now});
    ASSERT_GE(swift.window().raw(), Fixed16::kOneRaw);
    ASSERT_LE(swift.window().floor(), 64U);
    ASSERT_GE(swift.exact().raw(), Fixed16::kOneRaw / 64);
    ASSERT_LE(swift.exact(), swift.window());
    ASSERT_LE(swift.spacing().floor(), 63U);
  }
}

}  // namespace
}  // namespace mprdma::cc
