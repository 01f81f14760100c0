#include "transport/memory_table.hpp"

#include <gtest/gtest.h>

namespace mprdma::transport {
namespace {

constexpr uint32_t kKey = MemoryTable::make_key(3, 0x42);

MemoryTable table_with(const MemoryRegion& region) {
  MemoryTable table(8);
  table.set(region);
  return table;
}

MemoryRegion region_of(uint64_t iova, uint64_t length) {
  return {.iova = iova,
          .addr = 0x7000,
          .length = length,
          .pd = 1,
          .access = kRemoteRead | kLocalWrite,
          .key = kKey};
}

bool opens(const MemoryTable& table, uint64_t iova, uint64_t length, uint32_t access = kRemoteRead,
           uint32_t key = kKey, uint32_t pd = 1) {
  uint64_t addr = 0;
  return table.translate(key, pd, iova, length, access, &addr);
}

TEST(MemoryTable, TranslatesExactlyTheRegion) {
  const MemoryTable table = table_with(region_of(0x1000, 0x100));
  uint64_t addr = 0;
  ASSERT_TRUE(table.translate(kKey, 1, 0x1010, 0x10, kRemoteRead, &addr));
  EXPECT_EQ(addr, 0x7010u);
  EXPECT_TRUE(opens(table, 0x1000, 0x100));
  EXPECT_TRUE(opens(table, 0x10ff, 1));
  EXPECT_FALSE(opens(table, 0x0fff, 1));
  EXPECT_FALSE(opens(table, 0x1100, 1));
  EXPECT_FALSE(opens(table, 0x1001, 0x100));
  EXPECT_FALSE(opens(table, 0x1000, 0x101));
}

TEST(MemoryTable, NoSumOfAddressAndLengthWrapsRound) {
  const MemoryTable table = table_with(region_of(UINT64_MAX - 0xff, 0x100));
  EXPECT_TRUE(opens(table, UINT64_MAX - 0xff, 0x100));
  EXPECT_TRUE(opens(table, UINT64_MAX, 1));
  EXPECT_FALSE(opens(table, UINT64_MAX, 2));
  EXPECT_FALSE(opens(table, UINT64_MAX - 1, UINT64_MAX));
  EXPECT_FALSE(opens(table, 0, 1));
}

TEST(MemoryTable, EveryRightThatIsAskedForMustBeThere) {
  const MemoryTable table = table_with(region_of(0x1000, 0x100));
  EXPECT_TRUE(opens(table, 0x1000, 1, kRemoteRead | kLocalWrite));
  EXPECT_FALSE(opens(table, 0x1000, 1, kRemoteWrite));
  EXPECT_FALSE(opens(table, 0x1000, 1, kRemoteRead | kRemoteWrite));
}

TEST(MemoryTable, KeyByteAndProtectionDomainMustMatch) {
  const MemoryTable table = table_with(region_of(0x1000, 0x100));
  EXPECT_FALSE(opens(table, 0x1000, 1, kRemoteRead, kKey ^ 1));
  EXPECT_FALSE(opens(table, 0x1000, 1, kRemoteRead, kKey, 2));
  EXPECT_FALSE(opens(table, 0x1000, 1, kRemoteRead, 0));
  EXPECT_FALSE(opens(table, 0x1000, 1, kRemoteRead, UINT32_MAX));
}

TEST(MemoryTable, AKeyEndsWithItsRegion) {
  MemoryTable table = table_with(region_of(0x1000, 0x100));
  table.remove(kKey);
  EXPECT_FALSE(opens(table, 0x1000, 1));
  MemoryRegion next = region_of(0x1000, 0x100);
  next.key = MemoryTable::make_key(3, 0x43);
  table.set(next);
  EXPECT_FALSE(opens(table, 0x1000, 1));
  EXPECT_TRUE(opens(table, 0x1000, 1, kRemoteRead, next.key));
}

}  // namespace
}  // namespace mprdma::transport
