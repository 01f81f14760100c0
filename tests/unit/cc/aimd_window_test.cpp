// AIMD, rule by rule, and the sawtooth that its rules come to.
#include "cc/aimd_window.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace mprdma::cc {
namespace {

constexpr uint32_t kOne = Fixed16::kOneRaw;

AimdWindow make(uint32_t initial) {
  return AimdWindow({.initial_packets = initial, .max_packets = 1000});
}
double packets(const AimdWindow& window) {
  return static_cast<double>(window.window().raw()) / kOne;
}

TEST(AimdWindow, GrowsByOnePacketInARoundTripIfItWasInUse) {
  AimdWindow window = make(10);
  for (int i = 0; i < 10; ++i) window.on_ack({});
  EXPECT_NEAR(packets(window), 11, 0.1);
  const Fixed16 before = window.window();
  window.on_ack({.limited_by = LimitedBy::kApplication});
  EXPECT_EQ(window.window(), before);
}

TEST(AimdWindow, EveryMarkAndEveryLossHalvesAndATimeoutLeavesOnePacket) {
  AimdWindow window = make(64);
  window.on_ack({.ece = true});
  EXPECT_EQ(window.window().raw(), 32 * kOne);
  window.on_ack({.ece = true, .limited_by = LimitedBy::kApplication});
  EXPECT_EQ(window.window().raw(), 16 * kOne);
  window.on_loss({});
  EXPECT_EQ(window.window().raw(), 8 * kOne);
  window.on_timeout(Time());
  EXPECT_EQ(window.window().raw(), kOne);
  window.on_ack({.ece = true});
  EXPECT_EQ(window.window().raw(), kOne) << "the least";
  window.reset();
  EXPECT_EQ(window.window().raw(), 64 * kOne);
}

// With one mark in n acknowledgements, w^2 grows by 2 with each of the others, and w is halved
// once:
//   w^2 = (w / 2)^2 + 2 n,  w = sqrt(8 n / 3)
TEST(AimdWindow, OneMarkInSoManyAcknowledgementsHasTheFixPointOfTheSawtooth) {
  for (const int n : {50, 200, 1000}) {
    for (const uint32_t initial : {1U, 900U}) {
      AimdWindow window = make(initial);
      for (int i = 0; i < 40 * n; ++i) window.on_ack({.ece = i % n == 0});
      const double peak = std::sqrt(8.0 * n / 3);
      EXPECT_NEAR(packets(window), peak, 0.03 * peak) << n << " from " << initial;
    }
  }
}

}  // namespace
}  // namespace mprdma::cc
