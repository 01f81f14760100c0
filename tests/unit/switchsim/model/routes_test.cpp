#include "switchsim/model/routes.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <vector>

#include "base/prng.hpp"
#include "tests/unit/switchsim/model/support.hpp"

namespace mprdma::switchsim {
namespace {

const PortConfig kPort = port_of(40, SimSpan::us(1));

TEST(Routes, ALeafHasOnePortPerSpineAndASpineOneDown) {
  const Topology topology = leaf_spine(3, 4, 2, kPort, kPort);
  const Routes routes(topology, 1);
  const NodeId leaf = topology.hosts;
  const NodeId spine = topology.hosts + 3;
  EXPECT_EQ(routes.next_ports(leaf, 5).size(), 4U);
  EXPECT_EQ(routes.next_ports(spine, 5).size(), 1U);
  ASSERT_EQ(routes.next_ports(leaf, 1).size(), 1U);  // the host hangs here
  EXPECT_EQ(topology.to(routes.next_port(leaf, 1, 7)), 1U);
  for (uint64_t flow = 0; flow < 100; ++flow) {
    EXPECT_EQ(topology.to(routes.next_port(spine, 5, flow)), leaf + 2);
  }
}

TEST(Routes, ParallelLinksArePortsOfEqualCost) {
  Topology topology = chain(2, kPort);
  topology.links.push_back({2, 3, kPort, kPort, ""});
  topology.links.push_back({2, 3, kPort, kPort, ""});
  const Routes routes(topology, 1);
  std::set<PortId> used;
  for (uint64_t flow = 0; flow < 100; ++flow) used.insert(routes.next_port(2, 1, mix64(flow)));
  EXPECT_EQ(used, (std::set<PortId>{2, 6, 8}));
}

TEST(Routes, OnlyShortestPathsAreUsedAndALongerOneWhenTheyAreGone) {
  // 0 - s2 - s3 - 1, and a detour s2 - s4 - s3.
  Topology topology = chain(2, kPort);
  topology.switches = 3;
  topology.links.push_back({2, 4, kPort, kPort, ""});
  topology.links.push_back({4, 3, kPort, kPort, ""});
  Routes routes(topology, 1);
  ASSERT_EQ(routes.next_ports(2, 1).size(), 1U);
  EXPECT_EQ(routes.next_port(2, 1, 5), 2U);
  routes.set_usable(1, false);
  EXPECT_EQ(routes.next_port(2, 1, 5), 2U);  // not before it is computed
  routes.compute();
  EXPECT_EQ(routes.next_port(2, 1, 5), 6U);
  routes.set_usable(4, false);
  routes.compute();
  EXPECT_EQ(routes.next_port(2, 1, 5), kNoPort);
  routes.set_usable(1, true);
  routes.compute();
  EXPECT_EQ(routes.next_port(2, 1, 5), 2U);
}

TEST(Routes, TwoHostsOnOneWireNeedNoSwitch) {
  Topology topology;
  topology.hosts = 2;
  topology.links.push_back({0, 1, kPort, kPort, ""});
  const Routes routes(topology, 1);
  EXPECT_EQ(routes.nic(0), 0U);
  EXPECT_EQ(routes.nic(1), 1U);
}

TEST(Routes, TablesGrowWithLeavesNotWithHosts) {
  const Topology topology = leaf_spine(320, 32, 32, kPort, kPort);
  ASSERT_EQ(topology.hosts, 10240U);
  const Routes routes(topology, 1);
  // Hosts, 352 x 320 group numbers, and a few shared groups: far from 352 x 10240 x 32 ports.
  EXPECT_LT(routes.table_entries(), 250'000U);
  EXPECT_EQ(routes.next_ports(topology.hosts, 10239).size(), 32U);
}

// Switches in a ring, and random links between them, some of them parallel. Every other switch has
// a host.
Topology random_network(uint32_t switches, uint32_t links, Prng& prng) {
  Topology topology;
  topology.hosts = (switches + 1) / 2;
  topology.switches = switches;
  const auto add = [&](NodeId a, NodeId b) { topology.links.push_back({a, b, kPort, kPort, ""}); };
  for (NodeId host = 0; host < topology.hosts; ++host) add(host, topology.hosts + 2 * host);
  for (uint32_t at = 0; at < switches; ++at) {
    add(topology.hosts + at, topology.hosts + (at + 1) % switches);
  }
  for (uint32_t i = 0; i < links; ++i) {
    const auto a = static_cast<NodeId>(prng.below(switches));
    const auto b = static_cast<NodeId>(prng.below(switches - 1));
    add(topology.hosts + a, topology.hosts + (a + 1 + b) % switches);
  }
  return topology;
}

// Hops from each switch to the leaf, by relaxation until nothing changes; the slow way.
std::vector<uint32_t> hops_to(const Topology& topology, const std::vector<bool>& down,
                              NodeId leaf) {
  std::vector<uint32_t> hops(topology.nodes(), topology.nodes());
  hops[leaf] = 0;
  for (bool changed = true; changed;) {
    changed = false;
    for (PortId port = 2 * topology.hosts; port < topology.ports(); ++port) {
      uint32_t& here = hops[topology.from(port)];
      if (down[port / 2] || hops[topology.to(port)] + 1 >= here) continue;
      here = hops[topology.to(port)] + 1;
      changed = true;
    }
  }
  return hops;
}

void expect_all_shortest(const Topology& topology, const std::vector<bool>& down,
                         const Routes& routes) {
  for (NodeId host = 0; host < topology.hosts; ++host) {
    const NodeId leaf = topology.to(routes.nic(host));
    const std::vector<uint32_t> hops = hops_to(topology, down, leaf);
    for (NodeId node = topology.hosts; node < topology.nodes(); ++node) {
      if (node == leaf) continue;
      std::vector<PortId> ports;
      for (PortId port = 2 * topology.hosts; port < topology.ports(); ++port) {
        if (topology.from(port) != node || down[port / 2]) continue;
        if (hops[topology.to(port)] + 1 == hops[node]) ports.push_back(port);
      }
      const auto found = routes.next_ports(node, host);
      ASSERT_TRUE(std::equal(found.begin(), found.end(), ports.begin(), ports.end()))
          << "from switch " << node << " to host " << host;
    }
  }
}

TEST(Routes, AreAllShortestPathsInAnyNetworkWhateverIsDown) {
  Prng prng(1);
  for (uint32_t run = 0; run < 60; ++run) {
    const auto switches = static_cast<uint32_t>(3 + prng.below(20));
    const Topology topology =
        random_network(switches, static_cast<uint32_t>(prng.below(3 * switches)), prng);
    Routes routes(topology, run);
    std::vector<bool> down(topology.links.size());
    expect_all_shortest(topology, down, routes);
    for (uint32_t i = 0; i < switches; ++i) {
      const auto inner = topology.links.size() - topology.hosts;
      const auto link = static_cast<LinkId>(topology.hosts + prng.below(inner));
      down[link] = !down[link];
      routes.set_usable(link, !down[link]);
    }
    routes.compute();
    expect_all_shortest(topology, down, routes);
  }
}

TEST(Routes, TwinLeavesHaveTheirOwnWaysDown) {
  // Four leaves with links to both spines, doubled to the first one; a link of one leaf goes down.
  Topology topology = leaf_spine(4, 2, 1, kPort, kPort);
  for (uint32_t leaf = 0; leaf < 4; ++leaf) {
    topology.links.push_back({topology.hosts + leaf, topology.hosts + 4, kPort, kPort, ""});
  }
  Routes routes(topology, 1);
  std::vector<bool> down(topology.links.size());
  expect_all_shortest(topology, down, routes);
  down[topology.hosts + 3] = true;
  routes.set_usable(topology.hosts + 3, false);
  routes.compute();
  expect_all_shortest(topology, down, routes);
}

}  // namespace
}  // namespace mprdma::switchsim
