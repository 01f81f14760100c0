// Figure 12(a): a permutation of five connections over four paths, with several kinds of marking.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>

#include "evaluation/batch.hpp"
#include "evaluation/list.hpp"
#include "evaluation/mp_rdma/dcqcn.hpp"

namespace mprdma::figures {

namespace {

using switchsim::Result;
using switchsim::Scenario;

constexpr double kPaperDcqcnGbps = 102.46;
constexpr double kPaperGain = 1.4705;

struct Marking {
  const char* name;
  uint32_t kmin_bytes;
  uint32_t kmax_bytes;
  bool on_enqueue;
};
constexpr std::array<Marking, 4> kMarkings = {{{"step 20 KB, dequeue", 20'000, 20'000, false},
                                               {"step 20 KB, enqueue", 20'000, 20'000, true},
                                               {"step 30 KB, dequeue", 30'000, 30'000, false},
                                               {"RED 20-40 KB, dequeue", 20'000, 40'000, false}}};

void set_marking(const Marking& marking, Scenario* scenario) {
  for (switchsim::LinkConfig& link : scenario->topology.links) {
    for (switchsim::PortConfig* port : {&link.ab, &link.ba}) {
      if (port->red.kmax_bytes == 0) continue;
      port->red.kmin_bytes = marking.kmin_bytes;
      port->red.kmax_bytes = marking.kmax_bytes;
      port->red.mark_on_enqueue = marking.on_enqueue;
    }
  }
}

void add_claims(const Batch& batch, size_t group, const Variant& variant, double ceiling,
                FigureResult* out) {
  const Summary total = batch.over(group, [&](const Result& r) { return r.goodput_bps / ceiling; });
  const Summary fair = batch.over(group, [](const Result& r) { return r.jain; });
  const Summary slowest = batch.over(group, [&](const Result& r) {
    double least = r.flows[0].goodput_bps;
    for (const auto& flow : r.flows) least = std::min(least, flow.goodput_bps);
    return least * static_cast<double>(r.flows.size()) / ceiling;
  });
  const Summary copies =
      batch.over(group, [](const Result& r) { return static_cast<double>(r.retransmitted()); });
  const bool ours = &variant != &kPaper;
  const std::string id = ours ? (&variant == &kMp ? "12a.mp" : "12a.shipped") : "12a.paper";
  const std::string what = variant.name + ": ";
  if (ours) {
    out->claim(id + ".total", what + "total / ceiling of four links", ">= 0.98", total.mean,
               total.deviation, "");
    out->claim(id + ".jain", what + "Jain's index", ">= 0.99", fair.mean, fair.deviation, "");
    out->claim(id + ".copies", what + "retransmissions on a clean network", "<= 0", copies.most, 0,
               "");
    out->own_target();
  } else {
    const std::string note = "the paper's letter, to compare";
    out->report(id + ".total", what + "total / ceiling", "", total.mean, total.deviation, "", note);
    out->report(id + ".jain", what + "Jain's index", "", fair.mean, fair.deviation, "", note);
  }
  out->report(id + ".slowest", what + "slowest flow / its share", "", slowest.mean,
              slowest.deviation, "", "");
}

Panel flows_panel(const Batch& batch, std::span<const Variant* const> variants, double ceiling) {
  Panel panel{"Each connection", "connection", "goodput, Gb/s", {}};
  const size_t flows = batch.scenario(0).flows.size();
  for (size_t v = 0; v < variants.size(); ++v) {
    Curve curve{variants[v]->name, {}, {}, {}, Stroke::kBars, variants[v]->colour};
    for (size_t f = 0; f < flows; ++f) {
      const Summary rate =
          batch.over(v, [f](const Result& r) { return r.flows[f].goodput_bps / 1e9; });
      curve.x.push_back(static_cast<double>(f));
      curve.y.push_back(rate.mean);
      curve.error.push_back(rate.deviation);
    }
    panel.curves.push_back(curve);
  }
  for (size_t f = 0; f < flows; ++f) panel.categories.push_back(fmt::format("{}", f + 1));
  const double share = ceiling / static_cast<double>(flows) / 1e9;
  panel.marks = {{share, fmt::format("fair share of the ceiling {:.2f}", share)},
                 {150.68 / 5, "paper: 30.14 on average", true},
                 {kPaperDcqcnGbps / 5, "paper, DCQCN: 20.49 on average", true}};
  panel.ymax = 38;
  return panel;
}

// ---- DCQCN: one path for each queue pair, as ECMP draws it, and so a distribution.

constexpr uint32_t kDraws = 40;
constexpr uint32_t kDrawsCi = 6;

size_t add_draws(const Figure& figure, bool ci, Batch* batch) {
  Scenario scenario = load_dcqcn(figure.scenario);
  scenario.warm_up = switchsim::SimSpan::ms(ci ? 5 : 10);
  scenario.duration = switchsim::SimSpan::ms(ci ? 10 : 40);
  return batch->add(scenario, ci ? kDrawsCi : kDraws);
}

Panel draws_panel(const Batch& batch, size_t group, size_t flows, size_t paths) {
  Panel panel{
      "Paths in use by one path for each connection", "paths in use", "share of the draws", {}};
  Curve drawn{fmt::format("{}, {} draws", kDcqcn.name, batch.group(group).size()),
              {},
              {},
              {},
              Stroke::kBars,
              kDcqcn.colour};
  Curve expected{"expected of random paths", {}, {}, {}, Stroke::kBars, 7};
  for (size_t used = 1; used <= paths; ++used) {
    const Summary share =
        batch.over(group, [used](const Result& r) { return paths_used(r) == used ? 1.0 : 0.0; });
    for (Curve* curve : {&drawn, &expected}) curve->x.push_back(static_cast<double>(used - 1));
    drawn.y.push_back(share.mean);
    expected.y.push_back(paths_used_chance(flows, paths, used));
    panel.categories.push_back(fmt::format("{}", used));
  }
  panel.curves = {drawn, expected};
  panel.ymax = 1;
  return panel;
}

// Mean goodput of mp / goodput of DCQCN, for each draw of paths, in ascending order.
std::vector<double> gains(const Batch& batch, size_t group) {
  const double mp = batch.over(0, [](const Result& r) { return r.goodput_bps; }).mean;
  std::vector<double> out = batch.each(group, [mp](const Result& r) { return mp / r.goodput_bps; });
  std::sort(out.begin(), out.end());
  return out;
}

// The expected gain: all paths / the paths that random flows use, if both fill them.
double expected_gain(size_t flows, size_t paths) {
  return static_cast<double>(paths) / paths_expected(flows, paths);
}

Panel gains_panel(const Batch& batch, size_t group, size_t flows, size_t paths) {
  Panel panel{"The gain by draw of ECMP", "draw, by gain", "mp / DCQCN", {}};
  Curve curve{"mp / " + kDcqcn.name, {}, {}, {}, Stroke::kLinePoints, kDcqcn.colour};
  for (const double gain : gains(batch, group)) {
    curve.x.push_back(static_cast<double>(curve.x.size() + 1));
    curve.y.push_back(gain);
  }
  const double expected = expected_gain(flows, paths);
  panel.marks = {{expected, fmt::format("expected of random paths: {:.2f}", expected)},
                 {kPaperGain, "paper's draw: 1.47", true}};
  panel.ymin = 0.9;
  panel.ymax = curve.y.back() + 0.2;
  panel.curves = {curve};
  return panel;
}

void add_gain_claims(const Batch& batch, size_t group, FigureResult* out) {
  const Scenario& scenario = batch.scenario(group);
  const size_t flows = scenario.flows.size();
  const size_t paths = scenario.paths.size();
  const auto rate = [](const Result& r) { return r.goodput_bps; };
  const Summary gain = summarise(gains(batch, group));
  const double of_means = batch.over(0, rate).mean / batch.over(group, rate).mean;
  const double expected = expected_gain(flows, paths);
  out->report("12a.gain.draws", "mp / " + kDcqcn.name + ", mean over the draws of each one's gain",
              "", gain.mean, gain.deviation, "x", "the paper: 1.4705 against its draw");
  out->report("12a.gain.least", "the same, best draw of " + kDcqcn.name, "", gain.least, 0, "x",
              "");
  out->report("12a.gain.most", "the same, worst draw of " + kDcqcn.name, "", gain.most, 0, "x", "");
  out->claim("12a.gain", "mp / mean of the draws of " + kDcqcn.name, ">= 1.15", of_means, 0, "x");
  out->own_target();
  out->report(
      "12a.gain.expected", "four paths / those that random flows use", "", expected, 0, "x",
      fmt::format("{} random flows on {} paths use {:.2f} of them; DCQCN's headers are 32 B "
                  "a packet shorter",
                  flows, paths, paths_expected(flows, paths)));
  out->report("12a.gain.of-expected", "mp / mean of the draws, against that expectation", "",
              of_means / expected, 0, "x", "");
}

void add_draw_claims(const Batch& batch, size_t group, FigureResult* out) {
  const Scenario& scenario = batch.scenario(group);
  const size_t flows = scenario.flows.size();
  const size_t paths = scenario.paths.size();
  const double link = ceiling_bps(scenario, scenario.paths[0]);
  const std::string what = kDcqcn.name + ": ";
  const Summary total = batch.over(group, goodput_gbps);
  const Summary used =
      batch.over(group, [](const Result& r) { return static_cast<double>(paths_used(r)); });
  const Summary filled = batch.over(group, [link](const Result& r) {
    return r.goodput_bps / link / static_cast<double>(paths_used(r));
  });
  const Summary fair = batch.over(group, [](const Result& r) { return r.jain; });
  out->report("12a.dcqcn.total", what + "total, mean over the draws", "", total.mean,
              total.deviation, "Gb/s", fmt::format("the paper: {} with its draw", kPaperDcqcnGbps));
  out->report("12a.dcqcn.least", what + "total, worst draw", "", total.least, 0, "Gb/s", "");
  out->report("12a.dcqcn.most", what + "total, best draw", "", total.most, 0, "Gb/s", "");
  out->report("12a.dcqcn.jain", what + "Jain's index", "", fair.mean, fair.deviation, "", "");
  out->report("12a.dcqcn.used", what + "paths in use, mean over the draws", "", used.mean,
              used.deviation, "",
              fmt::format("{} random flows on {} paths use {:.2f}", flows, paths,
                          paths_expected(flows, paths)));
  out->claim("12a.dcqcn.filled", what + "total / ceiling of the paths in use", ">= 0.9",
             filled.mean, filled.deviation, "");
  out->own_target();
  add_gain_claims(batch, group, out);
}

// Shows the effect of the marking at every switch port. `first`: the group of kMarkings[1].
void add_markings(const Batch& batch, size_t first, double ceiling, FigureResult* out) {
  Panel marking{"What the marking decides", "marking of every switch port", "share, index", {}};
  Curve total{"total / ceiling", {}, {}, {}, Stroke::kBars, 0};
  Curve fair{"Jain's index", {}, {}, {}, Stroke::kBars, 4};
  for (size_t m = 0; m < kMarkings.size(); ++m) {
    const size_t group = m == 0 ? 0 : first + m - 1;
    const Summary share =
        batch.over(group, [&](const Result& r) { return r.goodput_bps / ceiling; });
    const Summary index = batch.over(group, [](const Result& r) { return r.jain; });
    for (Curve* curve : {&total, &fair}) curve->x.push_back(static_cast<double>(m));
    total.y.push_back(share.mean);
    total.error.push_back(share.deviation);
    fair.y.push_back(index.mean);
    fair.error.push_back(index.deviation);
    marking.categories.emplace_back(kMarkings[m].name);
    out->report(fmt::format("12a.marking.{}", m), fmt::format("mp, {}: total", kMarkings[m].name),
                "", share.mean, share.deviation, "", "");
    out->report(fmt::format("12a.marking.{}.jain", m),
                fmt::format("mp, {}: Jain's index", kMarkings[m].name), "", index.mean,
                index.deviation, "", "");
  }
  marking.curves = {total, fair};
  marking.ymin = 0.8;
  marking.ymax = 1.02;
  out->panels.push_back(marking);
}

}  // namespace

FigureResult permutation(const Figure& figure, const RunOptions& options) {
  FigureResult out;
  Batch batch(options);
  const std::array<const Variant*, 3> variants = {&kMp, &kShipped, &kPaper};
  const uint32_t seeds = options.ci() ? 1 : 3;
  for (const Variant* variant : variants) {
    Scenario scenario = load(figure.scenario, variant->overrides);
    if (options.ci()) shorten(&scenario, 5);
    batch.add(scenario, seeds);
  }
  for (size_t m = 1; m < (options.ci() ? 1 : kMarkings.size()); ++m) {
    Scenario scenario = load(figure.scenario, kMp.overrides);
    set_marking(kMarkings[m], &scenario);
    batch.add(scenario, seeds);
  }
  const size_t draws = add_draws(figure, options.ci(), &batch);
  batch.run();
  const Scenario& first = batch.scenario(0);
  const double ceiling =
      ceiling_bps(first, first.paths[0]) * static_cast<double>(first.paths.size());
  for (size_t v = 0; v < variants.size(); ++v) add_claims(batch, v, *variants[v], ceiling, &out);
  add_draw_claims(batch, draws, &out);
  out.panels.push_back(flows_panel(batch, variants, ceiling));
  out.panels.push_back(draws_panel(batch, draws, first.flows.size(), first.paths.size()));
  out.panels.push_back(gains_panel(batch, draws, first.flows.size(), first.paths.size()));
  if (!options.ci()) add_markings(batch, variants.size(), ceiling, &out);
  batch.claim_sound("12a", &out);
  out.constants = constants_of(first, first.paths[0], seeds);
  out.deviations = describe_deviations(
      fmt::format(
          "{} seeds of 80 ms, the paper's ten runs take longer. The paper marks a step at 20 "
          "KB and does not say where: on enqueue the paths are not full. DCQCN is our model "
          "of it, over draws of ECMP, not one draw of an adapter.",
          seeds),
      first);
  out.setup = fmt::format(
      "Five servers send to five others over four paths; {}; {}. {}: {} draws of ECMP, seeds from "
      "{}, {} ms measured, its own RED",
      describe(first, first.paths[0]), describe_times(first, seeds), kDcqcn.name,
      batch.group(draws).size(), options.seed, options.ci() ? 5 : 30);
  out.seen =
      "Five connections share four paths evenly and fill them; one path for each leaves paths "
      "empty";
  return out;
}

}  // namespace mprdma::figures
