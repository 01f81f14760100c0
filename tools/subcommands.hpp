// The subcommands of `mprdma`: each registers itself and stores the exit code of its run.
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace mprdma::tools {

// Arguments behind "--" on the command line, removed before the options are parsed.
using Program = std::vector<std::string>;

void add_run(CLI::App& app, const Program& program, int* exit_code);
void add_fabric(CLI::App& app, int* exit_code);
void add_sim(CLI::App& app, int* exit_code);
void add_doctor(CLI::App& app, int* exit_code);
void add_top(CLI::App& app, int* exit_code);
void add_version(CLI::App& app, int* exit_code);

// One line of all versions that matter.
std::string version_line();

// `mprdma run` itself failed, as opposed to the program that it runs (as env(1) and timeout(1)).
inline constexpr int kExitRunFailed = 125;
inline constexpr int kExitCannotExecute = 126;
inline constexpr int kExitNotFound = 127;
inline constexpr int kExitUsage = 2;
inline constexpr int kExitFailed = 1;

}  // namespace mprdma::tools
