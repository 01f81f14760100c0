// The scenarios of the figures, built in: `mprdma sim figure` needs no source tree.
#pragma once

#include <string>

namespace mprdma::figures {

// The text of "fig11a.toml"; nullptr if there is none.
const char* scenario_file(const std::string& name);
// Where it stands in the source tree: "evaluation/mp_rdma/fig11a.toml"; empty if there is none.
std::string scenario_path(const std::string& name);

}  // namespace mprdma::figures
