// Figure rocescale/latency: how long small messages take before and while a shuffle runs.
#include <fmt/format.h>

#include <algorithm>

#include "evaluation/cases.hpp"
#include "evaluation/list.hpp"

namespace mprdma::figures {

namespace {

using switchsim::Result;
using switchsim::SimSpan;
using switchsim::SimTime;

constexpr SimTime kShuffle = SimTime() + SimSpan::us(10'000);
constexpr SimSpan kSettled = SimSpan::us(1'000);

// Percentile of the small messages that were posted in [from, to), us.
double percentile_us(const Result& result, double share, SimTime from, SimTime to) {
  std::vector<double> times;
  for (const switchsim::FlowResult& flow : result.flows) {
    if (!flow.name.starts_with("small")) continue;
    for (const switchsim::MessageRecord& message : flow.messages) {
      if (message.posted < from || message.posted >= to) continue;
      times.push_back(static_cast<double>(message.fct().count_ps()) / 1e6);
    }
  }
  if (times.empty()) return 0;
  std::sort(times.begin(), times.end());
  const auto at = static_cast<size_t>(share * static_cast<double>(times.size()));
  return times[std::min(at, times.size() - 1)];
}

double before_us(const Result& result, double share) {
  return percentile_us(result, share, SimTime() + kSettled, kShuffle);
}
double during_us(const Result& result, double share) {
  return percentile_us(result, share, kShuffle + kSettled, result.end);
}

double shuffle_gbps(const Result& result) {
  return goodput_from(result, "shuffle", kShuffle + kSettled);
}

Curve over_time(const Cases& cases, const Case& one) {
  constexpr SimSpan kStep = SimSpan::us(500);
  const Result& result = cases.first(one.id);
  Curve curve{one.name, {}, {}};
  for (SimTime from = SimTime() + kSettled; from + kStep <= result.end; from = from + kStep) {
    curve.x.push_back(static_cast<double>(from.ps()) / 1e9);
    curve.y.push_back(percentile_us(result, 0.99, from, from + kStep));
  }
  return curve;
}

}  // namespace

FigureResult shuffle_latency(const Figure& figure, const RunOptions& options) {
  const switchsim::Overrides step = {"topology.red=[1.0, 20_000, 100_000]"};
  const Cases cases(figure, options,
                    {{"roce", "RoCE, DCQCN with PFC", {}},
                     {"irn", "IRN with PFC", {"transport.preset=irn"}},
                     {"mp", "mp", with({"transport.preset=mp"}, step)}},
                    {"duration_us=16_000"});
  FigureResult out;
  for (const Case& one : cases.all()) {
    for (const auto& [key, share] : {std::pair("p50", 0.5), std::pair("p99", 0.99)}) {
      const std::string text = share < 0.9 ? "median" : "99th percentile";
      cases.report(
          one.id, fmt::format("before.{}", key), text + " of small messages, before",
          [s = share](const Result& r) { return before_us(r, s); }, "us", &out);
      cases.report(
          one.id, fmt::format("during.{}", key), text + " of small messages, shuffle",
          [s = share](const Result& r) { return during_us(r, s); }, "us", &out);
    }
    cases.report(one.id, "shuffle", "goodput of the shuffle", shuffle_gbps, "Gb/s", &out);
  }
  cases.claim(
      "roce", "rise", "99th percentile of small messages: during / before", ">= 2",
      [](const Result& r) { return during_us(r, 0.99) / before_us(r, 0.99); }, "x", &out);
  const double roce = cases.over("roce", [](const Result& r) { return during_us(r, 0.99); }).mean;
  cases.claim(
      "mp", "against-roce", "99th percentile during the shuffle: mp / RoCE", "< 1",
      [&](const Result& r) { return during_us(r, 0.99) / roce; }, "x", &out);
  Panel panel{"SENDs of 512 B, a shuffle from 10 ms on", "time, ms", "99th percentile, us", {}};
  for (const Case& one : cases.all()) panel.curves.push_back(over_time(cases, one));
  out.panels.push_back(panel);
  out.own_targets();
  cases.finish("leaf1-spine1",
               "16 servers under two ToRs, 4 spines; four pairs exchange 512 B, each message when "
               "the last is complete; from 10 ms on every server sends messages of 256 KB to every "
               "other one",
               "The slides show the rise and no numbers that could be read; the traffic is ours.",
               &out);
  out.seen = "Small messages wait behind a shuffle: high throughput and low latency compete";
  return out;
}

}  // namespace mprdma::figures
