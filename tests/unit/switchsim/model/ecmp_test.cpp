#include "switchsim/model/ecmp.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>
#include <vector>

#include "base/prng.hpp"
#include "switchsim/model/routes.hpp"
#include "tests/unit/switchsim/model/support.hpp"

namespace mprdma::switchsim {
namespace {

uint64_t flow_of(NodeId from, NodeId to, uint16_t source_port) {
  return flow_hash({{0, from}, {0, to}, source_port, 4791, 17});
}

TEST(Ecmp, EveryFieldOfTheFiveTupleCounts) {
  const FiveTuple base{{1, 2}, {3, 4}, 5, 6, 17};
  std::set<uint64_t> hashes{flow_hash(base)};
  FiveTuple other = base;
  other.source[0] = 9, hashes.insert(flow_hash(other)), other = base;
  other.source[1] = 9, hashes.insert(flow_hash(other)), other = base;
  other.destination[0] = 9, hashes.insert(flow_hash(other)), other = base;
  other.destination[1] = 9, hashes.insert(flow_hash(other)), other = base;
  other.source_port = 9, hashes.insert(flow_hash(other)), other = base;
  other.destination_port = 9, hashes.insert(flow_hash(other)), other = base;
  other.protocol = 6, hashes.insert(flow_hash(other)), other = base;
  std::swap(other.source, other.destination), hashes.insert(flow_hash(other));
  EXPECT_EQ(hashes.size(), 9U);
}

// Consecutive source ports, as a host would number its virtual paths: the ports' shares differ by
// no more than chance, for counts that are no power of two as well.
TEST(Ecmp, ConsecutiveSourcePortsSpreadEvenly) {
  constexpr int kFlows = 16384;
  for (uint32_t count = 2; count <= 9; ++count) {
    std::vector<int> hits(count);
    for (int i = 0; i < kFlows; ++i) {
      const auto port = static_cast<uint16_t>(49152 + i);
      ++hits[ecmp_index(flow_of(1, 2, port), 0x1234, count)];
    }
    double chi_squared = 0;
    const double expected = double{kFlows} / count;
    for (const int hit : hits) chi_squared += (hit - expected) * (hit - expected) / expected;
    EXPECT_LT(chi_squared, 27) << count;  // 0.1 % at 8 degrees of freedom
  }
}

// If two switches chose by the same function, flows that met at the first would all meet again at
// the second.
TEST(Ecmp, ChoicesOfTwoSwitchesAreIndependent) {
  std::vector<int> joint(16);
  for (int i = 0; i < 16000; ++i) {
    const uint64_t flow = flow_of(3, 4, static_cast<uint16_t>(49152 + i));
    ++joint[ecmp_index(flow, 77, 4) * 4 + ecmp_index(flow, 78, 4)];
  }
  for (const int count : joint) EXPECT_NEAR(count, 1000, 130);
}

// n flows use the share 1 - (1 - 1/S)^n of S uplinks.
TEST(Ecmp, CollisionsAreThoseOfIndependentDraws) {
  constexpr int kDraws = 20000;
  for (const auto& [flows, uplinks] : {std::pair(8, 8), std::pair(4, 4), std::pair(10, 4)}) {
    Prng prng(9);
    uint64_t used = 0;
    for (int draw = 0; draw < kDraws; ++draw) {
      const uint64_t seed = prng.next_u64();
      std::set<uint32_t> hit;
      for (int flow = 0; flow < flows; ++flow) {
        hit.insert(ecmp_index(flow_of(flow, 100 + flow, static_cast<uint16_t>(prng.next_u64())),
                              seed, static_cast<uint32_t>(uplinks)));
      }
      used += hit.size();
    }
    const double share = static_cast<double>(used) / (double{kDraws} * uplinks);
    EXPECT_NEAR(share, 1 - std::pow(1 - 1.0 / uplinks, flows), 0.004) << flows << " " << uplinks;
  }
}

// Computes max-min fair rates: raises all flows alike until a link is full, again and again.
std::vector<double> max_min(const std::vector<std::vector<PortId>>& paths,
                            std::vector<double> left) {
  std::vector<double> rates(paths.size());
  std::vector<bool> frozen(paths.size());
  std::vector<int> active(left.size());
  for (const auto& path : paths) {
    for (const PortId port : path) ++active[port];
  }
  for (;;) {
    double step = 1e9;
    for (size_t port = 0; port < left.size(); ++port) {
      if (active[port] > 0) step = std::min(step, left[port] / active[port]);
    }
    if (step == 1e9) return rates;
    for (size_t port = 0; port < left.size(); ++port) left[port] -= step * active[port];
    std::vector<size_t> full;
    for (size_t flow = 0; flow < paths.size(); ++flow) {
      if (frozen[flow]) continue;
      rates[flow] += step;
      for (const PortId port : paths[flow]) frozen[flow] = frozen[flow] || left[port] < 1e-9;
      if (frozen[flow]) full.push_back(flow);
    }
    for (const size_t flow : full) {
      for (const PortId port : paths[flow]) --active[port];
    }
  }
}

TEST(Ecmp, APermutationOverLeafAndSpineGetsTheKnownShare) {
  constexpr int kDraws = 30;
  const Topology topology =
      leaf_spine(32, 4, 10, port_of(40, SimSpan::us(1)), port_of(100, SimSpan::us(1)));
  double sum = 0;
  double worst = 0;
  double jain = 0;
  for (uint64_t draw = 0; draw < kDraws; ++draw) {
    NetworkConfig config = config_of(topology, draw);
    config.packets_max = 1;
    Recorder run(config);
    Prng prng(1000 + draw);
    std::vector<NodeId> to(topology.hosts);
    std::iota(to.begin(), to.end(), 0);
    for (uint32_t i = topology.hosts - 1; i > 0; --i) std::swap(to[i], to[prng.below(i)]);
    std::vector<std::vector<PortId>> paths;
    for (NodeId from = 0; from < topology.hosts; ++from) {
      std::vector<PortId> path(8);
      const uint64_t flow = flow_of(from, to[from], static_cast<uint16_t>(prng.next_u64()));
      path.resize(run.net.path_of(from, to[from], flow, path));
      paths.push_back(path);
    }
    std::vector<double> capacity;
    for (PortId port = 0; port < topology.ports(); ++port) {
      capacity.push_back(port / 2 < topology.hosts ? 40 : 100);
    }
    const std::vector<double> rates = max_min(paths, capacity);
    const double total = std::accumulate(rates.begin(), rates.end(), 0.0);
    const double squares = std::inner_product(rates.begin(), rates.end(), rates.begin(), 0.0);
    sum += total / (40.0 * topology.hosts);
    worst += *std::min_element(rates.begin(), rates.end()) / 40;
    jain += total * total / (topology.hosts * squares);
  }
  EXPECT_NEAR(sum / kDraws, 0.720, 0.01);
  EXPECT_NEAR(worst / kDraws, 0.374, 0.03);  // the slowest flow of a draw
  EXPECT_NEAR(jain / kDraws, 0.927, 0.01);
}

}  // namespace
}  // namespace mprdma::switchsim
