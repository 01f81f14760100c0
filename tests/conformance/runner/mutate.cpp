#include "tests/conformance/runner/mutate.hpp"

#include <algorithm>
#include <optional>

#include "tests/conformance/runner/vocabulary.hpp"

namespace mprdma::conformance {

namespace {

template <class Value, size_t n>
std::string another(std::string_view word, const Word<Value> (&table)[n]) {
  return std::string(table[table[0].word == word ? 1 : 0].word);
}

// Returns another value for a field; nothing if the field expects nothing.
std::optional<std::string> change(const Step& step, const Field& field) {
  if (field.key == "qp" || field.key == "at" || field.key == "count") return std::nullopt;
  // Memory beyond the expected bytes may continue with the same pattern, so the length is not
  // changed.
  if (step.kind == "memory" && field.key == "len") return std::nullopt;
  if (field.key == "status") return another(field.value, kStatuses);
  if (field.key == "op") return another(field.value, kWcOpcodes);
  if (field.key == "code") return field.value == "access" ? "operational" : "access";
  if (const auto number = parse_number(field.value)) return std::to_string(*number ^ 1);
  if (field.key == "is" || field.key == "data") return field.value == "zero" ? "Z" : "zero";
  if (field.key == "rkey" || field.key == "inv") return "99";
  return std::nullopt;
}

std::optional<std::string> change_subject(const Step& step) {
  if (step.kind == "state") return another(step.subject, kStates);
  if (step.kind == "event") return another(step.subject, kEvents);
  if (step.kind == ">" && step.subject == "ACK") return std::nullopt;  // NAK needs a code
  if (step.kind == ">" && step.subject == "CNP") return "ACK";
  if (step.kind == ">" && step.subject != "NAK") return "CNP";
  return std::nullopt;
}

}  // namespace

std::vector<Script> mutants_of(const Script& script) {
  std::vector<Script> mutants;
  for (size_t s = 0; s < script.steps.size(); ++s) {
    const Step& step = script.steps[s];
    if (!expects(step)) continue;
    if (const auto subject = change_subject(step)) {
      mutants.push_back(script);
      mutants.back().steps[s].subject = *subject;
    }
    for (size_t f = 0; f < step.fields.size(); ++f) {
      const auto value = change(step, step.fields[f]);
      if (!value) continue;
      mutants.push_back(script);
      mutants.back().steps[s].fields[f].value = *value;
    }
  }
  return mutants;
}

size_t mutant_step(const Script& script, const Script& mutant) {
  size_t s = 0;
  while (s + 1 < script.steps.size() && to_text(script.steps[s]) == to_text(mutant.steps[s])) ++s;
  return s;
}

std::string to_text(const Step& step) {
  std::string text = step.kind;
  if (!step.subject.empty()) text.append(" ").append(step.subject);
  for (const Field& field : step.fields) {
    text.append(" ").append(field.key).append("=").append(field.value);
  }
  return text;
}

}  // namespace mprdma::conformance
