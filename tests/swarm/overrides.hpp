// What `swarm --set KEY=VALUE` changes in drawn runs, so that an algorithm of one's own can be
// given to every queue pair.
#pragma once

#include <string>

#include "tests/swarm/scenario.hpp"

namespace mprdma::swarm {

// Sets one parameter of the mode `mp` (docs/parameters.md) at both ends of every queue pair. Words,
// true and false, and whole numbers in the parameter's unit. False: no such key or value. Whoever
// sets a number beyond its range gets what he asked for.
bool override_param(const std::string& setting, Scenario& scenario);

}  // namespace mprdma::swarm
