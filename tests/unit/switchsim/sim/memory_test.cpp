// Memory is linear in the hosts: as many bytes for a host in a large network as in a small one.
// Each run is a process of its own, whose peak the kernel tells.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "switchsim/model/routes.hpp"
#include "tests/unit/switchsim/sim/scenarios.hpp"

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define MPRDMA_TEST_SANITIZED
#endif
#elif defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define MPRDMA_TEST_SANITIZED
#endif

namespace mprdma::switchsim {
namespace {

#ifdef MPRDMA_TEST_SANITIZED
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

// A permutation of all hosts.
void add_traffic(Scenario* scenario) {
  TrafficSpec traffic;
  traffic.kind = TrafficKind::kPermutation;
  traffic.flow.name = "x";
  traffic.flow.message_bytes = 30'000;
  traffic.flow.messages = 1;
  for (NodeId host = 0; host < scenario->topology.hosts; ++host) traffic.from.push_back(host);
  traffic.to = traffic.from;
  scenario->traffic.push_back(traffic);
  scenario->end_when_idle = true;
}

// Three tiers of so many pods of 32 hosts.
Scenario pods(uint32_t count) {
  Scenario scenario;
  make_three_tier({.pods = count, .tors = 4, .aggs = 2, .cores = 4, .hosts_per_tor = 8}, &scenario);
  add_traffic(&scenario);
  return scenario;
}

Scenario fat_tree(uint32_t k) {
  Scenario scenario;
  make_fat_tree({.k = k}, &scenario);
  add_traffic(&scenario);
  return scenario;
}

// Peak of the resident memory of a run, bytes; 0 if it failed.
uint64_t peak_of(const Scenario& scenario) {
  const pid_t child = fork();
  if (child == 0) {
    const Result result = simulate(scenario);
    const bool good = result.fct.all().messages == scenario.topology.hosts;
    _exit(result.errors.empty() && good ? 0 : 1);
  }
  int status = 1;
  rusage usage{};
  if (child < 0 || wait4(child, &status, 0, &usage) != child || status != 0) return 0;
  return static_cast<uint64_t>(usage.ru_maxrss) * 1024;
}

TEST(Memory, BytesForAHostDoNotGrowWithTheNetwork) {
  if (kSanitized) GTEST_SKIP() << "the sanitizer's own memory is most of it";
  const uint64_t least = peak_of(pods(1));
  const uint64_t small = peak_of(pods(9));
  const uint64_t large = peak_of(pods(33));
  ASSERT_GT(least, 0U);
  ASSERT_GT(small, least);
  ASSERT_GT(large, small);
  const double of_small = static_cast<double>(small - least) / (8 * 32);
  const double of_large = static_cast<double>(large - small) / (24 * 32);
  EXPECT_LT(of_large, 1.15 * of_small);
  EXPECT_LT(of_large, 64 * 1024);
}

// In a fat-tree the switches, too, get more ports as it grows.
TEST(Memory, BytesForAHostDoNotGrowWithAFatTree) {
  if (kSanitized) GTEST_SKIP() << "the sanitizer's own memory is most of it";
  const uint64_t least = peak_of(fat_tree(4));
  const uint64_t small = peak_of(fat_tree(8));
  const uint64_t large = peak_of(fat_tree(16));
  ASSERT_GT(least, 0U);
  ASSERT_GT(small, least);
  ASSERT_GT(large, small);
  const double of_small = static_cast<double>(small - least) / (128 - 16);
  const double of_large = static_cast<double>(large - small) / (1024 - 128);
  EXPECT_LT(of_large, 1.15 * of_small);
}

TEST(Memory, RouteTablesOfAFatTreeAreLinearInItsHosts) {
  double before = 20;
  for (const uint32_t k : {8U, 16U, 32U}) {
    Scenario scenario;
    make_fat_tree({.k = k}, &scenario);
    const Routes routes(scenario.topology, 1);
    const double each = static_cast<double>(routes.table_entries()) / scenario.topology.hosts;
    EXPECT_LT(each, before);
    before = each;
  }
  EXPECT_LT(before, 10);
}

}  // namespace
}  // namespace mprdma::switchsim
