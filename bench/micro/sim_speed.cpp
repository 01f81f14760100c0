// Packet-hops per second of the event simulator with the complete transport in every host, and how
// much memory it takes.
//
//   sim_speed [--rounds N] [--shape ls320|ls128os2] [--paths single|all] [--json FILE]
//
// The shapes, and the permutation of 2 MB a flow, are those of net_speed, which measures the bare
// network: 320 hosts, 32 leaves, 4 spines, 40 and 100 Gb/s; 128 hosts, 8 leaves, 8 spines,
// 100 Gb/s, 2:1 oversubscribed; 1 us links; here 1000 bytes of payload are a path MTU.
//
// Claims: sim.hops_per_s, three times what csg-htsim does without congestion control, and
// sim.rss_mb, the largest resident size of the process.
//
// The least user time of all rounds counts: other load only ever adds. To be built as release.
#include <sys/resource.h>
#include <sys/utsname.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>
#include <string_view>
#include <vector>

#include "base/prng.hpp"
#include "base/revision.hpp"
#include "switchsim/sim/simulation.hpp"

namespace mprdma::switchsim {
namespace {

constexpr uint64_t kFlowBytes = 2'000'000;
constexpr uint32_t kPayloadBytes = 1000;
// Millions a second, three times what csg-htsim does without congestion control; MB.
constexpr double kHopsTarget = 3.2;
constexpr double kResidentTarget = 100;

struct Arguments {
  int rounds = 3;
  std::string shape = "ls320";
  bool single = false;
  const char* json = nullptr;
};

Scenario make_scenario(const Arguments& arguments) {
  Scenario scenario;
  LeafSpineSpec spec;
  spec.red = {.kmin_bytes = 20'000, .kmax_bytes = 200'000};
  if (arguments.shape == "ls128os2") {
    spec.leaves = spec.spines = 8;
    spec.hosts_per_leaf = 16;
    spec.access = LinkRate::gbps(100);
  }
  make_leaf_spine(spec, &scenario);
  for (LinkConfig& link : scenario.topology.links) link.ab.delay = link.ba.delay = SimSpan::us(1);
  const uint32_t hosts = scenario.topology.hosts;
  std::vector<NodeId> to(hosts);
  std::iota(to.begin(), to.end(), 0);
  Prng prng(1);
  for (uint32_t i = hosts - 1; i > 0; --i) std::swap(to[i], to[prng.below(i)]);  // one cycle
  for (NodeId host = 0; host < hosts; ++host) {
    FlowSpec flow;
    flow.from = host;
    flow.to = to[host];
    flow.message_bytes = kFlowBytes;
    flow.messages = 1;
    flow.path_mtu = kPayloadBytes;
    if (arguments.single) flow.params = transport::Params::mp_single();
    scenario.flows.push_back(flow);
  }
  scenario.duration = SimSpan::ms(100);
  scenario.end_when_idle = true;
  return scenario;
}

double user_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_utime.tv_sec) +
         static_cast<double>(usage.ru_utime.tv_usec) * 1e-6;
}

double resident_mb() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024;
}

Arguments parse(int argc, char** argv) {
  Arguments arguments;
  for (int i = 1; i < argc; i += 2) {
    const std::string_view option = argv[i];
    const std::string_view value = i + 1 < argc ? argv[i + 1] : "";
    if (option == "--rounds" && !value.empty()) {
      arguments.rounds = std::clamp(std::atoi(argv[i + 1]), 1, 99);
    } else if (option == "--shape" && (value == "ls320" || value == "ls128os2")) {
      arguments.shape = value;
    } else if (option == "--paths" && (value == "single" || value == "all")) {
      arguments.single = value == "single";
    } else if (option == "--json" && !value.empty()) {
      arguments.json = argv[i + 1];
    } else {
      std::fprintf(stderr,
                   "usage: sim_speed [--rounds N] [--shape ls320|ls128os2] [--paths single|all] "
                   "[--json FILE]\n");
      std::exit(2);
    }
  }
  return arguments;
}

nlohmann::json report_of(const Arguments& arguments, const std::vector<double>& samples,
                         double best, const Result& result) {
  utsname name{};
  uname(&name);
  return {{"schema", 1},
          {"command", "sim_speed"},
          {"revision", revision()},
          {"machine", {{"system", name.sysname}, {"release", name.release}, {"cpu", name.machine}}},
          {"constants",
           {{"shape", arguments.shape},
            {"paths", arguments.single ? "single" : "all"},
            {"rounds", arguments.rounds},
            {"flow_bytes", kFlowBytes},
            {"payload_bytes", kPayloadBytes}}},
          {"claims",
           {{{"id", "sim.hops_per_s"},
             {"what", "the simulator with the complete transport, one core"},
             {"target", ">= 3.2"},
             {"value", best},
             {"unit", "M packet-hops/s"},
             {"ok", best >= kHopsTarget}},
            {{"id", "sim.rss_mb"},
             {"what", "resident memory at most"},
             {"target", "< 100"},
             {"value", resident_mb()},
             {"unit", "MB"},
             {"ok", resident_mb() < kResidentTarget}}}},
          {"series",
           {{"hops_per_second", {{"unit", "1/s"}, {"samples", samples}}},
            {"resident", {{"unit", "MB"}, {"samples", {resident_mb()}}}},
            {"retransmitted", {{"unit", "packets"}, {"samples", {result.retransmitted()}}}},
            {"simulated",
             {{"unit", "us"}, {"samples", {static_cast<double>(result.end.ps()) * 1e-6}}}}}}};
}

int main_of(const Arguments& arguments) {
  const Scenario scenario = make_scenario(arguments);
  std::vector<double> samples;
  Result result;
  for (int i = 0; i < arguments.rounds; ++i) {
    const double begin = user_seconds();
    result = simulate(scenario);
    samples.push_back(static_cast<double>(result.packet_hops) /
                      std::max(user_seconds() - begin, 1e-6));
  }
  for (const std::string& error : result.errors) std::fprintf(stderr, "%s\n", error.c_str());
  const double best = *std::max_element(samples.begin(), samples.end()) * 1e-6;
  std::printf(
      "%s: %.2f M packet-hops/s, %.0f ns a hop, %.2f events a hop, %.0f MB (%llu hops, %llu "
      "retransmissions, %.0f us simulated)\n",
      arguments.shape.c_str(), best, 1000 / best,
      static_cast<double>(result.events) / static_cast<double>(result.packet_hops), resident_mb(),
      static_cast<unsigned long long>(result.packet_hops),
      static_cast<unsigned long long>(result.retransmitted()),
      static_cast<double>(result.end.ps()) * 1e-6);
  if (!result.errors.empty()) return 1;
  if (arguments.json == nullptr) return 0;
  std::ofstream file(arguments.json);
  file << report_of(arguments, samples, best, result).dump(2) << "\n";
  if (file.flush()) return 0;
  std::perror(arguments.json);
  return 1;
}

}  // namespace
}  // namespace mprdma::switchsim

int main(int argc, char** argv) {
  return mprdma::switchsim::main_of(mprdma::switchsim::parse(argc, argv));
}
