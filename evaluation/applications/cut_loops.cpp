// A path is cut under many closed loops: the longest time that any message takes.
#include <fmt/format.h>

#include "evaluation/applications/longest.hpp"
#include "evaluation/batch.hpp"
#include "evaluation/list.hpp"

namespace mprdma::figures {

namespace {

using switchsim::Result;

// Loops whose last message is not complete although it had a millisecond or more.
double stuck(const Result& result) {
  double count = 0;
  for (const auto& flow : result.flows) {
    const bool moves = !flow.messages.empty() &&
                       result.end - flow.messages.back().completed < switchsim::SimSpan::ms(1);
    count += moves ? 0 : 1;
  }
  return count;
}

}  // namespace

FigureResult cut_loops(const Figure& figure, const RunOptions& options) {
  FigureResult out;
  Batch batch(options);
  const uint32_t seeds = options.ci() ? 1 : 10;
  switchsim::Scenario scenario = load(figure.scenario);
  batch.add(scenario, seeds);
  scenario.events.clear();
  batch.add(scenario, seeds);
  batch.run();
  const Summary longest = batch.over(0, longest_us);
  const Summary before = batch.over(1, longest_us);
  const Summary timeouts =
      batch.over(0, [](const Result& r) { return static_cast<double>(r.timeouts()); });
  out.claim("cut-1000.longest", "longest time of a message, most of a run", "<= 300", longest.most,
            longest.deviation, "us");
  out.claim("cut-1000.rto", "timeouts, most of a run", "<= 0", timeouts.most, 0, "");
  out.claim("cut-1000.stuck", "loops that stand still at the end, most of a run", "<= 0",
            batch.over(0, stuck).most, 0, "");
  out.report("cut-1000.healthy", "longest time of a message without the cut", "", before.most, 0,
             "us", "");
  out.report(
      "cut-1000.copies", "packets sent again", "",
      batch.over(0, [](const Result& r) { return static_cast<double>(r.retransmitted()); }).mean, 0,
      "/run", "");
  Panel panel{"", "", "longest time of a message, us", {}};
  panel.categories = {"one path of four is cut", "no path is cut"};
  panel.curves.push_back({"",
                          {0, 1},
                          {longest.mean, before.mean},
                          {longest.deviation, before.deviation},
                          Stroke::kBars,
                          0});
  out.panels.push_back(panel);
  batch.claim_sound("cut-1000", &out);
  out.own_targets();
  const switchsim::Scenario& first = batch.scenario(0);
  out.constants = constants_of(first, first.paths[0], seeds);
  out.deviations = describe_deviations("No paper has this figure: every target is ours.", first);
  out.setup = fmt::format(
      "1000 connections of their own hosts, 1 KB every 200 us each; one path of four is cut and "
      "the "
      "switches do not reroute; {}; {} seeds",
      describe(first, first.paths[0]), seeds);
  out.seen = "After a cut every loop goes on within some round trips";
  return out;
}

}  // namespace mprdma::figures
