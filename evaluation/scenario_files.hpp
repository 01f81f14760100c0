// The scenarios of the figures, built in: `mprdma sim figure` needs no source tree.
#pragma once

#include <string>

namespace mprdma::figures {

// The text of "fig11a.toml"; nullptr if there is none.
const char* scenario_file(const std::string& name);

}  // namespace mprdma::figures
