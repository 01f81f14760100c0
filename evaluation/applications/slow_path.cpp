// Closed loops where one path of the network is slow, or long, but loses nothing, relative to the
// same loops on healthy paths.
#include <fmt/format.h>

#include <array>

#include "evaluation/applications/bad_paths.hpp"
#include "evaluation/applications/bars.hpp"
#include "evaluation/list.hpp"

namespace mprdma::figures {

namespace {

using switchsim::Result;
using switchsim::Scenario;

constexpr const char* kBadPath = "path4";

// Loops that share four paths, of which the last one has this rate (0: as the others), or is so
// much longer.
struct Case {
  const char* id;
  const char* text;
  uint32_t loops;
  uint32_t bytes;
  uint32_t depth;
  uint32_t gbps;
  uint32_t longer_us;
  double target_gbps = 0;  // of all loops together; 0: none
};
constexpr std::array<Case, 7> kCases = {{
    {"8k", "8 KB, one path at 1 Gb/s", 5, 8192, 1, 1, 0, 25},
    {"1k", "1 KB, one path at 1 Gb/s", 5, 1024, 1, 1, 0},
    {"8k-lone", "8 KB, one loop, one path at 1 Gb/s", 1, 8192, 1, 1, 0},
    {"8k-x4", "8 KB, 4 posted, one path at 1 Gb/s", 5, 8192, 4, 1, 0},
    {"8k-10g", "8 KB, one path at 10 Gb/s", 5, 8192, 1, 10, 0},
    {"16k-longer-14", "16 KB, one path 14 us longer", 10, 16'384, 1, 0, 14},
    {"16k-longer-40", "16 KB, one path 40 us longer", 10, 16'384, 1, 0, 40},
}};

Scenario scenario_of(const std::string& file, const Case& c, bool healthy) {
  Scenario scenario =
      load(file, loops_of(c.loops, {fmt::format("flow[0].message_bytes={}", c.bytes),
                                    fmt::format("flow[0].post_depth={}", c.depth)}));
  if (healthy) return scenario;
  if (c.gbps > 0) slow_down(&scenario, kBadPath, c.gbps);
  if (c.longer_us > 0) lengthen(&scenario, kBadPath, c.longer_us);
  return scenario;
}

void add_rate(const std::string& id, const std::string& what, const Summary& healthy,
              const Summary& beside, double target_gbps, FigureResult* out) {
  const double gbps = beside.mean / 1e9;
  const double deviation = beside.deviation / 1e9;
  if (target_gbps == 0) {
    out->report(id + ".gbps", what + "goodput", "", gbps, deviation, "Gb/s", "");
    return;
  }
  out->explain(id + ".gbps", what + "goodput", fmt::format(">= {}", target_gbps), gbps, deviation,
               "Gb/s",
               fmt::format("on healthy paths the loops have {:.1f} Gb/s: they wait for round trips",
                           healthy.mean / 1e9));
}

}  // namespace

FigureResult slow_path(const Figure& figure, const RunOptions& options) {
  FigureResult out;
  Batch batch(options);
  const uint32_t seeds = options.ci() ? 1 : 10;
  for (const Case& c : kCases) {
    for (const bool healthy : {true, false}) {
      batch.add(scenario_of(figure.scenario, c, healthy), seeds);
    }
  }
  batch.run();
  Bars bars("goodput / on healthy paths");
  for (size_t i = 0; i < kCases.size(); ++i) {
    const auto goodput = [](const Result& r) { return r.goodput_bps; };
    const auto p99_us = [](const Result& r) { return r.fct.all().p99_us; };
    const Summary healthy = batch.over(2 * i, goodput);
    const Summary beside = batch.over(2 * i + 1, goodput);
    const std::string id = fmt::format("slow-path.{}", kCases[i].id);
    const std::string what = fmt::format("{}: ", kCases[i].text);
    const double ratio = beside.mean / healthy.mean;
    const double deviation = beside.deviation / healthy.mean;
    out.claim(id, what + "goodput / on healthy paths", ">= 0.9", ratio, deviation, "x");
    add_rate(id, what, healthy, beside, kCases[i].target_gbps, &out);
    out.report(id + ".p99", what + "99th percentile of the time / on healthy paths", "",
               batch.over(2 * i + 1, p99_us).mean / batch.over(2 * i, p99_us).mean, 0, "x", "");
    bars.add(kCases[i].id, beside, healthy.mean);
  }
  out.panels.push_back(bars.panel());
  batch.claim_sound("slow-path", &out);
  out.own_targets();
  const Scenario& first = batch.scenario(0);
  out.constants = constants_of(first, first.paths[0], seeds);
  out.deviations = describe_deviations("No paper has this figure: every target is ours.", first);
  out.setup = fmt::format(
      "Connections of their own hosts, messages one after the other; the last of four paths is "
      "slow, or long, in both directions; {}; {} seeds",
      describe(first, first.paths[0]), seeds);
  out.seen = "Closed loops leave a path that takes longer than the others";
  return out;
}

}  // namespace mprdma::figures
