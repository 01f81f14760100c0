#include "switchsim/sim/scenario/toml_traffic.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <numeric>
#include <utility>

#include "switchsim/sim/scenario/traffic.hpp"
#include "transport/core/types.hpp"

namespace mprdma::switchsim {

namespace {

constexpr const char* kKinds[] = {"pairs", "permutation", "incast", "all-to-all", "poisson"};

std::vector<NodeId> read_hosts_or_all(TomlReader& reader, const HostNames& hosts,
                                      std::string_view key, const Scenario& scenario) {
  if (reader.table().contains(key)) return read_hosts(reader, hosts, key);
  reader.node(key);
  std::vector<NodeId> all(scenario.topology.hosts);
  std::iota(all.begin(), all.end(), 0);
  return all;
}

// Reads the sizes of messages: a number, the name of a workload ("websearch_dctcp"), or a file
// beside the scenario.
void read_sizes(TomlReader& reader, const TomlErrors& errors, TrafficSpec* traffic) {
  std::string name;
  const bool fixed =
      reader.integer("message_bytes", 1, transport::kMaxMessageBytes, &traffic->flow.message_bytes);
  if (!reader.text("cdf", &name)) return;
  if (fixed) return reader.refuse("cdf", "message_bytes or cdf, not both");
  if (name.ends_with(".cdf")) {
    name = (std::filesystem::path(errors.path).parent_path() / name).string();
  }
  SizeDistribution sizes;
  const Status status = SizeDistribution::load(name, &sizes);
  if (!status.ok()) return reader.refuse("cdf", "a distribution of sizes; " + status.text);
  traffic->sizes = std::move(sizes);
}

void read_poisson(TomlReader& reader, TrafficSpec* traffic) {
  for (const char* key : {"messages", "post_depth"}) {
    if (!reader.table().contains(key)) continue;
    return reader.refuse(key, "no such key with kind = \"poisson\": messages arrive by themselves");
  }
  if (!reader.number("load", 1e-6, 1, &traffic->load)) {
    reader.refuse("load", "a share of the senders' links, above 0 and at most 1");
  }
  size_t word = 0;
  if (reader.word("partners", {"random", "pairs", "permutation"}, &word)) {
    traffic->partners = static_cast<PartnerRule>(word);
  }
  if (reader.word("queue_pairs", {"per-pair", "per-message"}, &word)) {
    traffic->queue_pair_per_message = word == 1;
  }
}

void read_starts(TomlReader& reader, TrafficSpec* traffic) {
  reader.span_us("start_every_us", &traffic->start_every);
  reader.span_us("start_jitter_us", &traffic->start_jitter);
  reader.span_us("last_for_us", &traffic->last_for);
  if (reader.span_us("think_us", &traffic->flow.think) && traffic->flow.think > SimSpan()) {
    traffic->flow.post_depth = 1;
  }
  if (traffic->kind == TrafficKind::kIncast) {
    reader.integer("senders", 1, 1'000'000, &traffic->senders);
  }
}

}  // namespace

void read_traffic(const toml::table& table, const HostNames& hosts, const TransportSpec& transport,
                  TomlErrors& errors, Scenario* scenario) {
  TomlReader reader(table, "[[traffic]]", errors);
  TrafficSpec traffic;
  size_t kind = 0;
  if (!reader.word("kind", {kKinds[0], kKinds[1], kKinds[2], kKinds[3], kKinds[4]}, &kind)) {
    return reader.refuse("kind", "a kind of traffic, like \"permutation\"");
  }
  traffic.kind = static_cast<TrafficKind>(kind);
  traffic.flow.name = kKinds[kind];
  reader.text("name", &traffic.flow.name);
  traffic.from = read_hosts_or_all(reader, hosts, "from", *scenario);
  traffic.to = kind == static_cast<size_t>(TrafficKind::kIncast)
                   ? read_hosts(reader, hosts, "to")
                   : read_hosts_or_all(reader, hosts, "to", *scenario);
  read_work(reader, &traffic.flow);
  read_sizes(reader, errors, &traffic);
  if (traffic.kind == TrafficKind::kPoisson) {
    read_poisson(reader, &traffic);
  } else {
    read_starts(reader, &traffic);
  }
  read_flow_transport(reader, "[traffic.transport]", transport, errors, &traffic.flow);
  reader.finish();
  if (reader.failed()) return;
  scenario->traffic.push_back(std::move(traffic));
}

}  // namespace mprdma::switchsim
