#include "base/psn.hpp"

#include <gtest/gtest.h>

#include "tests/support/print.hpp"

namespace mprdma {
namespace {

constexpr uint32_t kHalf = 1U << 23;

TEST(Psn, ArithmeticWrapsAt24Bits) {
  EXPECT_EQ(Psn(0x1000005), Psn(5));
  EXPECT_EQ(Psn(kPsnMask) + 1, Psn(0));
  EXPECT_EQ(Psn(0) - 1, Psn(kPsnMask));
  EXPECT_EQ(Psn(3) - 0x1000000, Psn(3));
  Psn psn(kPsnMask);
  EXPECT_EQ(++psn, Psn(0));
}

TEST(Psn, DistanceIsSignedAndCrossesTheWrap) {
  EXPECT_EQ(Psn(10).distance_to(Psn(13)), 3);
  EXPECT_EQ(Psn(13).distance_to(Psn(10)), -3);
  EXPECT_EQ(Psn(kPsnMask).distance_to(Psn(1)), 2);
  EXPECT_EQ(Psn(1).distance_to(Psn(kPsnMask)), -2);
  EXPECT_EQ(Psn(7).distance_to(Psn(7)), 0);
}

TEST(Psn, HalfTheSpaceLiesAheadAndHalfBehind) {
  for (const uint32_t start : {0U, 1U, kHalf - 1, kHalf, kPsnMask}) {
    const Psn psn(start);
    EXPECT_EQ(psn.distance_to(psn + (kHalf - 1)), static_cast<int32_t>(kHalf) - 1);
    EXPECT_EQ(psn.distance_to(psn + kHalf), -static_cast<int32_t>(kHalf));
    EXPECT_TRUE(psn.before(psn + (kHalf - 1)));
    EXPECT_TRUE(psn.after(psn + kHalf));
  }
}

TEST(Psn, OrderIsSerial) {
  const Psn last(kPsnMask);
  const Psn first(0);
  EXPECT_TRUE(last.before(first));
  EXPECT_TRUE(last.at_or_before(first));
  EXPECT_FALSE(last.after(first));
  EXPECT_FALSE(last.at_or_after(first));
  EXPECT_TRUE(first.after(last));
  EXPECT_TRUE(first.at_or_before(first));
  EXPECT_TRUE(first.at_or_after(first));
  EXPECT_FALSE(first.before(first));
  EXPECT_FALSE(first.after(first));
  EXPECT_EQ(psn_max(last, first), first);
  EXPECT_EQ(psn_min(last, first), last);
  EXPECT_EQ(psn_max(first, last), first);
  EXPECT_EQ(psn_min(first, last), last);
}

}  // namespace
}  // namespace mprdma
