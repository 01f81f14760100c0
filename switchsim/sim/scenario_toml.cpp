#include "switchsim/sim/scenario_toml.hpp"

#include <fmt/format.h>
#include <cmath>

#include <charconv>
#include <fstream>
#include <sstream>

#include "switchsim/config/toml_reader.hpp"
#include "switchsim/sim/toml_buffers.hpp"
#include "switchsim/sim/toml_overrides.hpp"
#include "switchsim/sim/toml_params.hpp"

namespace mprdma::switchsim {

namespace {

// A scenario that is being read: defaults that the tables below inherit.
struct Document {
  TomlErrors& errors;
  Scenario* scenario;
  TransportSpec transport;
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
  if (!pmax || !kmin || !kmax || *pmax < 0 || *pmax > 1 || *kmin < 0 || *kmin > *kmax ||
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

void read_topology(const toml::table& table, Document& document) {
  TomlReader reader(table, "[topology]", document.errors);
  Scenario* scenario = document.scenario;
  const uint32_t path_mtu = document.transport.path_mtu;
  size_t kind = 0;
  if (!reader.word("kind", {"dumbbell", "testbed", "leaf-spine", "explicit"}, &kind)) {
    reader.refuse("kind", "\"dumbbell\", \"testbed\", \"leaf-spine\" or \"explicit\"");
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
  } else {
    read_explicit(reader, scenario);
  }
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

// "h1..h16" stands for h1, h2 .. h16.
std::vector<std::string> expand(const std::vector<std::string>& names) {
  std::vector<std::string> out;
  for (const std::string& name : names) {
    const size_t dots = name.find("..");
    const size_t digits = name.find_first_of("0123456789");
    if (dots == std::string::npos || digits > dots) {
      out.push_back(name);
      continue;
    }
    const std::string stem = name.substr(0, digits);
    uint32_t first = 0;
    uint32_t last = 0;
    const char* text = name.data();
    std::from_chars(text + digits, text + dots, first);
    const bool same_stem = name.compare(dots + 2, stem.size(), stem) == 0;
    const auto end = same_stem
                         ? std::from_chars(text + dots + 2 + stem.size(), text + name.size(), last)
                         : std::from_chars_result{text, std::errc::invalid_argument};
    if (end.ec != std::errc{} || end.ptr != text + name.size() || last - first > 100'000) {
      out.push_back(name);
      continue;
    }
    for (uint32_t i = first; i <= last; ++i) out.push_back(stem + std::to_string(i));
  }
  return out;
}

std::vector<NodeId> read_hosts(TomlReader& reader, const Scenario& scenario, std::string_view key) {
  std::vector<std::string> names;
  std::vector<NodeId> out;
  if (!reader.names(key, &names)) reader.refuse(key, "the name of a host");
  for (const std::string& name : expand(names)) {
    const std::optional<NodeId> host = scenario.host_named(name);
    if (!host) {
      reader.refuse(key, fmt::format("names of hosts; '{}' is none", name));
      return {};
    }
    out.push_back(*host);
  }
  return out;
}

void read_timed_messages(TomlReader& reader, FlowSpec* flow) {
  const toml::node* node = reader.node("at");
  if (node == nullptr) return;
  const toml::array* list = node->as_array();
  const char* const expected = "a list of [microseconds, bytes]";
  if (list == nullptr) return reader.refuse("at", expected);
  for (const toml::node& item : *list) {
    const toml::array* pair = item.as_array();
    if (pair == nullptr || pair->size() != 2) return reader.refuse("at", expected);
    const std::optional<double> us = pair->get(0)->value<double>();
    const std::optional<int64_t> bytes = pair->get(1)->value_exact<int64_t>();
    if (!us || !bytes || *us < 0 || *bytes <= 0) return reader.refuse("at", expected);
    flow->timed_messages.push_back(
        {SimTime::from_ps(std::llround(*us * 1e6)), static_cast<uint64_t>(*bytes)});
  }
}

void read_traffic(TomlReader& reader, FlowSpec* flow) {
  size_t operation = 0;
  if (reader.word("operation", {"write", "send", "read"}, &operation)) {
    flow->operation = static_cast<FlowOperation>(operation);
  }
  reader.integer("message_bytes", 1, 1 << 30, &flow->message_bytes);
  reader.integer("post_depth", 1, 4096, &flow->post_depth);
  reader.integer("messages", 0, INT64_MAX, &flow->messages);
  reader.time_us("start_us", &flow->start);
  reader.time_us("stop_us", &flow->stop);
  reader.boolean("may_fail", &flow->may_fail);
  reader.share("synchronise_share", &flow->synchronise_ppm);
  reader.integer("turn_packets", 1, 4096, &flow->turn_packets);
  reader.boolean("measure_flowlets", &flow->measure_flowlets);
  if (reader.span_us("think_us", &flow->think) && flow->think > SimSpan()) flow->post_depth = 1;
  read_timed_messages(reader, flow);
}

void read_flow(const toml::table& table, Document& document) {
  TomlReader reader(table, "[[flow]]", document.errors);
  Scenario* scenario = document.scenario;
  FlowSpec flow;
  reader.text("name", &flow.name);
  const std::vector<NodeId> from = read_hosts(reader, *scenario, "from");
  const std::vector<NodeId> to = read_hosts(reader, *scenario, "to");
  read_traffic(reader, &flow);
  TransportSpec spec = document.transport;
  if (const toml::table* transport = reader.sub_table("transport")) {
    read_transport(*transport, "[flow.transport]", document.errors, &spec);
  }
  flow.params = spec.params;
  flow.path_mtu = spec.path_mtu;
  flow.timeout = spec.timeout;
  flow.retry_cnt = spec.retry_cnt;
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
  reader.text("name", &scenario->name);
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
  Document document{.errors = errors, .scenario = &scenario, .transport = {}};
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
  for (const toml::table* link : reader.tables("link")) read_link(*link, document);
  read_paths(reader, &scenario);
  for (const toml::table* flow : reader.tables("flow")) read_flow(*flow, document);
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
  return read_document(parsed.table(), path, out);
}

std::string load_scenario(const std::string& path, const Overrides& overrides, Scenario* out) {
  std::ifstream file(path);
  std::ostringstream text;
  if (!file || !(text << file.rdbuf())) return path + ": cannot be read";
  return parse_scenario(text.str(), path, overrides, out);
}

}  // namespace mprdma::switchsim
