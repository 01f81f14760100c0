// A stream of small messages is followed by a large one: it starts from the initial window.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "evaluation/batch.hpp"
#include "evaluation/list.hpp"

namespace mprdma::figures {

namespace {

using switchsim::Result;
using switchsim::Scenario;

// The completion time of the large message, which is the last one of the scenario. A run without
// the small ones shows its time on an idle connection.
double large_us(const Result& result) {
  const auto& messages = result.flows[0].messages;
  const auto large =
      std::max_element(messages.begin(), messages.end(),
                       [](const auto& a, const auto& b) { return a.bytes < b.bytes; });
  return large == messages.end() ? 0 : static_cast<double>(large->fct().count_ps()) / 1e6;
}

// The time of the large message at the path's ceiling, without propagation.
double bound_us(const Scenario& scenario) {
  const switchsim::FlowSpec& flow = scenario.flows[0];
  const double bytes = static_cast<double>(flow.timed_messages.back().bytes);
  return bytes * 8e6 / ceiling_bps(scenario, scenario.paths[0]);
}

}  // namespace

FigureResult restart(const Figure& figure, const RunOptions& options) {
  FigureResult out;
  Batch batch(options);
  const std::array<const Variant*, 3> variants = {&kMp, &kShipped, &kPaper};
  const uint32_t seeds = options.ci() ? 2 : 5;
  for (const Variant* variant : variants) {
    Scenario scenario = load(figure.scenario, variant->overrides);
    batch.add(scenario, seeds);
    auto& messages = scenario.flows[0].timed_messages;
    messages.erase(messages.begin(), messages.end() - 1);
    batch.add(scenario, seeds);
  }
  batch.run();
  const Scenario& first = batch.scenario(0);
  Panel panel{"", "1 MiB, posted", "time to completion, us", {}};
  panel.categories = {"after 64 B messages", "on an idle connection"};
  for (size_t v = 0; v < variants.size(); ++v) {
    const Summary after = batch.over(2 * v, large_us);
    const Summary idle = batch.over(2 * v + 1, large_us);
    const Summary copies =
        batch.over(2 * v, [](const Result& r) { return static_cast<double>(r.retransmitted()); });
    const bool ours = variants[v] != &kPaper;
    const std::string id =
        ours ? (variants[v] == &kMp ? "restart.mp" : "restart.shipped") : "restart.paper";
    const std::string name = variants[v]->name + ": ";
    const double ratio = idle.mean == 0 ? 0 : after.mean / idle.mean;
    if (ours) {
      out.claim(id + ".ratio", name + "1 MiB after 64 B messages / on an idle connection",
                "<= 1.02", ratio, 0, "x");
      out.claim(id + ".copies", name + "retransmissions", "<= 0", copies.most, 0, "");
    } else {
      out.report(id + ".ratio", name + "1 MiB after 64 B messages / on an idle connection", "",
                 ratio, 0, "x", "nothing was outstanding for 3 RTT: that rule never fires here");
      out.report(id + ".copies", name + "retransmissions", "", copies.most, 0, "", "");
    }
    out.report(id + ".us", name + "1 MiB after 64 B messages", "", after.mean, after.deviation,
               "us", "");
    panel.curves.push_back({variants[v]->name,
                            {0, 1},
                            {after.mean, idle.mean},
                            {after.deviation, idle.deviation},
                            Stroke::kBars,
                            variants[v]->colour});
  }
  const double bound = bound_us(first);
  panel.marks = {{bound, fmt::format("wire alone {:.1f} us", bound)}};
  out.panels.push_back(panel);
  batch.claim_sound("restart", &out);
  out.own_targets();
  out.constants = constants_of(first, first.paths[0], seeds);
  out.deviations = describe_deviations(
      "The paper has the rule and no measurement: every target is ours.", first);
  out.setup =
      fmt::format("{} messages of 64 B, then 1 MiB on the same connection; {}; {} seeds",
                  first.flows[0].timed_messages.size() - 1, describe(first, first.paths[0]), seeds);
  out.seen = "A large message after small ones starts at full rate, from the initial window";
  return out;
}

}  // namespace mprdma::figures
