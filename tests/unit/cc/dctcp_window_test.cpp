// RFC 8257: the share of marked packets decides how much a mark costs, once a round trip.
#include "cc/dctcp_window.hpp"

#include <gtest/gtest.h>

namespace mprdma::cc {
namespace {

constexpr uint32_t kOne = Fixed16::kOneRaw;

DctcpWindow make(uint32_t initial, uint32_t max) {
  return DctcpWindow({.initial_packets = initial, .max_packets = max});
}
AckSample ack(bool ece, bool may_grow) {
  return {.ece = ece, .limited_by = may_grow ? LimitedBy::kWindow : LimitedBy::kApplication};
}

// Acknowledges as many packets as the window has; the first `marked` with ECE.
void round_trip(DctcpWindow& window, uint32_t marked, bool may_grow = false) {
  const uint32_t round = window.window().floor();
  for (uint32_t i = 0; i < round; ++i) window.on_ack(ack(i < marked, may_grow));
}

TEST(DctcpWindow, GrowsByOnePacketInARoundTrip) {
  DctcpWindow window = make(10, 100);
  round_trip(window, 0, true);
  EXPECT_NEAR(window.window().raw(), 11 * kOne, 0.1 * kOne);
  for (int i = 0; i < 200; ++i) round_trip(window, 0, true);
  EXPECT_EQ(window.window().floor(), 100U) << "the bound";
}

TEST(DctcpWindow, AMarkCostsHalfOfAlphaOnceInARound) {
  DctcpWindow window = make(64, 100);
  for (int i = 0; i < 10; ++i) window.on_ack(ack(true, true));
  EXPECT_EQ(window.window().floor(), 32U) << "alpha is 1 at first, and one cut is enough";
}

// A cut anywhere in a round: the packets in flight then are marked as well, and cost nothing.
TEST(DctcpWindow, TheNextCutIsAWholeRoundTripAfterTheLast) {
  DctcpWindow window = make(64, 64);
  for (int i = 0; i < 40; ++i) window.on_ack(ack(false, false));
  window.on_ack(ack(true, false));
  const Fixed16 cut = window.window();
  EXPECT_EQ(cut.floor(), 32U);
  for (int i = 0; i < 63; ++i) window.on_ack(ack(true, false));
  EXPECT_EQ(window.window(), cut);
  window.on_ack(ack(true, false));
  EXPECT_LT(window.window(), cut);
}

TEST(DctcpWindow, AlphaFollowsTheShareOfMarkedPackets) {
  DctcpWindow window = make(64, 64);
  // Alpha decays by 1/16 a round without marks.
  round_trip(window, 0);
  EXPECT_EQ(window.alpha_raw(), kOne - kOne / 16);
  for (int i = 0; i < 300; ++i) round_trip(window, 0);
  EXPECT_EQ(window.alpha_raw(), 0U);
  // Few marks cost little once alpha is small.
  round_trip(window, 16);
  EXPECT_EQ(window.window().floor(), 64U) << "alpha was 0";
  EXPECT_EQ(window.alpha_raw(), kOne / 4 / 16);
  round_trip(window, 1);
  EXPECT_GE(window.window().floor(), 63U);
}

TEST(DctcpWindow, MarksCountInTheirRoundOnly) {
  DctcpWindow window = make(64, 64);
  for (int i = 0; i < 300; ++i) round_trip(window, 0);
  round_trip(window, 16);
  const uint32_t alpha = window.alpha_raw();
  round_trip(window, 0);
  EXPECT_EQ(window.alpha_raw(), alpha - alpha / 16);
}

// What was in flight at a cut before it is gone.
TEST(DctcpWindow, ALossAfterATimeoutCutsAtOnce) {
  DctcpWindow window = make(64, 64);
  window.on_loss({});
  window.on_timeout(Time());
  for (int i = 0; i < 6; ++i) window.on_ack(ack(false, true));
  const Fixed16 before = window.window();
  ASSERT_GE(before.floor(), 3U);
  window.on_loss({});
  EXPECT_EQ(window.window(), before - before.half());
}

TEST(DctcpWindow, NeverBelowOnePacketWhateverHappens) {
  DctcpWindow window = make(4, 8);
  for (int i = 0; i < 50; ++i) {
    window.on_loss({});
    window.on_loss({.kind = LossKind::kWindowDrop});
    window.on_slow_path({});
    window.on_ack(ack(true, false));
    window.on_timeout(Time());
    EXPECT_EQ(window.window().raw(), kOne);
  }
  window.reset();
  EXPECT_EQ(window.window().floor(), 4U);
}

// However little a mark costs by then.
TEST(DctcpWindow, ALossHalvesWhereNothingWasMarked) {
  DctcpWindow window = make(64, 64);
  for (int i = 0; i < 300; ++i) round_trip(window, 0);
  ASSERT_EQ(window.alpha_raw(), 0U);
  window.on_loss({});
  EXPECT_EQ(window.window().floor(), 32U);
}

TEST(DctcpWindow, ANewConnectionBeginsWithTheGreatestAlpha) {
  DctcpWindow window = make(64, 64);
  for (int i = 0; i < 300; ++i) round_trip(window, 0);
  window.reset();
  EXPECT_EQ(window.alpha_raw(), kOne);
}

TEST(DctcpWindow, ALossHalvesOnceInARound) {
  DctcpWindow window = make(64, 64);
  window.on_loss({});
  window.on_loss({});
  EXPECT_EQ(window.window().floor(), 32U);
}

}  // namespace
}  // namespace mprdma::cc
