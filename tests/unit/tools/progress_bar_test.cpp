// The progress bar of simulations.
#include "tools/progress_bar.hpp"

#include <gtest/gtest.h>

namespace mprdma::tools {
namespace {

using switchsim::Progress;
using switchsim::SimTime;

TEST(ProgressBar, OneRunShowsItsTimeAndEventsPerSecond) {
  const Progress progress{SimTime::from_ps(4'000'000'000), SimTime::from_ps(16'000'000'000),
                          6'000'000, 0.25};
  EXPECT_EQ(progress_line(progress, 2),
            "[######                  ]  25 %  4.000 of 16.000 ms  3.0 M events/s  0:06 left");
}

TEST(ProgressBar, SeveralRunsShowHowManyAreThrough) {
  const Progress progress{
      SimTime::from_ps(7'000'000'000), SimTime::from_ps(0), 1'000'000, 0.5, 3, 6};
  EXPECT_EQ(progress_line(progress, 8000),
            "[############            ]  50 %  3 of 6 runs  7.0 ms  0.0 M events/s  2:13 h left");
}

TEST(ProgressBar, TheBeginningAndTheEndPromiseNothing) {
  EXPECT_EQ(progress_line({SimTime(), SimTime::from_ps(1'000'000'000)}, 0),
            "[                        ]   0 %  0.000 of 1.000 ms  0.0 M events/s");
  const std::string end =
      progress_line({SimTime::from_ps(1'000'000'000), SimTime::from_ps(1'000'000'000), 5, 1}, 1);
  EXPECT_EQ(end, "[########################] 100 %  1.000 of 1.000 ms  0.0 M events/s");
}

}  // namespace
}  // namespace mprdma::tools
