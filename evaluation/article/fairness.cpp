// Figures article/fairness and article/hol: what PFC does to flows that share an ingress.
#include <fmt/format.h>

#include <algorithm>

#include "evaluation/cases.hpp"
#include "evaluation/list.hpp"

namespace mprdma::figures {

namespace {

using switchsim::Overrides;
using switchsim::Result;

std::vector<Case> transports() {
  return {{"pfc", "RoCE with PFC", kPfc},
          {"none", "RoCE without PFC", {}},
          {"dcqcn", "RoCE, DCQCN with PFC", with(kPfc, {"transport.preset=dcqcn-paper"})},
          {"irn", "IRN without PFC", {"transport.preset=irn"}},
          {"mp", "mp without PFC", {"transport.preset=mp"}}};
}

// The switches' marking, by what the case's transport needs.
Overrides marking(const std::string& red) {
  return {fmt::format("link[egress1].ab.red={}", red),
          fmt::format("link[ingress2].ab.red={}", red)};
}

std::vector<Case> cases_with_marks() {
  std::vector<Case> list = transports();
  for (Case& one : list) {
    if (one.id == "dcqcn") one.changes = with(one.changes, marking("[0.01, 5_000, 200_000]"));
    if (one.id == "mp") one.changes = with(one.changes, marking("[1.0, 20_000, 40_000]"));
  }
  return list;
}

double share(const Result& result, size_t flow) {
  double sum = 0;
  for (const switchsim::FlowResult& one : result.flows) sum += one.goodput_bps;
  return sum == 0 ? 0 : result.flows[flow].goodput_bps / sum;
}

double largest_share(const Result& result) {
  return std::max({share(result, 0), share(result, 1), share(result, 2)});
}

// Bars of each flow's goodput, by case; the first `flows` of them.
Panel bars(const Cases& cases, size_t flows, const std::string& title) {
  Panel panel{title, "", "goodput, Gb/s", {}};
  for (size_t flow = 0; flow < flows; ++flow) {
    Curve curve{cases.first(cases.all()[0].id).flows[flow].name,
                {},
                {},
                {},
                Stroke::kBars,
                static_cast<int>(flow)};
    for (const Case& one : cases.all()) {
      const Summary value =
          cases.over(one.id, [&](const Result& r) { return r.flows[flow].goodput_bps / 1e9; });
      curve.x.push_back(static_cast<double>(curve.x.size()));
      curve.y.push_back(value.mean);
      curve.error.push_back(value.deviation);
    }
    panel.curves.push_back(curve);
  }
  for (const Case& one : cases.all()) panel.categories.push_back(one.name);
  return panel;
}

}  // namespace

FigureResult pfc_fairness(const Figure& figure, const RunOptions& options) {
  const Cases cases(figure, options, cases_with_marks(),
                    {"duration_us=15_000", "warm_up_us=5_000"});
  FigureResult out;
  const auto advantage = [](const Result& r) { return 2 * share(r, 0) / (1 - share(r, 0)); };
  const std::string what = "goodput of flow 1 / mean of flows 2 and 3";
  cases.claim("pfc", "advantage", what, ">= 1.8", advantage, "x", &out);
  cases.claim("dcqcn", "advantage", what, "<= 1.5", advantage, "x", &out);
  cases.claim("irn", "advantage", what, "<= 1.1", advantage, "x", &out);
  // Without a pause go-back-N may leave a flow nothing, and no ratio to it means anything.
  for (const Case& one : cases.all()) {
    cases.report(one.id, "largest", "largest flow's share of the goodput of all three",
                 largest_share, "", &out);
  }
  cases.claim("none", "drops", kSwitchDrops, "> 0", drops_of_switches, "", &out);
  cases.claim(
      "mp", "imbalance", "the larger of flow 1 and the mean of 2 and 3 / the smaller", "<= 1.1",
      [&](const Result& r) { return std::max(advantage(r), 1 / advantage(r)); }, "x", &out);
  out.panels.push_back(bars(cases, 3, "Three flows to one port; 2 and 3 come in by one"));
  out.own_targets();
  cases.finish(
      "egress1",
      "Flow 1 comes into a switch by a port of its own, flows 2 and 3 by another; all leave "
      "by one of 40 Gb/s; links of 40 Gb/s",
      "The article draws it, without numbers.", &out);
  out.seen =
      "PFC pauses ports, not flows: one alone at its port has twice as much; with DCQCN, IRN or mp "
      "it has not";
  return out;
}

FigureResult head_of_line(const Figure& figure, const RunOptions& options) {
  // Flow 2 leaves by a port that nobody else uses, and shares its ingress with flow 3. Three flows
  // leave by the other one. What flow 2 sends and flow 3 may fits the ingress.
  const Overrides victim = {"flow[flow2].to=out2", "link[h2].rate_gbps=20",
                            "flow[flow4].stop_us=1e9"};
  std::vector<Case> list = cases_with_marks();
  for (Case& one : list) one.changes = with(victim, one.changes);
  const Cases cases(figure, options, list, {"duration_us=15_000", "warm_up_us=5_000"});
  FigureResult out;
  const double ceiling = ceiling_bps(cases.scenario("pfc"), cases.scenario("pfc").link("h2"));
  const auto of_free = [&](const Result& r) { return r.flows[1].goodput_bps / ceiling; };
  const std::string what = "goodput of flow 2, which leaves by a free port / ceiling of its link";
  cases.claim("pfc", "victim", what, "<= 0.9", of_free, "", &out);
  cases.report("none", "victim", what, of_free, "", &out);
  out.claims.back().note = "without pauses flows 2 and 3 may fill the ingress that they share";
  for (const char* id : {"dcqcn", "irn"}) {
    cases.claim(id, "victim", what, ">= 0.95", of_free, "", &out);
  }
  cases.claim("none", "drops", kSwitchDrops, "> 0", drops_of_switches, "", &out);
  cases.claim("mp", "victim", what, ">= 0.95", of_free, "", &out);
  out.panels.push_back(bars(cases, 4, "Flow 2 leaves by a free port, flow 3 by a busy one"));
  out.own_targets();
  cases.finish(
      "egress1",
      "Flows 1, 3 and 4 leave a switch by one port, flow 2 by another, which is free; 2 and 3 "
      "come in by the same; links of 40 Gb/s, that of flow 2's host 20 Gb/s",
      "The article draws it, without numbers.", &out);
  out.seen =
      "A pause for a busy port stops what goes to a free one, too; with DCQCN it does not, and IRN "
      "and mp need none";
  return out;
}

}  // namespace mprdma::figures
