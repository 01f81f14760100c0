#include "switchsim/sim/scenario/toml_topology.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <string>
#include <utility>

#include "switchsim/config/toml_buffers.hpp"
#include "switchsim/sim/scenario/toml_ports.hpp"
#include "transport/core/trace_text.hpp"

namespace mprdma::switchsim {

namespace {

// Host names stand unescaped in the lines of a trace (transport/core/trace_text.hpp).
bool is_host_name(const std::string& name) {
  return !name.empty() && name.size() <= transport::kTraceHostMax &&
         std::all_of(name.begin(), name.end(), [](unsigned char c) {
           return c >= ' ' && c != 0x7f && c != '"' && c != '\\';
         });
}

void read_explicit(TomlReader& reader, Scenario* scenario) {
  if (!reader.names("hosts", &scenario->host_names)) reader.refuse("hosts", "a list of names");
  if (!std::all_of(scenario->host_names.begin(), scenario->host_names.end(), is_host_name)) {
    reader.refuse("hosts", fmt::format("names of 1 to {} characters, without quotes, backslashes "
                                       "and control characters",
                                       transport::kTraceHostMax));
  }
  reader.names("switches", &scenario->switch_names);
  scenario->topology.hosts = static_cast<uint32_t>(scenario->host_names.size());
  scenario->topology.switches = static_cast<uint32_t>(scenario->switch_names.size());
}

template <class Spec>
void read_common(TomlReader& reader, uint32_t path_mtu, Spec* spec) {
  spec->path_mtu = path_mtu;
  reader.span_us("base_rtt_us", &spec->base_rtt);
  read_queue(reader, &spec->queue_bytes_max);
  read_red(reader, &spec->red);
  read_marking(reader, &spec->red);
  reader.rate_gbps("access_gbps", &spec->access);
}

// Refuses, before the links are made, a network that is too large and a base RTT that is too short.
template <class Spec>
bool possible(TomlReader& reader, const Spec& spec, std::string_view key, const NetworkSize& size) {
  if (reader.failed()) return false;
  const Status status = too_large(size);
  if (!status.ok()) return reader.refuse(key, status.text), false;
  const SimSpan least = least_rtt(spec);
  if (spec.base_rtt >= least || reader.table().contains("link_delay_us")) return true;
  reader.refuse("base_rtt_us",
                fmt::format("at least {:.2f}, which serialisation takes (or link_delay_us instead)",
                            std::ceil(static_cast<double>(least.count_ps()) / 1e4) / 100));
  return false;
}

void read_dumbbell(TomlReader& reader, uint32_t path_mtu, Scenario* scenario) {
  DumbbellSpec spec;
  read_common(reader, path_mtu, &spec);
  reader.integer("pairs", 1, 10'000, &spec.pairs);
  reader.rate_gbps("bottleneck_gbps", &spec.bottleneck);
  const uint64_t hosts = uint64_t{2} * spec.pairs;
  if (!possible(reader, spec, "pairs", {hosts, hosts + 1, 2, 2})) return;
  make_dumbbell(spec, scenario);
}

void read_testbed(TomlReader& reader, uint32_t path_mtu, Scenario* scenario) {
  TestbedSpec spec;
  read_common(reader, path_mtu, &spec);
  reader.integer("servers", 1, 10'000, &spec.servers);
  reader.integer("paths", 1, 250, &spec.paths);
  reader.rate_gbps("path_gbps", &spec.path_rate);
  const uint64_t hosts = uint64_t{2} * spec.servers;
  if (!possible(reader, spec, "servers", {hosts, hosts + spec.paths, 2, 2})) return;
  make_testbed(spec, scenario);
}

void read_leaf_spine(TomlReader& reader, uint32_t path_mtu, Scenario* scenario) {
  LeafSpineSpec spec;
  read_common(reader, path_mtu, &spec);
  reader.integer("leaves", 1, 1000, &spec.leaves);
  reader.integer("spines", 1, 250, &spec.spines);
  reader.integer("hosts_per_leaf", 1, 1000, &spec.hosts_per_leaf);
  reader.rate_gbps("fabric_gbps", &spec.fabric);
  const uint64_t leaves = spec.leaves;
  const uint64_t hosts = leaves * spec.hosts_per_leaf;
  const NetworkSize size{hosts, hosts + leaves * spec.spines, leaves + spec.spines, leaves};
  if (!possible(reader, spec, "leaves", size)) return;
  make_leaf_spine(spec, scenario);
}

NetworkSize size_of_tiers(const ThreeTierSpec& spec) {
  const uint64_t tors = uint64_t{spec.pods} * spec.tors;
  const uint64_t hosts = tors * spec.hosts_per_tor;
  const uint64_t links = tors * spec.aggs + uint64_t{spec.pods} * spec.cores;
  const uint64_t switches = tors + uint64_t{spec.pods} * spec.aggs + spec.cores;
  return {hosts, hosts + links, switches, tors};
}

void read_three_tier(TomlReader& reader, uint32_t path_mtu, Scenario* scenario) {
  ThreeTierSpec spec;
  read_common(reader, path_mtu, &spec);
  reader.integer("pods", 1, 1000, &spec.pods);
  reader.integer("tors", 1, 1000, &spec.tors);
  reader.integer("aggs", 1, 250, &spec.aggs);
  reader.integer("cores", 1, 10'000, &spec.cores);
  reader.integer("hosts_per_tor", 1, 1000, &spec.hosts_per_tor);
  reader.rate_gbps("tor_gbps", &spec.tor_rate);
  reader.rate_gbps("core_gbps", &spec.core_rate);
  if (spec.cores % spec.aggs != 0) {
    return reader.refuse("cores", fmt::format("a multiple of aggs ({})", spec.aggs));
  }
  if (!possible(reader, spec, "pods", size_of_tiers(spec))) return;
  make_three_tier(spec, scenario);
}

void read_fat_tree(TomlReader& reader, uint32_t path_mtu, Scenario* scenario) {
  FatTreeSpec spec;
  read_common(reader, path_mtu, &spec);
  reader.integer("k", 2, 64, &spec.k);
  reader.integer("oversubscription", 1, 16, &spec.oversubscription);
  if (spec.k % 2 != 0) return reader.refuse("k", "an even number");
  const ThreeTierSpec tiers = three_tier_of(spec);
  if (!possible(reader, tiers, "oversubscription", size_of_tiers(tiers))) return;
  make_fat_tree(spec, scenario);
}

// Reads the one delay of every link, which replaces the delays that base_rtt_us would give.
void read_link_delay(TomlReader& reader, Scenario* scenario) {
  SimSpan delay;
  if (!reader.span_us("link_delay_us", &delay)) return;
  if (reader.table().contains("base_rtt_us")) {
    return reader.refuse("link_delay_us", "base_rtt_us or link_delay_us, not both");
  }
  for (LinkConfig& link : scenario->topology.links) link.ab.delay = link.ba.delay = delay;
}

}  // namespace

void read_topology(const toml::table& table, uint32_t path_mtu, TomlErrors& errors,
                   Scenario* scenario) {
  TomlReader reader(table, "[topology]", errors);
  size_t kind = 0;
  if (!reader.word("kind",
                   {"dumbbell", "testbed", "leaf-spine", "three-tier", "fat-tree", "explicit"},
                   &kind)) {
    return reader.refuse("kind", "a kind of topology, like \"leaf-spine\"");
  }
  using Read = void (*)(TomlReader&, uint32_t, Scenario*);
  constexpr Read kReads[] = {read_dumbbell, read_testbed, read_leaf_spine, read_three_tier,
                             read_fat_tree};
  if (kind < std::size(kReads)) {
    kReads[kind](reader, path_mtu, scenario);
    read_link_delay(reader, scenario);
  } else {
    read_explicit(reader, scenario);
  }
  read_buffers(reader, &scenario->topology);
  reader.boolean("flood", &scenario->topology.flood);
  reader.finish();
}

}  // namespace mprdma::switchsim
