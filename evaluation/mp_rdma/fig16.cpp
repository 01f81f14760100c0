// Figure 16: eight flows join one bottleneck one by one, then leave in the same order.
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

// The time between two changes, and the flows that are active in it.
struct Phase {
  SimTime from;
  SimTime to;
  std::vector<size_t> flows;
};

std::vector<Phase> phases_of(const Scenario& scenario) {
  std::vector<SimTime> changes;
  for (const auto& flow : scenario.flows) {
    changes.push_back(flow.start);
    changes.push_back(std::min(flow.stop, SimTime() + scenario.duration));
  }
  std::sort(changes.begin(), changes.end());
  std::vector<Phase> out;
  for (size_t i = 0; i + 1 < changes.size(); ++i) {
    if (changes[i] == changes[i + 1]) continue;
    Phase phase{changes[i], changes[i + 1], {}};
    for (size_t f = 0; f < scenario.flows.size(); ++f) {
      const auto& flow = scenario.flows[f];
      if (flow.start <= phase.from && flow.stop >= phase.to) phase.flows.push_back(f);
    }
    if (!phase.flows.empty()) out.push_back(phase);
  }
  return out;
}

// The first fifth of a phase is left out: rates still settle.
std::vector<double> rates(const Result& result, const Phase& phase) {
  const SimSpan skip = SimSpan::ps((phase.to - phase.from).count_ps() / 5);
  std::vector<double> out;
  for (const size_t f : phase.flows) {
    out.push_back(result.goodput_bps_between(f, phase.from + skip, phase.to));
  }
  return out;
}

// The worst mean over the phases with n flows, for n = 1 to 8.
std::vector<Summary> fairness(const Batch& batch, size_t group, const std::vector<Phase>& phases,
                              size_t flows) {
  std::vector<Summary> out(flows);
  for (Summary& one : out) one.mean = 2;
  for (const Phase& phase : phases) {
    const Summary index =
        batch.over(group, [&](const Result& r) { return switchsim::jain_index(rates(r, phase)); });
    Summary& worst = out[phase.flows.size() - 1];
    if (index.mean < worst.mean) worst = index;
  }
  return out;
}

double link_use(const Result& result, const std::vector<Phase>& phases, double ceiling) {
  double least = 1e9;
  for (const Phase& phase : phases) {
    double sum = 0;
    for (const double rate : rates(result, phase)) sum += rate;
    least = std::min(least, sum / ceiling);
  }
  return least;
}

struct Form {
  const Variant* variant;
  bool step;
  std::string name;
  std::string id;
  bool asserted;
};

Panel index_panel(const std::vector<Form>& forms, const std::vector<std::vector<Summary>>& all) {
  Panel panel{"Jain's index", "flows", "worst phase of that many flows", {}};
  for (size_t i = 0; i < forms.size(); ++i) {
    Curve curve{forms[i].name, {}, {}, {}, Stroke::kLinePoints, static_cast<int>(i)};
    for (size_t n = 0; n < all[i].size(); ++n) {
      curve.x.push_back(static_cast<double>(n + 1));
      curve.y.push_back(all[i][n].mean);
      curve.error.push_back(all[i][n].deviation);
    }
    panel.curves.push_back(curve);
  }
  panel.marks = {{0.996, "paper: 0.996 to 0.999", true}};
  panel.ymin = 0.98;
  panel.ymax = 1.002;
  return panel;
}

Panel time_panel(const Result& result, const Scenario& scenario) {
  Panel panel{"mp, RED", "time, ms", "goodput, Gb/s", {}};
  const auto stride = static_cast<size_t>(
      std::max<int64_t>(scenario.duration.count_ps() / scenario.sample.count_ps() / 300, 1));
  for (size_t f = 0; f < result.flows.size(); ++f) {
    Curve curve = rate_curve(fmt::format("{}", f + 1), result.time_us,
                             result.flows[f].delivered_series, stride);
    panel.curves.push_back(curve);
  }
  panel.ymax = 42;
  return panel;
}

std::string deviations_of(const Scenario& first) {
  return describe_deviations(
      "A flow joins or leaves every 50 ms, in the paper every 30 s. The marking is RED (1.0, 20 "
      "KB, "
      "40 KB), the paper's testbed has a step at 20 KB: it is shown beside. Flows with a step and "
      "the same round trip could lock in phase and keep unequal shares; the rows of the step say "
      "whether they do. Where mp-paper meets the target, too, the figure does not "
      "tell ours from it.",
      first);
}

}  // namespace

FigureResult join_and_leave(const Figure& figure, const RunOptions& options) {
  FigureResult out;
  Batch batch(options);
  const std::vector<Form> forms = {
      {&kMp, false, "mp, RED (1.0, 20, 40)", "16.mp", true},
      {&kShipped, false, "mp as shipped, RED (1.0, 20, 40)", "16.shipped", true},
      {&kMp, true, "mp, step at 20 KB", "16.mp-step", false},
      {&kPaper, false, "mp-paper, RED (1.0, 20, 40)", "16.paper", false},
      {&kPaper, true, "mp-paper, step at 20 KB", "16.paper-step", false}};
  const uint32_t seeds = options.ci() ? 1 : 3;
  for (const Form& form : forms) {
    Scenario scenario = load(figure.scenario, form.variant->overrides);
    if (form.step) {
      for (auto& link : scenario.topology.links) {
        link.ab.red.kmax_bytes = link.ab.red.kmin_bytes;
        link.ba.red.kmax_bytes = link.ba.red.kmin_bytes;
      }
    }
    if (options.ci()) shorten(&scenario, 4);
    batch.add(scenario, seeds);
  }
  batch.run();
  const Scenario& first = batch.scenario(0);
  const switchsim::LinkId bottleneck = first.link("bottleneck");
  const double ceiling = ceiling_bps(first, bottleneck);
  const std::vector<Phase> phases = phases_of(first);
  std::vector<std::vector<Summary>> all;
  for (size_t g = 0; g < forms.size(); ++g) {
    all.push_back(fairness(batch, g, phases, first.flows.size()));
    for (size_t n = 1; n < all[g].size(); ++n) {
      const std::string id = fmt::format("{}.jain-{}", forms[g].id, n + 1);
      const std::string what = fmt::format("{}: Jain's index, {} flows", forms[g].name, n + 1);
      if (forms[g].asserted) {
        out.claim(id, what, ">= 0.996", all[g][n].mean, all[g][n].deviation, "");
      } else {
        const char* step = all[g][n].mean < 0.996
                               ? "marking by a step: flows lock in phase"
                               : "marking by a step could lock flows in phase: it does not here";
        out.report(id, what, ">= 0.996", all[g][n].mean, all[g][n].deviation, "",
                   forms[g].step ? step : "the paper's letter, to compare");
      }
    }
    const Summary use =
        batch.over(g, [&](const Result& r) { return link_use(r, phases, ceiling); });
    out.report(forms[g].id + ".use", forms[g].name + ": link use, worst phase", "", use.mean,
               use.deviation, "", "");
  }
  out.panels = {time_panel(batch.group(0)[0], first), index_panel(forms, all)};
  batch.claim_sound("16", &out);
  out.constants = constants_of(first, bottleneck, seeds);
  out.deviations = deviations_of(first);
  out.setup = fmt::format(
      "Two servers open eight connections to a third, one after the other, and close "
      "them in the same order; {}; {} seeds of {:.4g} ms; the first fifth of each phase "
      "is not counted",
      describe(first, bottleneck), seeds, static_cast<double>(first.duration.count_ps()) / 1e9);
  out.seen = "Every flow gets its share within milliseconds, at every number of flows";
  return out;
}

}  // namespace mprdma::figures
