// What a sweep tells of each result: a number out of its JSON (result_json.hpp).
//
//   totals.jain                                    a path, as in --set
//   min flows[*].goodput_bps                       of several values: min, max, mean or sum
//   totals.goodput_bps / constants.ceiling_bps     a ratio
//   totals.goodput_bps / 1e9
//
// A value that is null (no message was completed) gives no number. A counter of a flow or a port
// that is not written is zero.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "switchsim/sim/dotted_path.hpp"

namespace mprdma::sweep {

enum class Fold : uint8_t { kNone, kMin, kMax, kMean, kSum };

struct Term {
  double constant = 0;
  std::vector<switchsim::PathStep> path;  // empty: the constant
  Fold fold = Fold::kNone;
  std::string text;
};

struct Measure {
  std::string name;
  Term value;
  std::optional<Term> divisor;
};

// Empty, or what is wrong with the text.
std::string parse_measure(const std::string& text, Measure* out);
// Empty and a number, or nothing where there is none; or why the result has no such thing.
std::string evaluate(const Measure& measure, const nlohmann::ordered_json& result,
                     std::optional<double>* out);

}  // namespace mprdma::sweep
