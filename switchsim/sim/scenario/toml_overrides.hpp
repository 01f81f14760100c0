// "key=value" over a parsed document, see scenario_toml.hpp.
#pragma once

#include <string>

#include "base/status.hpp"
#include "switchsim/config/toml_reader.hpp"

namespace mprdma::switchsim {

Status apply_override(const std::string& line, toml::table& root);

}  // namespace mprdma::switchsim
