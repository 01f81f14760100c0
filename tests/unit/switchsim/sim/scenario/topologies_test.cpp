// Three tiers: as many switches, links and equal paths as the shape says, all of them used.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "switchsim/model/routes.hpp"
#include "switchsim/sim/scenario/scenario_toml.hpp"
#include "tests/unit/switchsim/sim/scenarios.hpp"

namespace mprdma::switchsim {
namespace {

using Path = std::vector<PortId>;

// All shortest paths from host to host.
std::vector<Path> paths_between(const Topology& topology, const Routes& routes, NodeId from,
                                NodeId to) {
  std::vector<Path> open = {{routes.nic(from)}};
  std::vector<Path> done;
  while (!open.empty()) {
    const Path path = open.back();
    open.pop_back();
    const NodeId node = topology.to(path.back());
    if (node == to) {
      done.push_back(path);
      continue;
    }
    for (const PortId port : routes.next_ports(node, to)) {
      Path longer = path;
      longer.push_back(port);
      open.push_back(longer);
    }
  }
  return done;
}

// The path that a packet takes whose five-tuple hashes to `flow`.
Path path_of(const Topology& topology, const Routes& routes, NodeId from, NodeId to,
             uint64_t flow) {
  Path path = {routes.nic(from)};
  while (topology.to(path.back()) != to) {
    path.push_back(routes.next_port(topology.to(path.back()), to, flow));
  }
  return path;
}

Scenario fat_tree(uint32_t k, uint32_t oversubscription = 1) {
  Scenario scenario;
  make_fat_tree({.k = k, .oversubscription = oversubscription}, &scenario);
  return scenario;
}

TEST(FatTree, HasTheSwitchesLinksAndHostsOfItsPorts) {
  for (const uint32_t k : {2U, 4U, 8U}) {
    const Scenario s = fat_tree(k);
    EXPECT_EQ(s.topology.hosts, k * k * k / 4);
    EXPECT_EQ(s.topology.switches, k * k + k * k / 4);
    EXPECT_EQ(s.topology.links.size(), 3 * k * k * k / 4);
    std::vector<uint32_t> ports(s.topology.nodes());
    for (const LinkConfig& link : s.topology.links) ++ports[link.a], ++ports[link.b];
    for (NodeId node = s.topology.hosts; node < s.topology.nodes(); ++node) {
      EXPECT_EQ(ports[node], k) << "switch " << node - s.topology.hosts;
    }
  }
  EXPECT_EQ(fat_tree(4, 3).topology.hosts, 48U);
  EXPECT_TRUE(fat_tree(4).link_named("pod4-agg2-core4").has_value());
  EXPECT_TRUE(fat_tree(4).link_named("pod4-tor2-agg2").has_value());
  EXPECT_FALSE(fat_tree(4).link_named("pod1-agg1-core3").has_value()) << "of the other plane";
}

TEST(FatTree, HasAPathForEachCoreBetweenPodsAndForEachAggregationSwitchWithin) {
  constexpr uint32_t k = 8;
  const Scenario s = fat_tree(k);
  const Routes routes(s.topology, 1);
  EXPECT_EQ(paths_between(s.topology, routes, 0, 1).size(), 1U);
  EXPECT_EQ(paths_between(s.topology, routes, 0, k / 2).size(), k / 2);
  const std::vector<Path> across = paths_between(s.topology, routes, 0, s.topology.hosts - 1);
  EXPECT_EQ(across.size(), k * k / 4);
  for (const Path& path : across) EXPECT_EQ(path.size(), 6U);
  // As many paths lead back.
  EXPECT_EQ(paths_between(s.topology, routes, s.topology.hosts - 1, 0).size(), k * k / 4);
}

// The topology is symmetric: over all pairs of hosts, each link of a tier is on as many paths as
// any other.
TEST(FatTree, EveryLinkOfATierIsOnAsManyPaths) {
  const Scenario s = fat_tree(4);
  const Routes routes(s.topology, 1);
  std::vector<uint32_t> on_path(s.topology.ports());
  for (NodeId from = 0; from < s.topology.hosts; ++from) {
    for (NodeId to = 0; to < s.topology.hosts; ++to) {
      if (from == to) continue;
      for (const Path& path : paths_between(s.topology, routes, from, to)) {
        for (const PortId port : path) ++on_path[port];
      }
    }
  }
  std::map<std::string, std::set<uint32_t>> by_tier;
  for (PortId port = 0; port < s.topology.ports(); ++port) {
    const std::string& name = s.topology.links[port / 2].name;
    const std::string tier = name.find("core") != std::string::npos  ? "core"
                             : name.find("tor") != std::string::npos ? "tor"
                                                                     : "host";
    by_tier[tier].insert(on_path[port]);
  }
  ASSERT_EQ(by_tier.size(), 3U);
  for (const auto& [tier, counts] : by_tier) EXPECT_EQ(counts.size(), 1U) << tier;
}

TEST(ThreeTier, EcmpUsesEveryPathAlike) {
  Scenario s;
  make_three_tier({.pods = 3, .tors = 2, .aggs = 3, .cores = 6, .hosts_per_tor = 2}, &s);
  ASSERT_EQ(s.topology.hosts, 12U);
  ASSERT_EQ(s.topology.links.size(), 12U + 3 * 2 * 3 + 3 * 6);
  const Routes routes(s.topology, 7);
  constexpr uint32_t kFlows = 12'000;
  std::map<Path, uint32_t> used;
  for (uint32_t vp = 0; vp < kFlows; ++vp) {
    const uint64_t flow = flow_hash({.source = {0, 0},
                                     .destination = {0, 11},
                                     .source_port = static_cast<uint16_t>(49152 + vp),
                                     .destination_port = 4791});
    ++used[path_of(s.topology, routes, 0, 11, flow)];
  }
  ASSERT_EQ(used.size(), 6U) << "one for each core";
  double chi_squared = 0;
  for (const auto& [path, count] : used) {
    EXPECT_EQ(path.size(), 6U);
    chi_squared += (count - kFlows / 6.0) * (count - kFlows / 6.0) / (kFlows / 6.0);
  }
  EXPECT_LT(chi_squared, 21);  // 0.1 % at 5 degrees of freedom
}

TEST(ThreeTier, RatesAndDelaysAreThoseOfTheTiers) {
  Scenario s;
  make_three_tier({.access = LinkRate::gbps(25),
                   .tor_rate = LinkRate::gbps(50),
                   .core_rate = LinkRate::gbps(200)},
                  &s);
  EXPECT_EQ(s.topology.links[s.link("h7")].ab.rate, LinkRate::gbps(25));
  EXPECT_EQ(s.topology.links[s.link("pod2-tor4-agg2")].ba.rate, LinkRate::gbps(50));
  EXPECT_EQ(s.topology.links[s.link("pod4-agg2-core4")].ab.rate, LinkRate::gbps(200));
  // A full packet and its acknowledgement between pods take base_rtt.
  FlowSpec flow = flow_between(s, "h1", "h128");
  flow.message_bytes = 1024;
  flow.messages = 1;
  s.flows.push_back(flow);
  s.end_when_idle = true;
  const Result result = simulate(s);
  ASSERT_EQ(result.flows[0].messages.size(), 1U);
  EXPECT_NEAR(static_cast<double>(result.flows[0].messages[0].fct().count_ps()), 20e6, 12);
}

TEST(ThreeTier, TenThousandHostsKeepTheirTablesSmall) {
  Scenario s;
  make_three_tier({.pods = 16, .tors = 16, .aggs = 8, .cores = 64, .hosts_per_tor = 40}, &s);
  ASSERT_EQ(s.topology.hosts, 10'240U);
  ASSERT_EQ(s.topology.switches, 16U * 24 + 64);
  const Routes routes(s.topology, 1);
  // Hosts, 448 switches x 256 ToRs, and shared groups.
  EXPECT_LT(routes.table_entries(), 140'000U);
  EXPECT_EQ(paths_between(s.topology, routes, 0, 10'239).size(), 64U);
}

std::string error_of(const std::string& topology) {
  Scenario scenario;
  return parse_scenario("[topology]\n" + topology + "[[flow]]\nfrom = \"h1\"\nto = \"h2\"\n",
                        "s.toml", {}, &scenario)
      .text;
}

TEST(TopologyToml, ReadsTheTiers) {
  Scenario s;
  ASSERT_EQ(parse_scenario("[topology]\nkind = \"fat-tree\"\nk = 4\noversubscription = 2\n"
                           "access_gbps = 10\nlink_delay_us = 2\n"
                           "[[flow]]\nfrom = \"h1\"\nto = \"h32\"\n",
                           "s.toml", {}, &s)
                .text,
            "");
  EXPECT_EQ(s.topology.hosts, 32U);
  EXPECT_EQ(s.topology.links.back().ba.rate, LinkRate::gbps(10));
  for (const LinkConfig& link : s.topology.links) EXPECT_EQ(link.ab.delay, SimSpan::us(2));
  EXPECT_EQ(error_of("kind = \"three-tier\"\npods = 2\ntors = 2\naggs = 2\ncores = 4\n"
                     "hosts_per_tor = 3\ntor_gbps = 50\ncore_gbps = 200\n"),
            "");
  EXPECT_EQ(error_of("kind = \"fat-tree\"\nk = 5\n"),
            "s.toml:3:5: [topology] k: expected an even number");
  EXPECT_EQ(error_of("kind = \"three-tier\"\naggs = 3\ncores = 4\n"),
            "s.toml:4:9: [topology] cores: expected a multiple of aggs (3)");
  EXPECT_EQ(error_of("kind = \"three-tier\"\npods = 1000\ntors = 1000\n"),
            "s.toml:3:8: [topology] pods: expected at most 200000 hosts in all, not 8000000");
  EXPECT_EQ(
      error_of("kind = \"leaf-spine\"\nbase_rtt_us = 9\nlink_delay_us = 1\n"),
      "s.toml:4:17: [topology] link_delay_us: expected base_rtt_us or link_delay_us, not both");
}

}  // namespace
}  // namespace mprdma::switchsim
