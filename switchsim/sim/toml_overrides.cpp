#include "switchsim/sim/toml_overrides.hpp"

#include <fmt/format.h>

#include <charconv>

namespace mprdma::switchsim {

namespace {

// "flow[2]" or "flow[pinned]" or "flow[*]" or "topology".
struct Step {
  std::string key;
  std::optional<std::string> selector;
};

bool parse_steps(std::string_view path, std::vector<Step>* out) {
  while (true) {
    // A dot inside brackets belongs to a name.
    size_t dot = 0;
    for (bool inside = false; dot < path.size() && (inside || path[dot] != '.'); ++dot) {
      if (path[dot] == '[') inside = true;
      if (path[dot] == ']') inside = false;
    }
    std::string_view part = path.substr(0, dot);
    Step step;
    const size_t bracket = part.find('[');
    if (bracket != std::string_view::npos) {
      if (part.back() != ']') return false;
      step.selector = std::string(part.substr(bracket + 1, part.size() - bracket - 2));
      part = part.substr(0, bracket);
    }
    if (part.empty()) return false;
    step.key = std::string(part);
    out->push_back(std::move(step));
    if (dot >= path.size()) return true;
    path.remove_prefix(dot + 1);
  }
}

bool selects(const std::string& selector, size_t index, const toml::table& table) {
  if (selector == "*") return true;
  size_t wanted = 0;
  const char* const end = selector.data() + selector.size();
  const auto [rest, error] = std::from_chars(selector.data(), end, wanted);
  if (error == std::errc{} && rest == end) return index == wanted;
  return table["name"].value_or(std::string()) == selector;
}

// The tables that a step leads to from `table`; a table that is not there yet is made.
std::vector<toml::table*> follow(toml::table& table, const Step& step) {
  std::vector<toml::table*> out;
  if (!step.selector) {
    toml::node* node = table.get(step.key);
    if (node == nullptr) node = &table.insert_or_assign(step.key, toml::table{}).first->second;
    if (node->as_table() != nullptr) out.push_back(node->as_table());
    return out;
  }
  toml::array* list = table[step.key].as_array();
  for (size_t i = 0; list != nullptr && i < list->size(); ++i) {
    toml::table* item = (*list)[i].as_table();
    if (item != nullptr && selects(*step.selector, i, *item)) out.push_back(item);
  }
  return out;
}

}  // namespace

std::string apply_override(const std::string& line, toml::table& root) {
  const size_t equals = line.find('=');
  std::vector<Step> steps;
  if (equals == std::string::npos || !parse_steps(line.substr(0, equals), &steps) ||
      steps.back().selector) {
    return fmt::format("'{}': expected key=value, like transport.preset=mp-paper", line);
  }
  const std::string text = line.substr(equals + 1);
  toml::parse_result value = toml::parse("value = " + text);
  toml::table holder;
  if (value) {
    holder = value.table();
  } else {
    holder.insert_or_assign("value", text);
  }
  std::vector<toml::table*> tables = {&root};
  for (size_t i = 0; i + 1 < steps.size(); ++i) {
    std::vector<toml::table*> next;
    for (toml::table* table : tables) {
      for (toml::table* found : follow(*table, steps[i])) next.push_back(found);
    }
    tables = std::move(next);
  }
  if (tables.empty()) return fmt::format("'{}': there is no such table", line);
  for (toml::table* table : tables) {
    holder.get("value")->visit(
        [&](const auto& node) { table->insert_or_assign(steps.back().key, node); });
  }
  return {};
}

}  // namespace mprdma::switchsim
