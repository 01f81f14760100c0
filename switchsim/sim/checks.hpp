// What the checks of a scenario have in common.
#pragma once

#include <string>

#include "switchsim/sim/scenario.hpp"
#include "transport/params.hpp"

namespace mprdma::switchsim {

// Of one thing: what is wrong, empty if nothing is, and the key in its table.
struct Wrong {
  std::string key = {};
  std::string what = {};
};

std::string check_red(const RedConfig& red);
// What two parameters have to agree on.
Wrong check_params(const transport::Params& params);
// Of the topology or of a link; `what` is empty if nothing is wrong.
Mistake check_topology(const Scenario& scenario);
// Whatever the seed draws. The topology is known to be right.
Wrong check_traffic(const Scenario& scenario, const TrafficSpec& traffic);
// How long series become, and how often queues are looked at.
Wrong check_sampling(const Scenario& scenario);

}  // namespace mprdma::switchsim
