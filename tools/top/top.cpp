// mprdma top: every queue pair of this user's mprdma processes, live.
#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <thread>

#include "dataplane/sys/runtime_directory.hpp"
#include "tools/number_option.hpp"
#include "tools/subcommands.hpp"
#include "tools/top/top_client.hpp"
#include "tools/top/top_view.hpp"

namespace mprdma::tools {

namespace {

constexpr Duration kPatience = Duration::ms(500);
constexpr const char* kHome = "\033[H";
constexpr const char* kClear = "\033[2J";
constexpr const char* kClearLine = "\033[K";
constexpr const char* kClearBelow = "\033[J";

struct TopOptions {
  bool once = false;
  bool json = false;
  double interval_s = 1.0;
  uint64_t count = 0;  // 0: until interrupted
};

// Directories where a process may have put its socket: its runtime directory may differ from ours.
std::vector<std::string> directories() {
  const auto environment = [](const char* name) { return std::getenv(name); };
  const auto nothing = [](const char*) -> const char* { return nullptr; };
  std::vector<std::string> out = {dataplane::runtime_directory(environment, geteuid())};
  const std::string fallback = dataplane::runtime_directory(nothing, geteuid());
  if (fallback != out[0]) out.push_back(fallback);
  return out;
}

// Lines of the table that the terminal holds below the two of the head, with one to spare.
size_t terminal_lines() {
  winsize size{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_row < 6) return 20;
  return size.ws_row - 4u;
}

std::string in_place(const std::string& table, bool first) {
  std::string out = first ? std::string(kClear) + kHome : std::string(kHome);
  for (const char c : table) {
    if (c == '\n') out += kClearLine;
    out += c;
  }
  return out + kClearBelow;
}

void show(const std::vector<TopRow>& rows, const TopOptions& options, bool first) {
  if (options.json) {
    fmt::print("{}\n", as_json(rows).dump());
  } else if (options.once || isatty(STDOUT_FILENO) == 0) {
    fmt::print("{}{}", first ? "" : "\n", as_table(rows, SIZE_MAX));
  } else {
    fmt::print("{}", in_place(as_table(rows, terminal_lines()), first));
  }
  std::fflush(stdout);
}

int run(const TopOptions& options) {
  const uint64_t count = options.once ? 1 : options.count;
  const std::vector<std::string> where = directories();
  std::vector<TopProcess> before = read_processes(where, kPatience);
  for (uint64_t i = 0; count == 0 || i < count; ++i) {
    std::this_thread::sleep_for(std::chrono::duration<double>(options.interval_s));
    std::vector<TopProcess> now = read_processes(where, kPatience);
    show(compare(before, now), options, i == 0);
    if (std::ferror(stdout) != 0) return kExitRunFailed;
    before = std::move(now);
  }
  return 0;
}

}  // namespace

void add_top(CLI::App& app, int* exit_code) {
  auto options = std::make_shared<TopOptions>();
  CLI::App* sub = app.add_subcommand("top", "Show every queue pair of your mprdma processes, live");
  sub->add_flag("--once", options->once, "Show one interval and end");
  sub->add_flag("--json", options->json, "One JSON object on a line for each interval");
  sub->add_option("--interval", options->interval_s, "Seconds between two looks (1)")
      ->check(number_in(0.05, 3600, "a number of seconds"));
  sub->add_option("--count", options->count, "End after so many intervals")
      ->check(whole_number_in(1, UINT32_MAX, "a number of intervals"));
  sub->footer("The columns are explained in mprdma(1).");
  sub->callback([options, exit_code] { *exit_code = run(*options); });
}

}  // namespace mprdma::tools
