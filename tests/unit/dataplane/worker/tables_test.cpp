// The tables of the engine: queue pair numbers, keys, turns, the copy that polls.
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <vector>

#include "dataplane/worker/copy_to_memory.hpp"
#include "dataplane/worker/mr_table.hpp"
#include "dataplane/worker/qp_table.hpp"
#include "dataplane/worker/scheduler.hpp"

namespace mprdma::dataplane {
namespace {

TEST(QpTable, DestroyedNumbersRestBeforeTheyReturn) {
  QpTable table(Prng(5));
  const Qpn first = table.allocate();
  table.release(first);
  for (uint32_t i = 0; i < 100'000; ++i) {
    const Qpn qpn = table.allocate();
    ASSERT_NE(qpn, first) << "after " << i << " uses";
    table.release(qpn);
  }
}

TEST(QpTable, NeverGivesReservedNumbersNorOneTwice) {
  QpTable table(Prng(6));
  std::set<Qpn> given;
  for (uint32_t i = 0; i < kSlots - 1; ++i) {
    const Qpn qpn = table.allocate();
    ASSERT_GT(qpn, Qpn(1));
    ASSERT_LT(qpn, Qpn(0xffffff));
    ASSERT_TRUE(given.insert(qpn).second);
  }
  EXPECT_EQ(table.allocate(), Qpn(0)) << "full";
  table.release(*given.begin());
  EXPECT_NE(table.allocate(), Qpn(0));
}

TEST(QpTable, StaleNumberFindsNobody) {
  QpTable table(Prng(7));
  QpContext* const object = reinterpret_cast<QpContext*>(0x1000);
  const Qpn qpn = table.allocate();
  table.set(qpn, object);
  EXPECT_EQ(table.find(qpn), object);
  EXPECT_EQ(table.find(Qpn(qpn.value() ^ kSlots)), nullptr) << "another generation of the slot";
  table.release(qpn);
  EXPECT_EQ(table.find(qpn), nullptr);
}

TEST(MrTable, KeyOfADeregisteredRegionOpensNothing) {
  MrTable table(4, Prng(1));  // two regions at most
  transport::MemoryRegion region;
  region.iova = region.addr = 0x1000;
  region.length = 100;
  region.pd = 3;
  std::set<Key> keys;
  for (int i = 0; i < 100; ++i) {
    const Key key = table.add(region);
    ASSERT_NE(key, Key(0));
    uint64_t addr = 0;
    EXPECT_TRUE(table.memory().translate(key, 3, 0x1000, 100, 0, &addr));
    ASSERT_TRUE(keys.insert(key).second) << "a key returned after " << i << " uses";
    ASSERT_TRUE(table.remove(key));
    EXPECT_FALSE(table.memory().translate(key, 3, 0x1000, 100, 0, &addr));
    EXPECT_FALSE(table.remove(key));
  }
}

TEST(MrTable, KnowsOnDemandMemoryHoweverItsRegionsOverlap) {
  MrTable table(64, Prng(2));
  Prng prng(3);
  constexpr uint32_t kBytes = 1000;
  struct Range {
    Key key;
    uint64_t addr, length;
  };
  std::vector<Range> ranges;
  for (int step = 0; step < 400; ++step) {
    if (ranges.size() < 20 && prng.below(2) == 0) {
      transport::MemoryRegion region;
      region.addr = prng.below(kBytes);
      region.length = prng.below(prng.below(8) == 0 ? 500 : 30);
      ranges.push_back({table.add(region, true), region.addr, region.length});
    } else if (!ranges.empty()) {
      const size_t which = prng.below(ranges.size());
      ASSERT_TRUE(table.remove(ranges[which].key));
      ranges.erase(ranges.begin() + static_cast<ptrdiff_t>(which));
    }
    for (uint64_t at = 0; at < kBytes; at += 7) {
      const uint64_t length = 1 + prng.below(20);
      bool expected = false;
      for (const Range& range : ranges) {
        expected |= at < range.addr + range.length && range.addr < at + length;
      }
      ASSERT_EQ(table.is_on_demand(at, length), expected) << "step " << step << ", at " << at;
    }
  }
}

TEST(MrTable, FullTableSaysSo) {
  MrTable table(4, Prng(1));
  transport::MemoryRegion region;
  EXPECT_NE(table.add(region), Key(0));
  EXPECT_NE(table.add(region), Key(0));
  EXPECT_EQ(table.add(region), Key(0));
}

struct Item {
  Item* next_active = nullptr;
  bool active = false;
};

TEST(Scheduler, FirstInFirstOutAndOnceEach) {
  Scheduler<Item> scheduler;
  Item items[4];
  for (Item& item : items) scheduler.push(item);
  scheduler.push(items[0]);
  EXPECT_EQ(scheduler.size(), 4u);
  scheduler.remove(items[3]);
  scheduler.remove(items[1]);
  scheduler.remove(items[1]);
  EXPECT_EQ(scheduler.pop(), &items[0]);
  scheduler.push(items[0]);
  EXPECT_EQ(scheduler.pop(), &items[2]);
  EXPECT_EQ(scheduler.pop(), &items[0]);
  EXPECT_EQ(scheduler.pop(), nullptr);
  EXPECT_TRUE(scheduler.empty());
}

TEST(CopyTailLast, CopiesEveryLengthAndNothingElse) {
  std::vector<unsigned char> from(300);
  for (size_t i = 0; i < from.size(); ++i) from[i] = static_cast<unsigned char>(i + 1);
  for (uint32_t length = 0; length < 280; ++length) {
    std::vector<unsigned char> to(320, 0);
    copy_tail_last(to.data() + 3, from.data() + 5, length);
    for (uint32_t i = 0; i < to.size(); ++i) {
      const bool inside = i >= 3 && i < 3 + length;
      ASSERT_EQ(to[i], inside ? from[i - 3 + 5] : 0) << length << " " << i;
    }
  }
}

}  // namespace
}  // namespace mprdma::dataplane
