// Networks and traffic for which each deviation from the paper is worth something.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "evaluation/figure.hpp"
#include "switchsim/sim/result/result.hpp"
#include "switchsim/sim/scenario/scenario.hpp"

namespace mprdma::figures {

inline constexpr const char* kSynchroniseCase = "synchronise";

struct AblationCase {
  std::string id;
  std::string name;
  switchsim::Scenario scenario;
  std::function<double(const switchsim::Result&)> value;  // more is better
  // Target of the run with everything on, if the value is goodput / ceiling. Empty: the value has
  // no bound of its own, and is shown relative to that run.
  std::string target;
  // The deviations that the case is for, which a test switches off. Empty: all.
  std::vector<std::string> deviations;
};

std::vector<AblationCase> ablation_cases(const Figure& figure, bool ci);

}  // namespace mprdma::figures
