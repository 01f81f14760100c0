// What a run was set to, read back from the scenario as it is simulated: programs that change
// scenarios in C++ (figures) have no text that says it all.
#pragma once

#include <nlohmann/json.hpp>

#include "switchsim/sim/scenario/scenario.hpp"

namespace mprdma::switchsim {

// {"overrides": [..], "duration_us": .., "buffers": {.., "pfc": ..}, "links": [..], "flows": [..],
//  "changes": [..], "transport": [..]}. Links (each direction for itself) and flows that are set
// alike are one entry, with how many they are and the name of the first. Not in it: names, the
// seed and what it draws, how the network is wired (the scenario's text says it), what is sampled.
// Starts of flows are rounded down to multiples of `start_step`.
nlohmann::ordered_json settings_json(const Scenario& scenario, SimSpan start_step = SimSpan::ns(1));

}  // namespace mprdma::switchsim
