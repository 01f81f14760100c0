// How often the helper looks at an application that polls.
#include "dataplane/engine/helper_beat.hpp"

#include <gtest/gtest.h>

namespace mprdma::dataplane {
namespace {

TEST(HelperBeat, WaitsForTwiceAsLongAsTheApplicationHasPolledAtMostAndNoLongerThanTheMost) {
  HelperBeat beat;
  EXPECT_EQ(beat.get(), HelperBeat::kMin);
  Duration polled;
  for (int looks = 0; looks < 20; ++looks) {
    polled += beat.get();  // and then the helper finds that it still does
    beat.on_polling();
    EXPECT_LE(beat.get(), polled * 2) << looks;
    EXPECT_LE(beat.get(), HelperBeat::kMax);
  }
  EXPECT_EQ(beat.get(), HelperBeat::kMax);
  beat.on_silence();
  EXPECT_EQ(beat.get(), HelperBeat::kMin);
}

}  // namespace
}  // namespace mprdma::dataplane
