// What the checks of a scenario have in common.
#pragma once

#include <string>

#include "base/status.hpp"
#include "switchsim/sim/scenario/scenario.hpp"
#include "transport/core/params.hpp"

namespace mprdma::switchsim {

// An error in one part: its text, empty if there is none, and the key in the part's table.
// find_error() adds which part it is, validate() makes it a Status.
struct FieldError {
  std::string key = {};
  std::string what = {};
};

Status check_red(const RedConfig& red);
// Each in its range, and two in agreement.
FieldError check_params(const transport::Params& params);
// Checks the topology and its links; `what` is empty if there is no error.
ScenarioError check_topology(const Scenario& scenario);
// Whatever the seed draws. The topology is known to be right.
FieldError check_traffic(const Scenario& scenario, const TrafficSpec& traffic);
// How long series become, and how often queues are looked at.
FieldError check_sampling(const Scenario& scenario);

}  // namespace mprdma::switchsim
