// "key=value" over a parsed document, see scenario_toml.hpp.
#pragma once

#include <string>

#include "switchsim/config/toml_reader.hpp"

namespace mprdma::switchsim {

// Empty, or what is wrong with it.
std::string apply_override(const std::string& line, toml::table& root);

}  // namespace mprdma::switchsim
