// The table of neighbours: what it asks for, whom it learns, and what it costs.
#include "dataplane/mgmt/neighbour_table.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <ctime>
#include <set>
#include <vector>

#include "base/ipv4.hpp"
#include "base/prng.hpp"

namespace mprdma::dataplane {
namespace {

constexpr uint64_t kSecret = 77;
constexpr Ipv4 kAddress{7};
constexpr Ipv4 kLast{0x7fffffff};

struct Asked {
  std::vector<Time> requests;
  std::vector<Time> failures;
  void run(NeighbourTable& table, Time until) {
    while (table.next_deadline() <= until) {
      const Time now = table.next_deadline();
      table.on_deadline(
          now, [&](const wire::IpAddress&) { requests.push_back(now); },
          [&](const wire::IpAddress&) { failures.push_back(now); });
    }
  }
};

TEST(NeighbourTable, AsksAtOnceThenBacksOffThenGivesUpButGoesOnAsking) {
  NeighbourTable table(kSecret);
  const Time start = Time::from_ns(5'000'000'000);
  table.resolve(kAddress, start);
  Asked asked;
  asked.run(table, start + Duration::s(10));
  ASSERT_GT(asked.requests.size(), 10u);
  EXPECT_EQ(asked.requests[0], start);
  EXPECT_EQ(asked.requests[1], start + Duration::ms(10));
  EXPECT_EQ(asked.requests[2], start + Duration::ms(30));
  EXPECT_LE(asked.requests.size(), 20u);
  ASSERT_EQ(asked.failures.size(), 1u);
  EXPECT_GE(asked.failures[0] - start, NeighbourTable::kGiveUpAfter);
  EXPECT_TRUE(table.learn(kAddress, {2, 0, 0, 0, 0, 1}, false)) << "a late answer ends that";
  EXPECT_EQ(table.find(kAddress)->state, NeighbourTable::State::kReachable);
}

TEST(NeighbourTable, AnswerEndsTheAsking) {
  NeighbourTable table(kSecret);
  table.resolve(kAddress, Time{});
  EXPECT_TRUE(table.learn(kAddress, {2, 0, 0, 0, 0, 1}, false));
  EXPECT_FALSE(table.learn(kAddress, {2, 0, 0, 0, 0, 1}, false)) << "no news";
  EXPECT_TRUE(table.learn(kAddress, {2, 0, 0, 0, 0, 2}, false)) << "it moved";
  Asked asked;
  asked.run(table, Time{} + Duration::s(10));
  EXPECT_TRUE(asked.requests.empty());
}

TEST(NeighbourTable, StrangersAreLearntOnlyWhenTheyAskForUsAndKeepNobodyOut) {
  constexpr Ipv4 kWanted{0x7ffffffe};
  NeighbourTable table(kSecret);
  EXPECT_FALSE(table.learn(Ipv4(9), {2, 0, 0, 0, 0, 9}, false));
  EXPECT_EQ(table.find(Ipv4(9)), nullptr);
  ASSERT_NE(table.resolve(kWanted, Time{}), nullptr);
  for (uint32_t ip = 1; ip < 2 * NeighbourTable::kCapacity; ++ip) {
    table.learn(Ipv4(ip), {2, 0, 0, 0, 0, 9}, true);
  }
  EXPECT_NE(table.find(kWanted), nullptr) << "in use, pushed out by strangers";
  EXPECT_NE(table.resolve(kLast, Time{}), nullptr);
}

// RFC 4861, 7.2.5: which advertisements change an entry.
TEST(NeighbourTable, AnAdvertisementAddsNobodyAndLeavesWhatIsKnownUnlessItOverrides) {
  NeighbourTable table(kSecret);
  const wire::IpAddress ip = {0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9};
  EXPECT_FALSE(table.learn_advertised(ip, {2, 0, 0, 0, 0, 1}, true));
  table.resolve(ip, Time{});
  EXPECT_TRUE(table.learn_advertised(ip, {2, 0, 0, 0, 0, 1}, false));
  EXPECT_FALSE(table.learn_advertised(ip, {2, 0, 0, 0, 0, 2}, false));
  EXPECT_EQ(table.find(ip)->mac[5], 1);
  EXPECT_TRUE(table.learn_advertised(ip, {2, 0, 0, 0, 0, 2}, true));
  EXPECT_EQ(table.find(ip)->mac[5], 2);
}

TEST(NeighbourTable, HoldsNoMoreThanItsCapacity) {
  NeighbourTable table(kSecret);
  for (uint32_t ip = 1; ip <= NeighbourTable::kCapacity; ++ip) {
    ASSERT_NE(table.resolve(Ipv4(ip), Time{}), nullptr);
  }
  EXPECT_EQ(table.resolve(kLast, Time{}), nullptr);
}

// Compares the table with a list of wanted and learnt addresses, while strangers and silent
// addresses displace each other.
TEST(NeighbourTable, FindsWhatIsWantedHoweverManyComeAndGo) {
  constexpr uint32_t kWanted = 300;
  constexpr uint32_t kSilent = 0x1000;
  NeighbourTable table(kSecret);
  Prng prng(5);
  Time now;
  std::map<Ipv4, wire::MacAddress> macs;
  for (int i = 0; i < 60'000; ++i) {
    const auto low = static_cast<uint8_t>(prng.below(250));
    const Ipv4 wanted(static_cast<uint32_t>(1 + prng.below(kWanted)));
    const Ipv4 silent(kSilent + wanted.value());
    const Ipv4 stranger(static_cast<uint32_t>(0x10000 + prng.below(3 * NeighbourTable::kCapacity)));
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
      ASSERT_NE(table.resolve(silent, now), nullptr);
    }
    if (prng.chance(1, 2000)) {
      now += Duration::s(2);
      const auto ignore = [](const wire::IpAddress&) {};
      for (int k = 0; k < 3; ++k) table.on_deadline(now + Duration::s(k), ignore, ignore);
      now += Duration::s(3);
      table.forget_failed();
      EXPECT_EQ(table.find(silent), nullptr) << "nobody answered";
    }
  }
  for (const auto& [ip, mac] : macs) {
    ASSERT_NE(table.find(ip), nullptr) << ip.value();
    EXPECT_EQ(table.find(ip)->mac, mac) << ip.value();
  }
  uint32_t found = 0;
  for (uint32_t ip = 1; ip < 0x10000 + 3 * NeighbourTable::kCapacity; ++ip) {
    found += table.find(Ipv4(ip)) != nullptr ? 1 : 0;
  }
  EXPECT_LE(found, NeighbourTable::kCapacity);
  EXPECT_GT(found, NeighbourTable::kCapacity / 2);
}

// A search passes the place of an entry that is gone.
TEST(NeighbourTable, AReplacedEntryHidesNobody) {
  NeighbourTable table(kSecret);
  for (uint32_t ip = 1; ip <= NeighbourTable::kCapacity; ++ip) {
    table.learn(Ipv4(ip), {2, 0, 0, 0, 0, 1}, true);
  }
  constexpr uint32_t kNew = NeighbourTable::kCapacity / 2;
  for (uint32_t i = 1; i <= kNew; ++i) {
    ASSERT_NE(table.resolve(Ipv4(NeighbourTable::kCapacity + i), Time{}), nullptr);
  }
  uint32_t found = 0;
  for (uint32_t ip = 1; ip <= NeighbourTable::kCapacity + kNew; ++ip) {
    found += table.find(Ipv4(ip)) != nullptr ? 1 : 0;
  }
  EXPECT_EQ(found, NeighbourTable::kCapacity);
}

// If a full table were slow, a stranger who sends ARP packets from many addresses could stop the
// thread that reads them.
TEST(NeighbourTable, AFullOneCostsAboutAsMuchAsOneWithAFewEntries) {
  constexpr uint32_t kLooks = 4096;
  const auto cpu_ns = [] {
    timespec t{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return t.tv_sec * 1'000'000'000LL + t.tv_nsec;
  };
  // Times look-ups, then strangers each of which displaces the one before. The least of several
  // times counts, because the machine does other things, too.
  const auto cost_with = [&](uint32_t wanted, bool strangers) {
    NeighbourTable table(kSecret);
    for (uint32_t ip = 1; ip <= wanted; ++ip) table.resolve(Ipv4(ip), Time{});
    long long least = INT64_MAX;
    for (uint32_t round = 0; round < 5; ++round) {
      const long long start = cpu_ns();
      for (uint32_t i = 0; i < kLooks; ++i) {
        EXPECT_NE(table.find(Ipv4(1 + i % wanted)), nullptr);
        EXPECT_EQ(table.learn(Ipv4(0x1000000 * (round + 1) + i), {2, 0, 0, 0, 0, 1}, strangers),
                  strangers);
      }
      least = std::min(least, cpu_ns() - start);
    }
    return least;
  };
  const long long few = cost_with(4, false);
  EXPECT_LT(cost_with(NeighbourTable::kCapacity, false), 30 * few);
  EXPECT_LT(cost_with(NeighbourTable::kCapacity - 1, true), 30 * few);
}

}  // namespace
}  // namespace mprdma::dataplane
