// Completion times of closed loops where one path of four loses some packets, relative to the same
// loops on a healthy network.
#include <fmt/format.h>

#include <array>
#include <string_view>
#include <vector>

#include "evaluation/applications/bad_paths.hpp"
#include "evaluation/list.hpp"

namespace mprdma::figures {

namespace {

using switchsim::Result;

struct Case {
  Loop loop;
  const char* missed = nullptr;  // why the 99th percentile is only reported
  int64_t length = 1;            // times the round trips of the others
};
constexpr std::array<Case, 10> kCases = {{
    {{"1k", "1 KB", 1024},
     "missed: a run has so few messages that nine make the percentile. Ten times as many round "
     "trips "
     "show it"},
    {{"1k-long", "1 KB, 10 000 round trips", 1024}, nullptr, 10},
    {{"4k", "4 KB", 4096}},
    {{"8k", "8 KB", 8192}},
    {{"16k", "16 KB", 16'384}},
    {{"64k", "64 KB", 65'536}},
    {{"8k-send", "8 KB SEND", 8192, 1, 4, 1, 12, "send"}},
    {{"1k-read", "1 KB READ", 1024, 1, 4, 1, 12, "read"}},
    {{"8k-read", "8 KB READ", 8192, 1, 4, 1, 12, "read"}},
    {{"64k-read", "64 KB READ", 65'536, 1, 4, 1, 12, "read"},
     "missed: a run has so few messages that four make the percentile. It loses as many packets of "
     "data as with WRITEs, and requests besides, each of which waits for a tail probe"},
}};
constexpr uint32_t kJudged = 5;  // percent of loss at which the claims stand

// The small size leaves out what no claim judges.
std::vector<uint32_t> percents(const RunOptions& options) {
  return options.ci() ? std::vector<uint32_t>{kJudged} : std::vector<uint32_t>{1, kJudged, 20};
}

double mean_us(const Result& result) {
  return result.fct.all().mean_us;
}
double p99_us(const Result& result) {
  return result.fct.all().p99_us;
}

switchsim::Scenario scenario_of(const std::string& file, const Case& c, uint32_t percent) {
  switchsim::Scenario scenario = with_loss(file, c.loop, percent * 10'000);
  scenario.duration = scenario.duration * c.length;
  return scenario;
}

// How many packets were sent again for 100 messages, by both ends: copies of READ data are the
// responder's.
double copies_of_100(const Batch& batch, size_t group) {
  return batch
      .over(group,
            [](const Result& r) {
              const switchsim::FlowResult& flow = r.flows[0];
              const uint64_t copies =
                  flow.sender.packets_retransmitted + flow.receiver.packets_retransmitted;
              return 100.0 * static_cast<double>(copies) /
                     static_cast<double>(flow.messages_completed);
            })
      .mean;
}

// What messages take with loss, relative to `healthy` us: asserted at the loss that is judged,
// unless the target is known to be missed.
void add_row(const std::string& id, const std::string& what, const char* target,
             const Summary& lossy, double healthy, const char* missed, FigureResult* out) {
  const double ratio = lossy.mean / healthy;
  const double deviation = lossy.deviation / healthy;
  if (missed != nullptr) {
    out->explain(id, what, target, ratio, deviation, "x", missed);
  } else {
    out->claim(id, what, target, ratio, deviation, "x");
  }
}

// The groups of a case: the first one without loss, then one for each share of loss.
Curve add_case(const Batch& batch, size_t first, const Case& c, const std::vector<uint32_t>& losses,
               FigureResult* out) {
  const double mean = batch.over(first, mean_us).mean;
  const Summary healthy_p99 = batch.over(first, p99_us);
  const double p99 = healthy_p99.mean;
  Curve curve{c.loop.text, {0}, {1}, {healthy_p99.deviation / p99}, Stroke::kLinePoints, -1};
  for (size_t i = 0; i < losses.size(); ++i) {
    const Summary lossy_mean = batch.over(first + 1 + i, mean_us);
    const Summary lossy_p99 = batch.over(first + 1 + i, p99_us);
    const bool judged = losses[i] == kJudged;
    const std::string id = fmt::format("loss-latency.{}.{}", c.loop.id, losses[i]);
    const std::string what = fmt::format("{}, {} % loss on one path: ", c.loop.text, losses[i]);
    const double copies = copies_of_100(batch, first + 1 + i);
    const std::string sent_again =
        fmt::format("missed: {:.1f} packets are sent again for 100 messages", copies);
    const std::string waits =
        sent_again + (copies < 1 ? "" : ", so that the percentile is of one that waits for a copy");
    add_row(id + ".mean", what + "mean time / without loss", "<= 1.05", lossy_mean, mean,
            judged ? nullptr : sent_again.c_str(), out);
    add_row(id + ".p99", what + "99th percentile / without loss", "<= 1.2", lossy_p99, p99,
            judged ? c.missed : waits.c_str(), out);
    curve.x.push_back(losses[i]);
    curve.y.push_back(lossy_p99.mean / p99);
    curve.error.push_back(lossy_p99.deviation / p99);
  }
  return curve;
}

}  // namespace

FigureResult loss_latency(const Figure& figure, const RunOptions& options) {
  FigureResult out;
  Batch batch(options);
  const uint32_t seeds = options.ci() ? 4 : 20;
  const std::vector<uint32_t> losses = percents(options);
  for (const Case& c : kCases) {
    batch.add(scenario_of(figure.scenario, c, 0), seeds);
    for (const uint32_t percent : losses) {
      batch.add(scenario_of(figure.scenario, c, percent), seeds);
    }
  }
  batch.run();
  for (const char* title : {"WRITE", "SEND and READ"}) {
    out.panels.push_back({title, "loss on one path, %", "99th percentile / without loss", {}});
  }
  for (size_t i = 0; i < kCases.size(); ++i) {
    const bool write = std::string_view(kCases[i].loop.operation) == "write";
    Panel& panel = out.panels[write ? 0 : 1];
    panel.curves.push_back(add_case(batch, i * (1 + losses.size()), kCases[i], losses, &out));
  }
  batch.claim_sound("loss-latency", &out);
  out.own_targets();
  const switchsim::Scenario& first = batch.scenario(0);
  out.constants = constants_of(first, first.paths[0], seeds);
  out.deviations = describe_deviations("No paper has this figure: every target is ours.", first);
  out.setup = fmt::format(
      "One connection, messages one after the other, WRITEs if nothing else is said; one path of "
      "four loses packets at random, in both directions; {}; {} seeds",
      describe(first, first.paths[0]), seeds);
  out.seen = "A path that loses packets costs messages little: they leave it";
  return out;
}

}  // namespace mprdma::figures
