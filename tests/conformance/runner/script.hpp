// A conformance script as text: one step a line, `time kind subject key=value ...`, read and
// checked against the table of kinds before anything runs. tests/conformance/README.md describes
// the language.
//
// Whatever is wrong, in a script or in what the device does, is a ScriptFailure that names the
// line.
#pragma once

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/units.hpp"

namespace mprdma::conformance {

class ScriptFailure : public std::runtime_error {
 public:
  ScriptFailure(int line, const std::string& what) : std::runtime_error(what), line_(line) {}
  [[nodiscard]] int line() const { return line_; }

 private:
  int line_;
};

// When a step happens, or (a range) when what it expects may happen.
struct StepTime {
  bool absolute = false;  // since the script began; else since the step before
  Duration from;
  Duration to;  // == from without a range
};

struct Field {
  std::string key;
  std::string value;
};

class Step {
 public:
  int line = 0;
  StepTime time;
  std::string kind;
  std::string subject;  // the word after the kind; "" if there is none
  std::vector<Field> fields;

  [[noreturn]] void fail(const std::string& what) const { throw ScriptFailure(line, what); }

  [[nodiscard]] bool has(std::string_view key) const { return find(key) != nullptr; }
  // The value, which must be there.
  [[nodiscard]] const std::string& text(std::string_view key) const;
  [[nodiscard]] std::string text_or(std::string_view key, std::string_view otherwise) const;
  [[nodiscard]] uint64_t number(std::string_view key) const;
  [[nodiscard]] uint64_t number_or(std::string_view key, uint64_t otherwise) const;
  // This step with a later PSN: one of the packets that count= asks for.
  [[nodiscard]] Step later_by(uint32_t packets) const;

 private:
  [[nodiscard]] const std::string* find(std::string_view key) const;
};

struct Script {
  std::string path;
  std::string name;  // of the file, without directory and suffix
  std::string rule;  // the comment that it opens with
  std::vector<std::string> modes;
  std::vector<Step> steps;
};

// The modes that a script may name.
inline constexpr std::string_view kModes[] = {"roce", "mp", "irn"};

Script parse_script(const std::string& path, std::string_view text);
Script read_script(const std::string& path);

// Does this kind of step expect something of the device, instead of doing something to it?
bool expects(const Step& step);

std::optional<uint64_t> parse_number(std::string_view text);
std::vector<std::string> split(std::string_view text, char separator);

}  // namespace mprdma::conformance
