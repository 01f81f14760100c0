// Figure article/timely: DCQCN shares a bottleneck, TIMELY keeps its queue short and does not; the
// correction that lets TIMELY share makes the queue grow with the number of connections.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "evaluation/cases.hpp"
#include "evaluation/list.hpp"

namespace mprdma::figures {

namespace {

using switchsim::Overrides;
using switchsim::Result;

struct Control {
  const char* id;
  const char* name;
  Overrides changes;
  // Targets; empty: reported only.
  const char* jain;    // Jain's index of more than two connections
  const char* queue;   // mean queue, us
  const char* growth;  // queue of sixteen connections / of two
  const char* moved;   // what two beginnings change of a connection's rate
};
// A queue of Kmax, 200 KB, at 10 Gb/s takes 160 us.
const Control kControls[] = {
    {"dcqcn",
     "DCQCN",
     {"transport.congestion=dcqcn-paper", "topology.red=[0.01, 5_000, 200_000]"},
     ">= 0.9",
     "<= 160",
     "<= 2",
     "<= 0.2"},
    {"timely", "TIMELY", {"transport.congestion=timely"}, "<= 0.8", "", "", ">= 0.5"},
    {"patched",
     "TIMELY, patched",
     {"transport.congestion=timely-patched"},
     ">= 0.99",
     "",
     ">= 2.5",
     "<= 0.1"},
};

// Hosts of one side of the dumbbell, as an override has them.
std::string hosts(char side, int first, int last) {
  std::string list;
  for (int i = first; i <= last; ++i) {
    list += fmt::format("{}\"{}{}\"", list.empty() ? "" : ", ", side, i);
  }
  return "[" + list + "]";
}

struct Begin {
  const char* id;
  const char* name;
  Overrides changes;
};
const Begin kBegins[] = {
    {"two",
     "two connections",
     {"flow[first].from=l1", "flow[first].to=r1", "flow[second].from=l5", "flow[second].to=r5"}},
    {"eight", "eight connections", {}},
    {"sixteen",
     "sixteen connections",
     // They begin at the link's rate with full windows, of which patched TIMELY is rid after 0.4 s.
     {"warm_up_us=500_000", "duration_us=600_000", "topology.pairs=16",
      "flow[first].from=" + hosts('l', 1, 8), "flow[first].to=" + hosts('r', 1, 8),
      "flow[second].from=" + hosts('l', 9, 16), "flow[second].to=" + hosts('r', 9, 16)}},
    {"later", "eight, four of them 20 ms later", {"flow[second].start_us=20_000"}},
};

double queue_us(const Result& result) {
  const switchsim::PortResult* port = result.port_named("bottleneck.ab");
  return port->queue_mean_bytes * 8e6 / static_cast<double>(port->rate.bits_per_second());
}

double jain(const Result& result) {
  return result.jain;
}

// Where there is one fix point, a connection comes to its rate however all began. The largest
// difference of a connection's rate, / the mean rate.
double moved(const Result& result, const Result& other) {
  double most = 0;
  double sum = 0;
  for (size_t i = 0; i < result.flows.size(); ++i) {
    most = std::max(most, std::abs(result.flows[i].goodput_bps - other.flows[i].goodput_bps));
    sum += result.flows[i].goodput_bps;
  }
  return most * static_cast<double>(result.flows.size()) / sum;
}

struct Measure {
  const char* key;
  const char* what;
  const char* target;  // empty: reported only
  Cases::Value value;
  const char* unit;
};
void claim_or_report(const Cases& cases, const std::string& id, const Measure& measure,
                     FigureResult* out) {
  if (*measure.target != '\0') {
    cases.claim(id, measure.key, measure.what, measure.target, measure.value, measure.unit, out);
  } else {
    cases.report(id, measure.key, measure.what, measure.value, measure.unit, out);
  }
}

Panel panel_of(const Cases& cases, const std::string& axis, const Cases::Value& value) {
  Panel panel{"A bottleneck of 10 Gb/s", "", axis, {}};
  for (const Begin& begin : kBegins) panel.categories.emplace_back(begin.name);
  int colour = 0;
  for (const Control& control : kControls) {
    Curve curve{control.name, {}, {}, {}, Stroke::kBars, colour++};
    for (const Begin& begin : kBegins) {
      const Summary summary = cases.over(fmt::format("{}.{}", control.id, begin.id), value);
      curve.x.push_back(static_cast<double>(curve.x.size()));
      curve.y.push_back(summary.mean);
      curve.error.push_back(summary.deviation);
    }
    panel.curves.push_back(curve);
  }
  return panel;
}

}  // namespace

FigureResult dcqcn_against_timely(const Figure& figure, const RunOptions& options) {
  std::vector<Case> list;
  for (const Control& control : kControls) {
    for (const Begin& begin : kBegins) {
      list.push_back({fmt::format("{}.{}", control.id, begin.id),
                      fmt::format("{}, {}", control.name, begin.name),
                      with(control.changes, begin.changes)});
    }
  }
  const Cases cases(figure, options, list, {});
  FigureResult out;
  Panel beginnings{"Eight connections, two beginnings", "", "change of a rate / mean rate", {}};
  int colour = 0;
  for (const Control& control : kControls) {
    for (const Begin& begin : kBegins) {
      const std::string id = fmt::format("{}.{}", control.id, begin.id);
      const bool two = std::string_view(begin.id) == "two";
      claim_or_report(cases, id, {"jain", "Jain's index", two ? "" : control.jain, jain, ""}, &out);
      claim_or_report(cases, id, {"queue", "mean queue", control.queue, queue_us, "us"}, &out);
    }
    const double of_two = cases.over(fmt::format("{}.two", control.id), queue_us).mean;
    const double growth = cases.over(fmt::format("{}.sixteen", control.id), queue_us).mean / of_two;
    const std::string name = fmt::format("timely.{}.growth", control.id);
    const std::string what = fmt::format("{}: queue of sixteen connections / of two", control.name);
    if (*control.growth != '\0') {
      out.claim(name, what, control.growth, growth, 0, "x");
    } else {
      out.report(name, what, "", growth, 0, "x", "");
    }
    const Summary change = cases.between(fmt::format("{}.eight", control.id),
                                         fmt::format("{}.later", control.id), moved);
    out.claim(fmt::format("timely.{}.moved", control.id),
              fmt::format("{}: what the beginning changes of a connection's rate, of eight, at "
                          "most / mean rate",
                          control.name),
              control.moved, change.mean, change.deviation, "");
    beginnings.curves.push_back(
        {control.name, {0}, {change.mean}, {change.deviation}, Stroke::kBars, colour++});
  }
  out.panels.push_back(panel_of(cases, "Jain's index", jain));
  out.panels.push_back(panel_of(cases, "mean queue, us", queue_us));
  beginnings.categories = {""};
  out.panels.push_back(beginnings);
  out.own_targets();
  cases.finish("bottleneck",
               "Connections of RoCE at a bottleneck of 10 Gb/s, round trip 20 us, nothing is lost; "
               "two, eight or sixteen from the same time on, or four that have the link for "
               "themselves for 20 ms before four others come; what counts is the time from 200 to "
               "300 ms, with sixteen connections from 500 to 600 ms",
               "The article has a table of properties, and says that DCQCN can be fair with a "
               "bounded delay where TIMELY cannot; the bounds are ours, that of DCQCN's delay Kmax "
               "(200 KB). Rates and the patch are those of the papers.",
               &out);
  out.seen =
      "TIMELY is not fair, and its rates depend on the beginning; the patched one is fair, with a "
      "queue that grows with the connections; DCQCN is, with a queue below Kmax";
  return out;
}

}  // namespace mprdma::figures
