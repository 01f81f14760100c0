#include "tools/sim/sweep/measure.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <numeric>
#include <sstream>
#include <string_view>

#include "switchsim/model/network.hpp"
#include "transport/core/counters.hpp"

namespace mprdma::sweep {

namespace {

using nlohmann::ordered_json;
using switchsim::PathStep;

constexpr const char* kExpected =
    "expected a value of the result, like totals.jain or min flows[*].goodput_bps, or a ratio of "
    "two";

bool parse_term(const std::string& text, Term* out) {
  std::istringstream in(text);
  std::string word;
  if (!(in >> word)) return false;
  constexpr std::string_view kFolds[] = {"", "min", "max", "mean", "sum"};
  const auto* const fold = std::find(std::begin(kFolds) + 1, std::end(kFolds), word);
  if (fold != std::end(kFolds)) {
    out->fold = static_cast<Fold>(fold - std::begin(kFolds));
    if (!(in >> word)) return false;
  }
  std::string more;
  if (in >> more) return false;
  out->text = word;
  const char* const end = word.data() + word.size();
  const auto number = std::from_chars(word.data(), end, out->constant);
  if (number.ec == std::errc{} && number.ptr == end) return out->fold == Fold::kNone;
  return switchsim::parse_path(word, &out->path);
}

template <class Counters>
bool counts(const std::string& name) {
  bool found = false;
  Counters{}.for_each([&](std::string_view known, uint64_t) { found = found || known == name; });
  return found;
}

// True if the name is that of a counter: results omit counters that are zero.
bool is_counter(const std::string& parent, const std::string& name) {
  if (parent == "counters") return counts<switchsim::LinkCounters>(name);
  return (parent == "sender" || parent == "receiver") && counts<transport::TransportCounters>(name);
}

std::string keys_of(const ordered_json& object) {
  std::string out;
  for (const auto& [key, value] : object.items()) out += (out.empty() ? "" : ", ") + key;
  return out;
}

// Appends to *out the nodes that `step` leads to from one node.
Status follow(const ordered_json& node, const std::string& parent, const PathStep& step,
              std::vector<const ordered_json*>* out) {
  static const ordered_json kZero = 0;
  if (!node.is_object()) return {EINVAL, fmt::format("there is nothing below {}", parent)};
  const auto found = node.find(step.key);
  if (found == node.end()) {
    if (!is_counter(parent, step.key)) {
      return {EINVAL, fmt::format("there is no {}{}{}; known: {}", step.key,
                                  parent.empty() ? "" : " in ", parent, keys_of(node))};
    }
    out->push_back(&kZero);
    return {};
  }
  if (!step.selector) {
    out->push_back(&*found);
    return {};
  }
  if (!found->is_array()) return {EINVAL, fmt::format("{} is no list", step.key)};
  const size_t before = out->size();
  for (size_t i = 0; i < found->size(); ++i) {
    const ordered_json& item = (*found)[i];
    const std::string name = item.is_object() ? item.value("name", std::string()) : std::string();
    if (switchsim::selects(*step.selector, i, name)) out->push_back(&item);
  }
  if (out->size() > before || *step.selector == "*") return {};
  return {EINVAL, fmt::format("there is no {}[{}]", step.key, *step.selector)};
}

double folded(Fold fold, const std::vector<double>& values) {
  const double sum = std::accumulate(values.begin(), values.end(), 0.0);
  switch (fold) {
    case Fold::kMin:
      return *std::min_element(values.begin(), values.end());
    case Fold::kMax:
      return *std::max_element(values.begin(), values.end());
    case Fold::kMean:
      return sum / static_cast<double>(values.size());
    default:
      return sum;
  }
}

Status evaluate_term(const Term& term, const ordered_json& result, std::optional<double>* out) {
  out->reset();
  if (term.path.empty()) {
    *out = term.constant;
    return {};
  }
  std::vector<const ordered_json*> nodes = {&result};
  std::string parent;
  for (const PathStep& step : term.path) {
    std::vector<const ordered_json*> next;
    for (const ordered_json* node : nodes) {
      if (node->is_null()) continue;
      Status status = follow(*node, parent, step, &next);
      if (!status.ok()) return prefixed(term.text + ": ", std::move(status));
    }
    nodes = std::move(next);
    parent = step.key;
  }
  std::vector<double> values;
  for (const ordered_json* node : nodes) {
    if (node->is_null()) continue;
    if (!node->is_number() && !node->is_boolean()) return {EINVAL, term.text + " is no number"};
    const bool is_true = node->is_boolean() && node->get<bool>();
    values.push_back(node->is_number() ? node->get<double>() : is_true ? 1 : 0);
  }
  if (values.size() > 1 && term.fold == Fold::kNone) {
    return {EINVAL,
            fmt::format("{} are {} values: say min, max, mean or sum", term.text, values.size())};
  }
  if (!values.empty()) *out = folded(term.fold, values);
  return {};
}

}  // namespace

Status parse_measure(const std::string& text, Measure* out) {
  const size_t slash = text.find(" / ");
  bool good = parse_term(text.substr(0, slash), &out->value);
  if (slash != std::string::npos) {
    good = parse_term(text.substr(slash + 3), &out->divisor.emplace()) && good;
  }
  if (good) return {};
  return {EINVAL, fmt::format("'{}': {}", text, kExpected)};
}

Status evaluate(const Measure& measure, const ordered_json& result, std::optional<double>* out) {
  Status status = evaluate_term(measure.value, result, out);
  if (!status.ok() || !measure.divisor) return status;
  std::optional<double> divisor;
  status = evaluate_term(*measure.divisor, result, &divisor);
  if (!divisor || *divisor == 0) out->reset();
  if (*out) *out = **out / *divisor;
  return status;
}

}  // namespace mprdma::sweep
