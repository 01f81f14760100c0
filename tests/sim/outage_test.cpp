// Which loops a cut met, and when they are back.
#include "evaluation/applications/outage.hpp"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

namespace mprdma::figures {
namespace {

using switchsim::FlowResult;
using switchsim::Result;
using switchsim::SimSpan;
using switchsim::SimTime;

constexpr int64_t kTakesUs = 10;
constexpr int64_t kPauseUs = 90;  // so one message in 100 us
const Cut kCut{SimTime() + SimSpan::us(1000), SimTime() + SimSpan::us(3000)};

SimTime at_us(int64_t us) {
  return SimTime() + SimSpan::us(us);
}

// A loop that posts from `first_us` on. Its messages around `slow_us`, if there are any, take
// `slow_takes_us`.
FlowResult loop(int64_t first_us, int64_t until_us, const std::vector<int64_t>& slow_us = {},
                int64_t slow_takes_us = 0) {
  FlowResult out;
  for (int64_t post = first_us; post < until_us;) {
    int64_t takes = kTakesUs;
    for (const int64_t slow : slow_us) {
      if (post <= slow && slow < post + kTakesUs + kPauseUs) takes = slow_takes_us;
    }
    out.messages.push_back({at_us(post), at_us(post + takes), 1024});
    post += takes + kPauseUs;
  }
  return out;
}

Result result_of(std::vector<FlowResult> flows) {
  Result out;
  out.end = at_us(8000);
  out.flows = std::move(flows);
  return out;
}

TEST(Outage, LoopThatTheCutDoesNotMeetHasNone) {
  const Result result = result_of({loop(50, 8000)});
  EXPECT_TRUE(outages(result, kCut).empty());
  const std::vector<Outage> all = all_outages(result, kCut);
  ASSERT_EQ(all.size(), 1U);
  EXPECT_DOUBLE_EQ(all[0].next_us, 60);
  EXPECT_DOUBLE_EQ(all[0].back_us, 60);
}

TEST(Outage, LoopThatOnlyWaitsInFullerQueuesHasNone) {
  EXPECT_TRUE(outages(result_of({loop(50, 8000, {3050}, 20)}), kCut).empty());
  EXPECT_EQ(outages(result_of({loop(50, 8000, {3050}, 21)}), kCut).size(), 1U);
}

TEST(Outage, LastsFromTheCutToTheCompletionOfTheMessageThatItMeets) {
  const Result result = result_of({loop(50, 8000), loop(50, 8000, {3050}, 70)});
  const std::vector<Outage> met = outages(result, kCut);
  ASSERT_EQ(met.size(), 1U);
  EXPECT_DOUBLE_EQ(met[0].message_us, 70);
  EXPECT_DOUBLE_EQ(met[0].next_us, 120);
  EXPECT_DOUBLE_EQ(met[0].back_us, 120);
}

TEST(Outage, LoopThatIsMetASecondTimeIsBackAfterThat) {
  // The first slow message is complete at 3450; the second one is posted at 3640.
  const Result result = result_of({loop(50, 8000, {3050, 3640}, 400)});
  const std::vector<Outage> met = outages(result, kCut);
  ASSERT_EQ(met.size(), 1U);
  EXPECT_DOUBLE_EQ(met[0].next_us, 450);
  EXPECT_DOUBLE_EQ(met[0].back_us, 1040);
}

TEST(Outage, LoopThatNeverComesBackHasOneUntilTheEnd) {
  const Result result = result_of({loop(50, 3000)});
  const std::vector<Outage> met = outages(result, kCut);
  ASSERT_EQ(met.size(), 1U);
  EXPECT_DOUBLE_EQ(met[0].next_us, 5000);
  EXPECT_DOUBLE_EQ(met[0].back_us, 5000);
}

TEST(Outage, SlowMessagesOfTheStartAreNoMeasure) {
  const Result result = result_of({loop(50, 8000, {100, 3050}, 70)});
  EXPECT_DOUBLE_EQ(slowest_before_us(result, kCut), kTakesUs);
  EXPECT_EQ(outages(result, kCut).size(), 1U);
}

}  // namespace
}  // namespace mprdma::figures
