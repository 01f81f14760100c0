// What --engine adds to a drawn run: hosts that owe acknowledgements, acknowledgements of runs,
// segments longer than the path MTU, and the functions for the common case. All of it comes from a
// generator of its own, so that the run is otherwise the one that the seed draws without it.

#include <fmt/format.h>

#include <algorithm>

#include "base/prng.hpp"
#include "tests/swarm/scenario.hpp"
#include "wire/constants.hpp"

namespace mprdma::swarm {

namespace {

constexpr uint32_t kRunMax = 32;

EngineKnobs draw_engine(Prng prng) {
  constexpr int64_t kPatienceNs[] = {0, 0, 200, 2'000, 20'000, 100'000, 1'000'000};
  EngineKnobs knobs;
  knobs.owes_acks = prng.chance(7, 8);
  knobs.ack_patience = Duration::ns(kPatienceNs[prng.below(std::size(kPatienceNs))]);
  knobs.ack_packets = static_cast<uint32_t>(prng.range(1, prng.chance(1, 2) ? 4 : 64));
  knobs.plain = prng.chance(3, 4);
  return knobs;
}

uint32_t draw_run(Prng& prng) {
  return static_cast<uint32_t>(prng.chance(1, 4) ? 1 : prng.range(2, kRunMax));
}

// Draws a segment that the peer takes; 0: it takes none.
uint32_t draw_segment(Prng& prng, uint32_t mtu, uint32_t taken) {
  const uint64_t multiple = prng.below(taken / mtu + 1);
  return static_cast<uint32_t>(multiple) * mtu;
}

void draw_changes(Scenario& s, Prng prng) {
  if (prng.chance(1, 3)) return;
  const auto until_clean = static_cast<uint64_t>((s.clean_at - s.start).count_ns());
  for (uint64_t left = prng.range(1, 6); left > 0; --left) {
    AttributeChange change;
    // Short runs are over long before the network is perfect.
    const uint64_t latest = std::max<uint64_t>(until_clean >> prng.below(8), 1);
    change.after = Duration::ns(static_cast<int64_t>(prng.below(latest)));
    change.node = static_cast<uint32_t>(prng.below(2));
    change.queue_pair = static_cast<uint32_t>(prng.below(s.queue_pairs));
    const SideKnobs& peer = s.sides[change.queue_pair][1 - change.node];
    change.send_segment = draw_segment(prng, s.path_mtu, peer.take_segment);
    change.ack_run = draw_run(prng);
    s.changes.push_back(change);
  }
}

// As keep_timers_above_rtt(), for hosts with engines: segments take longer, and acknowledgements
// wait.
void lengthen_timers(Scenario& s) {
  const Duration more = time_of_segments(s) + s.engines[0].ack_patience + s.engines[1].ack_patience;
  for (auto& sides : s.sides) {
    for (SideKnobs& side : sides) {
      transport::Params& p = side.params;
      p.initial_rtt += more;
      p.rto_floor += more * 8;
      p.rto_ceiling = std::max(p.rto_ceiling, p.rto_floor);
      p.probe_floor += more * 4;
    }
  }
}

}  // namespace

Duration time_of_segments(const Scenario& s) {
  uint64_t packets = 0;
  for (const auto& sides : s.sides) packets += uint64_t{sides[0].params.window_slots} * 4;
  const uint64_t bytes = std::min<uint64_t>(s.message_max, wire::kMaxSegment) + 200;
  uint64_t slowest = UINT64_MAX;
  for (const LinkKnobs& link : s.links) slowest = std::min(slowest, link.bottleneck_bits_per_us);
  return Duration::ns(static_cast<int64_t>(packets * bytes * 8 * 1000 / slowest));
}

void add_engines(Scenario& s) {
  const Prng root = Prng(s.seed).split("engine");
  s.engine = true;
  for (uint32_t n = 0; n < 2; ++n) s.engines[n] = draw_engine(root.split("host").split(n));
  const auto longest = static_cast<uint32_t>(wire::kMaxSegment);
  for (uint32_t q = 0; q < s.queue_pairs; ++q) {
    Prng prng = root.split("side").split(q);
    for (SideKnobs& side : s.sides[q]) {
      side.ack_run = draw_run(prng);
      if (prng.chance(3, 4)) side.take_segment = draw_segment(prng, s.path_mtu, longest);
    }
    for (uint32_t n = 0; n < 2; ++n) {
      if (prng.chance(1, 4)) continue;
      s.sides[q][n].send_segment = draw_segment(prng, s.path_mtu, s.sides[q][1 - n].take_segment);
    }
  }
  draw_changes(s, root.split("changes"));
  if (s.kind == Kind::kClean) lengthen_timers(s);
}

std::string engines_to_string(const Scenario& s) {
  std::string text;
  for (const EngineKnobs& e : s.engines) {
    text += fmt::format("engine: owes {} for {} ns or {} packets, plain {}\n", e.owes_acks,
                        e.ack_patience.count_ns(), e.ack_packets, e.plain);
  }
  for (const auto& sides : s.sides) {
    for (const SideKnobs& side : sides) {
      text += fmt::format("  segments: sends {} takes {}, runs of {}\n", side.send_segment,
                          side.take_segment, side.ack_run);
    }
  }
  for (const AttributeChange& c : s.changes) {
    text += fmt::format("  after {} ns n{} qp{}: sends {}, runs of {}\n", c.after.count_ns(),
                        c.node, c.queue_pair, c.send_segment, c.ack_run);
  }
  return text;
}

}  // namespace mprdma::swarm
