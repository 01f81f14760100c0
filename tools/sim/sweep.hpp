// `mprdma sim sweep`: many runs of one scenario.
#pragma once

namespace CLI {
class App;
}

namespace mprdma::tools {

void add_sim_sweep(CLI::App& sim, int* exit_code);

}  // namespace mprdma::tools
