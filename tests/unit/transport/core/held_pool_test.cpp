#include "transport/core/held_pool.hpp"

#include <gtest/gtest.h>

namespace mprdma::transport {
namespace {

TEST(HeldPool, GivesOutItsBudgetAndNoMore) {
  HeldPool pool(2);
  const uint32_t first = pool.allocate({}, 11, 0, true);
  const uint32_t second = pool.allocate({}, 22, 0, true);
  ASSERT_NE(first, HeldPool::kNone);
  ASSERT_NE(second, HeldPool::kNone);
  EXPECT_NE(first, second);
  EXPECT_EQ(pool.allocate({}, 33, 0, true), HeldPool::kNone);
  EXPECT_EQ(pool.in_use(), 2u);
  EXPECT_EQ(pool[first].frame, 11u);
  EXPECT_EQ(pool[second].frame, 22u);
}

TEST(HeldPool, AReturnedEntryIsGivenOutAgain) {
  HeldPool pool(1);
  const uint32_t entry = pool.allocate({}, 1, 0, true);
  pool.give_back(entry);
  EXPECT_EQ(pool.in_use(), 0u);
  EXPECT_EQ(pool.allocate({}, 2, 0, true), entry);
  EXPECT_EQ(pool[entry].frame, 2u);
}

TEST(HeldPool, ABudgetOfZeroHoldsNothing) {
  HeldPool pool(0);
  EXPECT_EQ(pool.allocate({}, 1, 0, true), HeldPool::kNone);
  EXPECT_EQ(pool.in_use(), 0u);
}

TEST(HeldPool, AStreamHasAsManyAsAreFree) {
  constexpr uint32_t kBudget = 100;
  HeldPool pool(kBudget);
  const auto fill = [&pool](bool ready) {
    uint32_t own = 0;
    while (pool.allocate({}, 0, own, ready) != HeldPool::kNone) ++own;
    return own;
  };
  EXPECT_EQ(fill(false), 5U) << "a sixteenth of what is left";
  EXPECT_EQ(fill(true), 48U) << "half of what it found, alone";
  EXPECT_EQ(fill(true), 24U);
  EXPECT_EQ(fill(true), 12U) << "so that others find some for ever";
  EXPECT_EQ(fill(false), 0U);
}

TEST(HeldPool, PacketsLongerThanAnyPathMtuHaveALimitOfTheirOwn) {
  HeldPool pool(4);
  pool.set_long_limit(1);
  wire::Packet segment;
  segment.payload_len = wire::kMaxPathMtu + 1;
  wire::Packet packet;
  packet.payload_len = wire::kMaxPathMtu;
  const uint32_t held = pool.allocate(segment, 1, 0, true);
  ASSERT_NE(held, HeldPool::kNone);
  EXPECT_EQ(pool.allocate(segment, 2, 0, true), HeldPool::kNone);
  EXPECT_NE(pool.allocate(packet, 3, 0, true), HeldPool::kNone) << "others go on";
  pool.give_back(held);
  const uint32_t again = pool.allocate(segment, 4, 0, true);
  EXPECT_NE(again, HeldPool::kNone);
  pool.set_long_limit(100);
  EXPECT_NE(pool.allocate(segment, 5, 0, true), HeldPool::kNone);
  EXPECT_NE(pool.allocate(segment, 6, 0, true), HeldPool::kNone);
  EXPECT_EQ(pool.allocate(segment, 7, 0, true), HeldPool::kNone) << "the budget counts for both";
}

}  // namespace
}  // namespace mprdma::transport
