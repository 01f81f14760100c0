// Figure 1: how far out of order packets come in without control.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "evaluation/list.hpp"
#include "evaluation/mp_rdma/wide_study.hpp"

namespace mprdma::figures {

namespace {

constexpr double kPaperBytes = 1200;

using Tails = std::array<Summary, kPathStates.size()>;  // by state of path 4

WideRun open_run(const WideSeries& series, const PathState& state) {
  return {series.variant, &state, kOpen, series.begin};
}

// Two bits a packet, as in the paper's bitmap (Empty, Received, Tail, Tail with completion).
double bitmap_bytes(double packets) {
  return packets * 2 / 8;
}

void add_claims(const WideSeries& series, const Tails& tails, FigureResult* out) {
  for (size_t s = 0; s < tails.size(); ++s) {
    out->report(fmt::format("1.{}.{}", series.id, kPathStates[s].id),
                fmt::format("{}, {}: 99.9th percentile", series.name, kPathStates[s].name), "",
                tails[s].mean, tails[s].deviation, "packets", "");
  }
  for (size_t s = 1; s < tails.size(); ++s) {
    const std::string id = fmt::format("1.{}.order-{}", series.id, s);
    const std::string what =
        fmt::format("{}: {} / {}", series.name, kPathStates[s].name, kPathStates[s - 1].name);
    const double ratio = tails[s].mean / std::max(tails[s - 1].mean, 1.0);
    if (is_letter(series)) {
      out->report(id, what, "> 1", ratio, 0, "x", "the paper's letter, to compare");
    } else {
      out->claim(id, what, "> 1", ratio, 0, "x");
    }
  }
  out->report(fmt::format("1.{}.bitmap", series.id),
              fmt::format("{}, {}: bitmap of two bits a packet (paper: up to 1200 bytes)",
                          series.name, kPathStates.back().name),
              "", bitmap_bytes(tails.back().mean), 0, "bytes", "");
}

// Converts the paper's bitmap to a queue of the slow path, at the rate of one connection.
void compare_bitmap(const switchsim::Scenario& scenario, FigureResult* out) {
  constexpr double kSlowGbps = 1;
  const double others = static_cast<double>(scenario.paths.size() - 1);
  const double link_gbps =
      static_cast<double>(scenario.topology.links[scenario.paths[0]].ab.rate.bits_per_second()) /
      1e9;
  const double share_gbps =
      (others * link_gbps + kSlowGbps) / static_cast<double>(scenario.flows.size());
  const double packets = kPaperBytes * 8 / 2;
  // The bytes that the slow path carries while the other paths deliver `packets`.
  const double wire =
      switchsim::data_wire_bytes(scenario.flows[0].operation, scenario.flows[0].path_mtu);
  const double queue_kb = packets * wire / share_gbps * kSlowGbps / 1e3;
  out->report("1.bitmap.queue", "queue of the slow path that the paper's 1200 bytes stand for", "",
              queue_kb, 0, "KB",
              fmt::format("its marking begins at {:.4g} KB here, so that packets come as much less "
                          "late",
                          scenario.topology.links[scenario.paths[0]].ab.red.kmin_bytes / 1e3));
}

Panel bitmap_panel(const FigureResult& figure) {
  Panel panel{"Bitmap of two bits a packet, path 4 at 1 Gb/s", "", "bytes", {}};
  Curve curve{"", {}, {}, {}, Stroke::kBars, 0};
  for (const WideSeries& series : kWideSeries) {
    const std::string id = fmt::format("1.{}.bitmap", series.id);
    for (const Claim& claim : figure.claims) {
      if (claim.id != id) continue;
      curve.x.push_back(static_cast<double>(curve.x.size()));
      curve.y.push_back(claim.value.value_or(0));
      panel.categories.emplace_back(series.name);
    }
  }
  panel.curves = {curve};
  panel.marks = {{kPaperBytes, "paper: up to 1.2 KB", true}};
  panel.legend = false;
  panel.ymax = 1300;
  return panel;
}

Curve bars(const WideSeries& series, const Tails& tails, int colour) {
  Curve curve{series.name, {}, {}, {}, Stroke::kBars, colour};
  for (size_t s = 0; s < tails.size(); ++s) {
    curve.x.push_back(static_cast<double>(s));
    curve.y.push_back(tails[s].mean);
    curve.error.push_back(tails[s].deviation);
  }
  return curve;
}

}  // namespace

FigureResult reordering(const Figure& figure, const RunOptions& options) {
  FigureResult out;
  WideStudy study(figure, options);
  // A small run has the first series only.
  const size_t count = options.ci() ? 1 : kWideSeries.size();
  for (size_t i = 0; i < count; ++i) {
    for (const PathState& state : kPathStates) study.add(open_run(kWideSeries[i], state));
  }
  study.run();
  Panel panel{"", "", "99.9th percentile of the out-of-order degree, packets", {}};
  for (size_t i = 0; i < count; ++i) {
    Tails tails;
    for (size_t s = 0; s < tails.size(); ++s) {
      tails[s] = study.tail(open_run(kWideSeries[i], kPathStates[s]));
    }
    add_claims(kWideSeries[i], tails, &out);
    panel.curves.push_back(bars(kWideSeries[i], tails, static_cast<int>(i)));
  }
  for (const PathState& state : kPathStates) panel.categories.emplace_back(state.name);
  compare_bitmap(load(figure.scenario), &out);
  out.panels.push_back(panel);
  out.panels.push_back(bitmap_panel(out));
  study.claim_sound(&out);
  study.describe_to(&out);
  out.deviations =
      "Claimed is the order of the three, not the size of the bitmap, which follows from the queue "
      "of the slow path. " +
      out.deviations;
  out.seen = "Without control a bad path brings packets in hundreds of places too late";
  return out;
}

}  // namespace mprdma::figures
