// Completion times of closed loops where one path of four loses some packets, relative to the same
// loops on a healthy network.
#include <fmt/format.h>

#include <array>

#include "evaluation/applications/bad_paths.hpp"
#include "evaluation/list.hpp"

namespace mprdma::figures {

namespace {

using switchsim::Result;

constexpr std::array<Loop, 3> kLoops = {
    {{"4k", "4 KB", 4096}, {"8k", "8 KB", 8192}, {"64k", "64 KB", 65'536}}};
constexpr std::array<uint32_t, 3> kPercents = {1, 5, 20};
constexpr uint32_t kJudged = 5;  // percent of loss at which the claims stand

}  // namespace

FigureResult loss_latency(const Figure& figure, const RunOptions& options) {
  FigureResult out;
  Batch batch(options);
  const uint32_t seeds = options.ci() ? 4 : 20;
  for (const Loop& loop : kLoops) {
    batch.add(with_loss(figure.scenario, loop, 0), seeds);
    for (const uint32_t percent : kPercents) {
      batch.add(with_loss(figure.scenario, loop, percent * 10'000), seeds);
    }
  }
  batch.run();
  Panel panel{"", "loss on one path, %", "99th percentile / without loss", {}};
  size_t group = 0;
  for (const Loop& loop : kLoops) {
    const auto mean_us = [](const Result& r) { return r.fct.all().mean_us; };
    const auto p99_us = [](const Result& r) { return r.fct.all().p99_us; };
    const double mean = batch.over(group, mean_us).mean;
    const double p99 = batch.over(group, p99_us).mean;
    ++group;
    Curve curve{loop.text, {}, {}, {}, Stroke::kLinePoints, static_cast<int>(group / 4)};
    for (const uint32_t percent : kPercents) {
      const Summary lossy_mean = batch.over(group, mean_us);
      const Summary lossy_p99 = batch.over(group, p99_us);
      ++group;
      const std::string id = fmt::format("loss-latency.{}.{}", loop.id, percent);
      const std::string what = fmt::format("{}, {} % loss on one path: ", loop.text, percent);
      if (percent == kJudged) {
        out.claim(id + ".mean", what + "mean time / without loss", "<= 1.05",
                  lossy_mean.mean / mean, lossy_mean.deviation / mean, "x");
        out.claim(id + ".p99", what + "99th percentile / without loss", "<= 1.2",
                  lossy_p99.mean / p99, lossy_p99.deviation / p99, "x");
      } else {
        out.report(id + ".mean", what + "mean time / without loss", "", lossy_mean.mean / mean,
                   lossy_mean.deviation / mean, "x", "");
        out.report(id + ".p99", what + "99th percentile / without loss", "", lossy_p99.mean / p99,
                   lossy_p99.deviation / p99, "x", "");
      }
      curve.x.push_back(percent);
      curve.y.push_back(lossy_p99.mean / p99);
      curve.error.push_back(lossy_p99.deviation / p99);
    }
    panel.curves.push_back(curve);
  }
  out.panels.push_back(panel);
  batch.claim_sound("loss-latency", &out);
  out.own_targets();
  const switchsim::Scenario& first = batch.scenario(0);
  out.constants = constants_of(first, first.paths[0], seeds);
  out.deviations = describe_deviations("No paper has this figure: every target is ours.", first);
  out.setup = fmt::format(
      "One connection, messages one after the other; one path of four loses packets at random, in "
      "both directions; {}; {} seeds",
      describe(first, first.paths[0]), seeds);
  out.seen = "A path that loses packets costs messages little: they leave it";
  return out;
}

}  // namespace mprdma::figures
