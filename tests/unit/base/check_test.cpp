#include "base/check.hpp"

#include <gtest/gtest.h>

#include <type_traits>

namespace mprdma {
namespace {

TEST(CheckDeathTest, FailureNamesFileLineAndExpressionAndAborts) {
  const int answer = 41;
  CHECK(answer == 41);
  EXPECT_DEATH(CHECK(answer == 42), "check_test.cpp:[0-9]+: check failed: answer == 42");
}

TEST(CheckDeathTest, ConditionMayHoldACommaAndActsAsOneStatement) {
  if (true)
    CHECK(std::is_same_v<int, int>);
  else
    FAIL();
}

TEST(CheckDeathTest, DcheckIsEvaluatedOnlyWhereItIsCompiledIn) {
  int evaluations = 0;
  DCHECK(++evaluations > 0);
#ifdef MPRDMA_DCHECK
  EXPECT_EQ(evaluations, 1);
  EXPECT_DEATH(DCHECK(evaluations == 0), "check failed: evaluations == 0");
#else
  EXPECT_EQ(evaluations, 0);
#endif
}

}  // namespace
}  // namespace mprdma
