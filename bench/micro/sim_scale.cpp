// Memory and speed of the event simulator by the number of hosts: three tiers of ToRs with 40
// hosts, a permutation of 100 KB a flow. Memory has to be linear in the hosts.
//
//   sim_scale [--hosts N,N,..] [--json FILE]
//
// Sizes are multiples of 640, the hosts of a pod; by default 1280, 2560, 5120 and 10240. Each run
// is a process of its own, whose peak of resident memory the kernel tells; what a process takes
// without hosts is subtracted. To be built as release.
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
#include <vector>

#include "base/revision.hpp"
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

struct Run {
  uint32_t hosts = 0;
  double resident_mb = 0;
  double user_seconds = 0;
  uint64_t hops = 0;
  double simulated_us = 0;
  double bytes_per_host = 0;
  bool good = false;
};

// What a child tells through a pipe; its memory and time are told by the kernel.
struct Report {
  uint64_t hops = 0;
  double simulated_us = 0;
};

[[noreturn]] void run_child(uint32_t hosts, int pipe_out) {
  Report report;
  if (hosts > 0) {
    const Result result = simulate(make_scenario(hosts));
    for (const std::string& error : result.errors) std::fprintf(stderr, "%s\n", error.c_str());
    if (!result.errors.empty() || result.fct.all().messages != hosts) _exit(1);
    report = {result.packet_hops, static_cast<double>(result.end.ps()) * 1e-6};
  }
  _exit(write(pipe_out, &report, sizeof(report)) == sizeof(report) ? 0 : 1);
}

// hosts = 0: the process alone.
Run run(uint32_t hosts) {
  Run out;
  out.hosts = hosts;
  int ends[2];
  if (pipe(ends) != 0) return out;
  const pid_t child = fork();
  if (child == 0) run_child(hosts, ends[1]);
  close(ends[1]);
  Report report;
  const bool told = child > 0 && read(ends[0], &report, sizeof(report)) == sizeof(report);
  close(ends[0]);
  int status = 1;
  rusage usage{};
  if (child < 0 || wait4(child, &status, 0, &usage) != child || status != 0 || !told) return out;
  out.resident_mb = static_cast<double>(usage.ru_maxrss) / 1024;
  out.user_seconds = static_cast<double>(usage.ru_utime.tv_sec) +
                     static_cast<double>(usage.ru_utime.tv_usec) * 1e-6;
  out.hops = report.hops;
  out.simulated_us = report.simulated_us;
  out.good = true;
  return out;
}

struct Arguments {
  std::vector<uint32_t> hosts = {1280, 2560, 5120, 10'240};
  const char* json = nullptr;
};

[[noreturn]] void usage() {
  std::fprintf(stderr, "usage: sim_scale [--hosts N,N,..] [--json FILE]; multiples of %u\n",
               kPodHosts);
  std::exit(2);
}

Arguments parse(int argc, char** argv) {
  Arguments arguments;
  for (int i = 1; i < argc; i += 2) {
    const std::string_view option = argv[i];
    if (i + 1 >= argc) usage();
    if (option == "--json") {
      arguments.json = argv[i + 1];
      continue;
    }
    if (option != "--hosts") usage();
    arguments.hosts.clear();
    for (char* text = argv[i + 1]; *text != '\0';) {
      const unsigned long hosts = std::strtoul(text, &text, 10);
      if (hosts == 0 || hosts % kPodHosts != 0 || hosts > 100'000) usage();
      arguments.hosts.push_back(static_cast<uint32_t>(hosts));
      if (*text == ',') ++text;
    }
  }
  if (arguments.hosts.empty()) usage();
  return arguments;
}

nlohmann::json report_of(const std::vector<Run>& runs, double growth, bool all_good) {
  utsname name{};
  uname(&name);
  nlohmann::json hosts;
  nlohmann::json resident;
  nlohmann::json each;
  nlohmann::json speed;
  for (const Run& run : runs) {
    hosts.push_back(run.hosts);
    resident.push_back(run.resident_mb);
    each.push_back(run.bytes_per_host);
    speed.push_back(static_cast<double>(run.hops) / std::max(run.user_seconds, 1e-6));
  }
  return {{"schema", 1},
          {"command", "sim_scale"},
          {"revision", revision()},
          {"machine", {{"system", name.sysname}, {"release", name.release}, {"cpu", name.machine}}},
          {"constants", {{"flow_bytes", kFlowBytes}, {"pod_hosts", kPodHosts}}},
          {"claims",
           {{{"id", "sim.scale"},
             {"what", "hosts of three tiers whose permutation completes"},
             {"target", ">= 10240"},
             {"value", all_good ? runs.back().hosts : 0U},
             {"unit", "hosts"},
             {"ok", all_good && runs.back().hosts >= 10'240}},
            {{"id", "sim.memory_linear"},
             {"what", "bytes for a host in the largest network against the smallest"},
             {"target", "<= 1.1"},
             {"value", growth},
             {"unit", "1"},
             {"ok", all_good && growth <= kGrowthTarget}}}},
          {"series",
           {{"hosts", {{"unit", "1"}, {"samples", hosts}}},
            {"resident", {{"unit", "MB"}, {"samples", resident}}},
            {"bytes_per_host", {{"unit", "B"}, {"samples", each}}},
            {"hops_per_second", {{"unit", "1/s"}, {"samples", speed}}}}}};
}

int main_of(const Arguments& arguments) {
  const Run bare = run(0);
  std::vector<Run> runs;
  bool all_good = bare.good;
  for (const uint32_t hosts : arguments.hosts) {
    runs.push_back(run(hosts));
    Run& r = runs.back();
    all_good = all_good && r.good;
    r.bytes_per_host = (r.resident_mb - bare.resident_mb) * 1048576 / hosts;
    std::printf("%6u hosts: %7.1f MB, %6.0f B a host, %6.2f s, %5.2f M packet-hops/s%s\n", hosts,
                r.resident_mb, r.bytes_per_host, r.user_seconds,
                static_cast<double>(r.hops) / std::max(r.user_seconds, 1e-6) * 1e-6,
                r.good ? "" : "  FAILED");
    std::fflush(stdout);
  }
  const double growth = runs.back().bytes_per_host / std::max(runs.front().bytes_per_host, 1.0);
  std::printf("bytes for a host, largest against smallest: %.3f\n", growth);
  if (arguments.json != nullptr) {
    std::ofstream file(arguments.json);
    file << report_of(runs, growth, all_good).dump(2) << "\n";
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
