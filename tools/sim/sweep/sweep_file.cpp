#include "tools/sim/sweep/sweep_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "base/check.hpp"
#include "switchsim/config/read_file.hpp"
#include "switchsim/config/toml_reader.hpp"
#include "switchsim/sim/result/result_json.hpp"
#include "switchsim/sim/simulation.hpp"

namespace mprdma::sweep {

namespace {

using switchsim::Overrides;
using switchsim::read_file;
using switchsim::Scenario;
using switchsim::TomlErrors;
using switchsim::TomlReader;

constexpr int64_t kSeedsMax = 100'000;
constexpr size_t kRunsMax = 10'000'000;

Place place_of(const std::string& path, const toml::node& node) {
  const toml::source_position at = node.source().begin;
  return fmt::format("{}:{}:{}", path, at.line, at.column);
}

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + "\"";
}

// Prints a node as TOML on one line; empty if no scenario takes such a value.
std::string text_of(const toml::node& node) {
  if (const auto* value = node.as_string()) return quoted(value->get());
  if (const auto* value = node.as_boolean()) return value->get() ? "true" : "false";
  if (const auto* value = node.as_integer()) return std::to_string(value->get());
  if (const auto* value = node.as_floating_point()) {
    const std::string text = fmt::format("{}", value->get());
    return text.find_first_of(".en") == std::string::npos ? text + ".0" : text;
  }
  const toml::array* list = node.as_array();
  if (list == nullptr) return {};
  std::string out;
  for (const toml::node& item : *list) {
    const std::string text = text_of(item);
    if (text.empty()) return {};
    out += (out.empty() ? "" : ", ") + text;
  }
  return "[" + out + "]";
}

std::string label_of(const toml::node& node) {
  const auto* text = node.as_string();
  return text != nullptr ? text->get() : text_of(node);
}

// Reads one value of a [[vary]]; of several keys, a list with a value for each.
bool read_value(const toml::node& node, Vary* vary) {
  Overrides overrides;
  const toml::array* list = node.as_array();
  const bool several = vary->keys.size() > 1;
  if (several && (list == nullptr || list->size() != vary->keys.size())) return false;
  for (size_t i = 0; i < vary->keys.size(); ++i) {
    const std::string text = text_of(several ? *list->get(i) : node);
    if (text.empty()) return false;
    overrides.push_back(vary->keys[i] + "=" + text);
  }
  vary->overrides.push_back(std::move(overrides));
  vary->labels.push_back(label_of(node));
  return true;
}

void read_vary(const std::string& path, const toml::table& table, TomlErrors& errors, Sweep* out) {
  TomlReader reader(table, "[[vary]]", errors);
  Vary vary;
  if (!reader.names("key", &vary.keys) || vary.keys.empty()) {
    return reader.refuse("key", "a key of the scenario, or a list of keys that change together");
  }
  const char* const expected = vary.keys.size() > 1 ? "a list of lists with a value for each key"
                                                    : "a list of values, at least one";
  reader.value("values", expected, true, [&](const toml::node& node) {
    const toml::array* list = node.as_array();
    if (list == nullptr || list->empty()) return false;
    for (const toml::node& item : *list) {
      if (!read_value(item, &vary)) return false;
      vary.places.push_back(place_of(path, item));
    }
    return true;
  });
  vary.name = fmt::format("{}", fmt::join(vary.keys, "+"));
  reader.text("name", &vary.name);
  std::vector<std::string> labels;
  if (reader.names("labels", &labels)) {
    if (labels.size() != vary.labels.size()) reader.refuse("labels", "as many names as values");
    vary.labels = labels;
  }
  reader.finish();
  if (!reader.failed()) out->varied.push_back(std::move(vary));
}

void read_seeds(TomlReader& reader, Sweep* out) {
  const char* const expected = "how many, or a list of seeds";
  out->seeds = {1};
  reader.value("seeds", expected, false, [out](const toml::node& node) {
    out->seeds.clear();
    if (const auto* count = node.as_integer()) {
      if (count->get() < 1 || count->get() > kSeedsMax) return false;
      for (int64_t seed = 1; seed <= count->get(); ++seed) {
        out->seeds.push_back(static_cast<uint64_t>(seed));
      }
      return true;
    }
    const toml::array* list = node.as_array();
    for (size_t i = 0; list != nullptr && i < list->size(); ++i) {
      const auto* seed = list->get(i)->as_integer();
      if (seed == nullptr || seed->get() < 0) return false;
      out->seeds.push_back(static_cast<uint64_t>(seed->get()));
    }
    std::vector<uint64_t> sorted = out->seeds;
    std::sort(sorted.begin(), sorted.end());
    return !sorted.empty() && std::adjacent_find(sorted.begin(), sorted.end()) == sorted.end();
  });
}

// Reads the measures in the order of the file, which toml++ does not keep.
void read_measures(const std::string& path, TomlReader& reader, TomlErrors& errors, Sweep* out) {
  const toml::table* table = reader.sub_table("measures");
  if (table == nullptr) return reader.refuse("measures", "a table [measures]: name = \"value\"");
  std::vector<std::pair<std::string, const toml::node*>> all;
  for (auto&& [key, node] : *table) all.emplace_back(key.str(), &node);
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) {
    return a.second->source().begin.line < b.second->source().begin.line;
  });
  TomlReader inner(*table, "[measures]", errors);
  for (const auto& [name, node] : all) {
    std::string text;
    if (!inner.text(name, &text)) return;
    Measure measure;
    measure.name = name;
    const Status status = parse_measure(text, &measure);
    if (!status.ok()) {
      return inner.error_at(node, fmt::format("[measures] {}: {}", name, status.text));
    }
    out->measures.push_back(std::move(measure));
    out->measure_places.push_back(place_of(path, *node));
  }
}

// Columns of the tables have names of their own.
void check_columns(const std::string& path, const Sweep& sweep, TomlErrors& errors) {
  std::set<std::string> names = {"runs", "unsound", "seed", "errors", "result"};
  const auto add = [&](const std::string& name) {
    if (names.insert(name).second) return;
    errors.add(fmt::format("{}: a table has a column '{}' already", path, name));
  };
  for (const Vary& vary : sweep.varied) add(vary.name);
  for (const Measure& measure : sweep.measures) add(measure.name);
}

void read_sweep(const std::string& path, const toml::table& root, TomlErrors& errors, Sweep* out) {
  TomlReader reader(root, "", errors);
  out->name = std::filesystem::path(path).stem().string();
  reader.file_name("name", &out->name);
  std::string scenario;
  if (!reader.text("scenario", &scenario)) {
    reader.refuse("scenario", "a scenario file, beside this one or by its whole path");
  }
  out->scenario_path = (std::filesystem::path(path).parent_path() / scenario).string();
  if (!reader.failed()) {
    const Status status = read_file(out->scenario_path, &out->scenario_text);
    if (!status.ok()) reader.refuse("scenario", "a file; " + status.text);
  }
  reader.names("set", &out->set);
  read_seeds(reader, out);
  for (const toml::table* vary : reader.tables("vary")) read_vary(path, *vary, errors, out);
  read_measures(path, reader, errors, out);
  check_columns(path, *out, errors);
  reader.finish();
  if (!reader.failed() && out->runs() > kRunsMax) {
    errors.add(fmt::format("{} runs are more than {}", out->runs(), kRunsMax));
  }
}

Status parse_with(const Sweep& sweep, const Overrides& overrides, Scenario* out) {
  return switchsim::parse_scenario(sweep.scenario_text, sweep.scenario_path, overrides, out);
}

// Finds the value of a point that the scenario refuses.
Status blame(const Sweep& sweep, size_t point, Status status) {
  const std::vector<size_t> choice = sweep.choice_of(point);
  Overrides overrides = sweep.set;
  Scenario scenario;
  if (Status plain = parse_with(sweep, overrides, &scenario); !plain.ok()) return plain;
  for (size_t i = 0; i < choice.size(); ++i) {
    const Vary& vary = sweep.varied[i];
    const Overrides& more = vary.overrides[choice[i]];
    overrides.insert(overrides.end(), more.begin(), more.end());
    const Status wrong = parse_with(sweep, overrides, &scenario);
    if (wrong.ok()) continue;
    return prefixed(fmt::format("{}: {}: ", vary.places[choice[i]], fmt::join(more, ", ")), wrong);
  }
  return status;
}

// Checks that every measure exists in a result with all possible entries, before anything runs.
Status check_measures(const Sweep& sweep, const Scenario& scenario) {
  switchsim::Result result = switchsim::Simulation(scenario).result();
  for (switchsim::PortResult& port : result.ports) port.total.packets = 1;
  for (switchsim::FlowResult& flow : result.flows) flow.messages.resize(1);
  const nlohmann::ordered_json json = switchsim::to_json(result, scenario, "", "", false);
  for (size_t i = 0; i < sweep.measures.size(); ++i) {
    std::optional<double> value;
    Status status = evaluate(sweep.measures[i], json, &value);
    if (status.ok()) continue;
    return prefixed(
        fmt::format("{}: [measures] {}: ", sweep.measure_places[i], sweep.measures[i].name),
        std::move(status));
  }
  return {};
}

}  // namespace

size_t Sweep::points() const {
  size_t out = 1;
  for (const Vary& vary : varied) out = std::min(out, kRunsMax) * vary.overrides.size();
  return out;
}

std::vector<size_t> Sweep::choice_of(size_t point) const {
  std::vector<size_t> out(varied.size());
  for (size_t i = varied.size(); i-- > 0; point /= varied[i].overrides.size()) {
    out[i] = point % varied[i].overrides.size();
  }
  return out;
}

Overrides Sweep::overrides_of(size_t point) const {
  Overrides out = set;
  const std::vector<size_t> choice = choice_of(point);
  for (size_t i = 0; i < choice.size(); ++i) {
    const Overrides& more = varied[i].overrides[choice[i]];
    out.insert(out.end(), more.begin(), more.end());
  }
  return out;
}

Scenario Sweep::scenario_of_run(size_t run) const {
  Scenario scenario;
  CHECK(parse_with(*this, overrides_of(point_of_run(run)), &scenario).ok());
  scenario.seed = seed_of_run(run);
  return scenario;
}

std::string Sweep::file_of_run(size_t run) const {
  std::string all = scenario_text;
  for (const std::string& line : overrides_of(point_of_run(run))) all += '\0' + line;
  all += '\0' + std::to_string(seed_of_run(run));
  uint64_t hash = 0xcbf29ce484222325;  // FNV-1a; whoever reads the file compares the whole text
  for (const char c : all) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return fmt::format("{:016x}.json", hash);
}

Status load(const std::string& path, Sweep* out) {
  *out = {};
  if (Status status = read_file(path, &out->text); !status.ok()) return status;
  TomlErrors errors{.path = path, .first = {}};
  const toml::parse_result parsed = toml::parse(out->text, path);
  if (!parsed) {
    errors.add(parsed.error().source(), std::string(parsed.error().description()));
  } else {
    read_sweep(path, parsed.table(), errors, out);
  }
  return errors.first;
}

Status check(const Sweep& sweep) {
  Scenario scenario;
  std::set<std::string> files;
  for (size_t point = 0; point < sweep.points(); ++point) {
    Status status = parse_with(sweep, sweep.overrides_of(point), &scenario);
    if (!status.ok()) return blame(sweep, point, std::move(status));
    if (files.insert(sweep.file_of_run(point * sweep.seeds.size())).second) continue;
    return {EINVAL, fmt::format("{}: point {} is there already: a value of a [[vary]] stands twice",
                                sweep.name, point + 1)};
  }
  return check_measures(sweep, scenario);
}

}  // namespace mprdma::sweep
