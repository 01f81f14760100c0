// Figure 5: ten connections over four paths of unequal rate and RED; their marking ratios agree.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>

#include "evaluation/batch.hpp"
#include "evaluation/list.hpp"
#include "evaluation/mp_rdma/fluid_curves.hpp"

namespace mprdma::figures {

namespace {

using switchsim::LinkId;
using switchsim::PortResult;
using switchsim::Result;
using switchsim::Scenario;

struct Form {
  const char* id;
  const char* name;
  switchsim::Overrides overrides;
  const char* note;  // reason why the claim is only reported; empty: asserted
};

constexpr uint32_t kPaperPaths = 8;

// The paper's set-up: a window begins on as many virtual paths, and nothing explores
// others.
switchsim::Overrides on_eight_paths() {
  return {"transport.preset=\"mp\"",
          "transport.window_slots=128",
          "transport.reorder_delta=128",
          "transport.loss_trigger=0",
          fmt::format("transport.initial_window={}", kPaperPaths),
          "transport.path_probe_per_mille=0"};
}

constexpr size_t kEightForm = 0;
constexpr size_t kOpenForm = 1;

const std::vector<Form>& all_forms() {
  static const std::vector<Form> kAll = {
      {"5.paths8", "8 virtual paths, no out-of-order control", on_eight_paths(), ""},
      {"5.open",
       "no out-of-order control",
       {"transport.preset=\"mp\"", "transport.window_slots=128", "transport.reorder_delta=128",
        "transport.loss_trigger=0"},
       ""},
      {"5.delta64",
       "delta = 64, L = 128",
       {"transport.preset=\"mp\"", "transport.window_slots=128", "transport.window_rtt_us=0",
        "transport.reorder_delta=64", "transport.loss_trigger=0"},
       ""},
      {"5.delta32",
       "delta = 32, L = 64",
       {"transport.preset=\"mp-figures\"", "transport.window_slots=64",
        "transport.reorder_delta=32", "transport.loss_trigger=0"},
       "delta = 32 prunes the slowest path, whose packets come more than 32 late"},
      {"5.paper",
       "mp-paper, no out-of-order control",
       {"transport.preset=\"mp-paper\"", "transport.window_slots=128",
        "transport.reorder_delta=128", "transport.loss_trigger=0"},
       "the paper's letter, to compare"},
  };
  return kAll;
}

const PortResult& port_of(const Result& result, LinkId link) {
  return result.ports[2 * link];
}

std::vector<double> ratios(const Result& result, const Scenario& scenario) {
  std::vector<double> out;
  for (const LinkId path : scenario.paths) out.push_back(port_of(result, path).mark_ratio);
  return out;
}

double spread(const Result& result, const Scenario& scenario) {
  const Summary all = summarise(ratios(result, scenario));
  return all.least == 0 ? 0 : all.most / all.least;
}

// The spread of the paths' means over all runs; the spread of a single run of 60 ms is off by some
// 5 %.
double pooled_spread(const Batch& batch, size_t group) {
  const Scenario& scenario = batch.scenario(group);
  std::vector<double> means;
  for (size_t p = 0; p < scenario.paths.size(); ++p) {
    means.push_back(
        batch.over(group, [&](const Result& r) { return ratios(r, scenario)[p]; }).mean);
  }
  const Summary all = summarise(means);
  return all.least == 0 ? 0 : all.most / all.least;
}

// Mean marking ratio of the four paths / F* = 2 / (cwnd + 2), the fixed point of equation 6.
double against_theory(const Result& result, const Scenario& scenario) {
  double window = 0;
  for (const auto& flow : result.flows) window += flow.window_mean;
  window /= static_cast<double>(result.flows.size());
  return summarise(ratios(result, scenario)).mean * (window + 2) / 2;
}

double most_virtual_paths(const Result& result) {
  uint32_t most = 0;
  for (const auto& flow : result.flows) most = std::max(most, flow.virtual_paths_series.back());
  return most;
}

// Virtual paths of a connection in the last interval between two points, mean.
double last_virtual_paths(const Result& result) {
  double sum = 0;
  for (const auto& flow : result.flows) sum += flow.virtual_paths_recent_series.back();
  return sum / static_cast<double>(result.flows.size());
}

double mean_window(const Result& result) {
  double sum = 0;
  for (const auto& flow : result.flows) sum += flow.window_mean;
  return sum / static_cast<double>(result.flows.size());
}

void add_claims(const Batch& batch, size_t group, const Form& form, FigureResult* out) {
  const Scenario& scenario = batch.scenario(group);
  const Summary of_runs = batch.over(group, [&](const Result& r) { return spread(r, scenario); });
  Summary ratio;
  ratio.mean = pooled_spread(batch, group);
  const Summary theory =
      batch.over(group, [&](const Result& r) { return against_theory(r, scenario); });
  const Summary window = batch.over(group, mean_window);
  const std::string id = form.id;
  const std::string name = std::string(form.name) + ": ";
  const auto add = [&](const char* suffix, const char* what, const char* target,
                       const Summary& value) {
    if (*form.note == 0) {
      out->claim(id + suffix, name + what, target, value.mean, value.deviation, "");
    } else {
      out->report(id + suffix, name + what, target, value.mean, value.deviation, "", form.note);
    }
  };
  add(".ratio", "largest / smallest marking ratio, each the mean of all runs", "<= 1.15", ratio);
  out->report(id + ".ratio-of-runs", name + "largest / smallest marking ratio of single runs", "",
              of_runs.mean, of_runs.deviation, "", "");
  add(".theory-low", "mean ratio / (2 / (cwnd + 2))", ">= 0.85", theory);
  add(".theory-high", "mean ratio / (2 / (cwnd + 2))", "<= 1.15", theory);
  out->report(id + ".window", name + "mean window", "", window.mean, window.deviation, "packets",
              "");
}

void add_paths(const Batch& batch, FigureResult* out) {
  const std::string name = std::string(all_forms()[kEightForm].name) + ": ";
  const Summary most = batch.over(kEightForm, most_virtual_paths);
  const Summary last = batch.over(kEightForm, last_virtual_paths);
  out->report("5.paths8.paths", name + "virtual paths of a connection so far, most of a run", "",
              most.most, 0, "", "it begins with 8, and what is not clocked out may draw another");
  out->report("5.paths8.recent", name + "those in use at the end, mean of the connections", "",
              last.mean, last.deviation, "",
              "what an acknowledgement clocks out follows it, so that paths die out and none comes "
              "back without exploring");
}

// Draws the fluid model from the same start, over the simulated curves.
void add_fluid_curves(const Scenario& scenario, Panel* panel) {
  const fluid::Trace trace = fluid_trace(scenario, scenario.flows[0].params.initial_window);
  for (size_t p = 0; p < trace.marked.size(); ++p) {
    Curve curve = fluid_curve("fluid model", trace, trace.marked[p], 1);
    curve.colour = static_cast<int>(p);
    curve.legend = p + 1 == trace.marked.size();
    panel->curves.push_back(curve);
  }
}

Panel time_panel(const Result& result, const Scenario& scenario, const std::string& title,
                 double theory) {
  Panel panel{title, "time, ms", "marking ratio", {}};
  const double packet =
      switchsim::data_wire_bytes(scenario.flows[0].operation, scenario.flows[0].path_mtu);
  const size_t stride = std::max<size_t>(result.time_us.size() / 40, 1);
  for (const LinkId path : scenario.paths) {
    const PortResult& port = port_of(result, path);
    Curve curve;
    curve.name = fmt::format("{:.0f} Gb/s", static_cast<double>(port.rate.bits_per_second()) / 1e9);
    curve.stroke = Stroke::kLine;
    for (size_t i = stride; i < result.time_us.size(); i += stride) {
      const double packets =
          static_cast<double>(port.bytes_series[i] - port.bytes_series[i - stride]) / packet;
      const auto marked =
          static_cast<double>(port.marked_series[i] - port.marked_series[i - stride]);
      curve.x.push_back((result.time_us[i] + result.time_us[i - stride]) / 2e3);
      curve.y.push_back(packets == 0 ? 0 : marked / packets);
    }
    panel.curves.push_back(curve);
  }
  add_fluid_curves(scenario, &panel);
  panel.marks = {{theory, fmt::format("paper: one value, 2 / (cwnd + 2) = {:.3f}", theory), true}};
  return panel;
}

}  // namespace

FigureResult marking_balance(const Figure& figure, const RunOptions& options) {
  FigureResult out;
  Batch batch(options);
  // A small run has the first three forms, which a test asserts.
  const std::span<const Form> forms = std::span(all_forms()).first(options.ci() ? 3 : 5);
  const uint32_t seeds = options.ci() ? 2 : 5;
  for (const Form& form : forms) {
    Scenario scenario = load(figure.scenario, form.overrides);
    for (switchsim::FlowSpec& flow : scenario.flows) {
      flow.measure_paths = &form == &all_forms()[kEightForm];
    }
    batch.add(scenario, seeds);
  }
  batch.run();
  for (size_t g = 0; g < forms.size(); ++g) add_claims(batch, g, forms[g], &out);
  add_paths(batch, &out);
  const Scenario& first = batch.scenario(kOpenForm);
  for (const size_t g : {kEightForm, kOpenForm, forms.size() - 2}) {
    if (g == kOpenForm && out.panels.size() > 1) break;
    const Result& result = batch.group(g)[0];
    out.panels.push_back(
        time_panel(result, batch.scenario(g), forms[g].name, 2 / (mean_window(result) + 2)));
    out.panels.back().ymax = 0.15;
  }
  const fluid::FixPoint rest = fluid::fix_point(fluid_model(first));
  const Summary window = batch.over(kOpenForm, mean_window);
  out.report("5.open.fluid",
             std::string(forms[kOpenForm].name) + ": mean window / the fluid model's", "",
             window.mean / rest.cwnd, window.deviation / rest.cwnd, "", "");
  batch.claim_sound("5", &out);
  out.constants = constants_of(first, first.paths[0], seeds);
  out.deviations = describe_deviations(
      fmt::format(
          "The paper has {} virtual paths a connection, which is the first form; the others "
          "begin with a bandwidth-delay product and explore, as mp does. The ratio is that "
          "of the means of {} runs: a single run of 60 ms is off by some 5 %, and its ratio "
          "is beside.",
          kPaperPaths, seeds),
      first);
  out.setup = fmt::format(
      "Ten connections over paths of 20, 40, 60 and 80 Gb/s; path 1: {} (the first form: IW 8, p 0 "
      "%); Pmax 0.2, 0.4, 0.6, 0.8; no form has the sender's loss trigger (at 64 packets it takes "
      "what comes late by "
      "the "
      "slowest path for lost); {}",
      describe(first, first.paths[0]), describe_times(first, seeds));
  out.seen = "Unequal paths are marked alike: the ratio depends on the window only";
  return out;
}

}  // namespace mprdma::figures
