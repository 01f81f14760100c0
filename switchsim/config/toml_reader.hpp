// A strict reader of one TOML table. Every key that is asked for is known; finish() refuses the
// others. The first error stays, with file, line and what was expected; after it nothing is read
// any more, so that callers need not look after each key.
//
// For the readers of scenarios and of fabrics: whoever includes this compiles the TOML library, as
// the build's toml_dep says.
#pragma once

#include <toml++/toml.h>

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.hpp"
#include "switchsim/model/sim_time.hpp"

namespace mprdma::switchsim {

// Longest time in a file, microseconds: an hour.
inline constexpr double kTimeUsMax = 3.6e9;

// Microseconds, whole or not, from 0 to kTimeUsMax; nullopt: something else.
std::optional<SimSpan> span_of(const toml::node& node);

// The errors of one document.
struct TomlErrors {
  std::string path;
  Status first;
  [[nodiscard]] bool any() const { return !first.ok(); }
  void add(const toml::source_region& where, const std::string& what);
  // Adds an error of the document as a whole.
  void add(const std::string& what);
};

class TomlReader {
 public:
  // `name` is what errors call the table: "[topology]", "[[flow]]"; empty: the document.
  TomlReader(const toml::table& table, std::string name, TomlErrors& errors)
      : table_(table), name_(std::move(name)), errors_(errors) {}

  // Each leaves *out alone when the key is not there, and returns whether it was and was good.
  bool text(std::string_view key, std::string* out);
  // A text that a file may be called; neither a path nor empty.
  bool file_name(std::string_view key, std::string* out);
  bool boolean(std::string_view key, bool* out);
  bool number(std::string_view key, double low, double high, double* out);
  template <class T>
  bool integer(std::string_view key, int64_t low, int64_t high, T* out) {
    int64_t value = 0;
    if (!whole(key, low, high, &value)) return false;
    *out = static_cast<T>(value);
    return true;
  }
  // Microseconds, whole or not.
  bool span_us(std::string_view key, SimSpan* out);
  bool time_us(std::string_view key, SimTime* out);
  bool rate_gbps(std::string_view key, LinkRate* out);
  // A number from 0 to 1, as parts of a million.
  bool share(std::string_view key, uint32_t* out_ppm);
  // A string or an array of strings.
  bool names(std::string_view key, std::vector<std::string>* out);
  // One of the given words; *out is its index.
  bool word(std::string_view key, std::initializer_list<std::string_view> words, size_t* out);
  // nullptr: not there, or no table.
  const toml::table* sub_table(std::string_view key);
  std::vector<const toml::table*> tables(std::string_view key);
  // `take(node)` says whether the value is good; if it is not, `expected` is what it should be.
  template <class Take>
  bool value(std::string_view key, const char* expected, bool required, Take take) {
    const toml::node* found = node(key);
    if (found == nullptr) {
      if (required) missing(key);
      return false;
    }
    if (!take(*found)) return refuse(key, expected), false;
    return true;
  }
  // Reads a string and hands it to `take`.
  template <class Take>
  bool parsed_text(std::string_view key, const char* expected, bool required, Take take) {
    return value(key, expected, required, [&](const toml::node& found) {
      const auto* string = found.as_string();
      return string != nullptr && take(string->get());
    });
  }
  // Any node; nullptr when it is not there. For what the others do not cover.
  const toml::node* node(std::string_view key);

  // What was expected of a key (or, with a node of nullptr, of the table).
  void refuse(std::string_view key, const std::string& expected);
  void error_at(const toml::node* where, const std::string& what);
  [[nodiscard]] bool failed() const { return errors_.any(); }
  [[nodiscard]] const toml::table& table() const { return table_; }
  [[nodiscard]] const std::string& name() const { return name_; }
  // Refuses keys that nobody asked for.
  void finish();

 private:
  void missing(std::string_view key);
  bool whole(std::string_view key, int64_t low, int64_t high, int64_t* out);

  const toml::table& table_;
  std::string name_;
  TomlErrors& errors_;
  std::vector<std::string> known_;
};

}  // namespace mprdma::switchsim
