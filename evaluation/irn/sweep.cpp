// Figure irn/sweep: IRN without PFC against RoCE with PFC over the rate of the links, the load, the
// number of servers, the buffers and the sizes of the messages.
#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "evaluation/cases.hpp"
#include "evaluation/irn/forms.hpp"
#include "evaluation/list.hpp"

namespace mprdma::figures {

namespace {

using irn::Form;
using irn::Transport;
using switchsim::Overrides;
using switchsim::Result;

struct Point {
  std::string id;
  std::string name;
  Overrides changes;        // for every form
  Overrides for_roce = {};  // and for RoCE
  bool small = false;       // also at the small size
};

// Buffers and the cap of BDP-FC grow with the rate; the pause leaves a bandwidth-delay product
// free.
Point at_rate(uint32_t gbps, bool small) {
  const uint32_t bdp_packets = 110 * gbps / 40;
  const uint32_t buffer = 240'000 * (gbps / 10) / 4;
  return {fmt::format("rate-{}", gbps),
          fmt::format("{} Gb/s", gbps),
          {fmt::format("topology.access_gbps={}", gbps),
           fmt::format("transport.initial_window={}", bdp_packets),
           fmt::format("transport.window_slots={}", std::bit_ceil(std::max(bdp_packets, 128U))),
           fmt::format("topology.queue_bytes={}", buffer)},
          {fmt::format("topology.pause_bytes={}", buffer - buffer / 12)},
          small};
}
Point at_load(uint32_t percent, bool small = false) {
  return {fmt::format("load-{}", percent),
          fmt::format("load {} %", percent),
          {fmt::format("traffic[0].load={}", percent / 100.0)},
          {},
          small};
}
Point at_scale(uint32_t k) {
  return {fmt::format("k-{}", k),
          fmt::format("{} servers", k * k * k / 4),
          {fmt::format("topology.k={}", k)},
          {},
          false};
}
Point at_buffer(uint32_t kilobytes, bool small = false) {
  return {fmt::format("buffer-{}", kilobytes),
          fmt::format("buffer {} KB", kilobytes),
          {fmt::format("topology.queue_bytes={}", kilobytes * 1000)},
          {fmt::format("topology.pause_bytes={}", kilobytes * 1000 - 20'000)},
          small};
}
Point of_workload(const char* cdf) {
  return {fmt::format("sizes-{}", cdf),
          fmt::format("sizes {}", cdf),
          {fmt::format("traffic[0].cdf={}", cdf)},
          {},
          false};
}

std::vector<Point> points(bool ci) {
  std::vector<Point> all = {at_rate(10, true),
                            at_rate(40, false),
                            at_rate(100, false),
                            at_load(30),
                            at_load(50),
                            at_load(90, true),
                            at_scale(4),
                            at_scale(8),
                            at_buffer(60),
                            at_buffer(120, true),
                            at_buffer(480),
                            of_workload("websearch_dctcp"),
                            of_workload("fbhadoop_hpcc"),
                            of_workload("alistorage2019")};
  if (ci) std::erase_if(all, [](const Point& point) { return !point.small; });
  return all;
}

struct Measure {
  const char* id;
  const char* name;
  double (*value)(const Result&);
};
constexpr Measure kMeasures[] = {
    {"fct", "mean FCT", [](const Result& r) { return r.fct.all().mean_us; }},
    {"tail", "99th percentile of FCT", [](const Result& r) { return r.fct.all().p99_us; }},
    {"slowdown", "mean slowdown", [](const Result& r) { return r.fct.all().slowdown_mean; }},
};

// Why the target of a point is not asserted; null: it is.
const char* why_reported(const Point& point, const Measure& measure, bool ci) {
  if (ci && std::string_view(measure.id) == "tail") return irn::kFew;
  if (point.id != "buffer-60" || std::string_view(measure.id) == "slowdown") return nullptr;
  return "a port holds half of a bandwidth-delay product: IRN, which has no congestion control "
         "here, loses 18 % of its packets (6.5 % at 240 KB), for which messages above 100 KB pay";
}

// All three transports at each point.
std::vector<Case> cases_of(const std::vector<Point>& all) {
  const Form irn{Transport::kIrn};
  const Form roce{Transport::kRoce, irn::Control::kNone, true};
  const Form mp{Transport::kMp};
  std::vector<Case> list;
  for (const Point& point : all) {
    const Overrides here = with({"traffic[0].stop_us=10_000"}, point.changes);
    list.push_back({point.id + ".irn", point.name + ", IRN", with(changes_of(irn), here)});
    list.push_back({point.id + ".roce", point.name + ", RoCE with PFC",
                    with(with(changes_of(roce), here), point.for_roce)});
    list.push_back({point.id + ".mp", point.name + ", mp",
                    with(changes_of(mp), with(here, point.id.starts_with("rate")
                                                        ? Overrides{"transport.initial_window=54"}
                                                        : Overrides{}))});
  }
  return list;
}

// mp at a point; `base`: the mean of RoCE.
void report_mp(const Cases& cases, const Point& point, const Measure& measure, const Summary& mp,
               double base, FigureResult* out) {
  out->report(fmt::format("sweep.{}.{}.mp", point.id, measure.id),
              fmt::format("{}: {}: mp / RoCE with PFC", point.name, measure.name), "",
              mp.mean / base, mp.deviation / base, "", "");
  const auto to_irn = [&](const Result& of_mp, const Result& of_irn) {
    return measure.value(of_mp) / measure.value(of_irn);
  };
  const Summary ratio = cases.between(point.id + ".mp", point.id + ".irn", to_irn);
  out->report(fmt::format("sweep.{}.{}.mp-irn", point.id, measure.id),
              fmt::format("{}: {}: mp / IRN without PFC", point.name, measure.name), "", ratio.mean,
              ratio.deviation, "", "");
}

}  // namespace

FigureResult irn_sweep(const Figure& figure, const RunOptions& options) {
  const std::vector<Point> all = points(options.ci());
  const Cases cases(figure, options, cases_of(all), {"topology.k=4", "traffic[0].stop_us=5_000"});
  FigureResult out;
  for (const Measure& measure : kMeasures) {
    Panel panel{fmt::format("{}, IRN without PFC / RoCE with PFC", measure.name), "", "ratio", {}};
    Curve curve{"IRN", {}, {}, {}, Stroke::kBars, 0};
    Curve beside{"mp", {}, {}, {}, Stroke::kBars, 1};
    for (const Point& point : all) {
      const double base = cases.over(point.id + ".roce", measure.value).mean;
      const Summary ours = cases.over(point.id + ".irn", measure.value);
      const Summary theirs = cases.over(point.id + ".mp", measure.value);
      const std::string id = fmt::format("sweep.{}.{}", point.id, measure.id);
      const std::string what =
          fmt::format("{}: {}: IRN without PFC / RoCE with PFC", point.name, measure.name);
      if (const char* const note = why_reported(point, measure, options.ci())) {
        out.report(id, what, "< 1", ours.mean / base, ours.deviation / base, "", note);
      } else {
        out.claim(id, what, "< 1", ours.mean / base, ours.deviation / base, "");
      }
      report_mp(cases, point, measure, theirs, base, &out);
      panel.categories.push_back(point.name);
      for (const auto& [bars, value] : {std::pair(&curve, &ours), std::pair(&beside, &theirs)}) {
        bars->x.push_back(static_cast<double>(bars->x.size()));
        bars->y.push_back(value->mean / base);
        bars->error.push_back(value->deviation / base);
      }
    }
    panel.marks = {{1, "RoCE with PFC", false}};
    panel.curves = {curve, beside};
    out.panels.push_back(panel);
  }
  out.own_targets();
  cases.finish("h1",
               fmt::format("The set-up of irn/fct with {} ms of arrivals, one thing changed at a "
                           "time: {} servers, links of 40 Gb/s, load 70 %, buffers of 240 KB for "
                           "each port, IRN-like heavy-tailed sizes",
                           options.ci() ? 5 : 10, cases.scenario("load-90.irn").topology.hosts),
               "The slides say that the result holds over rates, loads, scales, buffers and "
               "workloads, and show no values. Timeouts stay at 100 and 320 us.",
               &out);
  out.seen =
      "IRN without PFC has a lower mean FCT than RoCE with it where ports hold a BDP or more";
  return out;
}

}  // namespace mprdma::figures
