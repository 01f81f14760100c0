// What a result says of the scenario that it came from, so that it can be made again: the
// scenario's text with what was put over it, and every parameter of the transport.
#pragma once

#include <nlohmann/json.hpp>

#include "switchsim/sim/scenario/scenario.hpp"

namespace mprdma::switchsim {

// All parameters, under the names and in the units of a [transport] table.
nlohmann::ordered_json params_json(const transport::Params& params);

// Distributions of sizes that came from files of the scenario's own: {traffic: [[bytes,
// cumulative probability], ..]}.
nlohmann::ordered_json sizes_json(const Scenario& scenario);

// One entry for each set of parameters that differs, with how many `flows` have it, the
// `first_flow` of those, and the names of the `traffic` whose flows have it.
nlohmann::ordered_json transport_json(const Scenario& scenario);

// {"scenario_text": .., "overrides": [..], "transport": [..]}, and if there are any "traffic": [..]
// and "sizes". Text is null if the scenario was made in C++. One entry of `traffic` for each, with
// how many flows, messages and bytes the seed has drawn.
nlohmann::ordered_json constants_json(const Scenario& scenario);

}  // namespace mprdma::switchsim
