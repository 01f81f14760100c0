// The tables of the engine: queue pair numbers, keys, neighbours, turns, the copy that polls.
#include <gtest/gtest.h>

#include <ctime>
#include <map>
#include <set>
#include <vector>

#include "dataplane/arp.hpp"
#include "dataplane/mr_table.hpp"
#include "dataplane/placement.hpp"
#include "dataplane/qp_table.hpp"
#include "dataplane/scheduler.hpp"

namespace mprdma::dataplane {
namespace {

TEST(QpTable, DestroyedNumbersRestBeforeTheyReturn) {
  QpTable table(Prng(5));
  const uint32_t first = table.allocate();
  table.release(first);
  for (uint32_t i = 0; i < 100'000; ++i) {
    const uint32_t qpn = table.allocate();
    ASSERT_NE(qpn, first) << "after " << i << " uses";
    table.release(qpn);
  }
}

TEST(QpTable, NeverGivesReservedNumbersNorOneTwice) {
  QpTable table(Prng(6));
  std::set<uint32_t> given;
  for (uint32_t i = 0; i < QpTable::kSlots - 1; ++i) {
    const uint32_t qpn = table.allocate();
    ASSERT_GT(qpn, 1u);
    ASSERT_LT(qpn, 0xffffffu);
    ASSERT_TRUE(given.insert(qpn).second);
  }
  EXPECT_EQ(table.allocate(), 0u) << "full";
  table.release(*given.begin());
  EXPECT_NE(table.allocate(), 0u);
}

TEST(QpTable, StaleNumberFindsNobody) {
  QpTable table(Prng(7));
  QpContext* const object = reinterpret_cast<QpContext*>(0x1000);
  const uint32_t qpn = table.allocate();
  table.set(qpn, object);
  EXPECT_EQ(table.find(qpn), object);
  EXPECT_EQ(table.find(qpn ^ QpTable::kSlots), nullptr) << "another generation of the slot";
  table.release(qpn);
  EXPECT_EQ(table.find(qpn), nullptr);
}

TEST(MrTable, KeyOfADeregisteredRegionOpensNothing) {
  MrTable table(4, Prng(1));  // two regions at most
  transport::MemoryRegion region;
  region.iova = region.addr = 0x1000;
  region.length = 100;
  region.pd = 3;
  std::set<uint32_t> keys;
  for (int i = 0; i < 100; ++i) {
    const uint32_t key = table.add(region);
    ASSERT_NE(key, 0u);
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
    uint32_t key;
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
  EXPECT_NE(table.add(region), 0u);
  EXPECT_NE(table.add(region), 0u);
  EXPECT_EQ(table.add(region), 0u);
}

constexpr uint64_t kSecret = 77;

struct Asked {
  std::vector<Time> requests;
  std::vector<Time> failures;
  void run(ArpTable& table, Time until) {
    while (table.next_deadline() <= until) {
      const Time now = table.next_deadline();
      table.on_deadline(
          now, [&](const wire::IpAddress&) { requests.push_back(now); },
          [&](const wire::IpAddress&) { failures.push_back(now); });
    }
  }
};

TEST(ArpTable, AsksAtOnceThenBacksOffThenGivesUpButGoesOnAsking) {
  ArpTable table(kSecret);
  const Time start = Time::from_ns(5'000'000'000);
  table.resolve(7, start);
  Asked asked;
  asked.run(table, start + Duration::s(10));
  ASSERT_GT(asked.requests.size(), 10u);
  EXPECT_EQ(asked.requests[0], start);
  EXPECT_EQ(asked.requests[1], start + Duration::ms(10));
  EXPECT_EQ(asked.requests[2], start + Duration::ms(30));
  EXPECT_LE(asked.requests.size(), 20u);
  ASSERT_EQ(asked.failures.size(), 1u);
  EXPECT_GE(asked.failures[0] - start, ArpTable::kGiveUpAfter);
  EXPECT_TRUE(table.learn(7, {2, 0, 0, 0, 0, 1}, false)) << "a late answer mends it";
  EXPECT_EQ(table.find(7)->state, ArpTable::State::kReachable);
}

TEST(ArpTable, AnswerEndsTheAsking) {
  ArpTable table(kSecret);
  table.resolve(7, Time{});
  EXPECT_TRUE(table.learn(7, {2, 0, 0, 0, 0, 1}, false));
  EXPECT_FALSE(table.learn(7, {2, 0, 0, 0, 0, 1}, false)) << "no news";
  EXPECT_TRUE(table.learn(7, {2, 0, 0, 0, 0, 2}, false)) << "it moved";
  Asked asked;
  asked.run(table, Time{} + Duration::s(10));
  EXPECT_TRUE(asked.requests.empty());
}

TEST(ArpTable, StrangersAreLearntOnlyWhenTheyAskForUsAndKeepNobodyOut) {
  ArpTable table(kSecret);
  EXPECT_FALSE(table.learn(9, {2, 0, 0, 0, 0, 9}, false));
  EXPECT_EQ(table.find(9), nullptr);
  ASSERT_NE(table.resolve(0x7ffffffe, Time{}), nullptr);
  for (uint32_t ip = 1; ip < 2 * ArpTable::kCapacity; ++ip) {
    table.learn(ip, {2, 0, 0, 0, 0, 9}, true);
  }
  EXPECT_NE(table.find(0x7ffffffe), nullptr) << "in use, pushed out by strangers";
  EXPECT_NE(table.resolve(0x7fffffff, Time{}), nullptr);
}

// RFC 4861, 7.2.5.
TEST(ArpTable, AnAdvertisementAddsNobodyAndLeavesWhatIsKnownUnlessItOverrides) {
  ArpTable table(kSecret);
  const wire::IpAddress ip = {0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9};
  EXPECT_FALSE(table.learn_advertised(ip, {2, 0, 0, 0, 0, 1}, true));
  table.resolve(ip, Time{});
  EXPECT_TRUE(table.learn_advertised(ip, {2, 0, 0, 0, 0, 1}, false));
  EXPECT_FALSE(table.learn_advertised(ip, {2, 0, 0, 0, 0, 2}, false));
  EXPECT_EQ(table.find(ip)->mac[5], 1);
  EXPECT_TRUE(table.learn_advertised(ip, {2, 0, 0, 0, 0, 2}, true));
  EXPECT_EQ(table.find(ip)->mac[5], 2);
}

TEST(ArpTable, HoldsNoMoreThanItsCapacity) {
  ArpTable table(kSecret);
  for (uint32_t ip = 1; ip <= ArpTable::kCapacity; ++ip) {
    ASSERT_NE(table.resolve(ip, Time{}), nullptr);
  }
  EXPECT_EQ(table.resolve(0x7fffffff, Time{}), nullptr);
}

// The table against a list of what is wanted and what it was told, while strangers and addresses
// that nobody answers for push each other out of it.
TEST(ArpTable, FindsWhatIsWantedHoweverManyComeAndGo) {
  constexpr uint32_t kWanted = 300;
  constexpr uint32_t kSilent = 0x1000;
  ArpTable table(kSecret);
  Prng prng(5);
  Time now;
  std::map<uint32_t, wire::MacAddress> macs;
  for (int i = 0; i < 60'000; ++i) {
    const auto low = static_cast<uint8_t>(prng.below(250));
    const auto wanted = static_cast<uint32_t>(1 + prng.below(kWanted));
    const auto stranger = static_cast<uint32_t>(0x10000 + prng.below(3 * ArpTable::kCapacity));
    table.learn(stranger, {2, 0, 0, 0, 1, low}, true);
    if (prng.chance(1, 4)) {
      ASSERT_NE(table.resolve(wanted, now), nullptr) << i;
      macs[wanted] = {2, 0, 0, 0, 0, low};
      table.learn(wanted, macs[wanted], false);
    }
    if (prng.chance(1, 100)) {
      ASSERT_NE(table.resolve(stranger, now), nullptr);
    }
    if (prng.chance(1, 500)) {
      ASSERT_NE(table.resolve(kSilent + wanted, now), nullptr);
    }
    if (prng.chance(1, 2000)) {
      now += Duration::s(2);
      const auto ignore = [](const wire::IpAddress&) {};
      for (int k = 0; k < 3; ++k) table.on_deadline(now + Duration::s(k), ignore, ignore);
      now += Duration::s(3);
      table.forget_failed();
      EXPECT_EQ(table.find(kSilent + wanted), nullptr) << "nobody answered";
    }
  }
  for (const auto& [ip, mac] : macs) {
    ASSERT_NE(table.find(ip), nullptr) << ip;
    EXPECT_EQ(table.find(ip)->mac, mac) << ip;
  }
  uint32_t found = 0;
  for (uint32_t ip = 1; ip < 0x10000 + 3 * ArpTable::kCapacity; ++ip) {
    found += table.find(ip) != nullptr ? 1 : 0;
  }
  EXPECT_LE(found, ArpTable::kCapacity);
  EXPECT_GT(found, ArpTable::kCapacity / 2);
}

// Or who sends ARP packets from many addresses stops the thread that reads them.
TEST(ArpTable, AFullOneCostsAboutAsMuchAsOneWithAFewEntries) {
  constexpr uint32_t kLooks = 4096;
  const auto cpu_ns = [] {
    timespec t{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return t.tv_sec * 1'000'000'000LL + t.tv_nsec;
  };
  // Looks, then strangers of whom each pushes the one before him out. The least of several: what
  // else the machine does is not ours.
  const auto cost_with = [&](uint32_t wanted, bool strangers) {
    ArpTable table(kSecret);
    for (uint32_t ip = 1; ip <= wanted; ++ip) table.resolve(ip, Time{});
    long long least = INT64_MAX;
    for (uint32_t round = 0; round < 5; ++round) {
      const long long start = cpu_ns();
      for (uint32_t i = 0; i < kLooks; ++i) {
        EXPECT_NE(table.find(1 + i % wanted), nullptr);
        EXPECT_EQ(table.learn(0x1000000 * (round + 1) + i, {2, 0, 0, 0, 0, 1}, strangers),
                  strangers);
      }
      least = std::min(least, cpu_ns() - start);
    }
    return least;
  };
  const long long few = cost_with(4, false);
  EXPECT_LT(cost_with(ArpTable::kCapacity, false), 30 * few);
  EXPECT_LT(cost_with(ArpTable::kCapacity - 1, true), 30 * few);
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
