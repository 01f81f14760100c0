// Copies that nobody needed: where nothing can be lost there is none.
#include <fmt/format.h>

#include <array>

#include "evaluation/applications/bad_paths.hpp"
#include "evaluation/batch.hpp"
#include "evaluation/list.hpp"

namespace mprdma::figures {

namespace {

using switchsim::Result;
using switchsim::Scenario;

constexpr std::array<uint32_t, 3> kIncastBytes = {4'096, 16'384, 65'536};

double copies(const Result& result) {
  return static_cast<double>(result.retransmitted());
}
double copies_per_100000(const Result& result) {
  double sent = 0;
  for (const auto& flow : result.flows) sent += static_cast<double>(flow.stats.packets_sent);
  return sent == 0 ? 0 : copies(result) * 1e5 / sent;
}

// Ten closed loops, for which the last path is `longer_us` longer, there and back together.
Scenario unequal_paths(uint32_t longer_us) {
  Scenario scenario = load("loops.toml", loops_of(10, {"flow[0].message_bytes=16384"}));
  lengthen(&scenario, "path4", longer_us);
  return scenario;
}

// Messages of 1 MB one after the other, where one path is dead: its losses have to be sent again,
// and nothing else.
constexpr std::array<Loop, 2> kDead = {{
    {"dead-1m-4", "1 MB messages, 1 of 4 paths dead", 1'048'576},
    {"dead-1m-16", "1 MB messages, 1 of 16", 1'048'576, 1, 16},
}};
constexpr size_t kFirstDead = 7;  // group of the batch

Scenario beside_dead_path(const Loop& loop, bool maps) {
  Scenario scenario = with_loss("loops.toml", loop, kAllLost);
  scenario.warm_up = switchsim::SimSpan();
  for (switchsim::FlowSpec& flow : scenario.flows) flow.params.ack_map = maps;
  return scenario;
}

double needless_share(const Result& result) {
  const double all = copies(result);
  return all == 0 ? 0 : static_cast<double>(result.spurious()) / all;
}

void add_dead(const Batch& batch, FigureResult* out) {
  for (size_t i = 0; i < kDead.size(); ++i) {
    const std::string id = fmt::format("spurious.{}", kDead[i].id);
    const std::string what = fmt::format("{}: needless copies / copies", kDead[i].text);
    const size_t group = kFirstDead + 2 * i;
    const Summary share = batch.over(group, needless_share);
    const Summary without = batch.over(group + 1, needless_share);
    out->claim(id, what, "<= 0.02", share.mean, share.deviation, "");
    out->report(id + ".copies", fmt::format("{}: copies", kDead[i].text), "",
                batch.over(group, copies).mean, 0, "/run", "");
    out->report(id + ".no-map", what + ", acknowledgements without maps", "", without.mean,
                without.deviation, "", "");
  }
}

// The first groups of the batch: incasts of messages of kIncastBytes.
void claim_incasts(const Batch& batch, FigureResult* out) {
  for (size_t i = 0; i < kIncastBytes.size(); ++i) {
    const std::string id = fmt::format("spurious.incast-{}", kIncastBytes[i]);
    const std::string what =
        fmt::format("64 loops of {} B to one host, no queue has an end: copies, most of a run",
                    kIncastBytes[i]);
    const double most = batch.over(i, copies).most;
    if (i + 1 < kIncastBytes.size()) {
      out->claim(id, what, "<= 0", most, 0, "");
    } else {
      out->explain(
          id, what, "<= 0", most, 0, "",
          "the first burst of 4 MB takes 800 us, and a sender without a sample of the round "
          "trip asks after 500 us");
    }
  }
}

}  // namespace

FigureResult spurious_copies(const Figure& figure, const RunOptions& options) {
  FigureResult out;
  Batch batch(options);
  const uint32_t seeds = options.ci() ? 1 : 10;
  constexpr std::array<uint32_t, 3> kLonger = {4, 14, 40};
  for (const uint32_t bytes : kIncastBytes) {
    batch.add(load(figure.scenario,
                   {fmt::format("flow[0].message_bytes={}", bytes),
                    "topology.queue_bytes=\"unlimited\"", "duration_us=4000", "warm_up_us=0"}),
              seeds);
  }
  batch.add(load("loops.toml", loops_of(64, {"duration_us=8000"})), seeds);
  for (const uint32_t longer : kLonger) batch.add(unequal_paths(longer), seeds);
  for (const Loop& loop : kDead) {
    for (const bool maps : {true, false}) batch.add(beside_dead_path(loop, maps), seeds);
  }
  batch.run();
  Panel panel{"One path is longer", "by, us there and back", "copies in 100 000 packets", {}};
  Curve curve{"", {}, {}, {}, Stroke::kLinePoints, 0};
  claim_incasts(batch, &out);
  const Summary loops = batch.over(3, copies_per_100000);
  out.claim("spurious.loops", "64 loops of 8 KB over four paths: copies", "<= 5", loops.mean,
            loops.deviation, "in 100 000 packets");
  // What they had before losses were found by time: 142.5 Gb/s and 35 us.
  const Summary goodput = batch.over(3, goodput_gbps);
  const Summary p99 = batch.over(3, [](const Result& r) { return r.fct.all().p99_us; });
  out.claim("spurious.loops.goodput", "64 loops of 8 KB over four paths: goodput", ">= 142.5",
            goodput.mean, goodput.deviation, "Gb/s");
  out.claim("spurious.loops.p99", "64 loops of 8 KB over four paths: 99th percentile", "<= 35",
            p99.mean, p99.deviation, "us");
  for (size_t i = 0; i < kLonger.size(); ++i) {
    const Summary share = batch.over(4 + i, copies_per_100000);
    out.claim(fmt::format("spurious.longer-{}", kLonger[i]),
              fmt::format("10 loops of 16 KB, one path {} us longer: copies", kLonger[i]), "<= 5",
              share.mean, share.deviation, "in 100 000 packets");
    curve.x.push_back(kLonger[i]);
    curve.y.push_back(share.mean);
    curve.error.push_back(share.deviation);
  }
  add_dead(batch, &out);
  panel.curves.push_back(curve);
  out.panels.push_back(panel);
  batch.claim_sound("spurious", &out);
  out.own_targets();
  const Scenario& first = batch.scenario(0);
  const switchsim::LinkId last_hop = first.link("h1");
  out.constants = constants_of(first, last_hop, seeds);
  out.deviations = describe_deviations("No paper has this figure: every target is ours.", first);
  out.setup = fmt::format(
      "Closed loops where nothing is lost, as queues have no end or there is no congestion; and "
      "messages of 1 MB beside a dead path, which loses all that it gets, in both directions; {}; "
      "{} seeds",
      describe(first, last_hop), seeds);
  out.seen = "Where nothing is lost nothing is sent again, beside a dead path nothing that came";
  return out;
}

}  // namespace mprdma::figures
