// A configuration in TOML by a list of its keys, for the engine and for mprdmad. Unknown tables and
// keys are errors: a misspelt key that is silently ignored is worse than a program that does not
// start. Errors begin with file:line:column.
//
// Whoever includes this compiles the TOML library, as the build's toml_dep says.
#pragma once

#include <toml++/toml.h>

#include <cerrno>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.hpp"

namespace mprdma::config {

// A key of a table. set() changes the configuration and says whether the value is good; `expected`
// describes a good one.
template <class Config>
struct TomlKey {
  std::string_view table;
  std::string_view key;
  std::string_view expected;
  bool (*set)(const toml::node& node, Config& config);
};

// For a configuration without keys beside its list.
struct NoMoreKeys {
  // Names of further keys of a table: "a, b".
  [[nodiscard]] std::string names(std::string_view) const { return ""; }
  // True if the table has this key; `expected` is empty if the value is good.
  bool apply(std::string_view /*table*/, std::string_view /*key*/, const toml::node&,
             std::string* /*expected*/) const {
    return false;
  }
};

inline Status toml_error(const std::string& path, const toml::source_region& where,
                         const std::string& what) {
  return {EINVAL, path + ":" + std::to_string(where.begin.line) + ":" +
                      std::to_string(where.begin.column) + ": " + what};
}

inline bool read_string(const toml::node& node, std::string* out) {
  const auto* value = node.as_string();
  if (value != nullptr) *out = value->get();
  return value != nullptr;
}

inline bool read_flag(const toml::node& node, bool* out) {
  const auto* value = node.as_boolean();
  if (value != nullptr) *out = value->get();
  return value != nullptr;
}

template <class T>
bool read_integer(const toml::node& node, int64_t low, int64_t high, T* out) {
  const auto* value = node.as_integer();
  if (value == nullptr || value->get() < low || value->get() > high) return false;
  *out = static_cast<T>(value->get());
  return true;
}

template <class Config, class More = NoMoreKeys>
class TomlKeys {
 public:
  using Key = TomlKey<Config>;

  // The lists live as long as this.
  TomlKeys(std::initializer_list<std::span<const Key>> lists, More more = {}) : more_(more) {
    for (const std::span<const Key> list : lists)
      keys_.insert(keys_.end(), list.begin(), list.end());
  }

  Status apply(const toml::table& file, const std::string& path, Config* out) const {
    for (auto&& [key, node] : file) {
      const std::string name(key.str());
      if (key_names(name).empty()) {
        return toml_error(path, key.source(),
                          "unknown table or key '" + name + "'; known tables: " + table_names());
      }
      const toml::table* table = node.as_table();
      if (table == nullptr) {
        return toml_error(path, node.source(), "'" + name + "' has to be a table");
      }
      for (auto&& [inner_key, inner] : *table) {
        Status status = apply_key(name, inner_key, inner, path, out);
        if (!status.ok()) return status;
      }
    }
    return {};
  }

 private:
  Status apply_key(const std::string& table, const toml::key& key, const toml::node& node,
                   const std::string& path, Config* out) const {
    const std::string name(key.str());
    bool found = false;
    std::string expected;
    for (const Key& each : keys_) {
      if (each.table != table || each.key != name) continue;
      found = true;
      if (!each.set(node, *out)) expected = each.expected;
    }
    if (!found) found = more_.apply(table, name, node, &expected);
    if (!found) {
      return toml_error(
          path, key.source(),
          "unknown key '" + name + "' in [" + table + "]; known: " + key_names(table));
    }
    if (expected.empty()) return {};
    return toml_error(path, node.source(), table + "." + name + ": expected " + expected);
  }

  static void add(std::string* list, std::string_view item) {
    if (!list->empty() && !item.empty()) *list += ", ";
    *list += item;
  }
  [[nodiscard]] std::string key_names(std::string_view table) const {
    std::string out;
    for (const Key& each : keys_) {
      if (each.table == table) add(&out, each.key);
    }
    add(&out, more_.names(table));
    return out;
  }
  // In the order of the list, which keeps the keys of a table together.
  [[nodiscard]] std::string table_names() const {
    std::string out;
    std::string_view last;
    for (const Key& each : keys_) {
      if (each.table != last) add(&out, each.table);
      last = each.table;
    }
    return out;
  }

  std::vector<Key> keys_;
  More more_;
};

}  // namespace mprdma::config
