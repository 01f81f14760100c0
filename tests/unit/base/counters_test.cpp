#include "base/counters.hpp"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace mprdma {
namespace {

#define TEST_COUNTERS(X)                   \
  X(path_packets_sent, "Packets sent.")    \
  X(path_packets_dropped, "Packets lost.") \
  X(path_bytes_sent, "Bytes sent.")
MPRDMA_DEFINE_COUNTERS(TestCounters, TEST_COUNTERS);

TEST(Counters, OneListMakesMembersNamesAndDescriptionsInOrder) {
  static_assert(TestCounters::kCount == 3);
  static_assert(sizeof(TestCounters) == 3 * sizeof(uint64_t));
  EXPECT_EQ(TestCounters::kNames[1], "path_packets_dropped");
  EXPECT_EQ(TestCounters::kDescriptions[2], "Bytes sent.");
}

TEST(Counters, ForEachVisitsEveryEntryUnderItsName) {
  TestCounters counters;
  counters.path_packets_sent = 7;
  counters.path_bytes_sent = 9;
  std::vector<std::pair<std::string, uint64_t>> seen;
  counters.for_each([&](std::string_view name, uint64_t value) { seen.emplace_back(name, value); });
  const std::vector<std::pair<std::string, uint64_t>> expected = {
      {"path_packets_sent", 7}, {"path_packets_dropped", 0}, {"path_bytes_sent", 9}};
  EXPECT_EQ(seen, expected);
}

TEST(Counters, AdditionAddsEachEntryToItsOwn) {
  TestCounters sum{1, 2, 3};
  sum += TestCounters{10, 20, 30};
  EXPECT_EQ(sum, (TestCounters{11, 22, 33}));
}

}  // namespace
}  // namespace mprdma
