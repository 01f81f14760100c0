// The table of `mprdma fabric show`, from the JSON of a fabric.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace mprdma::tools {

// `before` (null, or an answer of `seconds` ago) gives throughput in the place of totals.
std::string fabric_table(const nlohmann::json& now, const nlohmann::json& before);

}  // namespace mprdma::tools
