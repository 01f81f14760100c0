// Each deviation from the paper switched off alone, in networks and traffic where it may be worth
// something.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "evaluation/figure.hpp"
#include "switchsim/sim/result/result.hpp"
#include "switchsim/sim/scenario/scenario.hpp"

namespace mprdma::figures {

struct AblationCase {
  std::string id;
  std::string name;
  switchsim::Scenario scenario;
  std::function<double(const switchsim::Result&)> value;  // more is better
  // Target of the run with everything on, if the value is goodput / ceiling. Empty: the value has
  // no bound of its own, and is shown relative to that run.
  std::string target = {};
  // The deviations that the case is for, which a test switches off. Empty: all.
  std::vector<std::string> deviations = {};
  // Why a run with one of them off may be better. Empty: it is claimed that none is.
  std::string harm = {};
  // Those that are claimed to be worth a fiftieth here, or more; of a case without a target.
  std::vector<std::string> worth = {};
};

// The names of the claims begin with `id`. At CI size a case switches off only the deviations that
// it names.
FigureResult study_ablation(const std::string& id, const std::vector<AblationCase>& cases,
                            const RunOptions& options, uint32_t seeds);

}  // namespace mprdma::figures
