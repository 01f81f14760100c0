#include "switchsim/sim/scenario/scenario_toml.hpp"

#include <fmt/format.h>
#include <cmath>

#include "switchsim/config/read_file.hpp"
#include "switchsim/config/toml_reader.hpp"
#include "switchsim/sim/scenario/toml_flow.hpp"
#include "switchsim/sim/scenario/toml_overrides.hpp"
#include "switchsim/sim/scenario/toml_params.hpp"
#include "switchsim/sim/scenario/toml_ports.hpp"
#include "switchsim/sim/scenario/toml_topology.hpp"
#include "switchsim/sim/scenario/toml_traffic.hpp"
#include "transport/core/types.hpp"

namespace mprdma::switchsim {

namespace {

// The scenario while it is read, with defaults that the tables below inherit.
struct Document {
  TomlErrors& errors;
  Scenario* scenario;
  TransportSpec transport;
  HostNames hosts;  // filled once the topology is read
  // The tables of links, flows, traffic, events and receivers, by index; nullptr: no table.
  std::vector<const toml::table*> links = {};
  std::vector<const toml::table*> flows = {};
  std::vector<const toml::table*> traffic = {};
  std::vector<const toml::table*> events = {};
  std::vector<const toml::table*> receivers = {};
};

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

// Finds the link of a [[link]] table, or adds one if the table names its ends.
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
  // A host's own port drops no packets: its queue has no limit.
  if (link.a < scenario->topology.hosts) link.ab.queue_bytes_max = UINT64_MAX;
  if (link.b < scenario->topology.hosts) link.ba.queue_bytes_max = UINT64_MAX;
  scenario->topology.links.push_back(link);
  return &scenario->topology.links.back();
}

void read_link(const toml::table& table, Document& document) {
  TomlReader reader(table, "[[link]]", document.errors);
  LinkConfig* link = find_or_add_link(reader, document.scenario);
  if (link == nullptr) return;
  document.links.resize(document.scenario->topology.links.size());
  document.links[static_cast<size_t>(link - document.scenario->topology.links.data())] = &table;
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
  reader.boolean("receives", &flow->receives);
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
    if (flow.rpc_credits == 0 && flow.params.path_policy != transport::PathPolicy::kSingle) {
      reader.refuse("pinned",
                    "transport.preset = \"mp-single\", a preset of RoCE, or rpc_credits with it");
    }
  }
  reader.finish();
  if (reader.failed()) return;
  const size_t count = std::max(from.size(), to.size());
  if (scenario->flows.size() + count > kFlowsMax) {
    return reader.refuse("to", fmt::format("at most {} flows in all", kFlowsMax));
  }
  if ((from.size() != 1 && from.size() != count) || (to.size() != 1 && to.size() != count)) {
    return reader.refuse("to", fmt::format("as many hosts as in from ({}), or one", from.size()));
  }
  const std::string name = flow.name;
  for (size_t i = 0; i < count; ++i) {
    flow.from = from[from.size() == 1 ? 0 : i];
    flow.to = to[to.size() == 1 ? 0 : i];
    if (count > 1) flow.name = (name.empty() ? "flow" : name) + std::to_string(i + 1);
    scenario->flows.push_back(flow);
    document.flows.push_back(&table);
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
  if (!reader.names("link", &links) || links.empty()) {
    reader.refuse("link", "the name of a link, or a list of them");
  }
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
  read_optional(&event.pausing, [&](bool* v) { return reader.boolean("pausing", v); });
  reader.finish();
  if (!event.up && !event.rate && !event.loss_ppm && !event.delay && !event.queue_bytes_max &&
      !event.red && !event.pausing) {
    reader.error_at(nullptr,
                    "[[event]]: expected what changes: up, rate_gbps, loss, delay_us, queue_bytes, "
                    "red or pausing");
  }
  for (const std::string& name : links) {
    const std::optional<LinkId> link = read_link_name(reader, *document.scenario, "link", name);
    if (!link) return;
    event.link = *link;
    document.scenario->events.push_back(event);
    document.events.push_back(&table);
  }
}

// ---- [[receiver]]

void read_receiver(const toml::table& table, Document& document) {
  TomlReader reader(table, "[[receiver]]", document.errors);
  ReceiverSpec spec;
  spec.hosts = read_hosts(reader, document.hosts, "hosts");
  reader.span_us("packet_us", &spec.packet_time);
  reader.span_us("miss_us", &spec.miss_time);
  reader.integer("entries", 1, 1 << 24, &spec.entries);
  reader.integer("page_bytes", 1, 1 << 30, &spec.page_bytes);
  reader.integer("memory_bytes", 1, INT64_MAX, &spec.memory_bytes);
  reader.integer("buffer_bytes", 1, 1 << 30, &spec.buffer_bytes);
  reader.finish();
  document.scenario->receivers.push_back(std::move(spec));
  document.receivers.push_back(&table);
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
  reader.integer("held_frames", 0, 1 << 24, &scenario->held_frames);
  reader.boolean("reroute", &scenario->reroute);
  reader.span_us("reroute_after_us", &scenario->reroute_after);
  reader.span_us("nic_watchdog_us", &scenario->nic_watchdog);
  reader.span_us("switch_watchdog_us", &scenario->switch_watchdog);
}

// Reports an error in the whole scenario at the key that causes it.
void add_error(const ScenarioError& error, const toml::table& root, Document& document) {
  const auto at = [&](const std::vector<const toml::table*>& tables) {
    return error.index < tables.size() ? tables[error.index] : nullptr;
  };
  const toml::table* table = nullptr;
  const char* name = "the scenario";
  switch (error.of) {
    case ScenarioError::Of::kScenario:
      table = &root;
      break;
    case ScenarioError::Of::kTopology:
      name = "[topology]";
      break;
    case ScenarioError::Of::kLink:
      table = at(document.links);
      name = table != nullptr ? "[[link]]" : "[topology]";
      break;
    case ScenarioError::Of::kFlow:
      table = at(document.flows);
      name = "[[flow]]";
      break;
    case ScenarioError::Of::kTraffic:
      table = at(document.traffic);
      name = "[[traffic]]";
      break;
    case ScenarioError::Of::kEvent:
      table = at(document.events);
      name = "[[event]]";
      break;
    case ScenarioError::Of::kReceiver:
      table = at(document.receivers);
      name = "[[receiver]]";
      break;
  }
  if (table == nullptr) table = root["topology"].as_table();
  const toml::node* node = table->get(error.key);
  const std::string key = error.key.empty() ? "" : " " + error.key;
  document.errors.add(node != nullptr ? node->source() : table->source(),
                      fmt::format("{}{}: {}", name, key, error.what));
}

Status read_document(const toml::table& root, const std::string& path, Scenario* out) {
  TomlErrors errors{.path = path, .first = {}};
  Scenario scenario;
  Document document{.errors = errors, .scenario = &scenario, .transport = {}, .hosts = {}};
  TomlReader reader(root, "the scenario", errors);
  read_times(reader, &scenario);
  if (const toml::table* transport = reader.sub_table("transport")) {
    read_transport(*transport, "[transport]", errors, &document.transport);
  }
  if (const toml::table* topology = reader.sub_table("topology")) {
    read_topology(*topology, document.transport.path_mtu, errors, &scenario);
  } else {
    reader.refuse("topology", "a table [topology]");
  }
  document.hosts = HostNames(scenario.host_names);
  for (const toml::table* link : reader.tables("link")) read_link(*link, document);
  read_paths(reader, &scenario);
  for (const toml::table* flow : reader.tables("flow")) read_flow(*flow, document);
  for (const toml::table* traffic : reader.tables("traffic")) {
    read_traffic(*traffic, document.hosts, document.transport, errors, &scenario);
    document.traffic.push_back(traffic);
  }
  for (const toml::table* event : reader.tables("event")) read_event(*event, document);
  for (const toml::table* receiver : reader.tables("receiver")) read_receiver(*receiver, document);
  reader.finish();
  if (errors.any()) return errors.first;
  scenario.topology.pfc.mtu_bytes = longest_packet_bytes(scenario);
  if (const std::optional<ScenarioError> error = find_error(scenario)) {
    add_error(*error, root, document);
  }
  if (errors.any()) return errors.first;
  *out = std::move(scenario);
  return {};
}

}  // namespace

Status parse_scenario(const std::string& text, const std::string& path, const Overrides& overrides,
                      Scenario* out) {
  toml::parse_result parsed = toml::parse(text, path);
  if (!parsed) {
    TomlErrors errors{.path = path, .first = {}};
    errors.add(parsed.error().source(), std::string(parsed.error().description()));
    return errors.first;
  }
  for (const std::string& line : overrides) {
    if (Status status = apply_override(line, parsed.table()); !status.ok()) return status;
  }
  Status status = read_document(parsed.table(), path, out);
  if (status.ok()) {
    out->text = text;
    out->overrides = overrides;
  }
  return status;
}

Status load_scenario(const std::string& path, const Overrides& overrides, Scenario* out) {
  std::string text;
  Status status = read_file(path, &text);
  return status.ok() ? parse_scenario(text, path, overrides, out) : status;
}

}  // namespace mprdma::switchsim
