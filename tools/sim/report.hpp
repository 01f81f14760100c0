// `mprdma sim report`: all figures on one page; a subcommand of `sim`.
#pragma once

namespace CLI {
class App;
}

namespace mprdma::tools {

void add_sim_report(CLI::App& sim, int* exit_code);

}  // namespace mprdma::tools
