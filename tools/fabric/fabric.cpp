// mprdma fabric up|set|show|down: a many-path network on this machine.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>

#include "dataplane/sys/runtime_directory.hpp"
#include "switchsim/fabric/fabric_process.hpp"
#include "tools/fabric/fabric_client.hpp"
#include "tools/fabric/fabric_table.hpp"
#include "tools/number_option.hpp"
#include "tools/running_fabrics.hpp"
#include "tools/subcommands.hpp"

namespace mprdma::tools {

namespace {

using nlohmann::json;
using switchsim::FabricConfig;
using switchsim::FabricProcess;

constexpr int kEndTimeoutMs = 10'000;

struct UpOptions {
  std::string topology;
  std::string name;
  bool daemon = false;
  bool foreground = false;
};

int fail(const char* command, const std::string& message) {
  fmt::print(stderr, "mprdma fabric {}: {}\n", command, message);
  return kExitFailed;
}

// ---- up

Status make_directories(const std::string& name, std::string* directory) {
  const std::string runtime =
      runtime_directory([](const char* variable) { return std::getenv(variable); }, geteuid());
  *directory = fabric_directory(runtime, name);
  Status status = dataplane::make_private_directory(runtime);
  if (status.ok()) status = dataplane::make_private_directory(*directory);
  return status;
}

std::string up_text(const FabricConfig& config, const std::string& name) {
  std::string hosts;
  for (const auto& host : config.hosts) hosts += (hosts.empty() ? "" : ", ") + host.name;
  return fmt::format(
      "fabric {} is up: hosts {}; {} links\nrun a program on it: mprdma run --fabric {} --host {} "
      "-- PROGRAM\n",
      name, hosts, config.topology.links.size(), name, config.hosts[0].name);
}

// Opens and runs the fabric; writes to `report` (a pipe; -1: the terminal) when it is up, or why it
// is not.
int run_fabric(const FabricConfig& config, const std::string& name, int report) {
  const auto say = [report](const std::string& text) {
    if (report < 0) {
      fmt::print("{}", text);
      std::fflush(stdout);
      return;
    }
    (void)!write(report, text.data(), text.size());
    close(report);
  };
  std::string directory;
  Status status = make_directories(name, &directory);
  FabricProcess process;
  if (status.ok()) status = process.open(config, name, directory);
  if (!status.ok()) {
    if (report < 0) return fail("up", status.text);
    say("!" + status.text);
    return kExitFailed;
  }
  say(up_text(config, name));
  process.run();
  return 0;
}

// Runs in the parent of a daemon: waits until the daemon reports success or an error.
int await_daemon(int report) {
  std::string text;
  char bytes[512];
  for (ssize_t count; (count = read(report, bytes, sizeof bytes)) > 0;) {
    text.append(bytes, static_cast<size_t>(count));
  }
  if (text.empty()) return fail("up", "the fabric died while it started");
  if (text[0] == '!') return fail("up", text.substr(1));
  fmt::print("{}", text);
  return 0;
}

int run_daemon(const FabricConfig& config, const std::string& name) {
  int report[2];
  if (pipe2(report, O_CLOEXEC) != 0) return fail("up", std::strerror(errno));
  const pid_t pid = fork();
  if (pid < 0) return fail("up", std::strerror(errno));
  if (pid > 0) {
    close(report[1]);
    return await_daemon(report[0]);
  }
  close(report[0]);
  setsid();
  const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) dup2(null, fd);
  if (chdir("/") != 0) return kExitFailed;
  return run_fabric(config, name, report[1]);
}

int up(const UpOptions& options) {
  FabricConfig config;
  const Status status = switchsim::load_fabric(options.topology, &config);
  if (!status.ok()) return fail("up", status.text);
  std::string name = options.name;
  if (name.empty()) name = config.name.empty() ? "default" : config.name;
  if (!switchsim::valid_fabric_name(name)) {
    return fail("up",
                fmt::format("--name {}: expected up to 32 letters, digits, '-' and '_'", name));
  }
  return options.daemon ? run_daemon(config, name) : run_fabric(config, name, -1);
}

// ---- set, show, down

int set(const std::string& name, const std::string& link, const std::vector<std::string>& changes) {
  FabricClient client;
  Status status = client.connect(name);
  json answer;
  if (status.ok()) {
    status = client.ask({{"command", "set"}, {"link", link}, {"changes", changes}}, &answer);
  }
  return status.ok() ? 0 : fail("set", status.text);
}

void wait_for(double seconds) {
  timespec pause{};
  pause.tv_sec = static_cast<time_t>(seconds);
  pause.tv_nsec = static_cast<long>((seconds - std::floor(seconds)) * 1e9);
  nanosleep(&pause, nullptr);
}

int show(const std::string& name, bool as_json, bool watch, double interval_s) {
  FabricClient client;
  Status status = client.connect(name);
  const bool terminal = isatty(STDOUT_FILENO) != 0;
  json before;
  while (status.ok()) {
    json now;
    status = client.ask({{"command", "show"}}, &now);
    if (!status.ok()) break;
    now.erase("ok");
    if (as_json) {
      fmt::print("{}\n", watch ? now.dump() : now.dump(2));
    } else {
      fmt::print("{}{}", watch && terminal ? "\x1b[H\x1b[2J" : "", fabric_table(now, before));
    }
    if (std::fflush(stdout) != 0) return kExitFailed;  // the reader closed the pipe
    if (!watch) return 0;
    before = std::move(now);
    wait_for(interval_s);
  }
  return fail("show", status.text);
}

int down(const std::string& name) {
  FabricClient client;
  Status status = client.connect(name);
  json answer;
  if (status.ok()) status = client.ask({{"command", "down"}}, &answer);
  if (status.ok() && !client.wait_for_end(kEndTimeoutMs)) {
    status = {ETIMEDOUT, "the fabric said that it would end, and has not"};
  }
  return status.ok() ? 0 : fail("down", status.text);
}

// ---- The command line

void add_up(CLI::App* fabric, int* exit_code) {
  auto options = std::make_shared<UpOptions>();
  CLI::App* sub = fabric->add_subcommand("up", "Start a fabric");
  sub->add_option("topology", options->topology, "TOML file; see switchsim/scenarios/fabric-*.toml")
      ->required();
  sub->add_option("--name", options->name, "Its name (default: the file's, or 'default')");
  CLI::Option* daemon =
      sub->add_flag("-d,--daemon", options->daemon, "Return when it is up; end it with down");
  sub->add_flag("--foreground", options->foreground, "Run until Ctrl-C or down (default)")
      ->excludes(daemon);
  sub->callback([options, exit_code] { *exit_code = up(*options); });
}

void add_set(CLI::App* fabric, int* exit_code) {
  struct Options {
    std::string name;
    std::string link;
    std::vector<std::string> changes;
  };
  auto options = std::make_shared<Options>();
  CLI::App* sub = fabric->add_subcommand("set", "Change a link while it runs");
  sub->add_option("--name", options->name, "Which fabric (default: the only one)");
  sub->add_option("link", options->link, "Name of the link; LINK:ab or LINK:ba for one direction")
      ->required();
  sub->add_option("changes", options->changes,
                  "up, down, rate=200Mbps, loss=1%, delay=20us, queue=400kB, red=1,60,120, red=off")
      ->required()
      ->expected(-1);
  sub->callback(
      [options, exit_code] { *exit_code = set(options->name, options->link, options->changes); });
}

void add_show(CLI::App* fabric, int* exit_code) {
  struct Options {
    std::string name;
    bool as_json = false;
    bool watch = false;
    double interval_s = 1;
  };
  auto options = std::make_shared<Options>();
  CLI::App* sub = fabric->add_subcommand("show", "Hosts, links and their counters");
  sub->add_option("--name", options->name, "Which fabric (default: the only one)");
  sub->add_flag("--json", options->as_json, "JSON; with --watch, one line each time");
  sub->add_flag("-w,--watch", options->watch, "Again and again, until Ctrl-C");
  sub->add_option("--interval", options->interval_s, "Seconds between two looks (default 1)")
      ->check(number_in(0.01, 3600, "a number of seconds"));
  sub->callback([options, exit_code] {
    *exit_code = show(options->name, options->as_json, options->watch, options->interval_s);
  });
}

void add_down(CLI::App* fabric, int* exit_code) {
  auto name = std::make_shared<std::string>();
  CLI::App* sub = fabric->add_subcommand("down", "End a fabric");
  sub->add_option("--name", *name, "Which fabric (default: the only one)");
  sub->callback([name, exit_code] { *exit_code = down(*name); });
}

}  // namespace

void add_fabric(CLI::App& app, int* exit_code) {
  CLI::App* fabric = app.add_subcommand("fabric", "A many-path network on this machine");
  fabric->require_subcommand(1);
  add_up(fabric, exit_code);
  add_set(fabric, exit_code);
  add_show(fabric, exit_code);
  add_down(fabric, exit_code);
}

}  // namespace mprdma::tools
