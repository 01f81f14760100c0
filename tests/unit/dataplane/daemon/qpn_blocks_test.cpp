#include "dataplane/daemon/qpn_blocks.hpp"

#include <gtest/gtest.h>

#include <set>

namespace mprdma::dataplane::mprdmad {
namespace {

constexpr Time kStart = Time::from_ns(1'000'000'000);

TEST(BlockTable, GivesEachClientABlockOfItsOwnUntilNoneIsLeft) {
  BlockTable table(1);
  std::set<uint32_t> given;
  for (uint64_t i = 1; i <= client::kBlocks; ++i) {
    const uint32_t block = table.assign(i, client::kNoBlock, kStart);
    ASSERT_LT(block, client::kBlocks);
    EXPECT_TRUE(given.insert(block).second);
  }
  EXPECT_EQ(table.assign(1000, client::kNoBlock, kStart), client::kNoBlock);
  EXPECT_EQ(table.assign(1000, 5, kStart), client::kNoBlock);
}

TEST(BlockTable, TheBlockOfTheDeadRestsAndIsItsOwnersMeanwhile) {
  BlockTable table(1);
  const uint32_t block = table.assign(7, 12, kStart);
  EXPECT_EQ(block, 12u);
  table.release(12, kStart);
  const uint32_t other = table.assign(8, 12, kStart + Duration::s(1));
  EXPECT_NE(other, 12u);
  EXPECT_EQ(table.assign(7, 12, kStart + Duration::s(2)), 12u);
  table.release(12, kStart + Duration::s(3));
  EXPECT_EQ(table.assign(9, 12, kStart + Duration::s(3) + BlockTable::kRest), 12u);
}

TEST(BlockTable, NothingElseLeftGivesTheOneThatRestedLongest) {
  BlockTable table(1);
  std::vector<uint32_t> blocks;
  for (uint64_t i = 1; i <= client::kBlocks; ++i)
    blocks.push_back(table.assign(i, client::kNoBlock, kStart));
  table.release(blocks[3], kStart + Duration::s(1));
  table.release(blocks[2], kStart + Duration::s(2));
  EXPECT_EQ(table.assign(1001, blocks[2], kStart + Duration::s(3)), blocks[3]);
  EXPECT_EQ(table.assign(1002, client::kNoBlock, kStart + Duration::s(3)), blocks[2]);
}

TEST(BlockTable, ARestartedDaemonKeepsTheBlocksForThoseWhoComeBack) {
  BlockTable before(1);
  std::vector<uint32_t> blocks;
  for (uint64_t i = 1; i <= 64; ++i) blocks.push_back(before.assign(i, client::kNoBlock, kStart));
  BlockTable after(2);
  after.restore(before.instances(), kStart);
  // Newcomers take the free blocks first.
  for (uint64_t i = 100; i < 164; ++i) {
    const uint32_t block = after.assign(i, client::kNoBlock, kStart + Duration::s(1));
    EXPECT_EQ(std::count(blocks.begin(), blocks.end(), block), 0);
  }
  for (uint64_t i = 1; i <= 64; ++i) {
    EXPECT_EQ(after.assign(i, blocks[i - 1], kStart + Duration::s(2)), blocks[i - 1]);
  }
}

}  // namespace
}  // namespace mprdma::dataplane::mprdmad
