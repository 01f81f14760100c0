#include "switchsim/sim/scenario_toml.hpp"

#include <fmt/format.h>
#include <cmath>

#include "switchsim/config/read_file.hpp"
#include "switchsim/config/toml_reader.hpp"
#include "switchsim/sim/toml_buffers.hpp"
#include "switchsim/sim/toml_flow.hpp"
#include "switchsim/sim/toml_overrides.hpp"
#include "switchsim/sim/toml_params.hpp"
#include "switchsim/sim/toml_traffic.hpp"
#include "transport/types.hpp"

namespace mprdma::switchsim {

namespace {

// A scenario that is being read: defaults that the tables below inherit.
struct Document {
  TomlErrors& errors;
  Scenario* scenario;
  TransportSpec transport;
  HostNames hosts;  // once the topology is read
};

void read_red(TomlReader& reader, RedConfig* red) {
  const toml::node* node = reader.node("red");
  if (node == nullptr) return;
  if (const auto* off = node->as_boolean(); off != nullptr && !off->get()) {
    *red = RedConfig{};
    return;
  }
  const toml::array* list = node->as_array();
  const bool good = list != nullptr && list->size() == 3;
  const auto pmax = good ? list->get(0)->value<double>() : std::nullopt;
  const auto kmin = good ? list->get(1)->value_exact<int64_t>() : std::nullopt;
  const auto kmax = good ? list->get(2)->value_exact<int64_t>() : std::nullopt;
  if (!pmax || !kmin || !kmax || !(*pmax >= 0 && *pmax <= 1) || *kmin < 0 || *kmin > *kmax ||
      *kmax > UINT32_MAX) {
    reader.refuse("red", "[pmax in 0..1, kmin bytes, kmax bytes], or false");
    return;
  }
  red->pmax_ppm = static_cast<uint32_t>(std::lround(*pmax * 1e6));
  red->kmin_bytes = static_cast<uint32_t>(*kmin);
  red->kmax_bytes = static_cast<uint32_t>(*kmax);
}

void read_marking(TomlReader& reader, RedConfig* red) {
  size_t mark = 0;
  if (reader.word("mark_on", {"dequeue", "enqueue"}, &mark)) red->mark_on_enqueue = mark == 1;
}

void read_queue(TomlReader& reader, uint64_t* bytes_max) {
  const toml::node* node = reader.node("queue_bytes");
  if (node == nullptr) return;
  if (const auto* word = node->as_string(); word != nullptr && word->get() == "unlimited") {
    *bytes_max = UINT64_MAX;
  } else {
    const auto* value = node->as_integer();
    if (value == nullptr || value->get() < 0) {
      reader.refuse("queue_bytes", "a whole number of bytes, or \"unlimited\"");
      return;
    }
    *bytes_max = static_cast<uint64_t>(value->get());
  }
}

void read_port(TomlReader& reader, PortConfig* port) {
  reader.rate_gbps("rate_gbps", &port->rate);
  reader.span_us("delay_us", &port->delay);
  reader.share("loss", &port->loss_ppm);
  read_queue(reader, &port->queue_bytes_max);
  read_red(reader, &port->red);
  read_marking(reader, &port->red);
}

// ---- [topology]

void read_explicit(TomlReader& reader, Scenario* scenario) {
  std::vector<std::string> switches;
  if (!reader.names("hosts", &scenario->host_names)) reader.refuse("hosts", "a list of names");
  reader.names("switches", &switches);
  scenario->topology.hosts = static_cast<uint32_t>(scenario->host_names.size());
  scenario->topology.switches = static_cast<uint32_t>(switches.size());
  scenario->switch_names = switches;
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

// More than this is a slip of the hand, and would fill the memory before anything is said.
constexpr uint64_t kHostsMax = 200'000;

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
  if (uint64_t{spec.pods} * spec.tors * spec.hosts_per_tor > kHostsMax) {
    return reader.refuse("pods", fmt::format("at most {} hosts in all", kHostsMax));
  }
  make_three_tier(spec, scenario);
}

void read_fat_tree(TomlReader& reader, uint32_t path_mtu, Scenario* scenario) {
  FatTreeSpec spec;
  read_common(reader, path_mtu, &spec);
  reader.integer("k", 2, 64, &spec.k);
  reader.integer("oversubscription", 1, 16, &spec.oversubscription);
  if (spec.k % 2 != 0) return reader.refuse("k", "an even number");
  if (uint64_t{spec.k} * spec.k * spec.k / 4 * spec.oversubscription > kHostsMax) {
    return reader.refuse("oversubscription", fmt::format("at most {} hosts in all", kHostsMax));
  }
  make_fat_tree(spec, scenario);
}

// The same of every link, in place of what base_rtt_us would give.
void read_link_delay(TomlReader& reader, Scenario* scenario) {
  SimSpan delay;
  if (!reader.span_us("link_delay_us", &delay)) return;
  if (reader.table().contains("base_rtt_us")) {
    return reader.refuse("link_delay_us", "base_rtt_us or link_delay_us, not both");
  }
  for (LinkConfig& link : scenario->topology.links) link.ab.delay = link.ba.delay = delay;
}

void read_topology(const toml::table& table, Document& document) {
  TomlReader reader(table, "[topology]", document.errors);
  Scenario* scenario = document.scenario;
  const uint32_t path_mtu = document.transport.path_mtu;
  size_t kind = 0;
  if (!reader.word("kind",
                   {"dumbbell", "testbed", "leaf-spine", "three-tier", "fat-tree", "explicit"},
                   &kind)) {
    reader.refuse("kind", "a kind of topology, like \"leaf-spine\"");
    return;
  }
  if (kind == 0) {
    DumbbellSpec spec;
    read_common(reader, path_mtu, &spec);
    reader.integer("pairs", 1, 10'000, &spec.pairs);
    reader.rate_gbps("bottleneck_gbps", &spec.bottleneck);
    make_dumbbell(spec, scenario);
  } else if (kind == 1) {
    TestbedSpec spec;
    read_common(reader, path_mtu, &spec);
    reader.integer("servers", 1, 10'000, &spec.servers);
    reader.integer("paths", 1, 250, &spec.paths);
    reader.rate_gbps("path_gbps", &spec.path_rate);
    make_testbed(spec, scenario);
  } else if (kind == 2) {
    LeafSpineSpec spec;
    read_common(reader, path_mtu, &spec);
    reader.integer("leaves", 1, 1000, &spec.leaves);
    reader.integer("spines", 1, 250, &spec.spines);
    reader.integer("hosts_per_leaf", 1, 1000, &spec.hosts_per_leaf);
    reader.rate_gbps("fabric_gbps", &spec.fabric);
    make_leaf_spine(spec, scenario);
  } else if (kind == 3) {
    read_three_tier(reader, path_mtu, scenario);
  } else if (kind == 4) {
    read_fat_tree(reader, path_mtu, scenario);
  } else {
    read_explicit(reader, scenario);
  }
  if (kind != 5) read_link_delay(reader, scenario);
  read_buffers(reader, &scenario->topology);
  reader.finish();
}

// ---- [[link]]

std::optional<NodeId> node_named(const Scenario& scenario, std::string_view name) {
  if (const std::optional<NodeId> host = scenario.host_named(name)) return host;
  for (size_t i = 0; i < scenario.switch_names.size(); ++i) {
    if (scenario.switch_names[i] == name) {
      return scenario.topology.hosts + static_cast<NodeId>(i);
    }
  }
  return std::nullopt;
}

// The link that a [[link]] table speaks of: a new one if it says what it connects.
LinkConfig* find_or_add_link(TomlReader& reader, Scenario* scenario) {
  std::string name;
  std::string ends[2];
  const bool named = reader.text("name", &name);
  const bool has_a = reader.text("a", &ends[0]);
  const bool has_b = reader.text("b", &ends[1]);
  if (!has_a && !has_b) {
    const std::optional<LinkId> found = scenario->link_named(name);
    if (!found) {
      reader.refuse(named ? "name" : "a", "the name of a link of the topology, or a and b");
      return nullptr;
    }
    return &scenario->topology.links[*found];
  }
  LinkConfig link;
  NodeId* const nodes[2] = {&link.a, &link.b};
  for (size_t i = 0; i < 2; ++i) {
    const std::optional<NodeId> node = node_named(*scenario, ends[i]);
    if (!node) {
      reader.refuse(i == 0 ? "a" : "b", "the name of a host or switch");
      return nullptr;
    }
    *nodes[i] = *node;
  }
  link.name = named ? name : ends[0] + "-" + ends[1];
  for (PortConfig* port : {&link.ab, &link.ba}) port->delay = SimSpan::us(1);
  // A host's own port is never the place where packets are dropped.
  if (link.a < scenario->topology.hosts) link.ab.queue_bytes_max = UINT64_MAX;
  if (link.b < scenario->topology.hosts) link.ba.queue_bytes_max = UINT64_MAX;
  scenario->topology.links.push_back(link);
  return &scenario->topology.links.back();
}

void read_link(const toml::table& table, Document& document) {
  TomlReader reader(table, "[[link]]", document.errors);
  LinkConfig* link = find_or_add_link(reader, document.scenario);
  if (link == nullptr) return;
  read_port(reader, &link->ab);
  read_port(reader, &link->ba);
  for (const auto& [key, port] : {std::pair{"ab", &link->ab}, std::pair{"ba", &link->ba}}) {
    const toml::table* direction = reader.sub_table(key);
    if (direction == nullptr) continue;
    TomlReader inner(*direction, fmt::format("[[link]] {}", key), document.errors);
    read_port(inner, port);
    inner.finish();
  }
  reader.finish();
}

std::optional<LinkId> read_link_name(TomlReader& reader, const Scenario& scenario,
                                     std::string_view key, const std::string& name) {
  const std::optional<LinkId> link = scenario.link_named(name);
  if (!link) reader.refuse(key, fmt::format("the name of a link; '{}' is none", name));
  return link;
}

// ---- [[flow]]

void read_timed_messages(TomlReader& reader, FlowSpec* flow) {
  const toml::node* node = reader.node("at");
  if (node == nullptr) return;
  const toml::array* list = node->as_array();
  const std::string expected =
      fmt::format("a list of [microseconds, bytes] in the order of time, up to {} us and {} bytes",
                  kTimeUsMax, transport::kMaxMessageBytes);
  if (list == nullptr) return reader.refuse("at", expected);
  SimTime before;
  for (const toml::node& item : *list) {
    const toml::array* pair = item.as_array();
    if (pair == nullptr || pair->size() != 2) {
      return reader.error_at(&item, "[[flow]] at: expected " + expected);
    }
    const std::optional<SimSpan> at = span_of(*pair->get(0));
    const std::optional<int64_t> bytes = pair->get(1)->value_exact<int64_t>();
    const bool good = at && bytes && *bytes > 0 &&
                      *bytes <= static_cast<int64_t>(transport::kMaxMessageBytes) &&
                      SimTime() + *at >= before;
    if (!good) return reader.error_at(&item, "[[flow]] at: expected " + expected);
    before = SimTime() + *at;
    flow->timed_messages.push_back({before, static_cast<uint64_t>(*bytes)});
  }
}

void read_posting(TomlReader& reader, FlowSpec* flow) {
  read_work(reader, flow);
  reader.integer("message_bytes", 1, transport::kMaxMessageBytes, &flow->message_bytes);
  reader.share("synchronise_share", &flow->synchronise_ppm);
  reader.integer("turn_packets", 1, 4096, &flow->turn_packets);
  reader.boolean("measure_flowlets", &flow->measure_flowlets);
  reader.boolean("measure_paths", &flow->measure_paths);
  if (reader.span_us("think_us", &flow->think) && flow->think > SimSpan()) flow->post_depth = 1;
  read_timed_messages(reader, flow);
}

void read_flow(const toml::table& table, Document& document) {
  TomlReader reader(table, "[[flow]]", document.errors);
  Scenario* scenario = document.scenario;
  FlowSpec flow;
  reader.text("name", &flow.name);
  const std::vector<NodeId> from = read_hosts(reader, document.hosts, "from");
  const std::vector<NodeId> to = read_hosts(reader, document.hosts, "to");
  read_posting(reader, &flow);
  read_flow_transport(reader, "[flow.transport]", document.transport, document.errors, &flow);
  std::string pinned;
  if (reader.text("pinned", &pinned)) {
    flow.pinned_link = read_link_name(reader, *scenario, "pinned", pinned);
    if (flow.params.path_policy != transport::PathPolicy::kSingle) {
      reader.refuse("pinned", "transport.preset = \"mp-single\" or a preset of RoCE with it");
    }
  }
  reader.finish();
  if (reader.failed()) return;
  const size_t count = std::max(from.size(), to.size());
  if ((from.size() != 1 && from.size() != count) || (to.size() != 1 && to.size() != count)) {
    return reader.refuse("to", fmt::format("as many hosts as in from ({}), or one", from.size()));
  }
  const std::string name = flow.name;
  for (size_t i = 0; i < count; ++i) {
    flow.from = from[from.size() == 1 ? 0 : i];
    flow.to = to[to.size() == 1 ? 0 : i];
    if (count > 1) flow.name = (name.empty() ? "flow" : name) + std::to_string(i + 1);
    scenario->flows.push_back(flow);
  }
}

// ---- [[event]]

template <class T, class Read>
void read_optional(std::optional<T>* out, Read&& read) {
  T value{};
  if (read(&value)) *out = value;
}

void read_event(const toml::table& table, Document& document) {
  TomlReader reader(table, "[[event]]", document.errors);
  LinkEvent event;
  if (!reader.time_us("at_us", &event.at)) reader.refuse("at_us", "microseconds");
  std::vector<std::string> links;
  if (!reader.names("link", &links)) reader.refuse("link", "the name of a link");
  size_t direction = 0;
  if (reader.word("direction", {"both", "ab", "ba"}, &direction)) {
    event.direction = static_cast<Direction>(direction);
  }
  read_optional(&event.up, [&](bool* v) { return reader.boolean("up", v); });
  read_optional(&event.rate, [&](LinkRate* v) { return reader.rate_gbps("rate_gbps", v); });
  read_optional(&event.loss_ppm, [&](uint32_t* v) { return reader.share("loss", v); });
  read_optional(&event.delay, [&](SimSpan* v) { return reader.span_us("delay_us", v); });
  read_optional(&event.queue_bytes_max, [&](uint64_t* v) {
    read_queue(reader, v);
    return table.contains("queue_bytes");
  });
  read_optional(&event.red, [&](RedConfig* v) {
    read_red(reader, v);
    read_marking(reader, v);
    return table.contains("red");
  });
  reader.finish();
  for (const std::string& name : links) {
    const std::optional<LinkId> link = read_link_name(reader, *document.scenario, "link", name);
    if (!link) return;
    event.link = *link;
    document.scenario->events.push_back(event);
  }
}

// ---- The document

void read_paths(TomlReader& reader, Scenario* scenario) {
  std::vector<std::string> names;
  if (!reader.names("paths", &names)) return;
  scenario->paths.clear();
  for (const std::string& name : names) {
    const std::optional<LinkId> link = read_link_name(reader, *scenario, "paths", name);
    if (link) scenario->paths.push_back(*link);
  }
}

void read_times(TomlReader& reader, Scenario* scenario) {
  reader.file_name("name", &scenario->name);
  reader.text("description", &scenario->description);
  reader.integer("seed", 0, INT64_MAX, &scenario->seed);
  reader.span_us("duration_us", &scenario->duration);
  reader.span_us("warm_up_us", &scenario->warm_up);
  reader.span_us("sample_us", &scenario->sample);
  reader.span_us("queue_sample_us", &scenario->queue_sample);
  reader.boolean("end_when_idle", &scenario->end_when_idle);
  reader.span_us("ack_delay_us", &scenario->ack_delay);
  reader.span_us("ack_jitter_us", &scenario->ack_jitter);
  reader.boolean("reroute", &scenario->reroute);
  reader.span_us("reroute_after_us", &scenario->reroute_after);
}

std::string read_document(const toml::table& root, const std::string& path, Scenario* out) {
  TomlErrors errors{.path = path, .first = {}};
  Scenario scenario;
  Document document{.errors = errors, .scenario = &scenario, .transport = {}, .hosts = {}};
  TomlReader reader(root, "the scenario", errors);
  read_times(reader, &scenario);
  if (const toml::table* transport = reader.sub_table("transport")) {
    read_transport(*transport, "[transport]", errors, &document.transport);
  }
  if (const toml::table* topology = reader.sub_table("topology")) {
    read_topology(*topology, document);
  } else {
    reader.refuse("topology", "a table [topology]");
  }
  document.hosts = HostNames(scenario.host_names);
  for (const toml::table* link : reader.tables("link")) read_link(*link, document);
  read_paths(reader, &scenario);
  for (const toml::table* flow : reader.tables("flow")) read_flow(*flow, document);
  for (const toml::table* traffic : reader.tables("traffic")) {
    read_traffic(*traffic, document.hosts, document.transport, errors, &scenario);
  }
  for (const toml::table* event : reader.tables("event")) read_event(*event, document);
  reader.finish();
  if (errors.any()) return errors.first;
  scenario.topology.pfc.mtu_bytes = longest_packet_bytes(scenario);
  const std::string error = validate(scenario);
  if (!error.empty()) return path + ": " + error;
  *out = std::move(scenario);
  return {};
}

}  // namespace

std::string parse_scenario(const std::string& text, const std::string& path,
                           const Overrides& overrides, Scenario* out) {
  toml::parse_result parsed = toml::parse(text, path);
  if (!parsed) {
    TomlErrors errors{.path = path, .first = {}};
    errors.add(parsed.error().source(), std::string(parsed.error().description()));
    return errors.first;
  }
  for (const std::string& line : overrides) {
    std::string error = apply_override(line, parsed.table());
    if (!error.empty()) return error;
  }
  std::string error = read_document(parsed.table(), path, out);
  if (error.empty()) {
    out->text = text;
    out->overrides = overrides;
  }
  return error;
}

std::string load_scenario(const std::string& path, const Overrides& overrides, Scenario* out) {
  std::string text;
  const std::string wrong = read_file(path, &text);
  return wrong.empty() ? parse_scenario(text, path, overrides, out) : wrong;
}

}  // namespace mprdma::switchsim
