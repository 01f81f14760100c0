// What the checks of traffic and its expansion have in common.
#pragma once

#include <vector>

#include "switchsim/sim/scenario/scenario.hpp"

namespace mprdma::switchsim {

// In whatever order.
bool same_hosts(const TrafficSpec& traffic);
// Payload bytes a second of each of `from`.
std::vector<double> offered(const Scenario& scenario, const TrafficSpec& traffic);
double mean_bytes(const TrafficSpec& traffic);
// On average, where the seed decides.
double flows_of(const Scenario& scenario, const TrafficSpec& traffic);
// No message arrives from then on.
SimTime arrivals_end(const Scenario& scenario, const TrafficSpec& traffic);

}  // namespace mprdma::switchsim
