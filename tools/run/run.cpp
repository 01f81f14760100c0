// mprdma run -- PROGRAM: an unmodified verbs program over mprdma.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "dataplane/sys/runtime_directory.hpp"
#include "tools/fabric/fabric_client.hpp"
#include "tools/locations.hpp"
#include "tools/run/daemon_client.hpp"
#include "tools/run/run_plan.hpp"
#include "tools/running_fabrics.hpp"
#include "tools/subcommands.hpp"

namespace mprdma::tools {

namespace {

int fail(const std::string& message) {
  fmt::print(stderr, "mprdma run: {}\n", message);
  return kExitRunFailed;
}

int execute(const Program& program) {
  std::vector<char*> argv;
  for (const std::string& argument : program) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  execvp(argv[0], argv.data());
  const int error = errno;
  fmt::print(stderr, "mprdma run: cannot run '{}': {}\n", program[0], std::strerror(error));
  return error == ENOENT || error == ENOTDIR ? kExitNotFound : kExitCannotExecute;
}

int run(RunOptions options, const Program& program, const std::string* fabric) {
  if (program.empty()) {
    return fail(
        "no program: mprdma run [OPTIONS] -- PROGRAM [ARGUMENTS], for example mprdma run "
        "-- ibv_devinfo");
  }
  Locations locations;
  Status status = find_locations(&locations);
  if (status.ok() && fabric != nullptr) status = find_fabric_host(*fabric, &options);
  if (!status.ok()) return fail(status.text);
  const auto environment = [](const char* name) { return std::getenv(name); };
  DaemonWish wish;
  status = wants_daemon(options, environment, &wish);
  if (status.ok() && wish.wanted) {
    status = find_daemon(wish, locations, runtime_directory(environment, geteuid()),
                         &options.daemon.emplace());
  }
  if (!status.ok()) return fail(status.text);
  RunPlan plan;
  status = plan_run(options, locations, environment, geteuid(), &plan);
  if (status.ok() && !plan.wire_directory.empty()) {
    status = dataplane::make_private_directory(plan.wire_directory);
    if (!status.ok()) status.text += "; or name another wire with --port local:PATH";
  }
  if (!status.ok()) return fail(status.text);
  for (const auto& [name, value] : plan.variables) setenv(name.c_str(), value.c_str(), 1);
  if (!options.quiet && isatty(STDERR_FILENO) != 0) {
    fmt::print(stderr, "mprdma: {}\n", plan.note);
  }
  return execute(program);
}

}  // namespace

void add_run(CLI::App& app, const Program& program, int* exit_code) {
  auto options = std::make_shared<RunOptions>();
  CLI::App* sub = app.add_subcommand("run", "Run an unmodified verbs program over mprdma");
  sub->add_option(
      "--host", options->host,
      "One of the built-in pair on a wire: h0 (10.73.0.1) or h1; with --fabric, any of its hosts. "
      "Without host, address and port: a part of mprdmad's device");
  auto fabric = std::make_shared<std::string>();
  CLI::Option* fabric_option =
      sub->add_option("--fabric", *fabric, "A host of a running fabric (mprdma fabric up)")
          ->expected(0, 1)
          ->type_name("[NAME]");
  sub->add_option("--port", options->port,
                  "The wire: local:PATH[,slots=N], ethdev:DEVARGS or daemon:PATH (mprdmad)");
  sub->add_option("--address", options->address, "IPv4 address and prefix, like 10.73.0.1/24");
  sub->add_option("--mac", options->mac, "Ethernet address (default: from the IPv4 address)");
  sub->add_option("--mtu", options->mtu, "RoCE path MTU: 1024, 2048 or 4096");
  sub->add_option("--device", options->device, "Name of the device (default mprdma0)");
  sub->add_option(
      "--mode", options->mode,
      "Transport: mp (default; roce with peers that are no mprdma), mp-single, mp-paper, irn or "
      "roce");
  sub->add_option("--preset", options->preset,
                  "The same with more choices: " + dataplane::preset_names());
  sub->add_option("--offload", options->offload,
                  "rtl: the verilated SmartNIC keeps the sending halves of connections");
  sub->add_option("--paths", options->paths, "Network paths of a connection: all (default) or 1");
  sub->add_option("--config", options->config, "TOML file; see mprdma(1)");
  sub->add_option("--fault", options->fault,
                  "For tests: seed=7,loss=0.01,reorder=0.02,dup=0.01,delay_us=50");
  sub->add_flag("-q,--quiet", options->quiet, "Do not say which host this is");
  sub->prefix_command();
  sub->footer(
      "Usage: mprdma run [OPTIONS] -- PROGRAM [ARGUMENTS]\n"
      "Exit status: that of PROGRAM; 125 if mprdma fails, 126 if PROGRAM cannot be "
      "executed, 127 if it is not found.");
  sub->callback([sub, options, fabric, fabric_option, &program, exit_code] {
    Program all = sub->remaining();
    if (!all.empty() && all[0][0] == '-') {
      fmt::print(stderr, "mprdma run: unknown option {}; see mprdma run --help\n", all[0]);
      *exit_code = kExitUsage;
      return;
    }
    all.insert(all.end(), program.begin(), program.end());
    *exit_code = run(*options, all, fabric_option->count() > 0 ? fabric.get() : nullptr);
  });
}

}  // namespace mprdma::tools
