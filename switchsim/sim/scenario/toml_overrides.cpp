#include "switchsim/sim/scenario/toml_overrides.hpp"

#include <fmt/format.h>

#include <cerrno>

#include "switchsim/sim/scenario/dotted_path.hpp"

namespace mprdma::switchsim {

namespace {

// Returns the tables that a step leads to from `table`; makes a table that is missing.
std::vector<toml::table*> follow(toml::table& table, const PathStep& step) {
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
    if (item == nullptr) continue;
    const std::string_view name = (*item)["name"].value_or(std::string_view());
    if (selects(*step.selector, i, name)) out.push_back(item);
  }
  return out;
}

}  // namespace

Status apply_override(const std::string& line, toml::table& root) {
  const size_t equals = line.find('=');
  std::vector<PathStep> steps;
  if (equals == std::string::npos || !parse_path(line.substr(0, equals), &steps) ||
      steps.back().selector) {
    return {EINVAL, fmt::format("'{}': expected key=value, like transport.preset=mp-paper", line)};
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
  if (tables.empty()) return {EINVAL, fmt::format("'{}': there is no such table", line)};
  for (toml::table* table : tables) {
    holder.get("value")->visit(
        [&](const auto& node) { table->insert_or_assign(steps.back().key, node); });
  }
  return {};
}

}  // namespace mprdma::switchsim
