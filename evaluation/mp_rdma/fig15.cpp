// Figure 15: a flow that is confined to path 4 joins a multi-path flow.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "evaluation/batch.hpp"
#include "evaluation/list.hpp"

namespace mprdma::figures {

namespace {

using switchsim::Result;
using switchsim::Scenario;
using switchsim::SimSpan;
using switchsim::SimTime;

// Flow 0 of the scenario is the multi-path one, flow 1 the confined one, on the last path.
double path_rate(const Result& result, size_t path, SimTime from, SimTime to) {
  return rate_between(result, result.flows[0].path_bytes_series[path], from, to);
}

double last_path_share(const Result& result, SimTime from, SimTime to) {
  const size_t paths = result.flows[0].path_bytes_series.size();
  double all = 0;
  for (size_t p = 0; p < paths; ++p) all += path_rate(result, p, from, to);
  return all == 0 ? 1 : path_rate(result, paths - 1, from, to) / all;
}

double worst_other(const Result& result, SimTime from, SimTime to, double ceiling) {
  const size_t paths = result.flows[0].path_bytes_series.size();
  double least = 1e9;
  for (size_t p = 0; p + 1 < paths; ++p) {
    least = std::min(least, path_rate(result, p, from, to) / ceiling);
  }
  return least;
}

// Time from the join to the first millisecond with less than a tenth of the payload on the last
// path.
double leaving_ms(const Result& result, SimTime join) {
  const SimSpan step = SimSpan::ms(1);
  for (SimTime t = join; t + step <= result.end; t = t + step) {
    if (last_path_share(result, t, t + step) < 0.10) {
      return static_cast<double>((t + step - join).count_ps()) / 1e9;
    }
  }
  return static_cast<double>((result.end - join).count_ps()) / 1e9;
}

void add_claims(const Batch& batch, size_t group, const Variant& variant, double ceiling,
                FigureResult* out) {
  const SimTime join = batch.scenario(group).flows[1].start;
  const SimTime settled = join + SimSpan::ms(10);
  const Summary share =
      batch.over(group, [&](const Result& r) { return last_path_share(r, settled, r.end); });
  const Summary others =
      batch.over(group, [&](const Result& r) { return worst_other(r, settled, r.end, ceiling); });
  const Summary before = batch.over(group, [&](const Result& r) {
    return worst_other(r, SimTime() + batch.scenario(group).warm_up, join, ceiling);
  });
  const Summary time = batch.over(group, [&](const Result& r) { return leaving_ms(r, join); });
  const bool ours = &variant != &kPaper;
  const std::string id = ours ? (&variant == &kMp ? "15.mp" : "15.shipped") : "15.paper";
  const std::string name = variant.name + ": ";
  const auto add = [&](const char* suffix, const std::string& what, const char* target,
                       const Summary& value, double shown, const char* unit) {
    if (ours) {
      out->claim(id + suffix, name + what, target, shown, value.deviation, unit);
    } else {
      out->report(id + suffix, name + what, "", shown, value.deviation, unit,
                  "the paper's letter, to compare");
    }
  };
  out->report(id + ".before", name + "worst of paths 1-3 before / ceiling", "", before.mean,
              before.deviation, "", "the four paths together are as fast as the host's own link");
  add(".share", "share of the flow on path 4 after 10 ms", "< 0.10", share, share.mean, "");
  add(".others", "worst of paths 1-3 after / ceiling", ">= 0.98", others, others.mean, "");
  add(".time", "time to less than a tenth on path 4", "<= 10", time, time.most, "ms");
  if (ours) out->own_target();
}

}  // namespace

FigureResult pinned_flow(const Figure& figure, const RunOptions& options) {
  FigureResult out;
  Batch batch(options);
  const std::array<const Variant*, 3> variants = {&kMp, &kShipped, &kPaper};
  const uint32_t seeds = options.ci() ? 1 : 3;
  for (const Variant* variant : variants) {
    Scenario scenario = load(figure.scenario, variant->overrides);
    if (options.ci()) shorten(&scenario, 2);
    batch.add(scenario, seeds);
  }
  batch.run();
  const Scenario& first = batch.scenario(0);
  const double ceiling = ceiling_bps(first, first.paths[0]);
  for (size_t v = 0; v < variants.size(); ++v) add_claims(batch, v, *variants[v], ceiling, &out);
  for (const size_t v : {size_t{0}, size_t{2}}) {
    const Result& result = batch.group(v)[0];
    Panel panel{variants[v]->name, "time, ms", "goodput, Gb/s", {}};
    for (size_t p = 0; p < first.paths.size(); ++p) {
      panel.curves.push_back(rate_curve(fmt::format("path {}", p + 1), result.time_us,
                                        result.flows[0].path_bytes_series[p], 1));
    }
    Curve confined =
        rate_curve("flow on path 4 only", result.time_us, result.flows[1].delivered_series, 1);
    confined.colour = 7;
    confined.dashed = true;
    panel.curves.push_back(confined);
    panel.marks = {{ceiling / 1e9, fmt::format("ceiling of a path {:.2f}", ceiling / 1e9)},
                   {10, "paper: paths 1 to 3 at about 10", true}};
    panel.ymax = 13;
    out.panels.push_back(panel);
  }
  batch.claim_sound("15", &out);
  out.constants = constants_of(first, first.paths[0], seeds);
  out.deviations = describe_deviations(
      fmt::format(
          "{} ms in all, in the paper a minute. The pinned flow is one of mp with one path, "
          "not another transport.",
          static_cast<double>(first.duration.count_ps()) / 1e9),
      first);
  out.setup = fmt::format(
      "One connection over four paths; at {} ms a second one, confined to path 4, joins; {}; {}",
      static_cast<double>(first.flows[1].start.ps()) / 1e9, describe(first, first.paths[0]),
      describe_times(first, seeds));
  out.seen =
      "The connection leaves the path that another flow needs and keeps the other three full";
  return out;
}

}  // namespace mprdma::figures
