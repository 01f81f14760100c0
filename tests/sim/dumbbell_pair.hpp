// A flow between the hosts of one pair of a dumbbell (make_dumbbell,
// switchsim/sim/scenario/scenario.hpp).
#pragma once

#include <cstdint>
#include <string>

#include "switchsim/sim/scenario/scenario.hpp"

namespace mprdma::switchsim {

// `pair` counts from 0. All else is as in a scenario file that says only from and to.
inline FlowSpec flow_of_pair(const Scenario& scenario, uint32_t pair) {
  FlowSpec flow;
  flow.from = scenario.host("l" + std::to_string(pair + 1));
  flow.to = scenario.host("r" + std::to_string(pair + 1));
  return flow;
}

}  // namespace mprdma::switchsim
