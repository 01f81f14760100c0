#include "base/ring.hpp"

#include <gtest/gtest.h>

#include <memory>

namespace mprdma {
namespace {

TEST(Ring, CapacityRoundsUpToAPowerOfTwo) {
  EXPECT_EQ(Ring<int>(0).capacity(), 1U);
  EXPECT_EQ(Ring<int>(5).capacity(), 8U);
  EXPECT_EQ(Ring<int>(8).capacity(), 8U);
}

TEST(Ring, IsFirstInFirstOutAcrossTheWrapOfItsSlots) {
  Ring<int> ring(4);
  for (int round = 0; round < 5; ++round) {
    for (int i = 0; i < 3; ++i) ring.push(10 * round + i);
    EXPECT_EQ(ring.front(), 10 * round);
    EXPECT_EQ(ring.back(), 10 * round + 2);
    EXPECT_EQ(ring[1], 10 * round + 1);
    for (int i = 0; i < 3; ++i) EXPECT_EQ(ring.pop(), 10 * round + i);
    EXPECT_TRUE(ring.empty());
  }
}

TEST(Ring, FullAtCapacityAndNotBefore) {
  Ring<int> ring(2);
  ring.push(1);
  EXPECT_FALSE(ring.full());
  ring.push(2);
  EXPECT_TRUE(ring.full());
  EXPECT_EQ(ring.size(), 2U);
}

TEST(Ring, IndexNamesAnElementUntilItLeaves) {
  Ring<int> ring(4);
  ring.push(0);
  ring.pop();
  const uint32_t index = ring.tail_index();
  ring.push(7);
  ring.push(8);
  EXPECT_EQ(ring.head_index(), index);
  EXPECT_EQ(ring.at_index(index), 7);
  EXPECT_EQ(ring.at_index(index + 1), 8);
  ring.pop();
  EXPECT_EQ(ring.head_index(), index + 1);
  ring.clear();
  EXPECT_EQ(ring.head_index(), index + 2);
}

TEST(Ring, PoppedElementIsMovedOut) {
  Ring<std::unique_ptr<int>> ring(2);
  ring.push(std::make_unique<int>(3));
  const std::unique_ptr<int> popped = ring.pop();
  EXPECT_EQ(*popped, 3);
}

TEST(RingDeathTest, OverflowAndUnderflowAreBugs) {
  Ring<int> ring(1);
  EXPECT_DEATH(ring.pop(), "check failed");
  ring.push(1);
  EXPECT_DEATH(ring.push(2), "check failed");
}

}  // namespace
}  // namespace mprdma
