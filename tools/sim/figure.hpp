// `mprdma sim figure` and `sim list`, and what goes with them: subcommands of `sim`.
#pragma once

namespace CLI {
class App;
}

namespace mprdma::tools {

void add_sim_figures(CLI::App& sim, int* exit_code);

}  // namespace mprdma::tools
