// Queue pairs whose receiver posts no receive hold frames for as long as they wait. What is left
// for others beside them.
#include <fmt/format.h>

#include <array>

#include "evaluation/applications/bad_paths.hpp"
#include "evaluation/applications/bars.hpp"
#include "evaluation/batch.hpp"
#include "evaluation/list.hpp"

namespace mprdma::figures {

namespace {

using switchsim::Result;
using switchsim::Scenario;

struct Case {
  const char* id;
  const char* text;
  uint32_t bytes;
  uint32_t depth;
  uint32_t longer_us;  // the last path, there and back together
  uint32_t starved;
  uint32_t frames = 0;  // that may wait at all hosts together; 0: those of an engine
};
constexpr std::array<Case, 6> kCases = {{
    {"1m", "1 MB, 4 posted", 1 << 20, 4, 0, 8},
    {"1m-longer", "1 MB, 4 posted, one path 4 us longer", 1 << 20, 4, 4, 8},
    {"8k", "8 KB", 8192, 1, 0, 8},
    {"8k-longer", "8 KB, one path 14 us longer", 8192, 1, 14, 8},
    {"1m-64", "1 MB, 4 posted, one path 4 us longer, 64 starved", 1 << 20, 4, 4, 64},
    {"1m-few", "1 MB, 4 posted, one path 16 us longer, 64 starved, 256 frames", 1 << 20, 4, 16, 64,
     256},
}};

// The busy flow beside `starved` ones.
Scenario beside(const std::string& file, const Case& which, uint32_t starved) {
  Scenario scenario = load(file, {fmt::format("flow[0].message_bytes={}", which.bytes),
                                  fmt::format("flow[0].post_depth={}", which.depth)});
  if (which.frames > 0) scenario.held_frames = which.frames;
  const switchsim::FlowSpec spec = scenario.flows.back();
  scenario.flows.pop_back();
  for (uint32_t i = 0; i < starved; ++i) {
    scenario.flows.push_back(spec);
    scenario.flows.back().name = fmt::format("starved{}", i + 1);
  }
  lengthen(&scenario, "path4", which.longer_us);
  return scenario;
}

}  // namespace

FigureResult starved_neighbours(const Figure& figure, const RunOptions& options) {
  FigureResult out;
  Batch batch(options);
  const uint32_t seeds = options.ci() ? 2 : 10;
  for (const Case& which : kCases) {
    batch.add(beside(figure.scenario, which, 0), seeds);
    batch.add(beside(figure.scenario, which, which.starved), seeds);
  }
  batch.run();
  Bars bars("goodput / without them");
  for (size_t i = 0; i < kCases.size(); ++i) {
    const auto goodput = [](const Result& r) { return r.flows[0].goodput_bps; };
    const Summary alone = batch.over(2 * i, goodput);
    const Summary beside_them = batch.over(2 * i + 1, goodput);
    const std::string id = fmt::format("starved.{}", kCases[i].id);
    const std::string what = fmt::format("{}: ", kCases[i].text);
    // Where frames do not suffice for all, each has a share of them.
    out.claim(id, what + "goodput / without them", kCases[i].frames > 0 ? ">= 0.9" : ">= 0.97",
              beside_them.mean / alone.mean, beside_them.deviation / alone.mean, "x");
    const Summary refused = batch.over(2 * i + 1, [](const Result& r) {
      return static_cast<double>(r.flows[0].receiver.drop_held_budget);
    });
    const std::string none = what + "packets that found no frame, mean of a run";
    if (kCases[i].frames > 0) {
      out.claim(id + ".refused", none, ">= 1", refused.mean, refused.deviation, "");
    } else {
      out.report(id + ".refused", none, "", refused.mean, refused.deviation, "", "");
    }
    bars.add(kCases[i].id, beside_them, alone.mean);
  }
  out.panels.push_back(bars.panel());
  batch.claim_sound("starved", &out);
  out.own_targets();
  const Scenario& first = batch.scenario(1);
  out.constants = constants_of(first, first.paths[0], seeds);
  out.deviations = describe_deviations("No paper has this figure: every target is ours.", first);
  out.setup = fmt::format(
      "One connection, beside others to the same host that have no receives; {} frames may wait "
      "there; {}; {} seeds",
      first.held_frames, describe(first, first.paths[0]), seeds);
  out.seen = "Queue pairs that wait for receives do not hold up others";
  return out;
}

}  // namespace mprdma::figures
