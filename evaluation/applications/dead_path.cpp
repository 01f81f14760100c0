// Closed loops where some paths have silently died, relative to the same loops on healthy ones; and
// how a lone loop finds a path that is repaired.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>

#include "evaluation/applications/bad_paths.hpp"
#include "evaluation/applications/bars.hpp"
#include "evaluation/list.hpp"

namespace mprdma::figures {

namespace {

using switchsim::Result;
using switchsim::Scenario;
using switchsim::SimSpan;
using switchsim::SimTime;

constexpr std::array<Loop, 19> kLoops = {{
    {"8k", "8 KB, 1 of 4 paths dead", 8192},
    {"64k", "64 KB, 1 of 4", 65'536},
    {"1k", "1 KB, 2 of 8, RTT 30 us", 1024, 1, 8, 2, 30},
    {"1k-short", "1 KB, 2 of 4, RTT 5 us", 1024, 1, 4, 2, 5},
    {"1k-short-read", "1 KB READ, 2 of 4, RTT 5 us", 1024, 1, 4, 2, 5, "read"},
    {"4k-x4", "4 KB, 4 posted, 2 of 8", 4096, 4, 8, 2},
    {"16k", "16 KB, 1 of 8", 16'384, 1, 8},
    {"8k-16", "8 KB, 3 of 16", 8192, 1, 16, 3},
    {"8k-short", "8 KB, 1 of 4, RTT 5 us", 8192, 1, 4, 1, 5},
    {"64k-long", "64 KB, 1 of 4, RTT 100 us", 65'536, 1, 4, 1, 100},
    {"8k-send", "8 KB SEND, 1 of 4", 8192, 1, 4, 1, 12, "send"},
    {"8k-read", "8 KB READ, 1 of 4", 8192, 1, 4, 1, 12, "read"},
    {"64k-read", "64 KB READ, 1 of 4", 65'536, 1, 4, 1, 12, "read"},
    {"1k-3", "1 KB, 3 of 4", 1024, 1, 4, 3},
    {"8k-3", "8 KB, 3 of 4", 8192, 1, 4, 3},
    {"64k-3", "64 KB, 3 of 4", 65'536, 1, 4, 3},
    {"64k-3-read", "64 KB READ, 3 of 4", 65'536, 1, 4, 3, 12, "read"},
    {"4k-x4-read", "4 KB READ, 4 posted, 2 of 4, RTT 50 us", 4096, 4, 4, 2, 50, "read"},
    {"64k-x4-long", "64 KB, 4 posted, 1 of 4, RTT 100 us", 65'536, 4, 4, 1, 100},
}};

// Where half of the paths are dead both ways, one pair of ways in four works, where three of four
// are, one in sixteen, and a connection tries for a while until it has one: its goodput counts from
// its first message on, in runs of so many times the length.
constexpr bool is_sparse(const Loop& loop) {
  return loop.bad_paths * 2 >= loop.paths;
}
constexpr int64_t kSparseLength = 5;

Scenario with_dead_paths(const std::string& file, const Loop& loop, uint32_t loss_ppm) {
  Scenario scenario = with_loss(file, loop, loss_ppm);
  if (is_sparse(loop)) scenario.duration = scenario.duration * kSparseLength;
  return scenario;
}

double begun_ms(const Result& result) {
  const auto& messages = result.flows[0].messages;
  const SimTime at = messages.empty() ? result.end : messages.front().completed;
  return static_cast<double>(at.ps()) / 1e9;
}

double since_first_bps(const Result& result) {
  const switchsim::FlowResult& flow = result.flows[0];
  return rate_between(result, flow.delivered_series, flow.messages.front().completed, result.end);
}

// The goodput of the runs in which a message was complete.
Summary goodput_of(const Batch& batch, size_t group, const Loop& loop) {
  std::vector<double> values;
  for (const Result& result : batch.group(group)) {
    if (!is_sparse(loop)) {
      values.push_back(result.goodput_bps);
    } else if (!result.flows[0].messages.empty()) {
      values.push_back(since_first_bps(result));
    }
  }
  return summarise(values);
}

void add_begin(const Batch& batch, size_t group, const std::string& id, const std::string& what,
               FigureResult* out) {
  const Summary begun =
      batch.over(group, [](const Result& r) { return r.flows[0].messages.empty() ? 0.0 : 1.0; });
  const Summary first = batch.over(group, begun_ms);
  out->claim(id + ".begun", what + "share of runs in which a message is complete", ">= 0.9",
             begun.mean, begun.deviation, "");
  out->report(id + ".first", what + "until the first message is complete", "", first.mean,
              first.deviation, "ms", "");
  out->report(id + ".first.most", what + "the same, most of a run", "", first.most, 0, "ms", "");
}

// The same under the death and repair of repair.toml.
constexpr std::array<Loop, 4> kRepaired = {{
    {"1k", "1 KB", 1024},
    {"8k", "8 KB", 8192},
    {"64k", "64 KB", 65'536},
    {"8k-read", "8 KB READ", 8192, 1, 4, 1, 12, "read"},
}};
constexpr SimSpan kSettled = SimSpan::ms(10);  // at the end, where goodput is compared

Scenario with_repair(const Loop& loop) {
  return load("repair.toml", {fmt::format("flow[0].message_bytes={}", loop.bytes),
                              fmt::format("flow[0].operation=\"{}\"", loop.operation)});
}

// What happens to the path, and the path as results count it.
struct Repair {
  SimTime warm_up;
  SimTime dies;
  SimTime repaired;
  SimTime settled;  // long after the repair
  size_t path;
};

Repair repair_of(const Scenario& scenario) {
  const switchsim::LinkEvent& repair = scenario.events[1];
  const auto path = std::find(scenario.paths.begin(), scenario.paths.end(), repair.link);
  return {.warm_up = SimTime() + scenario.warm_up,
          .dies = scenario.events[0].at,
          .repaired = repair.at,
          .settled = SimTime() + (scenario.duration - kSettled),
          .path = static_cast<size_t>(path - scenario.paths.begin())};
}

double repaired_us(const Repair& repair) {
  return static_cast<double>(repair.repaired.ps()) / 1e6;
}

// The payload that came over the path, from the repair on.
std::span<const uint64_t> since_repair(const Result& result, const Repair& repair) {
  const auto at =
      std::lower_bound(result.time_us.begin(), result.time_us.end(), repaired_us(repair));
  const std::span<const uint64_t> bytes = result.flows[0].path_bytes_series[repair.path];
  return bytes.subspan(static_cast<size_t>(at - result.time_us.begin()));
}

// From the repair to the point of the series where payload has come over the path; to the end if
// none comes.
double unused_ms(const Result& result, const Repair& repair) {
  const std::span<const uint64_t> bytes = since_repair(result, repair);
  size_t i = 0;
  while (i + 1 < bytes.size() && bytes[i] == bytes.front()) ++i;
  const double until_us = result.time_us[result.time_us.size() - bytes.size() + i];
  return (until_us - repaired_us(repair)) / 1e3;
}

// 1 if payload comes over the path again, 0 if it does not.
double is_found(const Result& result, const Repair& repair) {
  const std::span<const uint64_t> bytes = since_repair(result, repair);
  return bytes.back() > bytes.front() ? 1 : 0;
}

double per_before(const Result& result, const Repair& repair, SimTime from, SimTime to) {
  const std::vector<uint64_t>& bytes = result.flows[0].delivered_series;
  return rate_between(result, bytes, from, to) /
         rate_between(result, bytes, repair.warm_up, repair.dies);
}

// The share of the payload that comes over the path in the end.
double settled_share(const Result& result, const Repair& repair) {
  const switchsim::FlowResult& flow = result.flows[0];
  return rate_between(result, flow.path_bytes_series[repair.path], repair.settled, result.end) /
         rate_between(result, flow.delivered_series, repair.settled, result.end);
}

// A lone loop finds the path by exploring: one packet explores in about 100 round trips, or in 160
// where a message is one packet, and one in four of these takes the path. 400 to 640 round trips
// are 5 to 8 ms.
void add_repair(const Batch& batch, size_t group, const Loop& loop, FigureResult* out) {
  const Repair repair = repair_of(batch.scenario(group));
  const Summary unused = batch.over(group, [&](const Result& r) { return unused_ms(r, repair); });
  const Summary found = batch.over(group, [&](const Result& r) { return is_found(r, repair); });
  const Summary dead = batch.over(
      group, [&](const Result& r) { return per_before(r, repair, repair.dies, repair.repaired); });
  const Summary settled = batch.over(
      group, [&](const Result& r) { return per_before(r, repair, repair.settled, r.end); });
  const Summary share =
      batch.over(group, [&](const Result& r) { return settled_share(r, repair); });
  const std::string id = fmt::format("dead-path.repair.{}", loop.id);
  const std::string what = fmt::format("{}, 1 of 4 dead for 4 ms: ", loop.text);
  out->claim(id + ".unused", what + "from the repair until payload comes over the path", "<= 12",
             unused.mean, unused.deviation, "ms");
  out->report(id + ".most", what + "the same, most of a run", "", unused.most, 0, "ms", "");
  out->claim(id + ".found", what + "share of runs in which payload comes over the path again",
             ">= 0.9", found.mean, found.deviation, "");
  out->claim(id + ".goodput", what + "goodput in the last 10 ms / before the path died", ">= 0.95",
             settled.mean, settled.deviation, "x");
  out->report(id + ".dead", what + "goodput while the path is dead / before", "", dead.mean,
              dead.deviation, "x", "");
  out->report(id + ".share", what + "share of the path in the last 10 ms", "", share.mean,
              share.deviation, "", "");
}

}  // namespace

FigureResult dead_path(const Figure& figure, const RunOptions& options) {
  FigureResult out;
  Batch batch(options);
  const uint32_t seeds = options.ci() ? 2 : 20;
  for (const Loop& loop : kLoops) {
    batch.add(with_dead_paths(figure.scenario, loop, 0), seeds);
    batch.add(with_dead_paths(figure.scenario, loop, kAllLost), seeds);
  }
  // The time until a path is found is drawn, and its deviation as large as its mean.
  const uint32_t repairs = options.ci() ? 12 : 40;
  for (const Loop& loop : kRepaired) batch.add(with_repair(loop), repairs);
  batch.run();
  Bars bars("goodput / on healthy paths");
  for (size_t i = 0; i < kLoops.size(); ++i) {
    const Summary healthy = goodput_of(batch, 2 * i, kLoops[i]);
    const Summary dead = goodput_of(batch, 2 * i + 1, kLoops[i]);
    const Summary timeouts =
        batch.over(2 * i + 1, [](const Result& r) { return static_cast<double>(r.timeouts()); });
    const std::string id = fmt::format("dead-path.{}", kLoops[i].id);
    const std::string what = fmt::format("{}: ", kLoops[i].text);
    const char* const goodput = is_sparse(kLoops[i])
                                    ? "goodput from the first message on / on healthy paths"
                                    : "goodput / on healthy paths";
    out.claim(id, what + goodput, ">= 0.95", dead.mean / healthy.mean,
              dead.deviation / healthy.mean, "x");
    out.report(id + ".least", what + "the same, least of a run", "", dead.least / healthy.mean, 0,
               "x", "");
    if (is_sparse(kLoops[i])) add_begin(batch, 2 * i + 1, id, what, &out);
    out.report(id + ".rto", what + "timeouts, most of a run", "", timeouts.most, 0, "", "");
    bars.add(kLoops[i].id, dead, healthy.mean);
  }
  out.panels.push_back(bars.panel());
  for (size_t i = 0; i < kRepaired.size(); ++i) {
    add_repair(batch, 2 * kLoops.size() + i, kRepaired[i], &out);
  }
  batch.claim_sound("dead-path", &out);
  out.own_targets();
  const switchsim::Scenario& first = batch.scenario(0);
  out.constants = constants_of(first, first.paths[0], seeds);
  out.deviations = describe_deviations("No paper has this figure: every target is ours.", first);
  out.setup = fmt::format(
      "One connection, messages one after the other; the last paths lose everything, in both "
      "directions, from the start on, and nobody says so; 1000 round trips each, the first 160 "
      "dropped; where half or more are dead 5000 round trips, of which those after the first "
      "message count, in the runs that have one; {}; {} seeds. "
      "The path that is repaired is dead from 6 to 10 ms of 48; {} seeds",
      describe(first, first.paths[0]), seeds, repairs);
  out.seen = "Closed loops keep their speed where paths are dead";
  return out;
}

}  // namespace mprdma::figures
