// Figure 4: eight flows at one bottleneck; the queue with RED, with DCTCP's step, and of the fluid
// model.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "evaluation/batch.hpp"
#include "evaluation/list.hpp"
#include "evaluation/mp_rdma/fluid_curves.hpp"

namespace mprdma::figures {

namespace {

using switchsim::PortResult;
using switchsim::Result;
using switchsim::Scenario;

constexpr uint32_t kStepBytes = 65'000;
// Time that is drawn of the beginning, and of the end.
constexpr double kDrawnMs = 8;

enum class Marking : uint8_t { kRed, kStep, kStepOnEnqueue };

struct Form {
  const Variant* variant;
  const char* id;
  Marking marking;
};
constexpr std::array<Form, 7> kForms = {{{&kMp, "4.mp", Marking::kRed},
                                         {&kMp, "4.mp", Marking::kStep},
                                         {&kShipped, "4.shipped", Marking::kRed},
                                         {&kShipped, "4.shipped", Marking::kStep},
                                         {&kPaper, "4.paper", Marking::kRed},
                                         {&kPaper, "4.paper", Marking::kStep},
                                         {&kMp, "4.mp", Marking::kStepOnEnqueue}}};

Scenario scenario_for(const Figure& figure, const Form& form) {
  Scenario scenario = load(figure.scenario, form.variant->overrides);
  if (form.marking == Marking::kRed) return scenario;
  for (switchsim::LinkConfig& link : scenario.topology.links) {
    for (switchsim::PortConfig* port : {&link.ab, &link.ba}) {
      if (port->red.kmax_bytes == 0) continue;
      port->red.kmin_bytes = port->red.kmax_bytes = kStepBytes;
      port->red.pmax_ppm = 1'000'000;
      port->red.mark_on_enqueue = form.marking == Marking::kStepOnEnqueue;
    }
  }
  return scenario;
}

const PortResult& bottleneck(const Scenario& scenario, const Result& result) {
  return result.ports[2 * scenario.paths[0]];
}

Summary of_bottleneck(const Batch& batch, size_t group, double PortResult::*member) {
  const Scenario& scenario = batch.scenario(group);
  return batch.over(group, [&](const Result& r) { return bottleneck(scenario, r).*member; });
}

double mean_window(const Result& result) {
  double sum = 0;
  for (const auto& flow : result.flows) sum += flow.window_mean;
  return sum / static_cast<double>(result.flows.size());
}

class Claims {
 public:
  Claims(const Batch& batch, const fluid::FixPoint& rest, FigureResult* out)
      : batch_(batch), rest_(rest), out_(out) {}

  // Adds the claims of a variant with RED; its run with a step marking is the next group.
  void add(size_t group) {
    const Form& form = kForms[group];
    const std::string id = form.id;
    const std::string name = form.variant->name + ", ";
    const bool ours = form.variant != &kPaper;
    const auto claim = [&](const char* suffix, const std::string& what, const char* target,
                           const Summary& v) {
      if (ours) {
        out_->claim(id + suffix, name + what, target, v.mean, v.deviation, "");
      } else {
        out_->report(id + suffix, name + what, target, v.mean, v.deviation, "",
                     "the paper's letter, to compare");
      }
    };
    const double model = rest_.state.queue_bytes[0];
    const Summary queue = batch_.over(group, [&](const Result& r) {
      return bottleneck(batch_.scenario(group), r).queue_mean_bytes / model;
    });
    claim(".queue-low", "RED: mean queue / the fluid model's", ">= 0.85", queue);
    claim(".queue-high", "RED: mean queue / the fluid model's", "<= 1.15", queue);
    claim(".calm", "deviation of the queue, step / RED", ">= 2", calm(group));
    claim(".use", "RED: link use", ">= 0.99",
          of_bottleneck(batch_, group, &PortResult::utilisation));
    claim(".use-step", "step: link use", ">= 0.99",
          of_bottleneck(batch_, group + 1, &PortResult::utilisation));
    value(group, id + ".red", name + "RED");
    value(group + 1, id + ".step", name + "step");
  }

  void value(size_t group, const std::string& id, const std::string& name) {
    const Summary mean = of_bottleneck(batch_, group, &PortResult::queue_mean_bytes);
    const Summary deviation = of_bottleneck(batch_, group, &PortResult::queue_sd_bytes);
    const Summary window = batch_.over(group, mean_window);
    const Summary marked = of_bottleneck(batch_, group, &PortResult::mark_ratio);
    out_->report(id + ".mean", name + ": mean queue", "", mean.mean / 1e3, mean.deviation / 1e3,
                 "KB", "");
    out_->report(id + ".sd", name + ": deviation of the queue", "", deviation.mean / 1e3,
                 deviation.deviation / 1e3, "KB", "");
    out_->report(id + ".window", name + ": mean window", "", window.mean, window.deviation,
                 "packets", "");
    out_->report(id + ".marked", name + ": marked", "", marked.mean, marked.deviation, "", "");
  }

 private:
  [[nodiscard]] Summary calm(size_t group) const {
    const std::vector<double> red = deviations(group);
    std::vector<double> ratio = deviations(group + 1);
    for (size_t i = 0; i < ratio.size(); ++i) ratio[i] /= std::max(red[i], 1.0);
    return summarise(ratio);
  }
  [[nodiscard]] std::vector<double> deviations(size_t group) const {
    return batch_.each(group, [&](const Result& r) {
      return bottleneck(batch_.scenario(group), r).queue_sd_bytes;
    });
  }

  const Batch& batch_;
  const fluid::FixPoint& rest_;
  FigureResult* out_;
};

// Cuts a curve to the time between two points; it then begins at 0.
void cut(Curve* curve, double from_ms, double to_ms) {
  Curve out = *curve;
  out.x.clear();
  out.y.clear();
  for (size_t i = 0; i < curve->x.size(); ++i) {
    if (curve->x[i] < from_ms || curve->x[i] > to_ms) continue;
    out.x.push_back(curve->x[i]);
    out.y.push_back(curve->y[i]);
  }
  *curve = out;
}

Panel queue_panel(const Batch& batch, size_t group, const char* title, double from_ms) {
  const Scenario& scenario = batch.scenario(group);
  const Result& result = batch.group(group)[0];
  Panel panel{title, "time, ms", "queue, KB", {}};
  Curve simulated{"simulated", {}, {}, {}, Stroke::kLine, 0};
  const PortResult& port = bottleneck(scenario, result);
  for (size_t i = 0; i < port.queue_series.size(); ++i) {
    simulated.x.push_back(result.time_us[i] / 1e3);
    simulated.y.push_back(static_cast<double>(port.queue_series[i]) / 1e3);
  }
  const fluid::Trace trace = fluid_trace(scenario, scenario.flows[0].params.initial_window);
  Curve model = fluid_curve("fluid model", trace, trace.queue_bytes[0], 1e-3);
  model.colour = 1;
  for (Curve* curve : {&simulated, &model}) {
    cut(curve, from_ms, from_ms + kDrawnMs);
    panel.curves.push_back(*curve);
  }
  return panel;
}

void report_fluid_step(const Scenario& scenario, FigureResult* out) {
  const fluid::Trace trace = fluid_trace(scenario, scenario.flows[0].params.initial_window);
  const double warm_up_s = static_cast<double>(scenario.warm_up.count_ps()) / 1e12;
  const fluid::Moments queue = fluid::moments(trace, trace.queue_bytes[0], warm_up_s);
  out->report("4.fluid-step.sd", "fluid model, step: deviation of the queue", "",
              queue.deviation / 1e3, 0, "KB",
              "the model has all flows in step, the simulated ones are not: it swings more");
}

}  // namespace

FigureResult steady_queue(const Figure& figure, const RunOptions& options) {
  FigureResult out;
  Batch batch(options);
  const uint32_t seeds = options.ci() ? 1 : 5;
  // A small run covers only what a test asserts.
  const size_t forms = options.ci() ? 4 : kForms.size();
  for (size_t i = 0; i < forms; ++i) {
    Scenario scenario = scenario_for(figure, kForms[i]);
    if (options.ci()) shorten(&scenario, 2);
    batch.add(scenario, seeds);
  }
  batch.run();
  const Scenario& first = batch.scenario(0);
  const fluid::FixPoint rest = fluid::fix_point(fluid_model(first));
  Claims claims(batch, rest, &out);
  for (size_t i = 0; i + 1 < forms; i += 2) claims.add(i);
  if (forms == kForms.size()) claims.value(forms - 1, "4.mp.enqueue", "mp, step on enqueue");
  const double model_kb = rest.state.queue_bytes[0] / 1e3;
  out.report("4.fluid.queue", "fluid model at rest: queue", "", model_kb, 0, "KB", "");
  out.report("4.fluid.window", "fluid model at rest: window", "", rest.cwnd, 0, "packets", "");
  out.report("4.fluid.marked", "fluid model at rest: marked", "", rest.marked, 0, "", "");
  report_fluid_step(batch.scenario(1), &out);
  const double end_ms = static_cast<double>(first.duration.count_ps()) / 1e9;
  out.panels = {queue_panel(batch, 0, "RED (0.8, 20, 200), the beginning", 0),
                queue_panel(batch, 0, "RED (0.8, 20, 200), later", end_ms - kDrawnMs),
                queue_panel(batch, 1, "DCTCP's step at 65 KB, later", end_ms - kDrawnMs)};
  for (Panel& panel : out.panels) panel.ymax = 220;
  for (size_t p = 0; p < 2; ++p) {
    out.panels[p].marks = {
        {model_kb, fmt::format("paper: at the fix point, {:.1f} KB", model_kb), true}};
  }
  batch.claim_sound("4", &out);
  out.constants = constants_of(first, first.paths[0], seeds);
  out.deviations = describe_deviations(
      "Flows start with 16 packets, their share of what fits, not with one bandwidth-delay "
      "product. "
      "No PFC, which would not pause anything.",
      first);
  out.setup = fmt::format(
      "Eight flows, each of its own host, share one link, RTT 100 us; {}; step at 65 KB in the "
      "place of RED; {}",
      describe(first, first.paths[0]), describe_times(first, seeds));
  out.seen = "With RED the queue stays where the fluid model has it; with a step it swings";
  return out;
}

}  // namespace mprdma::figures
