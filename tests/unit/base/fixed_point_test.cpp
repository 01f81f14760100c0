#include "base/fixed_point.hpp"

#include <gtest/gtest.h>

#include "tests/support/print.hpp"

namespace mprdma {
namespace {

TEST(Fixed16, SaturatesAtBothEnds) {
  EXPECT_EQ(Fixed16::from_int(65536), Fixed16::max());
  EXPECT_EQ(Fixed16::max() + Fixed16::from_raw(1), Fixed16::max());
  EXPECT_EQ(Fixed16::from_int(40000) * 2, Fixed16::max());
  EXPECT_EQ(Fixed16::from_raw(1) - Fixed16::from_raw(2), Fixed16());
  EXPECT_EQ(Fixed16::from_int(65535).raw(), 0xffff0000U);
}

TEST(Fixed16, FloorAndCeilDifferExactlyWhenThereIsAFraction) {
  EXPECT_EQ(Fixed16::from_int(3).floor(), 3U);
  EXPECT_EQ(Fixed16::from_int(3).ceil(), 3U);
  const Fixed16 just_above = Fixed16::from_int(3) + Fixed16::from_raw(1);
  EXPECT_EQ(just_above.floor(), 3U);
  EXPECT_EQ(just_above.ceil(), 4U);
  EXPECT_EQ(Fixed16::max().ceil(), 65536U);
}

TEST(Fixed16, DivisionsRoundDown) {
  EXPECT_EQ(Fixed16::from_int(3).reciprocal().raw(), 21845U);  // 21845.33
  EXPECT_EQ(Fixed16::from_int(7).reciprocal().raw(), 9362U);   // 9362.29
  EXPECT_EQ(Fixed16::from_raw(196609).reciprocal().raw(), 21845U);
  EXPECT_EQ(Fixed16::from_raw(3).half().raw(), 1U);
  EXPECT_EQ((Fixed16::from_raw(11) / 4).raw(), 2U);
}

TEST(Fixed16, ReciprocalIsExactForPowersOfTwoAndSaturatesNearZero) {
  EXPECT_EQ(Fixed16::from_int(1).reciprocal(), Fixed16::from_int(1));
  EXPECT_EQ(Fixed16::from_int(1).half().reciprocal(), Fixed16::from_int(2));
  EXPECT_EQ(Fixed16().reciprocal(), Fixed16::max());
  EXPECT_EQ(Fixed16::from_raw(1).reciprocal(), Fixed16::max());
  EXPECT_EQ(Fixed16::from_raw(2).reciprocal().raw(), 1U << 31);
}

TEST(Fixed16, ComparesByValue) {
  EXPECT_LT(Fixed16::from_raw(65535), Fixed16::from_int(1));
  EXPECT_GT(Fixed16::max(), Fixed16::from_int(65535));
}

}  // namespace
}  // namespace mprdma
