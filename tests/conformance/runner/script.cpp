#include "tests/conformance/runner/script.hpp"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>

#include "base/psn.hpp"

namespace mprdma::conformance {

namespace {

enum class Subject : uint8_t { kNone, kOptional, kRequired };

struct Kind {
  std::string_view name;
  Subject subject;
  std::string_view subject_is;
  bool expects;
  std::string_view keys;  // separated by blanks
};

#define MPRDMA_QP_ATTRIBUTES                                                                       \
  "access qkey mtu peer sq_psn rq_psn vp timeout retry_cnt rnr_retry min_rnr_timer max_rd_atomic " \
  "max_dest_rd_atomic sqd_notify "

constexpr std::string_view kPacketKeys =
    "qp psn len data ackreq irn se fecn becn mig ce pkey vp dest va rkey dmalen swap compare add "
    "original syndrome msn code timer qkey src imm inv srqn msg off ts retx sync probe sack nack "
    "detail ece ordered held sack_valid stream ah count";

constexpr Kind kKinds[] = {
    // Actions of the application and its host.
    {"qp", Subject::kOptional, "a name", false,
     MPRDMA_QP_ATTRIBUTES "service state pd sq_depth rq_depth sge signal_all srq xrcd window"},
    {"modify", Subject::kOptional, "a state", false, MPRDMA_QP_ATTRIBUTES "qp result"},
    {"mr", Subject::kRequired, "a name", false, "at len iova access pd key"},
    {"dereg", Subject::kRequired, "a name", false, ""},
    {"mw", Subject::kRequired, "a name", false, "type pd"},
    {"srq", Subject::kRequired, "a name", false, "pd number xrcd"},
    {"send", Subject::kRequired, "an operation", false,
     "qp wr at len lkey sge va rkey imm inv add compare swap flags ah qpn qkey srqn mw as mr "
     "access "
     "key_byte result"},
    {"recv", Subject::kNone, "", false, "qp srq wr at len lkey sge result"},
    {"fill", Subject::kNone, "", false, "at len with u64"},
    {"<", Subject::kRequired, "an opcode", false, kPacketKeys},
    {"wire", Subject::kRequired, "open or closed", false, ""},
    {"quiet", Subject::kNone, "", false, ""},
    // Expectations.
    {">", Subject::kRequired, "an opcode", true, kPacketKeys},
    {"send_wc", Subject::kNone, "", true, "qp wr status op len vendor"},
    {"recv_wc", Subject::kNone, "", true,
     "qp wr status op len imm inv vendor solicited grh src srq"},
    {"event", Subject::kRequired, "an event", true, "qp"},
    {"memory", Subject::kNone, "", true, "at len is u64"},
    {"state", Subject::kRequired, "a state", true, "qp draining"},
    {"counter", Subject::kRequired, "a counter", true, "is"},
};

const Kind* find_kind(std::string_view name) {
  const auto* const kind = std::ranges::find(kKinds, name, &Kind::name);
  return kind == std::end(kKinds) ? nullptr : kind;
}

std::string kind_names() {
  std::string names;
  for (const Kind& kind : kKinds) names.append(names.empty() ? "" : " ").append(kind.name);
  return names;
}

std::optional<Duration> parse_duration(std::string_view text) {
  const size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
  const auto number = parse_number(text.substr(0, digits));
  const std::string_view unit = text.substr(digits);
  if (!number || *number > 1'000'000'000) return std::nullopt;
  const auto count = static_cast<int64_t>(*number);
  if (unit == "s") return Duration::s(count);
  if (unit == "ms") return Duration::ms(count);
  if (unit == "us") return Duration::us(count);
  if (unit == "ns" || (unit.empty() && count == 0)) return Duration::ns(count);
  return std::nullopt;
}

StepTime parse_time(int line, std::string_view text) {
  const auto wrong = [&]() -> ScriptFailure {
    return {line, "expected a time (+0, +10us, @2ms, +1ms..3ms), got '" + std::string(text) + "'"};
  };
  if (text.empty() || (text[0] != '+' && text[0] != '@')) throw wrong();
  const size_t dots = text.find("..");
  const auto from = parse_duration(text.substr(1, dots == text.npos ? text.npos : dots - 1));
  const auto to = dots == text.npos ? from : parse_duration(text.substr(dots + 2));
  if (!from || !to || *to < *from) throw wrong();
  return {.absolute = text[0] == '@', .from = *from, .to = *to};
}

void check_range(const Step& step, const Kind& kind) {
  const bool waits =
      kind.expects && kind.name != "memory" && kind.name != "state" && kind.name != "counter";
  if (step.time.from != step.time.to && !waits) {
    step.fail("expected a single time: '" + step.kind + "' does not wait");
  }
}

Step parse_step(int line, const std::vector<std::string>& words) {
  Step step;
  step.line = line;
  step.time = parse_time(line, words[0]);
  if (words.size() < 2) step.fail("expected one of: " + kind_names());
  step.kind = words[1];
  const Kind* kind = find_kind(step.kind);
  if (kind == nullptr) {
    step.fail("expected one of: " + kind_names() + "; got '" + step.kind + "'");
  }
  size_t next = 2;
  if (next < words.size() && words[next].find('=') == std::string::npos) {
    if (kind->subject == Subject::kNone) step.fail("expected key=value, got '" + words[next] + "'");
    step.subject = words[next++];
  } else if (kind->subject == Subject::kRequired) {
    step.fail("expected " + std::string(kind->subject_is) + " after '" + step.kind + "'");
  }
  const std::vector<std::string> keys = split(kind->keys, ' ');
  for (; next < words.size(); ++next) {
    const size_t equals = words[next].find('=');
    if (equals == std::string::npos || equals + 1 == words[next].size()) {
      step.fail("expected key=value, got '" + words[next] + "'");
    }
    const std::string key = words[next].substr(0, equals);
    if (std::ranges::find(keys, key) == keys.end()) {
      step.fail("expected one of: " + std::string(kind->keys) + "; got '" + key + "'");
    }
    if (step.has(key)) step.fail("'" + key + "' is given twice");
    step.fields.push_back({key, words[next].substr(equals + 1)});
  }
  check_range(step, *kind);
  return step;
}

void parse_modes(Script& script, int line, const std::vector<std::string>& words) {
  if (!script.modes.empty()) throw ScriptFailure(line, "the modes are given twice");
  for (size_t i = 1; i < words.size(); ++i) {
    if (std::ranges::find(kModes, words[i]) == std::end(kModes)) {
      throw ScriptFailure(line, "expected modes out of: roce mp irn; got '" + words[i] + "'");
    }
    script.modes.push_back(words[i]);
  }
  if (script.modes.empty()) throw ScriptFailure(line, "expected a mode: roce mp irn");
}

}  // namespace

std::optional<uint64_t> parse_number(std::string_view text) {
  int base = 10;
  if (text.starts_with("0x")) {
    text.remove_prefix(2);
    base = 16;
  }
  uint64_t value = 0;
  const char* end = text.data() + text.size();
  const auto result = std::from_chars(text.data(), end, value, base);
  if (result.ec != std::errc() || result.ptr != end) return std::nullopt;
  return value;
}

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  while (!text.empty()) {
    const size_t end = std::min(text.find(separator), text.size());
    if (end > 0) parts.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return parts;
}

const std::string* Step::find(std::string_view key) const {
  const auto field = std::ranges::find(fields, key, &Field::key);
  return field == fields.end() ? nullptr : &field->value;
}

const std::string& Step::text(std::string_view key) const {
  const std::string* value = find(key);
  if (value == nullptr) fail("'" + kind + "' needs " + std::string(key) + "=");
  return *value;
}

std::string Step::text_or(std::string_view key, std::string_view otherwise) const {
  const std::string* value = find(key);
  return value != nullptr ? *value : std::string(otherwise);
}

uint64_t Step::number(std::string_view key) const {
  const auto value = parse_number(text(key));
  if (!value) fail(std::string(key) + ": expected a number, got '" + text(key) + "'");
  return *value;
}

uint64_t Step::number_or(std::string_view key, uint64_t otherwise) const {
  return has(key) ? number(key) : otherwise;
}

Step Step::later_by(uint32_t packets) const {
  Step later = *this;
  const auto field = std::ranges::find(later.fields, "psn", &Field::key);
  if (packets > 0 && field != later.fields.end()) {
    const Psn first(static_cast<uint32_t>(number("psn")));
    field->value = std::to_string((first + packets).value());
  }
  return later;
}

bool expects(const Step& step) {
  return find_kind(step.kind)->expects;
}

Script parse_script(const std::string& path, std::string_view text) {
  Script script;
  script.path = path;
  script.name = std::filesystem::path(path).stem().string();
  int line = 0;
  while (!text.empty()) {
    ++line;
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view code = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (script.modes.empty() && code.starts_with("# ")) {
      script.rule.append(script.rule.empty() ? "" : " ").append(code.substr(2));
    }
    code = code.substr(0, code.find('#'));
    const std::vector<std::string> words = split(code, ' ');
    if (words.empty()) continue;
    if (words[0] == "modes:") {
      parse_modes(script, line, words);
    } else {
      script.steps.push_back(parse_step(line, words));
    }
  }
  if (script.rule.empty()) {
    throw ScriptFailure(1, "expected a comment that says the rule and its clause");
  }
  if (script.modes.empty()) throw ScriptFailure(1, "expected a line `modes: roce mp`");
  if (std::ranges::none_of(script.steps, expects)) {
    throw ScriptFailure(line, "expects nothing of the device, so it cannot fail");
  }
  return script;
}

Script read_script(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw ScriptFailure(0, "cannot be read");
  std::stringstream text;
  text << file.rdbuf();
  return parse_script(path, text.str());
}

}  // namespace mprdma::conformance
