// Which rate controller a connection has, and what it hears.
#include "cc/rate.hpp"

#include <gtest/gtest.h>

namespace mprdma::cc {
namespace {

constexpr uint64_t kLink = 40'000'000'000;

TEST(Rate, NoneHasNoLimitWhateverHappens) {
  Rate rate;
  rate.on_cnp(Time::from_ns(1'000));
  rate.on_sent(Time::from_ns(2'000), 1500);
  EXPECT_EQ(rate.bps(), kNoRate);
  EXPECT_TRUE(rate.next_deadline().is_never());
  EXPECT_EQ(rate.cnp_interval(), Duration::infinite());
}

TEST(Rate, IsTheControllerThatWasAskedFor) {
  Rate paper(RateControl::kDcqcnPaper, {.link_bps = kLink});
  Rate tuned(RateControl::kDcqcnTuned, {.link_bps = kLink});
  EXPECT_EQ(paper.cnp_interval(), Duration::us(50));
  EXPECT_EQ(tuned.cnp_interval(), Duration::us(4));
  EXPECT_EQ(paper.bps(), kNoRate) << "no limit before the first notification";
  paper.on_cnp(Time::from_ns(1'000));
  EXPECT_EQ(paper.bps(), kLink / 2);
  // Its timer is served with the next packet.
  paper.on_sent(Time::from_ns(1'000) + Duration::us(55), 1500);
  EXPECT_EQ(paper.bps(), kLink * 3 / 4);
}

TEST(Rate, CountsTheBytesThatAreSent) {
  Rate paper(RateControl::kDcqcnPaper, {.link_bps = kLink});
  const Time now = Time::from_ns(1'000);
  paper.on_cnp(now);
  paper.on_sent(now, 9'999'000);
  EXPECT_EQ(paper.bps(), kLink / 2);
  paper.on_sent(now, 1'000);
  EXPECT_EQ(paper.bps(), kLink * 3 / 4) << "10 MB do what the timer does";
}

TEST(Rate, OnlyTimelyHearsRoundTripsAndOnlyDcqcnHearsMarks) {
  EXPECT_FALSE(hears_acks(RateControl::kNone) || hears_acks(RateControl::kDcqcnTuned));
  EXPECT_TRUE(hears_acks(RateControl::kTimely) && hears_acks(RateControl::kTimelyPatched));
  EXPECT_FALSE(hears_cnps(RateControl::kNone) || hears_cnps(RateControl::kTimely));
  EXPECT_TRUE(hears_cnps(RateControl::kDcqcnPaper));
  Rate rate(RateControl::kTimely, {.link_bps = kLink,
                                   .base_rtt = Duration::us(20),
                                   .rtt_low = Duration::us(50),
                                   .rtt_high = Duration::us(500)});
  EXPECT_EQ(rate.cnp_interval(), Duration::infinite());
  rate.on_ack({.now = Time::from_ns(1'000), .rtt = Duration::ms(100)});
  EXPECT_EQ(rate.bps(), kLink / 2);
}

}  // namespace
}  // namespace mprdma::cc
