// Closed loops where some paths have silently died, relative to the same loops on healthy ones.
#include <fmt/format.h>

#include <array>

#include "evaluation/applications/bad_paths.hpp"
#include "evaluation/applications/bars.hpp"
#include "evaluation/list.hpp"

namespace mprdma::figures {

namespace {

using switchsim::Result;

constexpr std::array<Loop, 12> kLoops = {{
    {"8k", "8 KB, 1 of 4 paths dead", 8192},
    {"64k", "64 KB, 1 of 4", 65'536},
    {"1k", "1 KB, 2 of 8, RTT 30 us", 1024, 1, 8, 2, 30},
    {"4k-x4", "4 KB, 4 posted, 2 of 8", 4096, 4, 8, 2},
    {"16k", "16 KB, 1 of 8", 16'384, 1, 8},
    {"8k-16", "8 KB, 3 of 16", 8192, 1, 16, 3},
    {"8k-short", "8 KB, 1 of 4, RTT 5 us", 8192, 1, 4, 1, 5},
    {"64k-long", "64 KB, 1 of 4, RTT 100 us", 65'536, 1, 4, 1, 100},
    {"8k-send", "8 KB SEND, 1 of 4", 8192, 1, 4, 1, 12, "send"},
    {"8k-read", "8 KB READ, 1 of 4", 8192, 1, 4, 1, 12, "read"},
    {"4k-x4-read", "4 KB READ, 4 posted, 2 of 4, RTT 50 us", 4096, 4, 4, 2, 50, "read"},
    {"64k-x4-long", "64 KB, 4 posted, 1 of 4, RTT 100 us", 65'536, 4, 4, 1, 100},
}};

}  // namespace

FigureResult dead_path(const Figure& figure, const RunOptions& options) {
  FigureResult out;
  Batch batch(options);
  const uint32_t seeds = options.ci() ? 2 : 20;
  for (const Loop& loop : kLoops) {
    batch.add(with_loss(figure.scenario, loop, 0), seeds);
    batch.add(with_loss(figure.scenario, loop, kAllLost), seeds);
  }
  batch.run();
  Bars bars("goodput / on healthy paths");
  for (size_t i = 0; i < kLoops.size(); ++i) {
    const auto goodput = [](const Result& r) { return r.goodput_bps; };
    const Summary healthy = batch.over(2 * i, goodput);
    const Summary dead = batch.over(2 * i + 1, goodput);
    const Summary timeouts =
        batch.over(2 * i + 1, [](const Result& r) { return static_cast<double>(r.timeouts()); });
    const std::string id = fmt::format("dead-path.{}", kLoops[i].id);
    const std::string what = fmt::format("{}: ", kLoops[i].text);
    out.claim(id, what + "goodput / on healthy paths", ">= 0.95", dead.mean / healthy.mean,
              dead.deviation / healthy.mean, "x");
    out.report(id + ".least", what + "the same, least of a run", "", dead.least / healthy.mean, 0,
               "x", "");
    out.report(id + ".rto", what + "timeouts, most of a run", "", timeouts.most, 0, "", "");
    bars.add(kLoops[i].id, dead, healthy.mean);
  }
  out.panels.push_back(bars.panel());
  batch.claim_sound("dead-path", &out);
  out.own_targets();
  const switchsim::Scenario& first = batch.scenario(0);
  out.constants = constants_of(first, first.paths[0], seeds);
  out.deviations = describe_deviations("No paper has this figure: every target is ours.", first);
  out.setup = fmt::format(
      "One connection, messages one after the other; the last paths lose everything, in both "
      "directions, from the start on, and nobody says so; 1000 round trips each, the first 160 "
      "dropped; {}; {} seeds",
      describe(first, first.paths[0]), seeds);
  out.seen = "Closed loops keep their speed where paths are dead";
  return out;
}

}  // namespace mprdma::figures
