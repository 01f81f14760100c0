#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <exception>

#include "tools/subcommands.hpp"

namespace {

using mprdma::tools::Program;

// Everything behind the first "--" belongs to the program, whatever it looks like.
Program cut_program(int* argc, char** argv) {
  char** const end = argv + *argc;
  char** const mark = std::find_if(argv, end, [](const char* a) { return std::string(a) == "--"; });
  if (mark == end) return {};
  *argc = static_cast<int>(mark - argv);
  return {mark + 1, end};
}

int run(int argc, char** argv) {
  const Program program = cut_program(&argc, argv);
  int exit_code = 0;
  CLI::App app{"mprdma: an RDMA device for every Ethernet server, in software"};
  app.set_version_flag("--version", mprdma::tools::version_line());
  app.require_subcommand(1);
  app.footer("Start with: mprdma doctor; mprdma run -- ibv_devinfo. Page: mprdma(1).");
  mprdma::tools::add_run(app, program, &exit_code);
  mprdma::tools::add_fabric(app, &exit_code);
  mprdma::tools::add_sim(app, &exit_code);
  mprdma::tools::add_doctor(app, &exit_code);
  mprdma::tools::add_top(app, &exit_code);
  mprdma::tools::add_version(app, &exit_code);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    const int code = app.exit(error);
    return code == 0 ? 0 : mprdma::tools::kExitUsage;
  }
  return exit_code;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "mprdma: %s\n", error.what());
    return mprdma::tools::kExitRunFailed;
  }
}
