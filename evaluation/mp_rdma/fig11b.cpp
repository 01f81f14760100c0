// Figure 11(b): paths 1 to 3 are cut one by one, then restored one by one.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "evaluation/batch.hpp"
#include "evaluation/list.hpp"

namespace mprdma::figures {

namespace {

using switchsim::LinkEvent;
using switchsim::Result;
using switchsim::Scenario;
using switchsim::SimSpan;
using switchsim::SimTime;

// The time between two changes: a number of paths is up.
struct Phase {
  SimTime from;
  SimTime to;
  uint32_t up = 0;
  bool restored = false;  // the change that began it restored a path
};

std::vector<Phase> phases_of(const Scenario& scenario) {
  uint32_t up = static_cast<uint32_t>(scenario.paths.size());
  std::vector<Phase> out = {{SimTime(), SimTime() + scenario.duration, up, false}};
  for (const LinkEvent& event : scenario.events) {
    if (!event.up) continue;
    out.back().to = event.at;
    up = *event.up ? up + 1 : up - 1;
    out.push_back({event.at, SimTime() + scenario.duration, up, *event.up});
  }
  return out;
}

double rate(const Result& result, SimTime from, SimTime to) {
  return rate_between(result, result.flows[0].delivered_series, from, to);
}

// Time from the change to the first five milliseconds with 95 % of the rate of the paths that are
// up; the length of the phase if there are none.
double recovery_ms(const Result& result, const Phase& phase, double ceiling) {
  const SimSpan step = SimSpan::ms(1);
  for (SimTime t = phase.from; t + step * 5 <= phase.to; t = t + step) {
    if (rate(result, t, t + step * 5) >= 0.95 * ceiling * phase.up) {
      return static_cast<double>((t - phase.from).count_ps()) / 1e9;
    }
  }
  return static_cast<double>((phase.to - phase.from).count_ps()) / 1e9;
}

void add_phase(const Batch& batch, size_t group, const Variant& variant, size_t index,
               const Phase& phase, double ceiling, FigureResult* out) {
  const SimSpan tail = SimSpan::ms(20);
  const Summary share = batch.over(group, [&](const Result& r) {
    const SimTime from = SimTime::from_ps(phase.to.ps() - tail.count_ps());
    return rate(r, from, phase.to) / (ceiling * phase.up);
  });
  const Summary wait =
      batch.over(group, [&](const Result& r) { return recovery_ms(r, phase, ceiling); });
  const bool ours = &variant != &kPaper;
  const std::string id =
      fmt::format("11b.{}.{}", ours ? (&variant == &kMp ? "mp" : "shipped") : "paper", index);
  const std::string after = fmt::format("{}: {} paths up{}", variant.name, phase.up,
                                        phase.restored ? " after a repair" : "");
  const std::string what = after + ", last 20 ms / what is up";
  const std::string how_long = after + ", time to 95 %";
  if (ours) {
    out->claim(id, what, ">= 0.95", share.mean, share.deviation, "");
    out->claim(id + ".wait", how_long, phase.restored ? "<= 1000" : "<= 100", wait.most, 0, "ms");
  } else {
    out->report(id, what, "", share.mean, share.deviation, "", "the paper's letter, to compare");
  }
}

Panel panel_of(const Result& result, const Scenario& scenario, const std::string& title) {
  Panel panel{title, "time, ms", "goodput by path, Gb/s", {}};
  const auto stride = static_cast<size_t>(
      std::max<int64_t>(SimSpan::ms(2).count_ps() / scenario.sample.count_ps(), 1));
  for (size_t p = 0; p < scenario.paths.size(); ++p) {
    panel.curves.push_back(rate_curve(fmt::format("path {}", p + 1), result.time_us,
                                      result.flows[0].path_bytes_series[p], stride));
  }
  panel.ymax = 12;
  return panel;
}

}  // namespace

FigureResult cut_paths(const Figure& figure, const RunOptions& options) {
  FigureResult out;
  Batch batch(options);
  const std::array<const Variant*, 3> variants = {&kMp, &kShipped, &kPaper};
  const uint32_t seeds = options.ci() ? 1 : 5;
  for (const Variant* variant : variants) {
    batch.add(load(figure.scenario, variant->overrides), seeds);
  }
  batch.run();
  const Scenario& first = batch.scenario(0);
  const double ceiling = ceiling_bps(first, first.paths[0]);
  const std::vector<Phase> phases = phases_of(first);
  for (size_t v = 0; v < variants.size(); ++v) {
    for (size_t i = 0; i < phases.size(); ++i) {
      add_phase(batch, v, *variants[v], i, phases[i], ceiling, &out);
    }
    const Summary failed =
        batch.over(v, [](const Result& r) { return r.flows[0].failed ? 1.0 : 0.0; });
    const Summary timeouts =
        batch.over(v, [](const Result& r) { return static_cast<double>(r.timeouts()); });
    const std::string id = fmt::format("11b.{}", v);
    if (variants[v] != &kPaper) {
      out.claim(id + ".errors", variants[v]->name + ": error completions", "<= 0", failed.most, 0,
                "");
      out.own_target();
    }
    out.report(id + ".rto", variants[v]->name + ": timeouts", "", timeouts.mean, timeouts.deviation,
               "/run", "");
  }
  for (const size_t v : {size_t{0}, size_t{2}}) {
    out.panels.push_back(panel_of(batch.group(v)[0], first, variants[v]->name));
    out.panels.back().marks = {
        {ceiling / 1e9, fmt::format("ceiling of a path {:.2f}", ceiling / 1e9)},
        {10, "paper: healthy paths stay full, 10", true}};
  }
  batch.claim_sound("11b", &out);
  out.constants = constants_of(first, first.paths[0], seeds);
  out.deviations = describe_deviations(
      fmt::format(
          "A path stays cut or restored for 200 to 300 ms, in the paper for a minute, and "
          "{} runs stand for its one; a share is the mean of the seeds, a time the longest. "
          "No PFC.",
          seeds),
      first);
  out.setup = fmt::format(
      "One connection over four paths; paths 1 to 3 are cut one by one, then restored, "
      "and the switches do not reroute; {}; {} seeds, the first one is drawn",
      describe(first, first.paths[0]), seeds);
  out.seen = "Healthy paths stay full through every cut, and a restored path fills again";
  return out;
}

}  // namespace mprdma::figures
