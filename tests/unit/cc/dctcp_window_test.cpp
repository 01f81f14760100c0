// RFC 8257: the share of marked packets decides how much a mark costs, once a round trip.
#include "cc/dctcp_window.hpp"

#include <gtest/gtest.h>

namespace mprdma::cc {
namespace {

constexpr uint32_t kOne = Fixed16::kOneRaw;

// As many acknowledgements as the window has packets, the first `marked` of them with ECE.
void round_trip(DctcpWindow& window, uint32_t marked, bool may_grow = false) {
  const uint32_t round = window.exact().floor();
  for (uint32_t i = 0; i < round; ++i) window.on_ack(i < marked, may_grow);
}

TEST(DctcpWindow, GrowsByOnePacketInARoundTrip) {
  DctcpWindow window(10, 100);
  round_trip(window, 0, true);
  EXPECT_NEAR(window.exact().raw(), 11 * kOne, kOne / 10);
  for (int i = 0; i < 200; ++i) round_trip(window, 0, true);
  EXPECT_EQ(window.exact().floor(), 100U) << "the bound";
}

TEST(DctcpWindow, AMarkCostsHalfOfAlphaOnceInARound) {
  DctcpWindow window(64, 100);
  for (int i = 0; i < 10; ++i) window.on_ack(true, true);
  EXPECT_EQ(window.exact().floor(), 32U) << "alpha is 1 at first, and one cut is enough";
}

// Wherever in a round the cut was: what was in flight then is marked as well, and costs nothing.
TEST(DctcpWindow, TheNextCutIsAWholeRoundTripAfterTheLast) {
  DctcpWindow window(64, 64);
  for (int i = 0; i < 40; ++i) window.on_ack(false, false);
  window.on_ack(true, false);
  const Fixed16 cut = window.exact();
  EXPECT_EQ(cut.floor(), 32U);
  for (int i = 0; i < 63; ++i) window.on_ack(true, false);
  EXPECT_EQ(window.exact(), cut);
  window.on_ack(true, false);
  EXPECT_LT(window.exact(), cut);
}

TEST(DctcpWindow, AlphaFollowsTheShareOfMarkedPackets) {
  DctcpWindow window(64, 64);
  // Without marks alpha decays by 1/16 a round.
  round_trip(window, 0);
  EXPECT_EQ(window.alpha_raw(), kOne - kOne / 16);
  for (int i = 0; i < 300; ++i) round_trip(window, 0);
  EXPECT_EQ(window.alpha_raw(), 0U);
  // .. and then few marks cost little.
  round_trip(window, 16);
  EXPECT_EQ(window.exact().floor(), 64U) << "alpha was 0";
  EXPECT_EQ(window.alpha_raw(), kOne / 4 / 16);
  round_trip(window, 1);
  EXPECT_GE(window.exact().floor(), 63U);
}

TEST(DctcpWindow, NeverBelowOnePacketWhateverHappens) {
  DctcpWindow window(4, 8);
  for (int i = 0; i < 50; ++i) {
    window.on_hole();
    window.on_window_drop();
    window.on_slow_path();
    window.on_ack(true, false);
    window.on_timeout();
    EXPECT_EQ(window.exact().raw(), kOne);
  }
  window.reset();
  EXPECT_EQ(window.exact().floor(), 4U);
}

TEST(DctcpWindow, ALossHalvesOnceInARound) {
  DctcpWindow window(64, 64);
  window.on_hole();
  window.on_hole();
  EXPECT_EQ(window.exact().floor(), 32U);
}

}  // namespace
}  // namespace mprdma::cc
