// Figure rocescale/deadlock: flooded packets close a circle of pauses; where lossless packets are
// dropped instead there is none.
#include "evaluation/cases.hpp"
#include "evaluation/list.hpp"

namespace mprdma::figures {

namespace {

using switchsim::Result;
using switchsim::SimSpan;
using switchsim::SimTime;

double deadlocked(const Result& result) {
  return result.deadlock ? 1 : 0;
}

double live_gbps(const Result& result) {
  return goodput_from(result, "live", SimTime() + SimSpan::ps(result.end.ps() / 2));
}

Curve rate_of(const Cases& cases, const Case& one) {
  const Result& result = cases.first(one.id);
  Curve curve;
  for (size_t i = 0; i < result.flows.size(); ++i) {
    if (!result.flows[i].name.starts_with("live")) continue;
    const Curve more = rate_curve(one.name, result.time_us, result.flows[i].delivered_series, 5);
    if (curve.y.empty()) {
      curve = more;
    } else {
      for (size_t k = 0; k < curve.y.size(); ++k) curve.y[k] += more.y[k];
    }
  }
  return curve;
}

}  // namespace

FigureResult pfc_deadlock(const Figure& figure, const RunOptions& options) {
  const Cases cases(figure, options,
                    {{"flooding", "flooded, RoCE with PFC", {}},
                     {"dropped", "dropped, RoCE with PFC", {"topology.flood=false"}}},
                    {"duration_us=10_000"});
  FigureResult out;
  cases.claim("flooding", "deadlock", "runs in deadlock", ">= 1", deadlocked, "", &out);
  cases.claim("flooding", "live", "goodput between live servers, second half", "<= 0", live_gbps,
              "Gb/s", &out);
  cases.claim("dropped", "deadlock", "runs in deadlock", "<= 0", deadlocked, "", &out);
  cases.claim("dropped", "live", "goodput between live servers, second half", ">= 10", live_gbps,
              "Gb/s", &out);
  const Result& stuck = cases.first("flooding");
  cases.report(
      "flooding", "cycle", "ports in the circle",
      [](const Result& r) {
        return r.deadlock ? static_cast<double>(r.deadlock->cycle.size()) : 0;
      },
      "", &out);
  if (stuck.deadlock) {
    out.claims.back().note = stuck.deadlock->text();
  }
  Panel panel{"Between two live servers", "time, ms", "goodput, Gb/s", {}};
  for (const Case& one : cases.all()) panel.curves.push_back(rate_of(cases, one));
  out.panels.push_back(panel);
  out.own_targets();
  cases.finish(
      "t0-la",
      "Two ToRs and two leaves; servers 2 and 3, one under each ToR, die after 1 ms, their "
      "ToRs know their IP addresses and no port, and flood. Three servers send to 3 and to "
      "the live server 5 by leaf a, three under the other ToR to 2 by leaf b; PFC with a "
      "pause at 100 KB",
      "The slides give no rates or thresholds: 40 Gb/s, 1 us for a link; they draw one "
      "sender under each ToR, which did not close the circle here. An ingress counts each "
      "copy of a flooded packet.",
      &out);
  out.seen = "Flooding closes a circle of pauses, for ever; dropping what has no port cures it";
  return out;
}

}  // namespace mprdma::figures
