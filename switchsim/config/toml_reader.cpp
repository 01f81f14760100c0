#include "switchsim/config/toml_reader.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cmath>

namespace mprdma::switchsim {

namespace {

std::optional<double> as_number(const toml::node& node) {
  if (const auto* value = node.as_floating_point()) return value->get();
  if (const auto* value = node.as_integer()) return static_cast<double>(value->get());
  return std::nullopt;
}

}  // namespace

std::optional<SimSpan> span_of(const toml::node& node) {
  const std::optional<double> us = as_number(node);
  if (!us || !(*us >= 0 && *us <= kTimeUsMax)) return std::nullopt;
  return SimSpan::ps(std::llround(*us * 1e6));
}

void TomlErrors::add(const toml::source_region& where, const std::string& what) {
  if (any()) return;
  // A value that an override set has no place in the file.
  if (where.begin.line == 0) {
    first = {EINVAL, fmt::format("{}: (by an override) {}", path, what)};
  } else {
    first = {EINVAL, fmt::format("{}:{}:{}: {}", path, where.begin.line, where.begin.column, what)};
  }
}

void TomlErrors::add(const std::string& what) {
  if (!any()) first = {EINVAL, fmt::format("{}: {}", path, what)};
}

const toml::node* TomlReader::node(std::string_view key) {
  known_.emplace_back(key);
  return errors_.any() ? nullptr : table_.get(key);
}

void TomlReader::error_at(const toml::node* where, const std::string& what) {
  errors_.add(where != nullptr ? where->source() : table_.source(), what);
}

void TomlReader::refuse(std::string_view key, const std::string& expected) {
  error_at(table_.get(key),
           fmt::format("{}{}{}: expected {}", name_, name_.empty() ? "" : " ", key, expected));
}

void TomlReader::missing(std::string_view key) {
  errors_.add(table_.source(),
              fmt::format("{}{}{} is missing", name_, name_.empty() ? "" : " ", key));
}

bool TomlReader::text(std::string_view key, std::string* out) {
  const toml::node* found = node(key);
  if (found == nullptr) return false;
  const auto* value = found->as_string();
  if (value == nullptr) return refuse(key, "a string"), false;
  *out = value->get();
  return true;
}

bool TomlReader::file_name(std::string_view key, std::string* out) {
  // Short enough that file systems take the name with an ending.
  constexpr size_t kBytesMax = 200;
  return value(key, "a name that a file can have: 1..200 bytes, no '/'", false,
               [out](const toml::node& found) {
                 const auto* text = found.as_string();
                 if (text == nullptr) return false;
                 *out = text->get();
                 const bool printable = std::none_of(out->begin(), out->end(), [](char c) {
                   return static_cast<unsigned char>(c) < ' ' || c == '/';
                 });
                 return printable && !out->empty() && out->size() <= kBytesMax && *out != "." &&
                        *out != "..";
               });
}

bool TomlReader::boolean(std::string_view key, bool* out) {
  const toml::node* found = node(key);
  if (found == nullptr) return false;
  const auto* value = found->as_boolean();
  if (value == nullptr) return refuse(key, "true or false"), false;
  *out = value->get();
  return true;
}

bool TomlReader::number(std::string_view key, double low, double high, double* out) {
  const toml::node* found = node(key);
  if (found == nullptr) return false;
  const std::optional<double> value = as_number(*found);
  if (!value || !(*value >= low && *value <= high)) {
    return refuse(key, fmt::format("a number in {}..{}", low, high)), false;
  }
  *out = *value;
  return true;
}

bool TomlReader::whole(std::string_view key, int64_t low, int64_t high, int64_t* out) {
  const toml::node* found = node(key);
  if (found == nullptr) return false;
  const auto* value = found->as_integer();
  if (value == nullptr || value->get() < low || value->get() > high) {
    return refuse(key, fmt::format("a whole number in {}..{}", low, high)), false;
  }
  *out = value->get();
  return true;
}

bool TomlReader::span_us(std::string_view key, SimSpan* out) {
  const toml::node* found = node(key);
  if (found == nullptr) return false;
  const std::optional<SimSpan> span = span_of(*found);
  if (!span) return refuse(key, fmt::format("a number in 0..{}", kTimeUsMax)), false;
  *out = *span;
  return true;
}

bool TomlReader::time_us(std::string_view key, SimTime* out) {
  SimSpan span;
  if (!span_us(key, &span)) return false;
  *out = SimTime() + span;
  return true;
}

bool TomlReader::rate_gbps(std::string_view key, LinkRate* out) {
  double gbps = 0;
  if (!number(key, 1e-3, 1e4, &gbps)) return false;
  *out = LinkRate::bps(static_cast<uint64_t>(std::llround(gbps * 1e9)));
  return true;
}

bool TomlReader::share(std::string_view key, uint32_t* out_ppm) {
  double share = 0;
  if (!number(key, 0, 1, &share)) return false;
  *out_ppm = static_cast<uint32_t>(std::lround(share * 1e6));
  return true;
}

bool TomlReader::names(std::string_view key, std::vector<std::string>* out) {
  const toml::node* found = node(key);
  if (found == nullptr) return false;
  out->clear();
  if (const auto* value = found->as_string()) {
    out->push_back(value->get());
    return true;
  }
  const toml::array* list = found->as_array();
  if (list == nullptr) return refuse(key, "a name or a list of names"), false;
  for (const toml::node& item : *list) {
    const auto* value = item.as_string();
    if (value == nullptr) return refuse(key, "a name or a list of names"), false;
    out->push_back(value->get());
  }
  return true;
}

bool TomlReader::word(std::string_view key, std::initializer_list<std::string_view> words,
                      size_t* out) {
  const toml::node* found = node(key);
  if (found == nullptr) return false;
  const auto* value = found->as_string();
  const auto match =
      value == nullptr ? words.end() : std::find(words.begin(), words.end(), value->get());
  if (match == words.end()) {
    return refuse(key, fmt::format("one of \"{}\"", fmt::join(words, "\", \""))), false;
  }
  *out = static_cast<size_t>(match - words.begin());
  return true;
}

const toml::table* TomlReader::sub_table(std::string_view key) {
  const toml::node* found = node(key);
  if (found == nullptr) return nullptr;
  if (found->as_table() == nullptr) refuse(key, "a table");
  return found->as_table();
}

std::vector<const toml::table*> TomlReader::tables(std::string_view key) {
  std::vector<const toml::table*> out;
  const toml::node* found = node(key);
  if (found == nullptr) return out;
  const toml::array* list = found->as_array();
  for (size_t i = 0; list != nullptr && i < list->size(); ++i) {
    if (const toml::table* table = (*list)[i].as_table()) out.push_back(table);
  }
  if (list == nullptr || out.size() != list->size()) {
    refuse(key, fmt::format("tables: [[{}]]", key));
    out.clear();
  }
  return out;
}

void TomlReader::finish() {
  for (auto&& [key, value] : table_) {
    if (std::find(known_.begin(), known_.end(), key.str()) != known_.end()) continue;
    errors_.add(key.source().begin.line != 0 ? key.source() : value.source(),
                fmt::format("unknown key '{}'{}{}; known: {}", key.str(),
                            name_.empty() ? "" : " in ", name_, fmt::join(known_, ", ")));
    return;
  }
}

}  // namespace mprdma::switchsim
