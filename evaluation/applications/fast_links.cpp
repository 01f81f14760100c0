// One connection alone, over fast links and long round trips: its window has to follow.
#include <fmt/format.h>

#include <array>

#include "evaluation/applications/bars.hpp"
#include "evaluation/batch.hpp"
#include "evaluation/list.hpp"

namespace mprdma::figures {

namespace {

using switchsim::Result;
using switchsim::Scenario;

struct Case {
  const char* id;
  uint32_t gbps;
  uint32_t rtt_us;
  uint32_t mtu;
  double target_gbps;  // 0: none
};
constexpr std::array<Case, 8> kCases = {{
    {"100g-12", 100, 12, 1024, 0},
    {"100g-20", 100, 20, 1024, 85},
    {"100g-50", 100, 50, 1024, 80},
    {"100g-50-4096", 100, 50, 4096, 85},
    {"100g-100", 100, 100, 1024, 0},
    {"40g-12", 40, 12, 1024, 0},
    {"40g-50", 40, 50, 1024, 0},
    {"25g-100", 25, 100, 1024, 0},
}};

Scenario run_of(const std::string& file, const Case& which) {
  return load(file, {fmt::format("topology.access_gbps={}", which.gbps),
                     fmt::format("topology.path_gbps={}", which.gbps),
                     fmt::format("topology.base_rtt_us={}", which.rtt_us),
                     fmt::format("transport.path_mtu={}", which.mtu)});
}

}  // namespace

FigureResult fast_links(const Figure& figure, const RunOptions& options) {
  FigureResult out;
  Batch batch(options);
  const uint32_t seeds = options.ci() ? 1 : 10;
  for (const Case& which : kCases) batch.add(run_of(figure.scenario, which), seeds);
  batch.run();
  Bars bars("goodput / ceiling of the link");
  for (size_t i = 0; i < kCases.size(); ++i) {
    const Case& which = kCases[i];
    const Scenario& scenario = batch.scenario(i);
    const Summary goodput = batch.over(i, goodput_gbps);
    const double ceiling = ceiling_bps(scenario, scenario.paths[0]) / 1e9;
    const std::string id = fmt::format("fast-links.{}", which.id);
    const std::string what =
        fmt::format("{} Gb/s, RTT {} us, MTU {}: ", which.gbps, which.rtt_us, which.mtu);
    if (which.target_gbps > 0) {
      out.claim(id, what + "goodput", fmt::format(">= {}", which.target_gbps), goodput.mean,
                goodput.deviation, "Gb/s");
    }
    out.claim(id + ".share", what + "goodput / ceiling", ">= 0.85", goodput.mean / ceiling,
              goodput.deviation / ceiling, "x");
    const Summary window = batch.over(i, [](const Result& r) { return r.flows[0].window_mean; });
    out.report(id + ".window", what + "window, packets", "", window.mean, window.deviation, "", "");
    bars.add(which.id, goodput, ceiling);
  }
  out.panels.push_back(bars.panel());
  batch.claim_sound("fast-links", &out);
  out.own_targets();
  const Scenario& first = batch.scenario(0);
  out.constants = constants_of(first, first.paths[0], seeds);
  out.deviations = describe_deviations("No paper has this figure: every target is ours.", first);
  out.setup = fmt::format("One connection, 1 MB messages, 8 posted; {}; {} seeds",
                          describe(first, first.paths[0]), seeds);
  out.seen = "One connection fills a fast link at any round trip";
  return out;
}

}  // namespace mprdma::figures
