// The network's invariants (Network::check()) after every event of transports that meet loss,
// marks, full buffers and PFC.
#include <gtest/gtest.h>

#include "base/prng.hpp"
#include "switchsim/model/network.hpp"
#include "switchsim/sim/hosts/host_set.hpp"
#include "tests/unit/switchsim/sim/scenarios.hpp"

namespace mprdma::switchsim {
namespace {

struct Seen {
  LinkCounters all;  // the sum over all ports
  uint64_t pauses = 0;
};

// Runs to the end of the scenario, step by step.
Seen run_checked(const Scenario& scenario) {
  EXPECT_EQ(validate(scenario).text, "");
  HostSet hosts(scenario);
  NetworkConfig config;
  config.topology = scenario.topology;
  config.seed = Prng(scenario.seed).split("network").next_u64();
  config.packets_max = hosts.packets_max();
  config.timers = hosts.timers();
  Network<HostSet> network(config, hosts);
  hosts.start(network);
  uint64_t events = 0;
  while (network.now() < SimTime() + scenario.duration && network.step()) {
    network.check();
    ++events;
  }
  EXPECT_GT(events, 1000U);
  Seen seen;
  LinkCounters& all = seen.all;
  for (PortId port = 0; port < scenario.topology.ports(); ++port) {
    const LinkCounters& one = network.counters(port);
    all.packets += one.packets;
    all.marked += one.marked;
    all.drop_loss += one.drop_loss;
    all.drop_buffer += one.drop_buffer;
    if (scenario.topology.pfc.on) seen.pauses += network.pause_state(port).pause_sent;
  }
  return seen;
}

// Five to one, over lossy paths, for a few hundred microseconds.
Scenario incast(bool pfc) {
  Scenario scenario = permutation();
  for (FlowSpec& flow : scenario.flows) flow.to = scenario.host("b1");
  for (const LinkId path : scenario.paths) scenario.topology.links[path].ab.loss_ppm = 5'000;
  scenario.duration = SimSpan::us(400);
  scenario.warm_up = SimSpan::us(0);
  scenario.topology.switch_buffer_bytes = pfc ? 1'000'000 : 60'000;
  scenario.topology.pfc.on = pfc;
  if (pfc) scenario.topology.pfc.pause_bytes = 10'000;
  return scenario;
}

TEST(NetworkInvariants, HoldAfterEveryEventWhereTheBufferIsFull) {
  const LinkCounters seen = run_checked(incast(false)).all;
  EXPECT_GT(seen.packets, 1000U);
  EXPECT_GT(seen.drop_loss, 0U);
  EXPECT_GT(seen.marked, 0U);
  EXPECT_GT(seen.drop_buffer, 0U);
}

TEST(NetworkInvariants, HoldAfterEveryEventWithPauses) {
  const Seen seen = run_checked(incast(true));
  EXPECT_GT(seen.all.packets, 1000U);
  EXPECT_GT(seen.all.drop_loss, 0U);
  EXPECT_EQ(seen.all.drop_buffer, 0U);
  EXPECT_GT(seen.pauses, 0U);
}

}  // namespace
}  // namespace mprdma::switchsim
