// What the checks of a scenario have in common.
#pragma once

#include <string>

#include "base/status.hpp"
#include "switchsim/sim/scenario/scenario.hpp"
#include "transport/core/params.hpp"

namespace mprdma::switchsim {

// A finding in one part, not yet an error: its text, empty if there is none, and the key in the
// part's table. find_mistake() adds which part it is, validate() makes it a Status.
struct Wrong {
  std::string key = {};
  std::string what = {};
};

Status check_red(const RedConfig& red);
// Each in its range, and two in agreement.
Wrong check_params(const transport::Params& params);
// Checks the topology and its links; `what` is empty if nothing is wrong.
Mistake check_topology(const Scenario& scenario);
// Whatever the seed draws. The topology is known to be right.
Wrong check_traffic(const Scenario& scenario, const TrafficSpec& traffic);
// How long series become, and how often queues are looked at.
Wrong check_sampling(const Scenario& scenario);

}  // namespace mprdma::switchsim
