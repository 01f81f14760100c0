// How often the helper looks at an application that polls.
#include "dataplane/engine/helper_beat.hpp"

#include <gtest/gtest.h>

namespace mprdma::dataplane {
namespace {

TEST(HelperBeat, GrowsWithTheTimeThatTheApplicationPollsAndNotWithTheLooks) {
  HelperBeat beat;
  Time now = Time::from_ns(1'000'000'000);
  beat.on_silence(now);
  EXPECT_EQ(beat.get(), HelperBeat::kMin);
  const Time start = now;
  for (int looks = 0; looks < 20; ++looks) {
    now += beat.get();  // and then the helper finds that it still does
    beat.on_polling(now);
    EXPECT_LE(beat.get(), (now - start) * 2) << looks;
    EXPECT_LE(beat.get(), HelperBeat::kMax);
  }
  EXPECT_EQ(beat.get(), HelperBeat::kMax);
  beat.on_silence(now);
  EXPECT_EQ(beat.get(), HelperBeat::kMin);
  for (int looks = 0; looks < 20; ++looks) beat.on_polling(now += Duration::us(1));
  EXPECT_EQ(beat.get(), HelperBeat::kMin) << "woken by something else";
}

}  // namespace
}  // namespace mprdma::dataplane
