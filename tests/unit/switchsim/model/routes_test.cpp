#include "switchsim/model/routes.hpp"

#include <gtest/gtest.h>

#include <set>

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

}  // namespace
}  // namespace mprdma::switchsim
