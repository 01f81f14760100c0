// A path is cut under many closed loops: the longest time that any message takes, and how soon the
// loops that were cut are back.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "base/percentile.hpp"
#include "evaluation/applications/longest.hpp"
#include "evaluation/applications/outage.hpp"
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

double percentile_of(const std::vector<Outage>& loops, double Outage::*time_us, double p) {
  std::vector<double> times(loops.size());
  std::transform(loops.begin(), loops.end(), times.begin(),
                 [time_us](const Outage& one) { return one.*time_us; });
  return percentile(times, p);
}

// Median and 99th percentile over the loops that were cut.
void add_times(const Batch& batch, const Cut& cut, double Outage::*time_us, const std::string& id,
               const std::string& what, const std::array<const char*, 2>& targets,
               FigureResult* out) {
  const auto add = [&](double p, const char* suffix, const char* name, const char* target) {
    const Summary time =
        batch.over(0, [&](const Result& r) { return percentile_of(outages(r, cut), time_us, p); });
    out->claim(id + suffix, what + ", " + name + " of the loops, most of a run", target, time.most,
               time.deviation, "us");
  };
  add(.5, ".p50", "median", targets[0]);
  add(.99, ".p99", "99th percentile", targets[1]);
}

void add_outages(const Batch& batch, const Cut& cut, FigureResult* out) {
  const Summary loops =
      batch.over(0, [&](const Result& r) { return static_cast<double>(outages(r, cut).size()); });
  out->claim("cut-1000.met", "loops that are cut, least of a run", ">= 300", loops.least,
             loops.deviation, "");
  add_times(batch, cut, &Outage::message_us, "cut-1000.message",
            "time of the message with which a loop meets the cut", {"<= 80", "<= 225"}, out);
  add_times(batch, cut, &Outage::next_us, "cut-1000.next",
            "from the cut to that message's completion", {"<= 250", "<= 420"}, out);
  add_times(batch, cut, &Outage::back_us, "cut-1000.back",
            "from the cut until a loop has .9 of its rate again", {"<= 250", "<= 420"}, out);
  for (const double p : {.5, .99}) {
    const Summary next = batch.over(1, [&](const Result& r) {
      return percentile_of(all_outages(r, cut), &Outage::next_us, p);
    });
    out->report(fmt::format("cut-1000.healthy.next.p{:.0f}", 100 * p),
                fmt::format("the same without the cut, to the next completion of any loop, {}",
                            p < .9 ? "median" : "99th percentile"),
                "", next.mean, next.deviation, "us", "");
  }
}

}  // namespace

FigureResult cut_loops(const Figure& figure, const RunOptions& options) {
  FigureResult out;
  Batch batch(options);
  const uint32_t seeds = options.ci() ? 1 : 10;
  switchsim::Scenario scenario = load(figure.scenario);
  const Cut cut{switchsim::SimTime() + scenario.warm_up, scenario.events.front().at};
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
  add_outages(batch, cut, &out);
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
      "1000 connections of their own hosts, 1 KB every 200 us each, and a pause is part of the "
      "times from the cut on; one path of four is cut and the switches do not reroute; {}; {} "
      "seeds",
      describe(first, first.paths[0]), seeds);
  out.seen = "After a cut every loop goes on within some round trips";
  return out;
}

}  // namespace mprdma::figures
