// Figure rocescale/ecmp: how much of the links between two pods connections use that take one path
// each, by the hash of ECMP, and connections that take all.
#include <fmt/format.h>

#include "evaluation/cases.hpp"
#include "evaluation/list.hpp"

namespace mprdma::figures {

namespace {

using switchsim::Overrides;

constexpr uint32_t kMost = 8;  // connections between two servers that the scenario has

Overrides connections(uint32_t count) {
  Overrides out;
  for (uint32_t i = count; i < kMost; ++i) out.push_back(fmt::format("traffic[{}].stop_us=0", i));
  return out;
}

std::vector<Case> cases_of_connections() {
  const Overrides dcqcn = {"transport.preset=dcqcn-paper", "topology.red=[0.01, 5_000, 200_000]"};
  std::vector<Case> out;
  for (const uint32_t count : {1, 2, 4, 8}) {
    out.push_back({fmt::format("roce-{}", count), fmt::format("RoCE with PFC, {} each", count),
                   with(connections(count), kRoce)});
  }
  out.push_back({"dcqcn-2", "RoCE, DCQCN with PFC, 2 each", with(connections(2), dcqcn)});
  out.push_back({"irn-2", "IRN, 2 each", with(connections(2), {"transport.preset=irn"})});
  out.push_back({"mp-1", "mp, 1 each", with(connections(1), {"transport.preset=mp"})});
  return out;
}

}  // namespace

FigureResult ecmp_utilisation(const Figure& figure, const RunOptions& options) {
  const Cases cases(figure, options, cases_of_connections(),
                    {"duration_us=8_000", "warm_up_us=3_000"});
  FigureResult out;
  // The links between the pods carry what all servers of a pod send, with the headers of the case.
  const std::string what = "goodput / ceiling of the links between the pods";
  Panel panel{"Each server of a pod sends to one of another pod", "", what, {}};
  Curve curve{"", {}, {}, {}, Stroke::kBars, 0};
  for (const Case& one : cases.all()) {
    const switchsim::Scenario& scenario = cases.scenario(one.id);
    const double ceiling =
        ceiling_bps(scenario, scenario.link("h1")) * (scenario.topology.hosts / 2.0);
    const auto share = [&](const switchsim::Result& r) { return r.goodput_bps / ceiling; };
    if (one.id == "mp-1") {
      cases.claim(one.id, "utilisation", what, ">= 0.95", share, "", &out);
      out.own_target();
    } else if (one.id == "roce-1") {
      cases.claim(one.id, "utilisation", what, "<= 0.7", share, "", &out);
      out.own_target();
      out.paper("60 %");
      cases.claim(one.id, "progress", what, ">= 0.5", share, "", &out);
      out.own_target();
    } else {
      cases.report(one.id, "utilisation", what, share, "", &out);
    }
    const Summary value = cases.over(one.id, share);
    panel.categories.push_back(one.name);
    curve.x.push_back(static_cast<double>(curve.x.size()));
    curve.y.push_back(value.mean);
    curve.error.push_back(value.deviation);
  }
  panel.marks = {{0.6, "slides: 3 of 5 Tb/s", true}};
  panel.curves.push_back(curve);
  out.panels.push_back(panel);
  cases.finish(
      "pod1-tor1-agg1",
      "Two pods of 8 ToRs, 4 servers each; 4 aggregation switches in a pod, 16 cores; each "
      "tier carries what all servers send (40 Gb/s each); each server of one pod sends to "
      "one of the other, over 1 to 8 connections, and receives from none; switches have PFC in all "
      "cases",
      "The slides have two podsets of 500 servers each and 5 Tb/s between them, whose "
      "servers sent 3 Tb/s; they do not say over how many connections: one between two servers "
      "comes nearest here. The bounds are ours.",
      &out);
  out.seen = "Connections that take one path each leave a part of the links idle, mp none";
  return out;
}

}  // namespace mprdma::figures
