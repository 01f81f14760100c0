// Many closed loops to one receiver: the queue in front of it, and what the loops wait.
#include <fmt/format.h>

#include <array>

#include "evaluation/applications/bad_paths.hpp"
#include "evaluation/applications/crowd.hpp"
#include "evaluation/applications/longest.hpp"
#include "evaluation/batch.hpp"
#include "evaluation/cases.hpp"
#include "evaluation/list.hpp"
#include "transport/core/follow_network.hpp"

namespace mprdma::figures {

namespace {

using switchsim::Result;
using switchsim::Scenario;

// With a packet of each in flight the queue would be far above where RED marks everything.
constexpr uint32_t kCrowd = 256;
constexpr std::array<uint32_t, 3> kThinkUs = {100, 200, 400};
// A pause, in us, with which the loops offer more than the link carries: 64 messages take 231 us.
constexpr uint32_t kOverloads = 100;
const char* const kReceiver = "h1.ba";  // the switch's port to it

double queue_kb(const Result& result) {
  const switchsim::PortResult* port = result.port_named(kReceiver);
  return port == nullptr ? 0 : port->queue_mean_bytes / 1000;
}

void add_crowd(const Batch& batch, size_t group, FigureResult* out) {
  const std::string what = fmt::format("{} hosts, 16 KB: ", kCrowd);
  const Summary queue = batch.over(group, queue_kb);
  const Summary goodput = batch.over(group, goodput_gbps);
  const Summary jain = batch.over(group, [](const Result& r) { return r.jain; });
  out->claim("incast.crowd.queue", what + "mean queue", "<= 100", queue.mean, queue.deviation,
             "KB");
  out->claim("incast.crowd.goodput", what + "goodput", ">= 35", goodput.mean, goodput.deviation,
             "Gb/s");
  out->report("incast.crowd.jain", what + "Jain's index over 10 ms", "", jain.mean, jain.deviation,
              "", "");
}

// Packets that find the buffer full, from the first burst on.
void add_drops(const Batch& batch, FigureResult* out) {
  struct Case {
    size_t group;
    uint32_t kb;
  };
  constexpr std::array<Case, 3> kCases = {{{1, 4}, {0, 16}, {2, 32}}};
  for (const auto& [group, kb] : kCases) {
    const Summary drops = batch.over(group, drops_of_switches);
    out->explain(fmt::format("incast.{}k.drops", kb), fmt::format("{} KB: {}", kb, kSwitchDrops),
                 "<= 0", drops.mean, drops.deviation, "",
                 fmt::format("the first burst is {:.1f} MB with its headers and the buffer 1 MB; a "
                             "message is shorter than the initial window, so that each sender has "
                             "sent all of it before it hears of the others",
                             64.0 * kb * (1024 + transport::kPacketOverheadBytes) / 1e6));
  }
}

// The loops that pause between messages: groups 3 and on of the batch.
Panel add_thinking(const Batch& batch, const Summary& queue, FigureResult* out) {
  Panel panel{"16 KB messages", "think time, us", "mean queue, KB", {}};
  Curve curve{"", {0}, {queue.mean}, {queue.deviation}, Stroke::kLinePoints, 0};
  for (size_t i = 0; i < kThinkUs.size(); ++i) {
    const Summary thinking = batch.over(3 + i, queue_kb);
    const Summary p99 = batch.over(3 + i, [](const Result& r) { return r.fct.all().p99_us; });
    const std::string id = fmt::format("incast.think-{}", kThinkUs[i]);
    const std::string what = fmt::format("16 KB, {} us between messages: ", kThinkUs[i]);
    out->claim(id + ".queue", what + "mean queue", "<= 60", thinking.mean, thinking.deviation,
               "KB");
    const std::string slowest = what + "99th percentile of the time";
    if (kThinkUs[i] > kOverloads) {
      out->claim(id + ".p99", slowest, "<= 200", p99.mean, p99.deviation, "us");
    } else {
      out->explain(id + ".p99", slowest, "<= 200", p99.mean, p99.deviation, "us",
                   "the loops offer more than the link carries: with equal shares a message takes "
                   "131 us, in one burst of all 231; to return less of the window after a pause "
                   "gives 180 us, and half as much again to the mean with pauses of 200 us");
    }
    out->report(id + ".goodput", what + "goodput", "", batch.over(3 + i, goodput_gbps).mean, 0,
                "Gb/s", "");
    curve.x.push_back(kThinkUs[i]);
    curve.y.push_back(thinking.mean);
    curve.error.push_back(thinking.deviation);
  }
  panel.curves.push_back(curve);
  return panel;
}

}  // namespace

FigureResult incast_loops(const Figure& figure, const RunOptions& options) {
  FigureResult out;
  Batch batch(options);
  const uint32_t seeds = options.ci() ? 1 : 5;
  const auto sized = [&](uint32_t bytes) {
    return load(figure.scenario, {fmt::format("flow[0].message_bytes={}", bytes)});
  };
  batch.add(sized(16'384), seeds);
  batch.add(sized(4'096), seeds);
  batch.add(sized(32'768), seeds);
  for (const uint32_t think : kThinkUs) {
    batch.add(load(figure.scenario, {fmt::format("flow[0].think_us={}", think)}), seeds);
  }
  Scenario dead = sized(16'384);
  for (uint32_t leaf = 1; leaf <= 5; ++leaf) {
    lose(&dead, fmt::format("leaf{}-spine4", leaf), kAllLost);
  }
  batch.add(dead, seeds);
  batch.add(load(figure.scenario, crowd_of(kCrowd)), seeds);
  batch.run();

  const Summary queue = batch.over(0, queue_kb);
  const Summary longest = batch.over(0, longest_us);
  out.claim("incast.16k.queue", "16 KB: mean queue", "<= 80", queue.mean, queue.deviation, "KB");
  out.claim("incast.16k.longest", "16 KB: longest time of a message, most of a run", "<= 1150",
            longest.most, longest.deviation, "us");
  for (const auto& [group, id] : {std::pair{size_t{1}, "4k"}, std::pair{size_t{2}, "32k"}}) {
    const std::string what = fmt::format("{} KB: ", group == 1 ? 4 : 32);
    out.report(fmt::format("incast.{}.queue", id), what + "mean queue", "",
               batch.over(group, queue_kb).mean, 0, "KB", "");
    out.report(fmt::format("incast.{}.longest", id), what + "longest time of a message", "",
               batch.over(group, longest_us).most, 0, "us", "");
  }
  add_drops(batch, &out);
  out.panels.push_back(add_thinking(batch, queue, &out));
  const Summary beside_dead = batch.over(6, goodput_gbps);
  out.claim("incast.dead-spine", "16 KB, one spine of four dead: goodput", ">= 34",
            beside_dead.mean, beside_dead.deviation, "Gb/s");
  add_crowd(batch, 7, &out);
  batch.claim_sound("incast", &out);
  out.own_targets();
  const Scenario& first = batch.scenario(0);
  const switchsim::LinkId last_hop = first.link("h1");
  out.constants = constants_of(first, last_hop, seeds);
  out.deviations = describe_deviations("No paper has this figure: every target is ours.", first);
  out.setup =
      fmt::format("64 hosts, each one message after the other to the same host; {}; {} seeds",
                  describe(first, last_hop), seeds);
  out.seen = "The queue in front of the receiver stays short, whatever the loops pause";
  return out;
}

}  // namespace mprdma::figures
