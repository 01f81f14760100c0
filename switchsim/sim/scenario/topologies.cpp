// Makes the topologies that scenarios name.
#include <fmt/format.h>

#include <string>
#include <utility>

#include "base/check.hpp"
#include "switchsim/sim/scenario/scenario.hpp"

namespace mprdma::switchsim {

namespace {

// The serialisation time of a full packet and its acknowledgement back.
template <size_t kHops>
SimSpan serialisation(const LinkRate (&rates)[kHops], uint32_t path_mtu) {
  SimSpan sum;
  for (const LinkRate rate : rates) {
    sum = sum + rate.time_of(data_wire_bytes(FlowOperation::kWrite, path_mtu)) +
          rate.time_of(ack_wire_bytes());
  }
  return sum;
}

// The propagation delay of each of the links with which a full packet and its acknowledgement take
// base_rtt on an empty network; zero if serialisation alone takes longer.
template <class Spec>
SimSpan delay_of(const Spec& spec, int64_t hops) {
  const int64_t each_ps = (spec.base_rtt - least_rtt(spec)).count_ps() / (2 * hops);
  return SimSpan::ps(each_ps > 0 ? each_ps : 0);
}

class Builder {
 public:
  Builder(SimSpan delay, uint64_t queue_bytes_max, const RedConfig& red, Scenario* scenario)
      : delay_(delay), queue_bytes_max_(queue_bytes_max), red_(red), scenario_(scenario) {
    scenario_->topology = Topology{};
    scenario_->host_names.clear();
    scenario_->paths.clear();
  }

  NodeId add_host(std::string name) {
    scenario_->host_names.push_back(std::move(name));
    return scenario_->topology.hosts++;
  }
  // Called after all hosts were added.
  NodeId add_switch() { return scenario_->topology.hosts + scenario_->topology.switches++; }
  LinkId connect(std::string name, NodeId a, NodeId b, LinkRate rate) {
    LinkConfig link;
    link.a = a;
    link.b = b;
    link.name = std::move(name);
    link.ab = port(a, rate);
    link.ba = port(b, rate);
    scenario_->topology.links.push_back(std::move(link));
    return static_cast<LinkId>(scenario_->topology.links.size() - 1);
  }
  void connect_hosts(NodeId first, uint32_t count, NodeId to, LinkRate rate) {
    for (NodeId host = first; host < first + count; ++host) {
      connect(scenario_->host_names[host], host, to, rate);
    }
  }

 private:
  // A host's own port does not mark, and its queue has no limit.
  [[nodiscard]] PortConfig port(NodeId from, LinkRate rate) const {
    PortConfig config;
    config.rate = rate;
    config.delay = delay_;
    if (from < scenario_->topology.hosts) {
      config.queue_bytes_max = UINT64_MAX;
    } else {
      config.queue_bytes_max = queue_bytes_max_;
      config.red = red_;
    }
    return config;
  }

  SimSpan delay_;
  uint64_t queue_bytes_max_;
  RedConfig red_;
  Scenario* scenario_;
};

}  // namespace

SimSpan least_rtt(const DumbbellSpec& spec) {
  const LinkRate rates[] = {spec.access, spec.bottleneck, spec.access};
  return serialisation(rates, spec.path_mtu);
}

void make_dumbbell(const DumbbellSpec& spec, Scenario* scenario) {
  Builder builder(delay_of(spec, 3), spec.queue_bytes_max, spec.red, scenario);
  for (uint32_t i = 1; i <= spec.pairs; ++i) builder.add_host(fmt::format("l{}", i));
  for (uint32_t i = 1; i <= spec.pairs; ++i) builder.add_host(fmt::format("r{}", i));
  const NodeId left = builder.add_switch();
  const NodeId right = builder.add_switch();
  builder.connect_hosts(0, spec.pairs, left, spec.access);
  builder.connect_hosts(spec.pairs, spec.pairs, right, spec.access);
  scenario->paths = {builder.connect("bottleneck", left, right, spec.bottleneck)};
}

SimSpan least_rtt(const TestbedSpec& spec) {
  const LinkRate rates[] = {spec.access, spec.path_rate, spec.access};
  return serialisation(rates, spec.path_mtu);
}

void make_testbed(const TestbedSpec& spec, Scenario* scenario) {
  Builder builder(delay_of(spec, 3), spec.queue_bytes_max, spec.red, scenario);
  for (uint32_t i = 1; i <= spec.servers; ++i) builder.add_host(fmt::format("a{}", i));
  for (uint32_t i = 1; i <= spec.servers; ++i) builder.add_host(fmt::format("b{}", i));
  const NodeId tor_a = builder.add_switch();
  const NodeId tor_b = builder.add_switch();
  builder.connect_hosts(0, spec.servers, tor_a, spec.access);
  builder.connect_hosts(spec.servers, spec.servers, tor_b, spec.access);
  for (uint32_t i = 1; i <= spec.paths; ++i) {
    scenario->paths.push_back(
        builder.connect(fmt::format("path{}", i), tor_a, tor_b, spec.path_rate));
  }
}

SimSpan least_rtt(const LeafSpineSpec& spec) {
  const LinkRate rates[] = {spec.access, spec.fabric, spec.fabric, spec.access};
  return serialisation(rates, spec.path_mtu);
}

void make_leaf_spine(const LeafSpineSpec& spec, Scenario* scenario) {
  Builder builder(delay_of(spec, 4), spec.queue_bytes_max, spec.red, scenario);
  const uint32_t hosts = spec.leaves * spec.hosts_per_leaf;
  for (uint32_t i = 1; i <= hosts; ++i) builder.add_host(fmt::format("h{}", i));
  for (uint32_t i = 0; i < spec.leaves + spec.spines; ++i) builder.add_switch();
  for (uint32_t leaf = 0; leaf < spec.leaves; ++leaf) {
    builder.connect_hosts(leaf * spec.hosts_per_leaf, spec.hosts_per_leaf, hosts + leaf,
                          spec.access);
  }
  for (uint32_t leaf = 0; leaf < spec.leaves; ++leaf) {
    for (uint32_t spine = 0; spine < spec.spines; ++spine) {
      const std::string name = fmt::format("leaf{}-spine{}", leaf + 1, spine + 1);
      builder.connect(name, hosts + leaf, hosts + spec.leaves + spine, spec.fabric);
    }
  }
}

namespace {

// Switches are numbered by tier: all ToRs, pod by pod, all aggregation switches, the cores.
void connect_tiers(const ThreeTierSpec& spec, NodeId first_tor, Builder* builder) {
  const NodeId first_agg = first_tor + spec.pods * spec.tors;
  const NodeId first_core = first_agg + spec.pods * spec.aggs;
  const uint32_t plane = spec.cores / spec.aggs;
  for (uint32_t pod = 0; pod < spec.pods; ++pod) {
    for (uint32_t tor = 0; tor < spec.tors; ++tor) {
      for (uint32_t agg = 0; agg < spec.aggs; ++agg) {
        builder->connect(fmt::format("pod{}-tor{}-agg{}", pod + 1, tor + 1, agg + 1),
                         first_tor + pod * spec.tors + tor, first_agg + pod * spec.aggs + agg,
                         spec.tor_rate);
      }
    }
    for (uint32_t agg = 0; agg < spec.aggs; ++agg) {
      for (uint32_t core = agg * plane; core < (agg + 1) * plane; ++core) {
        builder->connect(fmt::format("pod{}-agg{}-core{}", pod + 1, agg + 1, core + 1),
                         first_agg + pod * spec.aggs + agg, first_core + core, spec.core_rate);
      }
    }
  }
}

}  // namespace

SimSpan least_rtt(const ThreeTierSpec& spec) {
  const LinkRate rates[] = {spec.access,    spec.tor_rate, spec.core_rate,
                            spec.core_rate, spec.tor_rate, spec.access};
  return serialisation(rates, spec.path_mtu);
}

void make_three_tier(const ThreeTierSpec& spec, Scenario* scenario) {
  CHECK(spec.aggs > 0 && spec.cores % spec.aggs == 0);
  Builder builder(delay_of(spec, 6), spec.queue_bytes_max, spec.red, scenario);
  const uint32_t tors = spec.pods * spec.tors;
  const uint32_t hosts = tors * spec.hosts_per_tor;
  for (uint32_t i = 1; i <= hosts; ++i) builder.add_host(fmt::format("h{}", i));
  const uint32_t switches = tors + spec.pods * spec.aggs + spec.cores;
  for (uint32_t i = 0; i < switches; ++i) builder.add_switch();
  for (uint32_t tor = 0; tor < tors; ++tor) {
    builder.connect_hosts(tor * spec.hosts_per_tor, spec.hosts_per_tor, hosts + tor, spec.access);
  }
  connect_tiers(spec, hosts, &builder);
}

ThreeTierSpec three_tier_of(const FatTreeSpec& spec) {
  const uint32_t half = spec.k / 2;
  return {.pods = spec.k,
          .tors = half,
          .aggs = half,
          .cores = half * half,
          .hosts_per_tor = half * spec.oversubscription,
          .access = spec.access,
          .tor_rate = spec.access,
          .core_rate = spec.access,
          .base_rtt = spec.base_rtt,
          .path_mtu = spec.path_mtu,
          .red = spec.red,
          .queue_bytes_max = spec.queue_bytes_max};
}

void make_fat_tree(const FatTreeSpec& spec, Scenario* scenario) {
  CHECK(spec.k >= 2 && spec.k % 2 == 0);
  make_three_tier(three_tier_of(spec), scenario);
}

}  // namespace mprdma::switchsim
