// TIMELY and its correction against their papers' equations, computed here in floating point: rule
// by rule, the answer to a ramp of round trips, and what several flows at one link come to.
#include "cc/timely_rate.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/prng.hpp"

namespace mprdma::cc {
namespace {

constexpr uint64_t kLink = 10'000'000'000;
constexpr double kDelta = 10e6;
constexpr double kBaseUs = 20;
constexpr double kLowUs = 50;
constexpr double kHighUs = 500;

constexpr Setup kSetup = {.link_bps = kLink,
                          .base_rtt = Duration::us(20),
                          .rtt_low = Duration::us(50),
                          .rtt_high = Duration::us(500)};

template <class Control>
struct Flow {
  explicit Flow(const Setup& setup = kSetup) : control(setup) {}
  // A sample, late enough for an update.
  void sample(double rtt_us) {
    now += Duration::ms(10);
    at(now, rtt_us);
  }
  void at(Time time, double rtt_us) {
    control.on_ack({.now = time, .rtt = Duration::ns(std::llround(rtt_us * 1000))});
  }
  [[nodiscard]] double bps() const {
    const uint64_t rate = control.rate_bps();
    return static_cast<double>(rate == kNoRate ? kLink : rate);
  }
  // Brings the rate down to about `share` of the link, and lets the gradient fade.
  void start_at(double share) {
    while (bps() > share * kLink) sample(1000);
    for (int i = 0; i < 20; ++i) sample(100);
  }
  Control control;
  Time now;
};

TEST(Timely, BeginsAtTheRateOfTheLinkWithoutLimit) {
  Flow<Timely> flow;
  EXPECT_EQ(flow.control.rate_bps(), kNoRate);
  flow.sample(30);
  EXPECT_EQ(flow.control.rate_bps(), kNoRate) << "no more than the link";
}

TEST(Timely, BelowTheLowThresholdTheRateGrowsByDeltaWhateverTheGradient) {
  Flow<Timely> flow;
  flow.start_at(0.3);
  const double before = flow.bps();
  flow.sample(20);
  flow.sample(49);
  EXPECT_NEAR(flow.bps(), before + 2 * kDelta, 1);
}

TEST(Timely, AboveTheHighThresholdTheCutFollowsTheRoundTrip) {
  Flow<Timely> flow;
  flow.sample(800);
  EXPECT_NEAR(flow.bps(), kLink * (1 - 0.8 * (1 - kHighUs / 800)), kLink * 1e-4);
  flow.sample(1e6);
  const double halved = flow.bps();
  flow.sample(1e6);
  EXPECT_NEAR(flow.bps(), halved / 2, 1) << "at most a half";
}

// The mean of n equal steps of s us is s (1 - 1/8^n); each takes b g of the rate.
TEST(Timely, ARampTakesTheGradientOfTheRate) {
  Flow<Timely> flow;
  flow.sample(100);
  double expected = flow.bps();
  double difference = 0;
  for (int i = 1; i <= 10; ++i) {
    flow.sample(100 + 2.0 * i);
    difference = difference / 8 + 2.0 * 7 / 8;
    expected *= 1 - 0.8 * difference / kBaseUs;
    EXPECT_NEAR(flow.bps(), expected, expected * 1e-3) << i;
    EXPECT_NEAR(static_cast<double>(flow.control.gradient_raw()) / 65536, difference / kBaseUs,
                1e-3);
  }
}

TEST(Timely, TheFifthFallingSampleBeginsHyperIncrease) {
  Flow<Timely> flow;
  flow.start_at(0.3);
  double rate = flow.bps();
  for (int i = 1; i <= 8; ++i) {
    flow.sample(100 - i);
    rate += i < 5 ? kDelta : 5 * kDelta;
    EXPECT_NEAR(flow.bps(), rate, 1) << i;
  }
  flow.sample(92);
  rate += kDelta;
  EXPECT_NEAR(flow.bps(), rate, 1) << "it no longer falls";
}

TEST(Timely, OneUpdateForASegment) {
  Flow<Timely> flow;
  flow.start_at(0.1);
  const double before = flow.bps();
  const Duration segment = Duration::ns(static_cast<int64_t>(16'384 * 8 * 1e9 / before));
  ASSERT_GT(segment, Duration::us(20));
  const Time begin = flow.now + Duration::ms(10);
  flow.at(begin, 30);
  for (int64_t ns = 1000; ns < segment.count_ns() * 9 / 10; ns += 1000) {
    flow.at(begin + Duration::ns(ns), 30);
  }
  EXPECT_NEAR(flow.bps(), before + kDelta, 1);
  flow.at(begin + segment, 30);
  EXPECT_NEAR(flow.bps(), before + 2 * kDelta, 1);
}

// A segment of a fast flow is shorter than a round trip, which alone tells something new.
TEST(Timely, OneUpdateForARoundTripWhereASegmentIsShorter) {
  Flow<Timely> flow;
  flow.sample(600);
  for (int i = 0; i < 20; ++i) flow.sample(100);
  const double before = flow.bps();
  ASSERT_LT(16'384 * 8 / before * 1e9, 16'000);
  ASSERT_LT(before, 0.9 * kLink);
  const Time begin = flow.now + Duration::ms(10);
  for (int us = 0; us < 20; ++us) flow.at(begin + Duration::us(us), 30);
  EXPECT_NEAR(flow.bps(), before + kDelta, 1);
  flow.at(begin + Duration::us(20), 30);
  EXPECT_NEAR(flow.bps(), before + 2 * kDelta, 1);
}

TEST(Timely, TheSmallestSampleStandsForTheEmptyNetwork) {
  cc::Setup setup = kSetup;
  setup.base_rtt = Duration::zero();
  Flow<Timely> flow(setup);
  flow.sample(40);
  flow.sample(100);
  flow.sample(110);
  const double mean = (60 * 7.0 / 8) / 8 + 10 * 7.0 / 8;
  EXPECT_NEAR(static_cast<double>(flow.control.gradient_raw()) / 65536, mean / 40, 1e-3);
  flow.control.reset();
  flow.sample(80);
  flow.sample(90);
  EXPECT_NEAR(static_cast<double>(flow.control.gradient_raw()) / 65536, 10 * 7.0 / 8 / 80, 1e-3);
}

TEST(Timely, ResetForgetsWhatItLearnt) {
  Flow<Timely> flow;
  flow.start_at(0.1);
  flow.control.reset();
  EXPECT_EQ(flow.control.rate_bps(), kNoRate);
  EXPECT_EQ(flow.control.gradient_raw(), 0);
}

double weight(double gradient) {
  return std::clamp(2 * gradient + 0.5, 0.0, 1.0);
}

// Equation 29, with every weight of equation 30.
TEST(TimelyPatched, WeighsIncreaseAndDecreaseByTheGradient) {
  for (const double step_us : {-20.0, -4.0, -1.0, 0.0, 1.0, 4.0, 20.0}) {
    Flow<TimelyPatched> flow;
    flow.start_at(0.5);
    const double before = flow.bps();
    flow.sample(100 + step_us);
    const double w = weight(step_us * 7 / 8 / kBaseUs);
    const double error = (100 + step_us - kLowUs) / kLowUs;
    const double expected = (before + kDelta * (1 - w)) * (1 - 0.008 * w * error);
    EXPECT_NEAR(flow.bps(), expected, 2e-3 * before * 0.008 + kDelta * 1e-3) << step_us;
  }
}

// N flows at a queue that is served at C, each sampled in turn. Units: us, bits.
struct Outcome {
  double rtt_us = 0;
  double least_share = 1;
  double most_share = 0;
};

template <class Control>
Outcome run(const std::vector<double>& shares, double seconds) {
  std::vector<Flow<Control>> flows(shares.size());
  for (size_t i = 0; i < flows.size(); ++i) flows[i].start_at(shares[i]);
  double queue_bits = 0;
  Time now = Time::from_ns(0) + Duration::s(100);
  const Duration step = Duration::us(1);
  const auto steps = static_cast<int64_t>(seconds * 1e6);
  Outcome out;
  int64_t counted = 0;
  for (int64_t i = 0; i < steps; ++i) {
    double sum = 0;
    for (const auto& flow : flows) sum += flow.bps();
    queue_bits = std::max(0.0, queue_bits + (sum - double{kLink}) * 1e-6);
    now += step;
    const double rtt_us = kBaseUs + queue_bits / double{kLink} * 1e6;
    for (auto& flow : flows) flow.at(now, rtt_us);
    if (i < steps * 9 / 10) continue;
    out.rtt_us += rtt_us;
    ++counted;
    for (const auto& flow : flows) {
      out.least_share = std::min(out.least_share, flow.bps() / kLink);
      out.most_share = std::max(out.most_share, flow.bps() / kLink);
    }
  }
  out.rtt_us /= static_cast<double>(counted);
  return out;
}

// The fix point of equations 29 and 30, for round trips in place of queues: with g = 0 the weight
// is 1/2, so delta = b (C / N) (rtt - low) / low for each flow.
TEST(TimelyPatched, FlowsComeToTheFairFixPoint) {
  for (const size_t flows : {2U, 4U}) {
    std::vector<double> shares(flows, 0.1);
    shares[0] = 0.7;
    const Outcome outcome = run<TimelyPatched>(shares, 0.5);
    const auto n = static_cast<double>(flows);
    const double fix_point_us = kLowUs * (1 + n * kDelta / (0.008 * kLink));
    EXPECT_NEAR(outcome.rtt_us, fix_point_us, 0.02 * fix_point_us) << flows;
    EXPECT_NEAR(outcome.least_share, 1 / n, 0.03 / n) << flows;
    EXPECT_NEAR(outcome.most_share, 1 / n, 0.03 / n) << flows;
  }
}

// The original keeps the queue between the thresholds, and shares that are not equal (CoNEXT 2016).
TEST(Timely, FlowsKeepTheSharesThatTheyHappenToHave) {
  const Outcome outcome = run<Timely>({0.7, 0.1}, 0.5);
  EXPECT_GE(outcome.rtt_us, kBaseUs);
  EXPECT_LE(outcome.rtt_us, kHighUs);
  EXPECT_GE(outcome.most_share, 0.6);
  EXPECT_LE(outcome.least_share, 0.4);
}

template <class Control>
void expect_invariants() {
  for (const uint64_t link : {uint64_t{1'000'000}, kLink, uint64_t{1'000'000'000'000}}) {
    Setup setup = kSetup;
    setup.link_bps = link;
    setup.base_rtt = Duration::zero();
    Control control(setup);
    Prng prng(1);
    Time now;
    for (int i = 0; i < 50'000; ++i) {
      now += Duration::ns(static_cast<int64_t>(prng.below(1'000'000)));
      const auto rtt_ns = static_cast<int64_t>(prng.below(uint64_t{1} << prng.below(32)));
      control.on_ack({.now = now, .rtt = Duration::ns(rtt_ns)});
      if (control.rate_bps() == kNoRate) continue;
      ASSERT_GE(control.rate_bps(), link / 1000);
      ASSERT_LT(control.rate_bps(), link);
    }
  }
}

TEST(Timely, InvariantsHoldWhateverComes) {
  expect_invariants<Timely>();
  expect_invariants<TimelyPatched>();
}

}  // namespace
}  // namespace mprdma::cc
