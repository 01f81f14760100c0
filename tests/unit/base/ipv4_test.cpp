#include "base/ipv4.hpp"

#include <gtest/gtest.h>

namespace mprdma {
namespace {

TEST(Ipv4, ANetmaskHasThePrefixInFront) {
  EXPECT_EQ(netmask(0), 0U);
  EXPECT_EQ(netmask(1), 0x80000000U);
  EXPECT_EQ(netmask(24), 0xffffff00U);
  EXPECT_EQ(netmask(31), 0xfffffffeU);
  EXPECT_EQ(netmask(32), UINT32_MAX);
}

TEST(Ipv4, ASubnetEndsWhereAMaskedBitDiffers) {
  constexpr Ipv4 kFirst(0x0a490000);
  EXPECT_TRUE(same_subnet(kFirst, Ipv4(0x0a4900ff), netmask(24)));
  EXPECT_FALSE(same_subnet(kFirst, Ipv4(0x0a490100), netmask(24)));
  EXPECT_TRUE(same_subnet(kFirst, Ipv4(0xffffffff), netmask(0)));
  EXPECT_FALSE(same_subnet(kFirst, Ipv4(0x0a490001), netmask(32)));
  EXPECT_TRUE(same_subnet(kFirst, kFirst, netmask(32)));
}

TEST(Ipv4, OnlyZeroIsUnspecified) {
  EXPECT_TRUE(Ipv4{}.unspecified());
  EXPECT_FALSE(Ipv4(1).unspecified());
  EXPECT_FALSE(Ipv4(UINT32_MAX).unspecified());
}

}  // namespace
}  // namespace mprdma
