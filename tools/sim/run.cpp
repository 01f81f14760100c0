// mprdma sim run: one scenario in the event simulator.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>

#include "base/revision.hpp"
#include "evaluation/results.hpp"
#include "switchsim/sim/result/result_json.hpp"
#include "switchsim/sim/scenario/scenario_toml.hpp"
#include "switchsim/sim/simulation.hpp"
#include "tools/interrupt.hpp"
#include "tools/number_option.hpp"
#include "tools/progress_bar.hpp"
#include "tools/sim/figure.hpp"
#include "tools/sim/sweep.hpp"
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
  std::string pcap;
  std::string pcap_link;
  std::string trace;
  std::string trace_flow;
  uint32_t pcap_snap = switchsim::Capture::kSnapDefault;
  std::vector<std::string> overrides;
  uint64_t seed = 0;
  bool seed_given = false;
};

// Prints a mean; "-" if no sample was taken.
std::string mean_text(double mean, int digits) {
  return mean > 0 ? fmt::format("{:.{}f}", mean, digits) : "-";
}

void print_flows(const Result& result) {
  constexpr size_t kRowsMax = 40;
  fmt::print("{:<16} {:>10} {:>12} {:>8} {:>9} {:>8} {:>8} {:>6} {:>9}\n", "flow", "Gb/s",
             "of ceiling", "window", "SRTT us", "OOO 99.9", "resent", "RTOs", "spurious");
  for (size_t i = 0; i < std::min(result.flows.size(), kRowsMax); ++i) {
    const FlowResult& flow = result.flows[i];
    const std::string transport = flow.transport == "mp" ? "" : "  " + flow.transport;
    fmt::print("{:<16} {:>10.3f} {:>12.4f} {:>8} {:>9} {:>8} {:>8} {:>6} {:>9}{}{}\n", flow.name,
               flow.goodput_bps / 1e9,
               result.ceiling_bps > 0 ? flow.goodput_bps / result.ceiling_bps : 0,
               mean_text(flow.window_mean, 1), mean_text(flow.srtt_mean_us, 2),
               flow.ooo.percentile(0.999), flow.stats.retransmitted, flow.stats.rto_expired,
               flow.spurious, transport, flow.failed ? "  FAILED" : "");
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
  if (result.deadlock) fmt::print("\ndeadlock, {}\n", result.deadlock->text());
  fmt::print(
      "\ntotal {:.3f} Gb/s, Jain {:.4f}; a link of the fastest rate carries {:.3f} Gb/s of "
      "payload ({:.4f} of its rate)\n",
      result.goodput_bps / 1e9, result.jain, result.ceiling_bps / 1e9, result.payload_share);
  fmt::print("{:.3f} ms simulated{}, {} events, {} packet-hops\n",
             static_cast<double>(result.end.ps()) / 1e9, result.complete ? "" : " (interrupted)",
             result.events, result.packet_hops);
  for (const std::string& error : result.errors) fmt::print(stderr, "error: {}\n", error);
}

// Prefix of the file names in --out.
std::string out_base(const Arguments& arguments, const switchsim::Scenario& scenario) {
  const std::string name = scenario.name.empty()
                               ? std::filesystem::path(arguments.scenario).stem().string()
                               : scenario.name;
  return (std::filesystem::path(arguments.out) / name).string();
}

// Checks the files before the run, which may take hours.
bool can_write_results(const Arguments& arguments, const switchsim::Scenario& scenario) {
  if (!arguments.json.empty() && !can_write("mprdma sim", arguments.json)) return false;
  if (arguments.out.empty()) return true;
  std::error_code error;
  std::filesystem::create_directories(arguments.out, error);
  if (error) {
    fmt::print(stderr, "mprdma sim: cannot make --out {}: {}\n", arguments.out, error.message());
    return false;
  }
  const std::string base = out_base(arguments, scenario);
  return can_write("mprdma sim", base + ".json") && can_write("mprdma sim", base + "-flows.csv") &&
         can_write("mprdma sim", base + "-ports.csv");
}

bool write_results(const Arguments& arguments, const switchsim::Scenario& scenario,
                   const Result& result) {
  bool good = true;
  const auto json = [&](bool with_series) {
    return switchsim::to_json(result, scenario, "mprdma sim run", revision(), with_series).dump(1) +
           "\n";
  };
  if (!arguments.json.empty()) good = write_result("mprdma sim", arguments.json, json(true));
  if (arguments.out.empty()) return good;
  const std::string base = out_base(arguments, scenario);
  return write_result("mprdma sim", base + ".json", json(true)) &&
         write_result("mprdma sim", base + "-flows.csv", switchsim::flows_csv(result)) &&
         write_result("mprdma sim", base + "-ports.csv", switchsim::ports_csv(result)) && good;
}

// Prints an error. True: there is none.
bool reported(const Status& status) {
  if (!status.ok()) fmt::print(stderr, "mprdma sim: {}\n", status.text);
  return status.ok();
}

// `unit`: what was written, `count` times.
bool reported_end(const Status& status, uint64_t count, std::string_view unit,
                  const std::string& path) {
  if (status.ok()) fmt::print(stderr, "{} {} in {}\n", count, unit, path);
  return reported(status);
}

// The link to capture and the flow to trace; nullopt: all of them.
struct Selection {
  std::optional<switchsim::LinkId> link;
  std::optional<uint32_t> flow;
};

// False: it has printed which name is wrong.
bool select(const Arguments& arguments, const switchsim::Scenario& scenario, Selection* out) {
  std::string known;
  if (!arguments.pcap_link.empty()) {
    out->link = scenario.link_named(arguments.pcap_link);
    if (!out->link) {
      for (const auto& each : scenario.topology.links) known += " " + each.name;
      fmt::print(stderr, "mprdma sim: --pcap-link {}: expected the name of a link:{}\n",
                 arguments.pcap_link, known);
      return false;
    }
  }
  if (!arguments.trace_flow.empty()) {
    out->flow = scenario.flow_named(arguments.trace_flow);
    if (!out->flow) {
      for (uint32_t i = 0; i < scenario.flows.size(); ++i) known += " " + scenario.flow_name(i);
      fmt::print(stderr, "mprdma sim: --trace-flow {}: expected the name of a flow:{}\n",
                 arguments.trace_flow, known);
      return false;
    }
  }
  return true;
}

// True if both paths name one file that exists, or are the same.
bool same_file(const std::string& one, const std::string& other) {
  std::error_code ignored;
  return one == other || std::filesystem::equivalent(one, other, ignored);
}

Result simulate_visibly(const switchsim::Scenario& scenario, const Interruptible& interruptible,
                        switchsim::Capture* capture, switchsim::TraceFile* trace) {
  ProgressBar bar;
  switchsim::RunOptions options;
  options.capture = capture;
  options.trace = trace;
  options.stop = interruptible.stop();
  options.on_progress = [&bar](const switchsim::Progress& progress) { bar.show(progress); };
  return switchsim::simulate(scenario, options);
}

int run_scenario(const Arguments& arguments) {
  switchsim::Scenario scenario;
  const Status status =
      switchsim::load_scenario(arguments.scenario, arguments.overrides, &scenario);
  if (!status.ok()) {
    fmt::print(stderr, "mprdma sim: {}\n", status.text);
    return kExitUsage;
  }
  if (arguments.seed_given) scenario.seed = arguments.seed;
  if (!can_write_results(arguments, scenario)) return kExitFailed;
  switchsim::Capture capture;
  const bool captures = !arguments.pcap.empty();
  switchsim::TraceFile trace;
  const bool traces = !arguments.trace.empty();
  // Names are checked first, so that a wrong one leaves all files as they are.
  Selection selected;
  if (!select(arguments, scenario, &selected)) return kExitUsage;
  if (captures && traces && same_file(arguments.pcap, arguments.trace)) {
    fmt::print(stderr, "mprdma sim: --pcap and --trace name the same file\n");
    return kExitUsage;
  }
  if (captures &&
      !reported(capture.open(arguments.pcap, arguments.pcap_snap, scenario, selected.link))) {
    return kExitUsage;
  }
  if (traces && !reported(trace.open(arguments.trace, selected.flow))) return kExitUsage;
  const Interruptible interruptible;
  const Result result = simulate_visibly(scenario, interruptible, captures ? &capture : nullptr,
                                         traces ? &trace : nullptr);
  // If one file cannot be written, the others still are.
  bool good = write_results(arguments, scenario, result);
  if (arguments.json != "-") print_result(result);
  if (captures) {
    good &= reported_end(capture.close(), capture.packets(), "packets", arguments.pcap);
  }
  if (traces) good &= reported_end(trace.close(), trace.events(), "events", arguments.trace);
  if (!good) return kExitFailed;
  if (!result.complete) return interruptible.exit_code();
  return result.errors.empty() ? 0 : 1;
}

}  // namespace

void add_sim(CLI::App& app, int* exit_code) {
  CLI::App* sim = app.add_subcommand("sim", "Simulate a network of hosts with this transport");
  sim->require_subcommand(1);
  auto arguments = std::make_shared<Arguments>();
  CLI::App* run = sim->add_subcommand("run", "Run one scenario (docs/simulator.md)");
  run->add_option("SCENARIO", arguments->scenario, "A TOML file")->required();
  CLI::Option* seed =
      run->add_option("--seed", arguments->seed, "Use this seed instead of the scenario's")
          ->check(whole_number_in(0, UINT64_MAX, "a whole number"));
  run->add_option("--out", arguments->out, "Write JSON and CSV files to this directory");
  run->add_option("--json", arguments->json, "Write the result here ('-': standard output)");
  CLI::Option* pcap = run->add_option("--pcap", arguments->pcap,
                                      "Write the packets that arrive at hosts to this pcapng file");
  run->add_option("--pcap-link", arguments->pcap_link,
                  "Write the packets that leave by this link instead")
      ->needs(pcap);
  run->add_option("--pcap-snaplen", arguments->pcap_snap, "Bytes of each packet; 0: all of it")
      ->needs(pcap)
      ->check(whole_number_in(0, switchsim::Capture::kSnapMax, "a number of bytes"))
      ->capture_default_str();
  CLI::Option* trace = run->add_option(
      "--trace", arguments->trace, "Write the transport's events to this file, a JSON object each");
  run->add_option("--trace-flow", arguments->trace_flow, "Write the events of this flow only")
      ->needs(trace);
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
  add_sim_sweep(*sim, exit_code);
  add_sim_figures(*sim, exit_code);
}

}  // namespace mprdma::tools
