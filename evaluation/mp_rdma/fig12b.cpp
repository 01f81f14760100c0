// Figure 12(b): a permutation over a leaf-spine; half of the servers send to the other half.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "base/prng.hpp"
#include "evaluation/batch.hpp"
#include "evaluation/list.hpp"
#include "evaluation/max_min.hpp"
#include "evaluation/mp_rdma/dcqcn.hpp"
#include "switchsim/sim/scenario/traffic.hpp"

namespace mprdma::figures {

namespace {

using switchsim::Result;
using switchsim::Scenario;
using switchsim::SimSpan;

// The shape of the scenario's network; a small run has fewer leaves, with as many hosts each.
struct Fabric {
  uint32_t leaves;
  uint32_t hosts_per_leaf = 10;
  uint32_t spines = 4;
  double fabric_share = 2.5;  // rate of a link to a spine / rate of a host's link
};
constexpr Fabric kFabric = {.leaves = 32};
constexpr Fabric kFabricCi = {.leaves = 4};
constexpr uint32_t kRandomDraws = 200;  // of the expected rate, which needs no simulation
constexpr double kUnluckyGbps = 15;     // the paper reports many flows of DCQCN below it

struct Form {
  const Variant* variant;
  const char* id;
  uint32_t runs;
  uint32_t runs_ci;
  int64_t warm_up_ms;
  int64_t measured_ms;
};
constexpr size_t kForms = 4;

// The rates of DCQCN take longer to settle.
std::array<Form, kForms> all_forms() {
  return {{{&kMp, "12b.mp", 2, 1, 2, 8},
           {&kShipped, "12b.shipped", 2, 1, 2, 8},
           {&kPaper, "12b.paper", 1, 1, 2, 8},
           {&kDcqcn, "12b.dcqcn", 20, 3, 4, 6}}};
}

bool ours(const Form& form) {
  return form.variant == &kMp || form.variant == &kShipped;
}

Scenario scenario_for(const Figure& figure, const Form& form, uint64_t seed, bool ci) {
  const bool dcqcn = form.variant == &kDcqcn;
  switchsim::Overrides overrides;
  if (!dcqcn) overrides = form.variant->overrides;
  if (ci) {
    overrides.insert(overrides.end(), {"topology.leaves=4", "traffic[0].from=\"h1..h20\"",
                                       "traffic[0].to=\"h21..h40\""});
  }
  Scenario scenario =
      dcqcn ? load_dcqcn(figure.scenario, overrides) : load(figure.scenario, overrides);
  scenario.seed = seed;
  switchsim::expand_traffic(&scenario);
  for (switchsim::LinkId link = 0; link < scenario.topology.links.size(); ++link) {
    if (scenario.topology.links[link].a < scenario.topology.hosts) continue;
    if (scenario.topology.links[link].b < scenario.topology.hosts) continue;
    if (dcqcn) scenario.paths.push_back(link);
  }
  scenario.warm_up = SimSpan::ms(form.warm_up_ms);
  scenario.duration = SimSpan::ms(form.warm_up_ms + form.measured_ms);
  if (ci) shorten(&scenario, 2);
  return scenario;
}

// ---- What the paths of a draw allow

// Max-min fair rates, as shares of a host's link, if each flow has one path, over the given spine.
std::vector<double> fair_rates(const Fabric& fabric, const Scenario& scenario,
                               const std::vector<uint32_t>& spine_of_flow) {
  const uint32_t hosts = fabric.leaves * fabric.hosts_per_leaf;
  const uint32_t fabric_links = fabric.leaves * fabric.spines;
  std::vector<double> capacity(size_t{2} * hosts, 1);  // from hosts, to hosts
  capacity.resize(capacity.size() + size_t{2} * fabric_links, fabric.fabric_share);
  std::vector<std::vector<uint32_t>> links;
  for (size_t i = 0; i < scenario.flows.size(); ++i) {
    const uint32_t from = scenario.flows[i].from;
    const uint32_t to = scenario.flows[i].to;
    const uint32_t up = from / fabric.hosts_per_leaf * fabric.spines + spine_of_flow[i];
    const uint32_t down = to / fabric.hosts_per_leaf * fabric.spines + spine_of_flow[i];
    links.push_back({from, hosts + to, 2 * hosts + up, 2 * hosts + fabric_links + down});
  }
  return max_min_rates(links, std::move(capacity));
}

// Finds the spine that each flow of a run with one path each crossed.
std::vector<uint32_t> spines_of(const Fabric& fabric, const Result& result) {
  std::vector<uint32_t> out;
  for (const auto& flow : result.flows) {
    const auto most = std::max_element(flow.path_bytes.begin(), flow.path_bytes.end());
    out.push_back(static_cast<uint32_t>(most - flow.path_bytes.begin()) % fabric.spines);
  }
  return out;
}

double mean_of(const std::vector<double>& values) {
  return summarise(values).mean;
}

// The mean rate over many random choices of spines, and its deviation.
Summary random_fair_rates(const Fabric& fabric, const Scenario& scenario) {
  Prng prng = Prng(scenario.seed).split("spines");
  std::vector<double> means;
  for (uint32_t draw = 0; draw < kRandomDraws; ++draw) {
    std::vector<uint32_t> spines(scenario.flows.size());
    for (uint32_t& spine : spines) spine = static_cast<uint32_t>(prng.below(fabric.spines));
    means.push_back(mean_of(fair_rates(fabric, scenario, spines)));
  }
  return summarise(means);
}

// ---- What was measured

// The rates in all runs of a form.
struct Rates {
  std::vector<double> mean;     // of each run, Gb/s
  std::vector<double> slowest;  // of each run
  std::vector<double> unlucky;  // of each run: share of flows below kUnluckyGbps
  std::vector<double> sorted;   // mean over the runs, slowest first
};

Rates rates_of(const Batch& batch, size_t first_group, size_t runs) {
  Rates out;
  for (size_t run = 0; run < runs; ++run) {
    std::vector<double> rates;
    for (const auto& flow : batch.group(first_group + run)[0].flows) {
      rates.push_back(flow.goodput_bps / 1e9);
    }
    std::sort(rates.begin(), rates.end());
    out.sorted.resize(rates.size());
    for (size_t i = 0; i < rates.size(); ++i) {
      out.sorted[i] += rates[i] / static_cast<double>(runs);
    }
    const auto unlucky =
        std::count_if(rates.begin(), rates.end(), [](double rate) { return rate < kUnluckyGbps; });
    out.mean.push_back(mean_of(rates));
    out.slowest.push_back(rates.front());
    out.unlucky.push_back(static_cast<double>(unlucky) / static_cast<double>(rates.size()));
  }
  return out;
}

void add_claims(const Form& form, const Rates& rates, double ceiling, FigureResult* out) {
  const Summary mean = summarise(rates.mean);
  const Summary slowest = summarise(rates.slowest);
  const std::string id = form.id;
  const std::string name = form.variant->name + ": ";
  if (ours(form)) {
    out->claim(id + ".mean", name + "mean goodput / ceiling", ">= 0.98", mean.mean / ceiling,
               mean.deviation / ceiling, "");
    out->claim(id + ".slowest", name + "slowest flow / ceiling, worst run", ">= 0.95",
               slowest.least / ceiling, slowest.deviation / ceiling, "");
    return;
  }
  const bool paper = form.variant == &kPaper;
  const std::string note = paper ? "the paper's letter, to compare" : "";
  const std::string over = paper ? "" : ", mean over the draws";
  out->report(id + ".mean", name + "mean goodput" + over, "", mean.mean, mean.deviation, "Gb/s",
              note);
  out->report(id + ".slowest", name + "slowest flow" + over, "", slowest.mean, slowest.deviation,
              "Gb/s", paper ? "the paper: 32.95 for MP-RDMA" : "");
}

void add_draw_claims(const Batch& batch, size_t group, const Fabric& fabric, const Rates& rates,
                     double mp_mean, FigureResult* out) {
  const Scenario& first = batch.scenario(group);
  const double ceiling = ceiling_bps(first, first.link("h1")) / 1e9;  // with DCQCN's header lengths
  const size_t draws = rates.mean.size();
  std::vector<double> of_fair;
  std::vector<double> gains;
  for (size_t draw = 0; draw < draws; ++draw) {
    const std::vector<uint32_t> spines = spines_of(fabric, batch.group(group + draw)[0]);
    const double fair = mean_of(fair_rates(fabric, batch.scenario(group + draw), spines));
    of_fair.push_back(rates.mean[draw] / ceiling / fair);
    gains.push_back(mp_mean / rates.mean[draw]);
  }
  const std::string& name = kDcqcn.name;
  const Summary gain = summarise(gains);
  const Summary filled = summarise(of_fair);
  const Summary unlucky = summarise(rates.unlucky);
  out->report("12b.dcqcn.unlucky", name + ": flows below 15 Gb/s", "", unlucky.mean,
              unlucky.deviation, "", "the paper: many");
  out->claim("12b.dcqcn.fair", name + ": mean goodput / max-min fair rates on the same paths",
             ">= 0.85", filled.mean, filled.deviation, "");
  out->own_target();
  out->claim("12b.gain", fmt::format("mp / {}, mean over {} draws", name, draws), ">= 1.25",
             gain.mean, gain.deviation, "x");
  out->own_target();
  out->claims.back().note = "the paper: 1.3478 against its draw";
  out->report("12b.gain.least", "the same, best draw of " + name, "", gain.least, 0, "x", "");
  out->report("12b.gain.most", "the same, worst draw of " + name, "", gain.most, 0, "x", "");
  const Summary random = random_fair_rates(fabric, first);
  out->report("12b.gain.expected", "mp / max-min fair rates on random paths", "",
              mp_mean / ceiling / random.mean, random.deviation / random.mean, "x",
              fmt::format("{} random draws carry {:.3f} of the ceiling: no congestion control of "
                          "one path for each flow has more",
                          kRandomDraws, random.mean));
}

// ---- What is drawn

Curve curve_of(const Form& form, const std::vector<double>& sorted) {
  Curve curve{form.variant->name, {}, {}, {}, Stroke::kLine, form.variant->colour};
  for (size_t i = 0; i < sorted.size(); ++i) {
    curve.x.push_back(100 * static_cast<double>(i + 1) / static_cast<double>(sorted.size()));
    curve.y.push_back(sorted[i]);
  }
  return curve;
}

Panel gains_panel(const std::vector<double>& means, double mp_mean, double expected) {
  Panel panel{"The gain by draw of ECMP", "draw, by gain", "mp / DCQCN", {}};
  std::vector<double> sorted = means;
  std::sort(sorted.rbegin(), sorted.rend());
  Curve curve{"mp / " + kDcqcn.name, {}, {}, {}, Stroke::kLinePoints, kDcqcn.colour};
  for (size_t i = 0; i < sorted.size(); ++i) {
    curve.x.push_back(static_cast<double>(i + 1));
    curve.y.push_back(mp_mean / sorted[i]);
  }
  panel.curves = {curve};
  panel.marks = {{expected, fmt::format("max-min on random paths: {:.2f}", expected)},
                 {1.3478, "paper: 1.35", true}};
  panel.ymin = 1;
  panel.ymax = std::ceil(curve.y.back() * 5 + 0.5) / 5;
  return panel;
}

}  // namespace

FigureResult fabric_permutation(const Figure& figure, const RunOptions& options) {
  FigureResult out;
  Batch batch(options);
  const bool ci = options.ci();
  const Fabric& fabric = ci ? kFabricCi : kFabric;
  const std::array<Form, kForms> forms = all_forms();
  const auto runs_of = [ci](const Form& form) { return ci ? form.runs_ci : form.runs; };
  for (const Form& form : forms) {
    for (uint32_t run = 0; run < runs_of(form); ++run) {
      const uint64_t seed = options.seed + run;
      batch.add_one(scenario_for(figure, form, seed, ci), seed);
    }
  }
  batch.run();

  const Scenario& first = batch.scenario(0);
  const switchsim::LinkId access = first.link("h1");
  const double ceiling = ceiling_bps(first, access) / 1e9;
  Panel panel{"Each connection, in the order of goodput", "% of the connections", "Gb/s", {}};
  size_t group = 0;
  double mp_mean = 0;
  for (const Form& form : forms) {
    const Rates rates = rates_of(batch, group, runs_of(form));
    add_claims(form, rates, ceiling, &out);
    panel.curves.push_back(curve_of(form, rates.sorted));
    if (form.variant == &kMp) mp_mean = mean_of(rates.mean);
    if (form.variant == &kDcqcn) {
      add_draw_claims(batch, group, fabric, rates, mp_mean, &out);
      out.panels = {panel, gains_panel(rates.mean, mp_mean, out.claims.back().value.value_or(0))};
    }
    group += runs_of(form);
  }
  out.panels[0].marks = {{ceiling, fmt::format("ceiling {:.1f}", ceiling)},
                         {32.95, "paper, slowest of MP-RDMA: 32.95", true}};
  out.panels[0].ymax = 44;
  batch.claim_sound("12b", &out);
  out.constants = constants_of(first, access, runs_of(forms[0]));
  out.deviations = describe_deviations(
      fmt::format("Flows start with {} packets, as many as L has, not with the bandwidth-delay "
                  "product of 70. Goodput is measured over milliseconds, and DCQCN over {} draws "
                  "where the paper has one.",
                  first.flows[0].params.initial_window, runs_of(forms[3])),
      first);
  out.setup = fmt::format(
      "{} servers send to as many, under other leaves of {}, over {} spines with 100 Gb/s for each "
      "leaf; {}; each run other pairs; {} ms measured after {} ms. {}: {} draws of pairs and "
      "paths, "
      "its own RED, {} ms measured after {} ms",
      first.flows.size(), fabric.leaves, fabric.spines, describe(first, access),
      forms[0].measured_ms / (ci ? 2 : 1), forms[0].warm_up_ms / (ci ? 2 : 1), kDcqcn.name,
      runs_of(forms[3]), forms[3].measured_ms / (ci ? 2 : 1), forms[3].warm_up_ms / (ci ? 2 : 1));
  out.seen =
      "Every connection over all spines gets its link; with one path each, some get less than half";
  return out;
}

}  // namespace mprdma::figures
