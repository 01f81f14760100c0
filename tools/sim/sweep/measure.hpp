// A measure of a sweep: a number from each result's JSON (result_json.hpp).
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

#include "base/status.hpp"
#include "switchsim/sim/scenario/dotted_path.hpp"

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

Status parse_measure(const std::string& text, Measure* out);
// *out: the number, or nothing where the value is null. An error says why the result has no such
// thing.
Status evaluate(const Measure& measure, const nlohmann::ordered_json& result,
                std::optional<double>* out);

}  // namespace mprdma::sweep
