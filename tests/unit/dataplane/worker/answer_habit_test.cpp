#include <gtest/gtest.h>

#include "dataplane/worker/qp_context.hpp"

namespace mprdma::dataplane {
namespace {

// An application that is written to, and answers after a time.
class Application {
 public:
  void answer_after(Duration time) {
    habit.on_data(now_);
    now_ = now_ + time;
    habit.on_post(now_);
  }
  void answer_soon(int times) {
    for (int i = 0; i < times; ++i) answer_after(AnswerHabit::kSoon);
  }
  // Whether the acknowledgement of data that comes now may wait.
  bool expected_for_data() {
    AnswerHabit with_data = habit;
    with_data.on_data(now_);
    return with_data.expected();
  }

  AnswerHabit habit;

 private:
  Time now_ = Time::from_ns(1'000'000);
};

TEST(AnswerHabit, IsKnownAfterTwoAnswers) {
  Application application;
  EXPECT_FALSE(application.expected_for_data());
  application.answer_soon(1);
  EXPECT_FALSE(application.expected_for_data());
  application.answer_soon(1);
  EXPECT_TRUE(application.expected_for_data());
}

TEST(AnswerHabit, NoAnswerIsExpectedWithoutData) {
  Application application;
  application.answer_soon(8);
  EXPECT_FALSE(application.habit.expected()) << "answered";
  application.habit.on_data(Time::from_ns(1));
  EXPECT_TRUE(application.habit.unanswered());
  EXPECT_TRUE(application.habit.expected());
}

// Posts that follow no data tell nothing.
TEST(AnswerHabit, OnlyAPostThatFollowsDataIsAnAnswer) {
  AnswerHabit habit;
  for (int i = 0; i < 8; ++i) habit.on_post(Time());
  habit.on_data(Time());
  EXPECT_FALSE(habit.expected());
}

TEST(AnswerHabit, OneLateAnswerChangesNothingAndManyEndIt) {
  Application application;
  application.answer_soon(8);
  const Duration late = AnswerHabit::kSoon + Duration::ns(1);
  application.answer_after(late);
  EXPECT_TRUE(application.expected_for_data());
  for (int i = 0; i < 3; ++i) application.answer_after(late);
  EXPECT_FALSE(application.expected_for_data());
  application.answer_soon(2);
  EXPECT_TRUE(application.expected_for_data()) << "and it comes back as fast as ever";
}

TEST(AnswerHabit, AnAcknowledgementThatWaitedInVainCountsAsALateAnswer) {
  Application application;
  application.answer_soon(100);
  int in_vain = 0;
  while (application.expected_for_data() && in_vain < 100) {
    application.habit.miss();
    ++in_vain;
  }
  EXPECT_GE(in_vain, 2);
  EXPECT_LE(in_vain, 4) << "however long the habit was kept";
}

}  // namespace
}  // namespace mprdma::dataplane
