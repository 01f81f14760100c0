// Figure 14(a): how far out of order packets come in, by delta.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "evaluation/list.hpp"
#include "evaluation/mp_rdma/wide_study.hpp"

namespace mprdma::figures {

namespace {

constexpr std::array<uint32_t, 4> kDeltas = {16, 32, 64, kOpen};

std::string delta_name(uint32_t delta) {
  return delta == kOpen ? "no control" : fmt::format("delta = {}", delta);
}

// The claim for a delta: how many times smaller it makes the tail than without control.
struct Gain {
  const PathState* state;
  uint32_t delta;
  Begin begin;
  const char* target;
};
constexpr std::array<Gain, 4> kGains = {{{&kPathStates[1], 32, Begin::kSteady, ">= 5"},
                                         {&kPathStates[2], 32, Begin::kSteady, ">= 15"},
                                         {&kPathStates[2], 32, Begin::kStart, ">= 30"},
                                         {&kPathStates[2], 16, Begin::kStart, ">= 40"}}};

constexpr const char* kStartNote =
    "the tail without control is as long as the first window puts packets on the slow path, which "
    "the seed draws: runs lie on both sides of the target";

// Adds the runs that a gain compares and, at full size, all that are drawn.
void add_runs(const RunOptions& options, WideStudy* study) {
  for (const WideSeries& series : kWideSeries) {
    if (options.ci() && is_letter(series)) continue;
    for (const Gain& gain : kGains) {
      if (gain.begin != series.begin) continue;
      study->add({series.variant, gain.state, gain.delta, series.begin});
      study->add({series.variant, gain.state, kOpen, series.begin});
    }
    if (options.ci()) continue;
    for (const PathState& state : kPathStates) {
      for (const uint32_t delta : kDeltas) {
        study->add({series.variant, &state, delta, series.begin});
      }
    }
  }
}

void add_gain(const WideStudy& study, const WideSeries& series, const Gain& gain,
              FigureResult* out) {
  const Summary with = study.tail({series.variant, gain.state, gain.delta, series.begin});
  const Summary without = study.tail({series.variant, gain.state, kOpen, series.begin});
  const std::string id = fmt::format("14a.{}.{}.gain-{}", series.id, gain.state->id, gain.delta);
  const std::string what =
      fmt::format("{}, {}: 99.9th percentile without control, {:.0f}, / delta = {}, {:.0f}{}",
                  series.name, gain.state->name, without.mean, gain.delta, with.mean,
                  gain.begin == Begin::kStart ? " (L = 2048 without control, 64 with it)" : "");
  const double value = without.mean / std::max(with.mean, 1.0);
  if (is_letter(series)) {
    out->report(id, what, gain.target, value, 0, "x", "the paper's letter, to compare");
  } else if (gain.begin == Begin::kStart && gain.delta == 32) {
    // Every draw has to reach this; the target is that of the mean.
    out->claim(id + ".least",
               fmt::format("{}, the same, least of the draws without control", series.name),
               ">= 20", without.least / std::max(with.mean, 1.0), 0, "times");
    out->own_target();
    out->explain(id, what, gain.target, value, without.deviation / std::max(with.mean, 1.0), "x",
                 kStartNote);
  } else {
    out->claim(id, what, gain.target, value, 0, "x");
  }
  const bool papers = gain.state == &kPathStates[1];  // about 5 times: ECN misconfigured
  if (!papers) out->own_target();
}

void add_values(const WideStudy& study, const WideSeries& series, FigureResult* out) {
  for (const PathState& state : kPathStates) {
    for (const uint32_t delta : kDeltas) {
      const Summary tail = study.tail({series.variant, &state, delta, series.begin});
      out->report(
          fmt::format("14a.{}.{}.{}", series.id, state.id, delta),
          fmt::format("{}, {}, {}: 99.9th percentile", series.name, state.name, delta_name(delta)),
          "", tail.mean, tail.deviation, "packets", "");
    }
  }
}

Panel delta_panel(const WideStudy& study, const WideSeries& series) {
  Panel panel{series.name, "delta", "99.9th percentile of the out-of-order degree, packets", {}};
  for (size_t s = 0; s < kPathStates.size(); ++s) {
    Curve curve{kPathStates[s].name, {}, {}, {}, Stroke::kBars, static_cast<int>(s)};
    for (size_t d = 0; d < kDeltas.size(); ++d) {
      const Summary tail = study.tail({series.variant, &kPathStates[s], kDeltas[d], series.begin});
      curve.x.push_back(static_cast<double>(d));
      curve.y.push_back(tail.mean);
      curve.error.push_back(tail.deviation);
    }
    panel.curves.push_back(curve);
  }
  for (const uint32_t delta : kDeltas) {
    panel.categories.push_back(delta == kOpen ? delta_name(delta) : fmt::format("{}", delta));
  }
  return panel;
}

// Draws how many times smaller the tail is, beside the paper's values.
Panel gain_panel(const FigureResult& figure) {
  Panel panel{"Smaller than without control", "", "times", {}};
  Curve curve{"mp", {}, {}, {}, Stroke::kBars, 0};
  for (const Claim& claim : figure.claims) {
    if (claim.id.find(".mp") == std::string::npos || claim.unit != "x") continue;
    curve.x.push_back(static_cast<double>(curve.x.size()));
    curve.y.push_back(*claim.value);
  }
  panel.curves = {curve};
  panel.categories = {"ECN, delta 32", "1 Gb/s, 32", "1 Gb/s, 32,\\nstart-up",
                      "1 Gb/s, 16,\\nstart-up"};
  panel.marks = {{5, "paper, ECN misconfigured, delta = 32", true},
                 {50, "paper, 1 Gb/s, delta = 32", true}};
  panel.legend = false;
  return panel;
}

}  // namespace

FigureResult reordering_by_delta(const Figure& figure, const RunOptions& options) {
  FigureResult out;
  WideStudy study(figure, options);
  add_runs(options, &study);
  study.run();
  for (const WideSeries& series : kWideSeries) {
    if (options.ci() && is_letter(series)) continue;
    for (const Gain& gain : kGains) {
      if (gain.begin == series.begin) add_gain(study, series, gain, &out);
    }
  }
  out.panels.push_back(gain_panel(out));
  if (!options.ci()) {
    for (const WideSeries& series : kWideSeries) {
      add_values(study, series, &out);
      if (!is_letter(series)) out.panels.push_back(delta_panel(study, series));
    }
  }
  study.claim_sound(&out);
  study.describe_to(&out);
  out.deviations =
      "The paper reports 50 times for delta = 32 on the slow path and does not say whether the "
      "start is counted: the targets there, of the steady state and with the start, are ours. " +
      out.deviations;
  out.seen = "delta bounds how far out of order packets come in, whatever one path is like";
  return out;
}

}  // namespace mprdma::figures
