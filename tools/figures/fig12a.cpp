// Figure 12(a): a permutation of five connections over four paths; what the marking does to it.
#include <fmt/format.h>

#include <array>
#include <numeric>

#include "tools/figures/batch.hpp"
#include "tools/figures/list.hpp"

namespace mprdma::figures {

namespace {

using switchsim::Result;
using switchsim::Scenario;

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
  const std::string id = ours ? (&variant == &kMp ? "12a.mp" : "12a.mp128") : "12a.paper";
  const std::string what = variant.name + ": ";
  if (ours) {
    out->claim(id + ".total", what + "total / ceiling of four links", ">= 0.98", total.mean,
               total.deviation, "");
    out->claim(id + ".jain", what + "Jain's index", ">= 0.99", fair.mean, fair.deviation, "");
    out->claim(id + ".copies", what + "retransmissions on a clean network", "<= 0", copies.most, 0,
               "");
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
                 {150.68 / 5, "paper: 30.14 on average", true}};
  panel.ymax = 38;
  return panel;
}

}  // namespace

FigureResult permutation(const Figure& figure, const RunOptions& options) {
  FigureResult out;
  Batch batch(options);
  const std::array<const Variant*, 3> variants = {&kMp, &kMp128, &kPaper};
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
  batch.run();
  const Scenario& first = batch.scenario(0);
  const double ceiling =
      ceiling_bps(first, first.paths[0]) * static_cast<double>(first.paths.size());
  for (size_t v = 0; v < variants.size(); ++v) add_claims(batch, v, *variants[v], ceiling, &out);
  out.panels.push_back(flows_panel(batch, variants, ceiling));
  if (!options.ci()) {
    Panel marking{"What the marking decides", "marking of every switch port", "share, index", {}};
    Curve total{"total / ceiling", {}, {}, {}, Stroke::kBars, 0};
    Curve fair{"Jain's index", {}, {}, {}, Stroke::kBars, 4};
    for (size_t m = 0; m < kMarkings.size(); ++m) {
      const size_t group = m == 0 ? 0 : variants.size() + m - 1;
      const Summary share =
          batch.over(group, [&](const Result& r) { return r.goodput_bps / ceiling; });
      const Summary index = batch.over(group, [](const Result& r) { return r.jain; });
      for (Curve* curve : {&total, &fair}) curve->x.push_back(static_cast<double>(m));
      total.y.push_back(share.mean);
      total.error.push_back(share.deviation);
      fair.y.push_back(index.mean);
      fair.error.push_back(index.deviation);
      marking.categories.emplace_back(kMarkings[m].name);
      out.report(fmt::format("12a.marking.{}", m), fmt::format("mp, {}: total", kMarkings[m].name),
                 "", share.mean, share.deviation, "", "");
      out.report(fmt::format("12a.marking.{}.jain", m),
                 fmt::format("mp, {}: Jain's index", kMarkings[m].name), "", index.mean,
                 index.deviation, "", "");
    }
    marking.curves = {total, fair};
    marking.ymin = 0.8;
    marking.ymax = 1.02;
    out.panels.push_back(marking);
  }
  batch.claim_sound("12a", &out);
  out.constants = constants_of(first, first.paths[0], seeds);
  out.setup = fmt::format("Five servers send to five others over four paths; {}; {}",
                          describe(first, first.paths[0]), describe_times(first, seeds));
  out.seen = "Five connections share four paths evenly and fill them";
  return out;
}

}  // namespace mprdma::figures
