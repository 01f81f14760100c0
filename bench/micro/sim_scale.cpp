// Memory and speed of the event simulator by the number of hosts: three tiers of ToRs with 40
// hosts, a permutation of 100 KB a flow. Memory has to be linear in the hosts.
//
//   sim_scale [--hosts N,N,..] [--json FILE]
//   sim_scale --fat-tree SCENARIO.toml [--k K,K,..] [--json FILE]
//
// Sizes are multiples of 640, the hosts of a pod; by default 1280, 2560, 5120 and 10240. The second
// form runs a scenario whose topology is a fat-tree, with other k (8, 16, 32, 64); it is
// switchsim/scenarios/fat-tree-64.toml that the page of the simulator measures. Each run is a
// process of its own, whose peak of resident memory the kernel tells; what a process takes without
// hosts is subtracted. Seconds are those of a processor. To be built as release.
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/revision.hpp"
#include "switchsim/sim/scenario/scenario_toml.hpp"
#include "switchsim/sim/simulation.hpp"

namespace mprdma::switchsim {
namespace {

constexpr uint64_t kFlowBytes = 100'000;
constexpr ThreeTierSpec kPod = {.pods = 1, .tors = 16, .aggs = 8, .cores = 64, .hosts_per_tor = 40};
constexpr uint32_t kPodHosts = kPod.tors * kPod.hosts_per_tor;
// Bytes for a host in the largest network against the smallest.
constexpr double kGrowthTarget = 1.1;

Scenario make_scenario(uint32_t hosts) {
  Scenario scenario;
  ThreeTierSpec spec = kPod;
  spec.pods = hosts / kPodHosts;
  make_three_tier(spec, &scenario);
  TrafficSpec traffic;
  traffic.kind = TrafficKind::kPermutation;
  traffic.flow.name = "permutation";
  traffic.flow.message_bytes = kFlowBytes;
  traffic.flow.messages = 1;
  for (NodeId host = 0; host < scenario.topology.hosts; ++host) traffic.from.push_back(host);
  traffic.to = traffic.from;
  scenario.traffic.push_back(traffic);
  scenario.duration = SimSpan::ms(100);
  scenario.end_when_idle = true;
  return scenario;
}

// What a child tells through a pipe; its memory is told by the kernel.
struct Report {
  uint32_t hosts = 0;
  uint64_t hops = 0;
  double simulated_us = 0;
  double set_up_seconds = 0;
  double run_seconds = 0;
  double result_seconds = 0;
};

struct Run {
  Report report;
  double resident_mb = 0;
  double bytes_per_host = 0;
  bool good = false;

  [[nodiscard]] double hops_per_second() const {
    return static_cast<double>(report.hops) / std::max(report.run_seconds, 1e-6);
  }
};

// Of this process so far, in the system's calls, too: touching memory is a part of setting up.
double processor_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
         static_cast<double>(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1e-6;
}

// False: it says why not.
bool measure(const Scenario& scenario, Report* report) {
  const double begin = processor_seconds();
  Simulation simulation(scenario);
  const double set_up = processor_seconds();
  simulation.run();
  const double run = processor_seconds();
  const Result result = simulation.result();
  report->hosts = scenario.topology.hosts;
  report->hops = result.packet_hops;
  report->simulated_us = static_cast<double>(result.end.ps()) * 1e-6;
  report->set_up_seconds = set_up - begin;
  report->run_seconds = run - set_up;
  report->result_seconds = processor_seconds() - run;
  for (const std::string& error : result.errors) std::fprintf(stderr, "%s\n", error.c_str());
  const uint64_t messages = result.fct.all().messages;
  const bool all = messages == scenario.topology.hosts;
  if (!all)
    std::fprintf(stderr, "%llu messages complete\n", static_cast<unsigned long long>(messages));
  return result.errors.empty() && all;
}

struct Arguments {
  std::vector<uint32_t> sizes;  // hosts, or k
  const char* fat_tree = nullptr;
  const char* json = nullptr;
};

// False: it says why not.
bool make(const Arguments& arguments, uint32_t size, Scenario* scenario) {
  if (arguments.fat_tree == nullptr) {
    *scenario = make_scenario(size);
    return true;
  }
  const Status status =
      load_scenario(arguments.fat_tree, {"topology.k=" + std::to_string(size)}, scenario);
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.text.c_str());
  return status.ok();
}

[[noreturn]] void run_child(const Arguments& arguments, uint32_t size, int pipe_out) {
  Report report;
  Scenario scenario;
  const bool good = size == 0 || (make(arguments, size, &scenario) && measure(scenario, &report));
  if (!good) _exit(1);
  _exit(write(pipe_out, &report, sizeof(report)) == sizeof(report) ? 0 : 1);
}

// size = 0: the process alone.
Run run(const Arguments& arguments, uint32_t size) {
  Run out;
  int ends[2];
  if (pipe(ends) != 0) return out;
  const pid_t child = fork();
  if (child == 0) run_child(arguments, size, ends[1]);
  close(ends[1]);
  const bool told =
      child > 0 && read(ends[0], &out.report, sizeof(out.report)) == sizeof(out.report);
  close(ends[0]);
  int status = 1;
  rusage usage{};
  if (child < 0 || wait4(child, &status, 0, &usage) != child || status != 0 || !told) return out;
  out.resident_mb = static_cast<double>(usage.ru_maxrss) / 1024;
  out.good = true;
  return out;
}

[[noreturn]] void usage() {
  std::fprintf(stderr,
               "usage: sim_scale [--hosts N,N,..] [--json FILE]; multiples of %u\n"
               "       sim_scale --fat-tree SCENARIO.toml [--k K,K,..] [--json FILE]; even\n",
               kPodHosts);
  std::exit(2);
}

std::vector<uint32_t> numbers(const char* text, uint32_t unit, uint32_t most) {
  std::vector<uint32_t> out;
  for (char* at = const_cast<char*>(text); *at != '\0';) {
    const unsigned long number = std::strtoul(at, &at, 10);
    if (number == 0 || number % unit != 0 || number > most) usage();
    out.push_back(static_cast<uint32_t>(number));
    if (*at == ',') ++at;
  }
  if (out.empty()) usage();
  return out;
}

Arguments parse(int argc, char** argv) {
  Arguments arguments;
  const char* hosts = nullptr;
  const char* k = nullptr;
  for (int i = 1; i < argc; i += 2) {
    const std::string_view option = argv[i];
    if (i + 1 >= argc) usage();
    const std::pair<std::string_view, const char**> known[] = {{"--json", &arguments.json},
                                                               {"--fat-tree", &arguments.fat_tree},
                                                               {"--hosts", &hosts},
                                                               {"--k", &k}};
    const auto* const found = std::find_if(std::begin(known), std::end(known),
                                           [&](const auto& each) { return each.first == option; });
    if (found == std::end(known)) usage();
    *found->second = argv[i + 1];
  }
  if (arguments.fat_tree != nullptr) {
    if (hosts != nullptr) usage();
    arguments.sizes = numbers(k != nullptr ? k : "8,16,32,64", 2, 256);
  } else {
    if (k != nullptr) usage();
    arguments.sizes =
        numbers(hosts != nullptr ? hosts : "1280,2560,5120,10240", kPodHosts, 100'000);
  }
  return arguments;
}

nlohmann::json report_of(const Arguments& arguments, const std::vector<Run>& runs, double growth,
                         bool all_good) {
  utsname name{};
  uname(&name);
  nlohmann::json hosts;
  nlohmann::json resident;
  nlohmann::json each;
  nlohmann::json set_up;
  nlohmann::json speed;
  for (const Run& run : runs) {
    hosts.push_back(run.report.hosts);
    resident.push_back(run.resident_mb);
    each.push_back(run.bytes_per_host);
    set_up.push_back(run.report.set_up_seconds);
    speed.push_back(run.hops_per_second());
  }
  const bool fat_tree = arguments.fat_tree != nullptr;
  const uint32_t hosts_target = fat_tree ? 65'536 : 10'240;
  const uint32_t hosts_most = all_good ? runs.back().report.hosts : 0U;
  const nlohmann::json constants =
      fat_tree ? nlohmann::json{{"scenario", arguments.fat_tree}}
               : nlohmann::json{{"flow_bytes", kFlowBytes}, {"pod_hosts", kPodHosts}};
  return {{"schema", 1},
          {"command", "sim_scale"},
          {"revision", revision()},
          {"machine", {{"system", name.sysname}, {"release", name.release}, {"cpu", name.machine}}},
          {"constants", constants},
          {"claims",
           {{{"id", fat_tree ? "sim.scale_fat_tree" : "sim.scale"},
             {"what", fmt::format("hosts of {} whose permutation completes",
                                  fat_tree ? "a fat-tree" : "three tiers")},
             {"target", fmt::format(">= {}", hosts_target)},
             {"value", hosts_most},
             {"unit", "hosts"},
             {"ok", hosts_most >= hosts_target}},
            {{"id", fat_tree ? "sim.memory_linear_fat_tree" : "sim.memory_linear"},
             {"what", "bytes for a host in the largest network against the smallest"},
             {"target", "<= 1.1"},
             {"value", growth},
             {"unit", "1"},
             {"ok", all_good && growth <= kGrowthTarget}}}},
          {"series",
           {{"hosts", {{"unit", "1"}, {"samples", hosts}}},
            {"resident", {{"unit", "MB"}, {"samples", resident}}},
            {"bytes_per_host", {{"unit", "B"}, {"samples", each}}},
            {"set_up", {{"unit", "s"}, {"samples", set_up}}},
            {"hops_per_second", {{"unit", "1/s"}, {"samples", speed}}}}}};
}

int main_of(const Arguments& arguments) {
  const Run bare = run(arguments, 0);
  std::vector<Run> runs;
  bool all_good = bare.good;
  std::printf("%6s %8s %9s %9s %8s %9s %16s\n", "hosts", "MB", "B a host", "set-up s", "run s",
              "result s", "M packet-hops/s");
  for (const uint32_t size : arguments.sizes) {
    runs.push_back(run(arguments, size));
    Run& r = runs.back();
    all_good = all_good && r.good;
    if (r.good) r.bytes_per_host = (r.resident_mb - bare.resident_mb) * 1048576 / r.report.hosts;
    std::printf("%6u %8.1f %9.0f %9.2f %8.2f %9.2f %16.2f%s\n", r.report.hosts, r.resident_mb,
                r.bytes_per_host, r.report.set_up_seconds, r.report.run_seconds,
                r.report.result_seconds, r.hops_per_second() * 1e-6, r.good ? "" : "  FAILED");
    std::fflush(stdout);
  }
  const double growth = runs.back().bytes_per_host / std::max(runs.front().bytes_per_host, 1.0);
  std::printf("bytes for a host, largest against smallest: %.3f\n", growth);
  if (arguments.json != nullptr) {
    std::ofstream file(arguments.json);
    file << report_of(arguments, runs, growth, all_good).dump(2) << "\n";
    if (!file.flush()) {
      std::perror(arguments.json);
      return 1;
    }
  }
  return all_good ? 0 : 1;
}

}  // namespace
}  // namespace mprdma::switchsim

int main(int argc, char** argv) {
  return mprdma::switchsim::main_of(mprdma::switchsim::parse(argc, argv));
}
