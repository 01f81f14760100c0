// Figure rocescale/storm: what one NIC that pauses without end blocks, and what watchdogs save.
#include <fmt/format.h>

#include "evaluation/cases.hpp"
#include "evaluation/list.hpp"

namespace mprdma::figures {

namespace {

using switchsim::FlowResult;
using switchsim::Result;
using switchsim::SimSpan;
using switchsim::SimTime;

// The storm begins at kStorm; from kCalm on the time before it is compared, too.
constexpr SimTime kCalm = SimTime() + SimSpan::us(4'000);
constexpr SimTime kStorm = SimTime() + SimSpan::us(8'000);

bool of_the_nic(const FlowResult& flow) {
  return flow.from == "h1" || flow.to == "h1";
}

// Of the connections between other servers, those that move less than a tenth of what they did from
// 1 ms to `until`: from there to `end`, the second half of that time.
double blocked_between(const Result& result, SimTime until, SimTime end) {
  const SimTime late = until + SimSpan::ps((end - until).count_ps() / 2);
  double blocked = 0;
  double all = 0;
  for (size_t i = 0; i < result.flows.size(); ++i) {
    if (of_the_nic(result.flows[i])) continue;
    ++all;
    const double before = result.goodput_bps_between(i, SimTime() + SimSpan::us(1'000), until);
    const double after = result.goodput_bps_between(i, late, end);
    blocked += after < before / 10 ? 1 : 0;
  }
  return blocked / all;
}
double blocked_before(const Result& result) {
  return blocked_between(result, kCalm, kStorm);
}
double blocked_share(const Result& result) {
  return blocked_between(result, kStorm, result.end);
}

Curve total_rate(const Cases& cases, const Case& one) {
  const Result& result = cases.first(one.id);
  std::vector<uint64_t> sum(result.time_us.size());
  for (const FlowResult& flow : result.flows) {
    if (of_the_nic(flow)) continue;
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += flow.delivered_series[i];
  }
  return rate_curve(one.name, result.time_us, sum, 2);
}

}  // namespace

FigureResult pause_storm(const Figure& figure, const RunOptions& options) {
  const Cases cases(figure, options,
                    {{"none", "no watchdog", {}},
                     {"nic", "watchdog at the NIC", {"nic_watchdog_us=2_000"}},
                     {"switch", "watchdog at the switch", {"switch_watchdog_us=2_000"}}},
                    {"duration_us=24_000", "topology.leaves=3"});
  FigureResult out;
  const std::string what = "connections between other servers that are blocked / all";
  cases.claim("none", "before", what + ", before the storm", "<= 0", blocked_before, "", &out);
  cases.claim("none", "blocked", what, ">= 0.9", blocked_share, "", &out);
  cases.claim("nic", "blocked", what, "<= 0", blocked_share, "", &out);
  cases.claim("switch", "blocked", what, "<= 0", blocked_share, "", &out);
  cases.report(
      "nic", "trips", "trips",
      [](const Result& r) { return static_cast<double>(r.nic_watchdog_trips); }, "", &out);
  cases.report(
      "switch", "trips", "trips",
      [](const Result& r) { return static_cast<double>(r.switch_watchdog_trips); }, "", &out);
  Panel panel{"Between other servers", "time, ms", "goodput, Gb/s", {}};
  for (const Case& one : cases.all()) panel.curves.push_back(total_rate(cases, one));
  out.panels.push_back(panel);
  out.own_targets();
  cases.finish(
      "leaf1-spine1",
      "A leaf-spine of servers at 40 Gb/s, each sends messages of 64 KB to every other "
      "one; after 8 ms the NIC of server 1 pauses its ToR and does not end that. A "
      "watchdog acts after 2 ms: that of the NIC ends the pause, that of the switch drops "
      "what is for the server until that has not paused for as long; PFC with a pause at 100 KB",
      "The slides give no numbers; real watchdogs wait for 100 ms and more. What the "
      "server itself sends is not dropped.",
      &out);
  out.seen = "One NIC blocks the network; either watchdog frees it";
  return out;
}

}  // namespace mprdma::figures
