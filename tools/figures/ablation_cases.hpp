// Where the mends of the design are worth something: networks and traffic that each of them is for.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "switchsim/sim/result.hpp"
#include "switchsim/sim/scenario.hpp"
#include "tools/figures/figure.hpp"

namespace mprdma::figures {

inline constexpr const char* kSynchroniseCase = "synchronise";

struct AblationCase {
  std::string id;
  std::string name;
  switchsim::Scenario scenario;
  std::function<double(const switchsim::Result&)> value;  // more is better
  // Of the run with everything on, where the value is goodput / ceiling. Empty: what the value is
  // has no bound of its own, and it is shown relative to that run.
  std::string target;
  // The mends that the case is for: what a test switches off. Empty: all.
  std::vector<std::string> mends;
};

std::vector<AblationCase> ablation_cases(const Figure& figure, bool ci);

}  // namespace mprdma::figures
