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

struct Measured {
  NodeId hosts = 0;
  uint64_t peak = 0;
};

Measured measure(const Scenario& scenario) {
  return {scenario.topology.hosts, peak_of(scenario)};
}

// What each host of `more` takes that is not in `less`.
double bytes_a_host(const Measured& less, const Measured& more) {
  EXPECT_GT(less.peak, 0U);
  EXPECT_GT(more.peak, less.peak);
  return static_cast<double>(more.peak - less.peak) / (more.hosts - less.hosts);
}

TEST(Memory, BytesForAHostDoNotGrowWithTheNetwork) {
  if (kSanitized) GTEST_SKIP() << "the sanitizer's own memory is most of it";
  const Measured small = measure(pods(9));
  const double of_large = bytes_a_host(small, measure(pods(33)));
  EXPECT_LT(of_large, 1.15 * bytes_a_host(measure(pods(1)), small));
  EXPECT_LT(of_large, 64 * 1024);
}

// In a fat-tree the switches, too, get more ports as it grows.
TEST(Memory, BytesForAHostDoNotGrowWithAFatTree) {
  if (kSanitized) GTEST_SKIP() << "the sanitizer's own memory is most of it";
  const Measured small = measure(fat_tree(8));
  const double of_large = bytes_a_host(small, measure(fat_tree(16)));
  EXPECT_LT(of_large, 1.15 * bytes_a_host(measure(fat_tree(4)), small));
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
