// Results as files that programs read: JSON in the project's schema (design: claims optional), CSV
// of the series. Bytes depend on the result only.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "switchsim/sim/result.hpp"

namespace mprdma::switchsim {

// {"schema": 1, "command": .., "revision": .., "constants": .., "claims": [], "flows": [..],
//  "ports": [..], "totals": {..}, "series": {..}}; `series` only if wanted.
nlohmann::ordered_json to_json(const Result& result, const std::string& command,
                               const std::string& revision, bool with_series);
// One row per point: time_us, then <flow>.goodput_bps, <flow>.window, <flow>.srtt_us ..
std::string flows_csv(const Result& result);
// .. and <port>.utilisation, <port>.queue_bytes, <port>.mark_ratio.
std::string ports_csv(const Result& result);

}  // namespace mprdma::switchsim
