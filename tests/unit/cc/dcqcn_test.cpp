// DCQCN's reaction point, rule by rule; the numbers follow from the paper's equations.
#include "cc/dcqcn.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "base/prng.hpp"

namespace mprdma::cc {
namespace {

constexpr uint64_t kLink = 40'000'000'000;
constexpr uint64_t kMega = 1'000'000;

struct Flow {
  explicit Flow(DcqcnPreset preset = DcqcnPreset::kPaper, uint64_t link_bps = kLink) {
    dcqcn.reset(dcqcn_constants(preset), link_bps);
  }
  void cnp() { dcqcn.on_cnp(now); }
  void pass(Duration time) {
    now += time;
    dcqcn.on_time(now);
  }
  void timers(int count) {
    for (int i = 0; i < count; ++i) pass(dcqcn.constants().increase_timer);
  }
  void counters(int count) {
    for (int i = 0; i < count; ++i) {
      dcqcn.on_bytes(static_cast<uint32_t>(dcqcn.constants().byte_counter));
    }
  }
  [[nodiscard]] uint64_t rate_mbps() const { return dcqcn.rate_bps() / kMega; }
  [[nodiscard]] uint64_t target_mbps() const { return dcqcn.target_bps() / kMega; }

  Dcqcn dcqcn;
  Time now = Time::from_ns(1'000'000);
};

// Two CNPs at once: R_T = 20, R_C = 10 Gb/s.
Flow cut_twice() {
  Flow flow;
  flow.cnp();
  flow.cnp();
  return flow;
}

TEST(Dcqcn, BeginsAtTheRateOfTheLinkWithoutLimit) {
  Flow flow;
  EXPECT_EQ(flow.dcqcn.rate_bps(), kLink);
  EXPECT_FALSE(flow.dcqcn.limited());
  EXPECT_TRUE(flow.dcqcn.next_increase().is_never());
  flow.pass(Duration::s(1));
  flow.dcqcn.on_bytes(1 << 30);
  EXPECT_EQ(flow.dcqcn.rate_bps(), kLink);
}

TEST(Dcqcn, FirstNotificationHalvesTheRateAndRemembersWhereItWas) {
  Flow flow;
  flow.cnp();
  EXPECT_TRUE(flow.dcqcn.limited());
  EXPECT_EQ(flow.rate_mbps(), 20'000U);
  EXPECT_EQ(flow.target_mbps(), 40'000U);
  flow.cnp();
  EXPECT_EQ(flow.rate_mbps(), 10'000U);
  EXPECT_EQ(flow.target_mbps(), 20'000U);
}

// alpha = (1 - g) alpha after every 55 us without a CNP, + g at each.
TEST(Dcqcn, CutIsByHalfOfAlphaWhichFallsWhileNothingIsMarked) {
  Flow flow = cut_twice();
  EXPECT_EQ(flow.dcqcn.alpha_at(flow.now + Duration::us(54)), Dcqcn::kOne);
  for (const int periods : {1, 10, 100, 1000}) {
    const double expected = std::pow(255.0 / 256, periods) * Dcqcn::kOne;
    EXPECT_NEAR(flow.dcqcn.alpha_at(flow.now + Duration::us(55 * periods)), expected, 8);
  }
  EXPECT_EQ(flow.dcqcn.alpha_at(Time::from_ns(int64_t{1} << 60)), 0U);

  flow.pass(Duration::us(5500));
  const double alpha = std::pow(255.0 / 256, 100);
  const auto rate = static_cast<double>(flow.dcqcn.rate_bps());
  flow.cnp();
  EXPECT_NEAR(static_cast<double>(flow.dcqcn.rate_bps()), rate * (1 - alpha / 2), 1e5);
  EXPECT_NEAR(flow.dcqcn.alpha_at(flow.now), (alpha * 255 / 256 + 1 / 256.0) * Dcqcn::kOne, 16);
}

TEST(Dcqcn, RecoversFiveTimesTowardsTheTargetThenRaisesIt) {
  Flow flow = cut_twice();
  for (const uint64_t mbps : {15'000, 17'500, 18'750, 19'375, 19'687}) {
    flow.timers(1);
    EXPECT_EQ(flow.rate_mbps(), mbps);
    EXPECT_EQ(flow.target_mbps(), 20'000U);
  }
  flow.timers(1);
  EXPECT_EQ(flow.target_mbps(), 20'040U);
  EXPECT_EQ(flow.dcqcn.rate_bps(), (19'687'500'000 + 20'040'000'000) / 2);
  flow.timers(10);
  EXPECT_EQ(flow.target_mbps(), 20'440U) << "the timer alone never goes faster";
}

TEST(Dcqcn, ByteCounterDoesWhatTheTimerDoes) {
  Flow flow = cut_twice();
  EXPECT_FALSE(flow.dcqcn.on_bytes(9'999'999));
  EXPECT_TRUE(flow.dcqcn.on_bytes(1));
  EXPECT_EQ(flow.rate_mbps(), 15'000U);
  flow.counters(5);
  EXPECT_EQ(flow.target_mbps(), 20'040U);
}

TEST(Dcqcn, HyperIncreaseNeedsBothBeyondFastRecovery) {
  Flow flow = cut_twice();
  flow.timers(6);
  flow.counters(6);
  const uint64_t target = flow.target_mbps();
  EXPECT_EQ(target, 20'000U + 7 * 40) << "one by the timer, six by the counter";
  flow.timers(1);
  EXPECT_EQ(flow.target_mbps(), target + 400);
  flow.counters(1);
  EXPECT_EQ(flow.target_mbps(), target + 800);
}

TEST(Dcqcn, NotificationBeginsRecoveryAnew) {
  Flow flow = cut_twice();
  flow.timers(8);
  flow.counters(8);
  flow.pass(Duration::us(30));
  flow.cnp();
  const uint64_t target = flow.dcqcn.target_bps();
  flow.pass(Duration::us(54));
  EXPECT_LT(flow.dcqcn.rate_bps(), target) << "the timer was restarted";
  flow.timers(4);
  flow.counters(4);
  EXPECT_EQ(flow.dcqcn.target_bps(), target);
}

TEST(Dcqcn, NeverFallsBelowTheLeastRate) {
  Flow flow;
  for (int i = 0; i < 100; ++i) flow.cnp();
  EXPECT_EQ(flow.rate_mbps(), 100U);
  EXPECT_EQ(flow.target_mbps(), 100U);
  Flow slow(DcqcnPreset::kPaper, 10 * kMega);
  slow.cnp();
  EXPECT_EQ(slow.rate_mbps(), 10U) << "a link slower than that";
}

TEST(Dcqcn, LimitEndsAtTheRateOfTheLink) {
  Flow flow;
  flow.cnp();
  flow.pass(Duration::s(3600));
  EXPECT_FALSE(flow.dcqcn.limited());
  EXPECT_EQ(flow.dcqcn.rate_bps(), kLink);
  EXPECT_TRUE(flow.dcqcn.next_increase().is_never());
  flow.cnp();
  EXPECT_EQ(flow.dcqcn.rate_bps(), kLink) << "alpha was forgotten in that hour";
  EXPECT_TRUE(flow.dcqcn.limited());
}

TEST(Dcqcn, TimerServedLateComesToTheSame) {
  Flow often = cut_twice();
  Flow late = cut_twice();
  for (int i = 0; i < 5000; ++i) often.pass(Duration::us(1));
  late.pass(Duration::us(5000));
  EXPECT_EQ(often.dcqcn.rate_bps(), late.dcqcn.rate_bps());
  EXPECT_EQ(often.dcqcn.target_bps(), late.dcqcn.target_bps());
  EXPECT_EQ(often.dcqcn.next_increase(), late.dcqcn.next_increase());
}

// The tuned preset has no byte counter, one step of fast recovery, and constants that grow with the
// link.
TEST(Dcqcn, TunedPresetHasItsOwnConstants) {
  Flow flow(DcqcnPreset::kTuned, 100'000 * kMega);
  flow.cnp();
  flow.cnp();
  flow.dcqcn.on_bytes(1 << 30);
  EXPECT_EQ(flow.rate_mbps(), 25'000U);
  flow.timers(1);
  EXPECT_EQ(flow.target_mbps(), 50'000U);
  flow.timers(1);
  EXPECT_EQ(flow.target_mbps(), 50'020U);
  flow.timers(1);
  EXPECT_EQ(flow.target_mbps(), 50'220U);
  for (int i = 0; i < 100; ++i) flow.cnp();
  EXPECT_EQ(flow.rate_mbps(), 1000U);
}

TEST(Dcqcn, MarkingCurveOfAPresetFollowsTheLinkWhereItsAuthorsSaySo) {
  const DcqcnRed paper = dcqcn_red(dcqcn_constants(DcqcnPreset::kPaper), 100'000 * kMega);
  EXPECT_EQ(paper.kmin_bytes, 5'000U);
  EXPECT_EQ(paper.kmax_bytes, 200'000U);
  EXPECT_EQ(paper.pmax_ppm, 10'000U);
  const DcqcnRed tuned = dcqcn_red(dcqcn_constants(DcqcnPreset::kTuned), 100'000 * kMega);
  EXPECT_EQ(tuned.kmin_bytes, 400'000U);
  EXPECT_EQ(tuned.kmax_bytes, 1'600'000U);
}

TEST(Dcqcn, InvariantsHoldWhateverComes) {
  Prng prng(1);
  for (const DcqcnPreset preset : {DcqcnPreset::kPaper, DcqcnPreset::kTuned}) {
    Flow flow(preset);
    for (int i = 0; i < 100'000; ++i) {
      if (prng.below(16) == 0) flow.cnp();
      flow.pass(Duration::ns(static_cast<int64_t>(prng.below(200'000))));
      flow.dcqcn.on_bytes(static_cast<uint32_t>(prng.below(1 << 20)));
      ASSERT_GE(flow.dcqcn.rate_bps(), flow.dcqcn.constants().rate_min_bps);
      ASSERT_LE(flow.dcqcn.rate_bps(), flow.dcqcn.target_bps());
      ASSERT_LE(flow.dcqcn.target_bps(), kLink);
      ASSERT_LE(flow.dcqcn.alpha_at(flow.now), Dcqcn::kOne);
      ASSERT_EQ(flow.dcqcn.limited(), !flow.dcqcn.next_increase().is_never());
    }
  }
}

}  // namespace
}  // namespace mprdma::cc
