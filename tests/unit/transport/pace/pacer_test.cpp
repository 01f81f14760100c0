// The pacer alone: a rate in, departures out.
#include "transport/pace/pacer.hpp"

#include <gtest/gtest.h>

namespace mprdma::transport {
namespace {

constexpr uint64_t kGigabit = 1'000'000'000;

TEST(Pacer, IsOpenWithoutARate) {
  Pacer pacer;
  EXPECT_FALSE(pacer.limited());
  EXPECT_TRUE(pacer.open());
  EXPECT_TRUE(pacer.deadline().is_never());
}

TEST(Pacer, APacketWaitsForAsLongAsTheOneBeforeItTakes) {
  Pacer pacer;
  Time now = Time::from_ns(1'000);
  pacer.follow(now, 8 * kGigabit);  // a byte takes a nanosecond
  pacer.on_sent(now, 1500);
  EXPECT_FALSE(pacer.open());
  EXPECT_EQ(pacer.deadline(), now + Duration::ns(1500));
  pacer.on_time(now + Duration::ns(1499));
  EXPECT_FALSE(pacer.open());
  now += Duration::ns(1500);
  pacer.on_time(now);
  EXPECT_TRUE(pacer.open());
}

TEST(Pacer, FractionsOfANanosecondAddUp) {
  Pacer pacer;
  Time now = Time::from_ns(1'000);
  pacer.follow(now, 3 * 8 * kGigabit);
  for (int i = 0; i < 3'000; ++i) {
    pacer.on_sent(now, 100);  // 33 1/3 ns
    now = pacer.deadline();
    pacer.on_time(now);
  }
  EXPECT_NEAR(static_cast<double>((now - Time::from_ns(1'000)).count_ns()), 100'000, 2);
}

TEST(Pacer, ANewRateCountsFromTheNextPacket) {
  Pacer pacer;
  const Time now = Time::from_ns(1'000);
  pacer.follow(now, 8 * kGigabit);
  pacer.on_sent(now, 1000);
  pacer.follow(now, 4 * kGigabit);
  EXPECT_EQ(pacer.deadline(), now + Duration::ns(1000));
  pacer.on_time(pacer.deadline());
  pacer.on_sent(now + Duration::ns(1000), 1000);
  EXPECT_EQ(pacer.deadline(), now + Duration::ns(3000));
  pacer.follow(now, 0);
  EXPECT_FALSE(pacer.limited());
}

}  // namespace
}  // namespace mprdma::transport
