#include "base/units.hpp"

#include <gtest/gtest.h>

#include <type_traits>

#include "tests/support/print.hpp"

namespace mprdma {
namespace {

TEST(Units, MakersAgreeOnTheUnit) {
  EXPECT_EQ(Duration::s(2), Duration::ms(2000));
  EXPECT_EQ(Duration::ms(3), Duration::us(3000));
  EXPECT_EQ(Duration::us(4), Duration::ns(4000));
  EXPECT_EQ(Duration::us(4).count_ns(), 4000);
}

TEST(Units, NumbersTimesAndDurationsDoNotConvertIntoEachOther) {
  static_assert(!std::is_convertible_v<int64_t, Duration>);
  static_assert(!std::is_convertible_v<int64_t, Time>);
  static_assert(!std::is_convertible_v<Duration, int64_t>);
  static_assert(!std::is_constructible_v<Time, Duration>);
  static_assert(!std::is_constructible_v<Duration, Time>);
}

TEST(Units, PointsAndSpansFollowTheUsualArithmetic) {
  const Time start = Time::from_ns(1000);
  EXPECT_EQ((start + Duration::ns(50)).ns(), 1050);
  EXPECT_EQ((start - Duration::ns(50)).ns(), 950);
  EXPECT_EQ(start + Duration::us(1) - start, Duration::us(1));
  EXPECT_EQ(start - (start + Duration::us(1)), -Duration::us(1));
  EXPECT_EQ(Duration::us(7) * 5 / 4, Duration::ns(8750));
  EXPECT_EQ(2 * Duration::us(3), Duration::us(6));
  EXPECT_EQ(-Duration::ns(7) / 2, -Duration::ns(3));
  EXPECT_LT(start, start + Duration::ns(1));
}

TEST(Units, NeverAbsorbsWhateverIsAddedOrTaken) {
  EXPECT_EQ(Time::never() + Duration::s(1), Time::never());
  EXPECT_EQ(Time::never() - Duration::s(1), Time::never());
  EXPECT_EQ(Time::from_ns(0) + Duration::infinite(), Time::never());
  EXPECT_EQ(Time::never() - Time::from_ns(-5), Duration::infinite());
  EXPECT_EQ(Time::never() - Time::never(), Duration::zero());
  EXPECT_EQ(Duration::infinite() - Duration::s(1), Duration::infinite());
  EXPECT_EQ(Duration::infinite() / 2, Duration::infinite());
}

TEST(Units, OverflowSaturatesInsteadOfWrapping) {
  EXPECT_EQ(Time::from_ns(INT64_MAX - 1) + Duration::ns(10), Time::never());
  EXPECT_EQ(Time::from_ns(INT64_MIN + 1) - Duration::ns(10), Time::from_ns(INT64_MIN));
  EXPECT_EQ(Duration::s(INT64_MAX), Duration::infinite());
  EXPECT_EQ(Duration::s(1) * INT64_MAX, Duration::infinite());
  EXPECT_EQ((-Duration::s(1) * INT64_MAX).count_ns(), INT64_MIN);
}

}  // namespace
}  // namespace mprdma
