// Figure rocescale/livelock: a switch that drops one packet of 256, and four ways to recover.
#include <fmt/format.h>

#include "evaluation/cases.hpp"
#include "evaluation/list.hpp"

namespace mprdma::figures {

namespace {

using switchsim::Result;

struct Recovery {
  const char* id;
  const char* name;
  switchsim::Overrides changes;
};
const Recovery kRecoveries[] = {
    {"go-back-0", "go-back-0", {"transport.preset=roce-gb0"}},
    {"go-back-n", "go-back-N", {"transport.preset=roce"}},
    // The cap of BDP-FC is that of the longest path of a network, as in irn/fct; this one is
    // shorter.
    {"irn",
     "IRN",
     {"transport.preset=irn", "transport.initial_window=110", "transport.window_max=128"}},
    {"mp", "mp", {"transport.preset=mp"}},
};
constexpr const char* kOperations[] = {"send", "write", "read"};

// What is complete. Go-back-0 places the begin of a message again and again.
double completed(const Result& result) {
  return static_cast<double>(result.flows[0].messages_completed);
}

}  // namespace

FigureResult livelock(const Figure& figure, const RunOptions& options) {
  std::vector<Case> list;
  for (const Recovery& recovery : kRecoveries) {
    for (const char* operation : kOperations) {
      list.push_back({fmt::format("{}.{}", recovery.id, operation),
                      fmt::format("{}, {}", recovery.name, operation),
                      with(recovery.changes, {fmt::format("flow[0].operation={}", operation)})});
    }
  }
  const Cases cases(figure, options, list, {"duration_us=16_000"});
  FigureResult out;
  Panel panel{"4 MB messages, one packet of 256 is dropped", "", "goodput, share of the link", {}};
  Curve curve{"", {}, {}, {}, Stroke::kBars, 0};
  for (const Case& one : cases.all()) {
    const switchsim::Scenario& scenario = cases.scenario(one.id);
    const double ceiling = ceiling_bps(scenario, scenario.link("bottleneck"));
    const auto share = [&](const Result& r) {
      return completed(r) == 0 ? 0 : r.goodput_bps / ceiling;
    };
    const std::string what = "goodput of whole messages / ceiling";
    if (one.id.starts_with("go-back-0")) {
      cases.claim(one.id, "messages", "messages that ever completed", "<= 0", completed, "", &out);
      out.paper("0");
    } else if (one.id.starts_with("go-back-n")) {
      cases.claim(one.id, "goodput", what, "> 0.5", share, "", &out);
      out.own_target();
    } else {
      cases.claim(one.id, "goodput", what, "> 0.95", share, "", &out);
      out.own_target();
    }
    const Summary value = cases.over(one.id, share);
    panel.categories.push_back(one.name);
    curve.x.push_back(static_cast<double>(curve.x.size()));
    curve.y.push_back(value.mean);
    curve.error.push_back(value.deviation);
  }
  panel.curves.push_back(curve);
  out.panels.push_back(panel);
  cases.finish(
      "bottleneck",
      "One connection, SEND, WRITE or READ of 4 MB, over links of 40 Gb/s and a switch "
      "that drops each 256th packet of either direction, with PFC",
      "The slides' switch drops one packet of 256, by no rule that they name; here it counts "
      "them. With a cap of exactly one bandwidth-delay product of this "
      "path IRN would stop for a round trip at each loss. RoCE's timeout is 0.5 ms. The shares "
      "that go-back-N and the others have to reach are ours.",
      &out);
  out.seen = "Go-back-0 delivers nothing, go-back-N most, selective retransmission all";
  return out;
}

}  // namespace mprdma::figures
