#include "base/percentile.hpp"

#include <gtest/gtest.h>

namespace mprdma {
namespace {

TEST(Percentile, IsTheLeastValueThatTheShareDoesNotExceed) {
  EXPECT_EQ(percentile({}, .5), 0);
  EXPECT_EQ(percentile({3, 1, 2, 4}, .5), 2);
  EXPECT_EQ(percentile({3, 1, 2, 4}, .51), 3);
  EXPECT_EQ(percentile({3, 1, 2, 4}, 1), 4);
  EXPECT_EQ(percentile({3, 1, 2, 4}, 0), 1);
}

}  // namespace
}  // namespace mprdma
