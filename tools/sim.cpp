// mprdma sim run: one scenario in the event simulator.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <memory>

#include "base/revision.hpp"
#include "switchsim/sim/result_json.hpp"
#include "switchsim/sim/scenario_toml.hpp"
#include "switchsim/sim/simulation.hpp"
#include "tools/number_option.hpp"
#include "tools/results.hpp"
#include "tools/sim_figure.hpp"
#include "tools/subcommands.hpp"

namespace mprdma::tools {

namespace {

using switchsim::FlowResult;
using switchsim::PortResult;
using switchsim::Result;

struct Arguments {
  std::string scenario;
  std::string out;
  std::string json;
  std::vector<std::string> overrides;
  uint64_t seed = 0;
  bool seed_given = false;
};

// Set by the first Ctrl-C; the second one ends the program as usual.
std::atomic<bool> g_stop = false;

void on_interrupt(int) {
  g_stop.store(true, std::memory_order_relaxed);
  std::signal(SIGINT, SIG_DFL);
}

// A line that repaints itself, on a terminal only.
class ProgressBar {
 public:
  ProgressBar() : shown_(isatty(STDERR_FILENO) == 1), begun_(Clock::now()) {}

  void show(const switchsim::Progress& progress) {
    const Clock::time_point now = Clock::now();
    if (!shown_ || now - painted_ < std::chrono::milliseconds(100)) return;
    painted_ = now;
    const double done =
        static_cast<double>(progress.now.ps()) / static_cast<double>(progress.end.ps());
    const double elapsed_s = std::chrono::duration<double>(now - begun_).count();
    constexpr int kWidth = 30;
    const int filled = std::min(static_cast<int>(done * kWidth), kWidth);
    fmt::print(stderr, "\r[{}{}] {:3.0f} %  {:.3f} of {:.3f} ms  {:.1f} M events/s ",
               std::string(static_cast<size_t>(filled), '#'),
               std::string(static_cast<size_t>(kWidth - filled), ' '), done * 100,
               static_cast<double>(progress.now.ps()) / 1e9,
               static_cast<double>(progress.end.ps()) / 1e9,
               static_cast<double>(progress.events) / 1e6 / elapsed_s);
  }
  void end() const {
    if (shown_) fmt::print(stderr, "\r\033[K");
  }

 private:
  using Clock = std::chrono::steady_clock;
  bool shown_;
  Clock::time_point begun_;
  Clock::time_point painted_{};
};

void print_flows(const Result& result) {
  constexpr size_t kRowsMax = 40;
  fmt::print("{:<16} {:>10} {:>12} {:>8} {:>9} {:>8} {:>8} {:>6} {:>9}\n", "flow", "Gb/s",
             "of ceiling", "window", "SRTT us", "OOO 99.9", "resent", "RTOs", "spurious");
  for (size_t i = 0; i < std::min(result.flows.size(), kRowsMax); ++i) {
    const FlowResult& flow = result.flows[i];
    const std::string transport = flow.transport == "mp" ? "" : "  " + flow.transport;
    fmt::print("{:<16} {:>10.3f} {:>12.4f} {:>8.1f} {:>9.2f} {:>8} {:>8} {:>6} {:>9}{}{}\n",
               flow.name, flow.goodput_bps / 1e9,
               result.ceiling_bps > 0 ? flow.goodput_bps / result.ceiling_bps : 0, flow.window_mean,
               flow.srtt_mean_us, flow.ooo.percentile(0.999), flow.stats.retransmitted,
               flow.stats.rto_expired, flow.spurious, transport, flow.failed ? "  FAILED" : "");
  }
  if (result.flows.size() > kRowsMax) {
    fmt::print(".. and {} more\n", result.flows.size() - kRowsMax);
  }
}

// The busiest directions of links, or those where something was lost.
void print_ports(const Result& result) {
  constexpr size_t kRowsMax = 12;
  std::vector<const PortResult*> ports;
  for (const PortResult& port : result.ports) {
    if (port.total.packets != 0) ports.push_back(&port);
  }
  std::stable_sort(ports.begin(), ports.end(), [](const PortResult* a, const PortResult* b) {
    return a->utilisation > b->utilisation;
  });
  ports.resize(std::min(ports.size(), kRowsMax));
  fmt::print("\n{:<20} {:>8} {:>6} {:>9} {:>10} {:>10} {:>8}\n", "busiest ports", "Gb/s", "use",
             "marked", "queue KB", "max KB", "lost");
  for (const PortResult* port : ports) {
    const switchsim::LinkCounters& c = port->total;
    fmt::print("{:<20} {:>8.3g} {:>6.3f} {:>9.4f} {:>10.2f} {:>10.2f} {:>8}\n", port->name,
               static_cast<double>(port->rate.bits_per_second()) / 1e9, port->utilisation,
               port->mark_ratio, port->queue_mean_bytes / 1e3,
               static_cast<double>(port->queue_max_bytes) / 1e3,
               c.drop_queue + c.drop_buffer + c.drop_loss + c.drop_down);
  }
}

// The directions of links that were paused for the largest share of the time.
void print_pauses(const Result& result) {
  constexpr size_t kRowsMax = 12;
  std::vector<const PortResult*> ports;
  for (const PortResult& port : result.ports) {
    if (port.pause_sent != 0 || port.paused_share > 0) ports.push_back(&port);
  }
  if (ports.empty()) {
    fmt::print("\nno port was paused\n");
    return;
  }
  std::stable_sort(ports.begin(), ports.end(), [](const PortResult* a, const PortResult* b) {
    return a->paused_share > b->paused_share;
  });
  fmt::print("\n{:<20} {:>8} {:>12} {:>14}\n", "paused ports", "pauses", "paused share",
             "headroom KB");
  for (size_t i = 0; i < std::min(ports.size(), kRowsMax); ++i) {
    fmt::print("{:<20} {:>8} {:>12.4f} {:>14.2f}\n", ports[i]->name, ports[i]->pause_sent,
               ports[i]->paused_share, static_cast<double>(ports[i]->headroom_peak_bytes) / 1e3);
  }
  if (ports.size() > kRowsMax) fmt::print(".. and {} more\n", ports.size() - kRowsMax);
}

void print_fct(const switchsim::FctSummary& fct) {
  if (fct.all().messages == 0) return;
  fmt::print("\n{:<16} {:>10} {:>12} {:>12} {:>12} {:>10} {:>10}\n", "messages", "complete",
             "mean us", "median us", "99 % us", "slowdown", "99 %");
  for (const switchsim::FctClass& c : fct.classes) {
    if (c.messages == 0) continue;
    fmt::print("{:<16} {:>10} {:>12.2f} {:>12.2f} {:>12.2f} {:>10.2f} {:>10.2f}\n", c.name,
               c.messages, c.mean_us, c.p50_us, c.p99_us, c.slowdown_mean, c.slowdown_p99);
  }
  if (fct.unfinished > 0) fmt::print("not complete: {}\n", fct.unfinished);
}

void print_result(const Result& result) {
  print_flows(result);
  print_fct(result.fct);
  print_ports(result);
  if (result.pfc) print_pauses(result);
  fmt::print(
      "\ntotal {:.3f} Gb/s, Jain {:.4f}; a link of the fastest rate carries {:.3f} Gb/s of "
      "payload ({:.4f} of its rate)\n",
      result.goodput_bps / 1e9, result.jain, result.ceiling_bps / 1e9, result.payload_share);
  fmt::print("{:.3f} ms simulated{}, {} events, {} packet-hops\n",
             static_cast<double>(result.end.ps()) / 1e9, result.complete ? "" : " (interrupted)",
             result.events, result.packet_hops);
  for (const std::string& error : result.errors) fmt::print(stderr, "error: {}\n", error);
}

bool write_results(const Arguments& arguments, const Result& result) {
  bool good = true;
  const auto json = [&](bool with_series) {
    return switchsim::to_json(result, "mprdma sim run", revision(), with_series).dump(1) + "\n";
  };
  if (!arguments.json.empty()) good = write_result("mprdma sim", arguments.json, json(true));
  if (arguments.out.empty()) return good;
  std::error_code error;
  std::filesystem::create_directories(arguments.out, error);
  const std::string name = result.scenario.empty()
                               ? std::filesystem::path(arguments.scenario).stem().string()
                               : result.scenario;
  const std::string base = (std::filesystem::path(arguments.out) / name).string();
  return write_result("mprdma sim", base + ".json", json(true)) &&
         write_result("mprdma sim", base + "-flows.csv", switchsim::flows_csv(result)) &&
         write_result("mprdma sim", base + "-ports.csv", switchsim::ports_csv(result)) && good;
}

int run_scenario(const Arguments& arguments) {
  switchsim::Scenario scenario;
  const std::string wrong =
      switchsim::load_scenario(arguments.scenario, arguments.overrides, &scenario);
  if (!wrong.empty()) {
    fmt::print(stderr, "mprdma sim: {}\n", wrong);
    return kExitUsage;
  }
  if (arguments.seed_given) scenario.seed = arguments.seed;
  ProgressBar bar;
  switchsim::RunOptions options;
  options.stop = &g_stop;
  options.on_progress = [&bar](const switchsim::Progress& progress) { bar.show(progress); };
  std::signal(SIGINT, on_interrupt);
  const Result result = switchsim::simulate(scenario, options);
  std::signal(SIGINT, SIG_DFL);
  bar.end();
  if (arguments.json != "-") print_result(result);
  if (!write_results(arguments, result)) return 1;
  if (!result.complete) return 128 + SIGINT;
  return result.errors.empty() ? 0 : 1;
}

}  // namespace

void add_sim(CLI::App& app, int* exit_code) {
  CLI::App* sim = app.add_subcommand("sim", "Simulate a network of hosts with this transport");
  sim->require_subcommand(1);
  auto arguments = std::make_shared<Arguments>();
  CLI::App* run = sim->add_subcommand("run", "Run one scenario (docs/simulator.md)");
  run->add_option("SCENARIO", arguments->scenario, "A TOML file")->required();
  CLI::Option* seed = run->add_option("--seed", arguments->seed, "Instead of the scenario's")
                          ->check(whole_number_in(0, UINT64_MAX, "a whole number"));
  run->add_option("--out", arguments->out, "Write JSON and CSV files to this directory");
  run->add_option("--json", arguments->json, "Write the result here ('-': standard output)");
  run->add_option("--set", arguments->overrides,
                  "key=value over the scenario, like transport.preset=mp-paper, "
                  "flow[0].message_bytes=4096 (repeatable)")
      ->take_all()
      ->expected(1)
      ->allow_extra_args(false);
  run->callback([arguments, seed, exit_code] {
    arguments->seed_given = seed->count() > 0;
    *exit_code = run_scenario(*arguments);
  });
  add_sim_figures(*sim, exit_code);
}

}  // namespace mprdma::tools
