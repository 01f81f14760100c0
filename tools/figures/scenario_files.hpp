// The files of switchsim/scenarios, built in: `mprdma sim figure` needs no source tree.
#pragma once

#include <string>
#include <vector>

namespace mprdma::figures {

// The text of "fig11a.toml"; nullptr if there is none.
const char* scenario_file(const std::string& name);
std::vector<std::string> scenario_names();

}  // namespace mprdma::figures
