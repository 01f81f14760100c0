// Results as files that programs read: JSON in the project's schema (design: claims optional), CSV
// of the series. Bytes depend on the result only.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "switchsim/sim/result/result.hpp"

namespace mprdma::switchsim {

// {"schema": 1, "command": .., "revision": .., "machine": null, "constants": .., "claims": [],
//  "totals": {..}, "flows": [..], "ports": [..], "series": {..}}; `series` only if wanted. The
// constants are those of the scenario that the result came from (scenario_json.hpp).
nlohmann::ordered_json to_json(const Result& result, const Scenario& scenario,
                               const std::string& command, const std::string& revision,
                               bool with_series);
// One row per point: time_us, then for each flow .goodput_bps (since the previous point), .window,
// .srtt_us, .ooo_max and others.
std::string flows_csv(const Result& result);
// One row per point: time_us, then for each port that carried anything .bps (on the wire), .marked
// (packets), .queue_bytes.
std::string ports_csv(const Result& result);

}  // namespace mprdma::switchsim
