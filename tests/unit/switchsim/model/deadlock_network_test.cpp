// The search for deadlocks against the network itself: it finds one exactly where packets stay for
// ever.
#include <gtest/gtest.h>

#include <array>

#include "switchsim/model/deadlock.hpp"
#include "switchsim/model/network.hpp"
#include "tests/unit/switchsim/model/support.hpp"

namespace mprdma::switchsim {
namespace {

constexpr uint32_t kBytes = 1000;
constexpr uint32_t kSwitches = 5;

// Switches in a ring with a host each, which sends to the one after the next: every link of the
// ring carries what ends at its far end, and what goes on.
Topology ring(const PfcConfig& pfc, uint64_t buffer_bytes, uint32_t alpha_q16) {
  Topology topology;
  topology.hosts = kSwitches;
  topology.switches = kSwitches;
  const PortConfig port = port_of(40, SimSpan::us(1));
  for (NodeId i = 0; i < kSwitches; ++i) {
    topology.links.push_back({i, kSwitches + i, port, port, ""});
  }
  for (NodeId i = 0; i < kSwitches; ++i) {
    topology.links.push_back({kSwitches + i, kSwitches + (i + 1) % kSwitches, port, port, ""});
  }
  topology.pfc = pfc;
  topology.pfc.on = true;
  topology.pfc.mtu_bytes = kBytes;
  topology.switch_buffer_bytes = buffer_bytes;
  topology.buffer_alpha_q16 = alpha_q16;
  return topology;
}

// All hosts pause until every ingress is full, and then take what comes. True if packets are left.
// The search looks while they still move, too: what it finds then has to stay.
bool packets_stay(const Topology& topology, uint64_t seed) {
  Recorder run(config_of(topology));
  Prng prng(seed);
  for (NodeId host = 0; host < kSwitches; ++host) run.net.set_host_pausing(host, true);
  for (uint32_t i = 0; i < 1000; ++i) {
    for (NodeId host = 0; host < kSwitches; ++host) {
      const auto hops = static_cast<NodeId>(prng.range(1, 2));
      run.backlog[host].push_back(run.make((host + hops) % kSwitches, kBytes));
    }
  }
  for (NodeId host = 0; host < kSwitches; ++host) run.net.want_pull(host);
  run.net.run_until(SimTime() + SimSpan::us(400));
  std::array<uint64_t, kSwitches> until{};
  for (uint64_t& steps : until) steps = prng.below(50);
  bool early = false;
  for (uint64_t step = 0; step < 100; ++step) {
    for (NodeId host = 0; host < kSwitches; ++host) {
      if (until[host] == step) run.net.set_host_pausing(host, false);
    }
    early = early || !DeadlockSearch::find(run.net).empty();
    run.net.run_until(run.net.now() + SimSpan::us(1));
  }
  run.net.run_until(SimTime() + SimSpan::ms(50));
  run.net.check();
  const bool stay = run.arrivals.size() < size_t{1000} * kSwitches;
  EXPECT_EQ(!DeadlockSearch::find(run.net).empty(), stay);
  EXPECT_TRUE(stay || !early) << "a deadlock was told that ended";
  return stay;
}

struct Form {
  const char* name;
  uint32_t pause_bytes;
  uint32_t hysteresis_bytes;
  uint64_t buffer_bytes;
  uint32_t alpha_q16;
};
constexpr Form kForms[] = {
    {"a fixed threshold", 20'000, 1'000, 0, 0},
    {"one that ends pauses late", 20'000, 19'000, 0, 0},
    {"one of what is free", 0, 1'000, 200'000, (1 << 16) / 8},
    {"half of what is free", 0, 1'000, 200'000, 1 << 15},
    {"one that takes all", 0, 1'000, 200'000, 8 << 16},
    {"one that ends pauses late", 0, 15'000, 200'000, (1 << 16) / 8},
};

TEST(DeadlockOfANetwork, IsFoundExactlyWherePacketsStayForEver) {
  uint32_t stuck = 0;
  uint32_t runs = 0;
  for (const Form& form : kForms) {
    SCOPED_TRACE(form.name);
    PfcConfig pfc;
    pfc.pause_bytes = form.pause_bytes;
    pfc.hysteresis_bytes = form.hysteresis_bytes;
    const Topology topology = ring(pfc, form.buffer_bytes, form.alpha_q16);
    for (uint64_t seed = 1; seed <= 10; ++seed, ++runs) {
      SCOPED_TRACE(seed);
      stuck += packets_stay(topology, seed) ? 1 : 0;
    }
  }
  EXPECT_GT(stuck, 5U);
  EXPECT_LT(stuck, runs - 5U);
}

}  // namespace
}  // namespace mprdma::switchsim
