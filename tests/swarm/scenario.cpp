#include "tests/swarm/scenario.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "base/prng.hpp"
#include "tests/swarm/draws.hpp"
#include "transport/core/held_pool.hpp"
#include "transport/core/param_visit.hpp"
#include "wire/constants.hpp"
#include "wire/rnr_timer.hpp"

namespace mprdma::swarm {

namespace {

constexpr const char* kKindNames[] = {"normal", "clean",    "access", "local-error", "silent",
                                      "rnr",    "too-long", "reset",  "garbage"};
static_assert(std::size(kKindNames) == static_cast<size_t>(Kind::kCount));

constexpr uint32_t kMillion = 1'000'000;

uint32_t rate(Prng& prng) {
  return pick<uint32_t>(prng, {0, 0, 1000, 10'000, 50'000, 100'000, 300'000});
}

// Draws paths of different length, and some that lose. On a perfect network they differ by less
// than the time of eight packets, so that reordering stays below the smallest delta.
void draw_lanes(Prng prng, bool clean, LinkKnobs& link) {
  link.lane_salt = static_cast<uint32_t>(prng.next_u64());
  if (prng.chance(1, 3)) return;
  const Duration four_packets =
      Duration::ns(static_cast<int64_t>(4 * 130 * 8 * 1000 / link.bits_per_us));
  const Duration most = clean ? std::min(four_packets, link.delay / 16)
                              : link.delay * static_cast<int64_t>(log_uniform(prng, 1, 32));
  for (LaneKnobs& lane : link.lanes) {
    lane.delay =
        Duration::ns(static_cast<int64_t>(prng.below(static_cast<uint64_t>(most.count_ns()) + 1)));
    if (clean || !prng.chance(1, 4)) continue;
    lane.loss_ppm = pick<uint32_t>(prng, {1'000, 10'000, 100'000, 500'000, kMillion});
  }
}

LinkKnobs draw_link(Prng prng, bool clean) {
  LinkKnobs link;
  link.delay = log_duration(prng, Duration::ns(200), Duration::us(300));
  link.bits_per_us = pick<uint64_t>(prng, {1'000, 10'000, 40'000, 100'000});
  link.bottleneck_bits_per_us = prng.chance(1, 2) ? link.bits_per_us : link.bits_per_us / 4;
  link.port_packets = static_cast<uint32_t>(log_uniform(prng, 1, 128));
  link.mark_bytes = pick<uint32_t>(prng, {0, 1, 2'000, 20'000});
  draw_lanes(prng.split("lanes"), clean, link);
  if (clean) return link;
  link.loss_data_ppm = rate(prng);
  link.loss_ack_ppm = rate(prng);
  link.burst_loss = pick<uint32_t>(prng, {0, 0, 0, 3, 20});
  if (link.burst_loss > 0) {
    link.loss_data_ppm = std::min<uint32_t>(link.loss_data_ppm, 20'000);
    link.loss_ack_ppm = std::min<uint32_t>(link.loss_ack_ppm, 20'000);
  }
  link.duplicate_ppm = pick<uint32_t>(prng, {0, 0, 5'000, 100'000});
  link.duplicate_delay_max = link.delay * static_cast<int64_t>(log_uniform(prng, 1, 64));
  link.reorder_ppm = pick<uint32_t>(prng, {0, 0, 10'000, 100'000, 500'000});
  link.reorder_delay_max = link.delay * static_cast<int64_t>(log_uniform(prng, 1, 16));
  link.jitter_max =
      prng.chance(1, 3) ? log_duration(prng, Duration::ns(10), Duration::us(50)) : Duration::zero();
  link.queue_bytes = pick<uint32_t>(prng, {0, 0, 10'000, 60'000, 400'000});
  return link;
}

// Draws one path, or many with any set of switches; every eighth run has the paper's algorithm.
void draw_paths(Prng prng, transport::Params& p) {
  using transport::Params;
  using transport::PathPolicy;
  using transport::RestartRule;
  const bool clocked = prng.chance(3, 4);
  const bool recycles = prng.split("recycled").chance(2, 3);
  p.path_policy = !clocked   ? PathPolicy::kSingle
                  : recycles ? PathPolicy::kRecycled
                             : PathPolicy::kAckClocked;
  p.path_probe_per_mille = pick<uint32_t>(prng, {0, 0, 10, 100, 1000});
  Prng credits = prng.split("credits");
  p.path_probe_interval =
      pick<Duration>(credits, {Duration::zero(), Duration::us(100), Duration::ms(10)});
  p.own_ack_credit = credits.chance(3, 4);
  p.path_window_reduction = prng.chance(3, 4);
  p.window_give_back = prng.chance(3, 4);
  p.window_spacing = prng.split("spacing").chance(3, 4);
  p.restart = pick<RestartRule>(prng, {RestartRule::kNever, RestartRule::kIdle,
                                       RestartRule::kUncongested, RestartRule::kUncongested});
  if (p.path_policy == PathPolicy::kSingle) {
    if (prng.split("spray").chance(1, 2)) p.path_policy = PathPolicy::kSpray;
    if (prng.split("reps").chance(1, 4)) p.path_policy = PathPolicy::kReps;
    return;
  }
  p.recovery = prng.chance(7, 8) ? transport::Recovery::kMp : transport::Recovery::kPaper;
  if (prng.chance(7, 8)) return;
  const Params drawn = p;
  p = Params::mp_paper();
  p.window_slots = drawn.window_slots;
  p.initial_window = drawn.initial_window;
  p.window_max = drawn.window_max;
  p.reorder_delta = drawn.reorder_delta;
  p.rto_floor = drawn.rto_floor;
  p.rto_ceiling = drawn.rto_ceiling;
  p.initial_rtt = drawn.initial_rtt;
}

// Draws a window that follows the delay: one in eight.
void draw_delay_window(Prng prng, transport::Params& p) {
  if (!prng.chance(1, 8)) return;
  p.window_control = prng.chance(1, 2) ? cc::WindowControl::kSwift : cc::WindowControl::kNscc;
  if (prng.chance(1, 2)) p.link_mbps = 1000;
  if (prng.chance(1, 2)) p.base_rtt = log_duration(prng, Duration::us(1), Duration::ms(1));
  if (prng.chance(1, 2)) p.target_delay = log_duration(prng, Duration::us(1), Duration::ms(1));
}

// Draws windows over their whole ranges, and times from the smallest value to one that a run can
// wait for.
transport::Params draw_params(Prng prng, uint32_t window_slots) {
  using transport::Params;
  Params p;
  const auto low = [](auto member) { return param_range(member).low; };
  p.window_slots = window_slots;
  p.initial_window =
      static_cast<uint32_t>(log_uniform(prng, low(&Params::initial_window), window_slots));
  p.window_max =
      static_cast<uint32_t>(prng.range(p.initial_window, param_range(&Params::window_max).high));
  p.loss_trigger =
      prng.chance(1, 4)
          ? 0
          : static_cast<uint32_t>(prng.range(low(&Params::loss_trigger), window_slots));
  p.reorder_delta = static_cast<uint32_t>(prng.range(low(&Params::reorder_delta), window_slots));
  p.limit_growth = prng.chance(3, 4);
  p.loss_shrinks_window = prng.chance(3, 4);
  p.timeout_shrinks_window = prng.chance(3, 4);
  p.adapt_timeout = prng.split("adapt").chance(3, 4);
  p.sync_wait_is_backlog = prng.split("sync wait").chance(3, 4);
  p.loss_by_time = prng.chance(3, 4);
  p.tail_probe = prng.chance(3, 4);
  const auto least = [&](auto member) { return Duration::us(low(member)); };
  p.rto_floor = log_duration(prng, least(&Params::rto_floor), Duration::ms(20));
  p.rto_ceiling =
      std::max(p.rto_floor, log_duration(prng, least(&Params::rto_ceiling), Duration::s(1)));
  p.probe_floor = log_duration(prng, least(&Params::probe_floor), Duration::ms(5));
  p.initial_rtt = log_duration(prng, least(&Params::initial_rtt), Duration::ms(2));
  p.ack_map = prng.split("ack map").chance(3, 4);
  p.timeout_tries = static_cast<uint32_t>(prng.split("timeout tries").range(1, 64));
  if (prng.split("window control").chance(1, 8)) p.window_control = cc::WindowControl::kDctcp;
  draw_delay_window(prng.split("delay window"), p);
  draw_paths(prng.split("paths"), p);
  Prng follow = prng.split("follow");
  if (follow.chance(1, 4)) p.window_rtt = Duration::zero();
  p.link_mbps = pick<uint32_t>(follow, {0, 1'000, 40'000, 100'000});
  return p;
}

// Draws a power of two of the range.
uint32_t draw_window_slots(Prng& prng) {
  constexpr transport::ParamRange kRange = param_range(&transport::Params::window_slots);
  constexpr auto kPowers = std::bit_width(kRange.high) - std::bit_width(kRange.low) + 1;
  // Mostly small ones, which are soon full.
  constexpr auto kSmall = 5;
  return kRange.low << prng.below(prng.split("wide").chance(1, 4) ? kPowers : kSmall);
}

// Draws a PSN near the wrap, near 0, near 2^23, or anywhere.
Psn draw_psn(Prng& prng) {
  switch (prng.below(4)) {
    case 0:
      return Psn(0) - static_cast<uint32_t>(prng.range(1, 400));
    case 1:
      return Psn(static_cast<uint32_t>(prng.below(4)));
    case 2:
      return Psn(1u << 23) - static_cast<uint32_t>(prng.below(200));
    default:
      return Psn(static_cast<uint32_t>(prng.next_u64()));
  }
}

void draw_placement(Prng prng, SideKnobs& side) {
  using transport::PlacementPolicy;
  side.relaxed_target = prng.chance(1, 2);
  side.relaxed_sink = prng.chance(1, 2);
  side.sync_ppm = pick<uint32_t>(prng, {0, 0, 100'000, 500'000});
  transport::Params& p = side.params;
  p.placement = pick<PlacementPolicy>(
      prng, {PlacementPolicy::kStandard, PlacementPolicy::kStandard, PlacementPolicy::kStandard,
             PlacementPolicy::kRelaxed, PlacementPolicy::kOrdered});
  p.sync_policy =
      prng.chance(2, 3) ? transport::SyncPolicy::kOptimistic : transport::SyncPolicy::kStopAndWait;
  p.sync_alpha = Fixed16::from_raw(Fixed16::kOneRaw / 2 * static_cast<uint32_t>(prng.below(5)));
}

void draw_atomics_and_windows(Prng prng, SideKnobs& side) {
  side.window_type2 = prng.chance(2, 3);
  side.window_zero_based = side.window_type2 && prng.chance(1, 2);
  if (prng.chance(1, 3)) return;
  for (uint32_t i = kPlainOperations; i < kOperations; ++i) {
    side.weights[i] = static_cast<uint32_t>(prng.below(4));
  }
}

SideKnobs draw_side(Prng prng, const Scenario& scenario, uint32_t window_slots) {
  SideKnobs side;
  side.params = draw_params(prng.split("params"), window_slots);
  side.operations = static_cast<uint32_t>(log_uniform(prng, 1, 200));
  if (prng.chance(1, 6)) side.operations = 0;
  side.send_pattern = static_cast<SendPattern>(prng.below(4));
  side.recv_pattern = static_cast<RecvPattern>(prng.below(3));
  side.pace = log_duration(prng, Duration::ns(100), Duration::ms(1));
  side.send_depth = static_cast<uint32_t>(log_uniform(prng, 1, 64));
  side.recv_depth = static_cast<uint32_t>(log_uniform(prng, 1, 32));
  side.send_sge = static_cast<uint32_t>(log_uniform(prng, 1, transport::kMaxSge));
  side.recv_sge = static_cast<uint32_t>(log_uniform(prng, 1, transport::kMaxSge));
  side.signal_all = prng.chance(1, 4);
  side.signaled_ppm = pick<uint32_t>(prng, {0, 100'000, 500'000, kMillion, kMillion});
  side.fence_ppm = pick<uint32_t>(prng, {0, 0, 100'000, 500'000});
  side.inline_ppm = pick<uint32_t>(prng, {0, 0, 200'000, kMillion});
  for (uint32_t i = 0; i < kPlainOperations; ++i) {
    side.weights[i] = static_cast<uint32_t>(prng.below(4));
  }
  side.weights[prng.below(kPlainOperations)] += 3;
  draw_atomics_and_windows(prng.split("atomics and windows"), side);
  side.max_rd_atomic = static_cast<uint8_t>(log_uniform(prng, 1, 32));
  side.sq_psn = draw_psn(prng);
  side.vp = static_cast<uint16_t>(prng.range(wire::kVirtualPathMin, wire::kVirtualPathMax));
  side.path_seed = prng.next_u64();
  draw_placement(prng.split("placement"), side);
  if (scenario.kind == Kind::kClean) side.recv_pattern = RecvPattern::kEager;
  return side;
}

// On a perfect network no silence is a loss, so no timer is shorter than a round trip through full
// queues.
void keep_timers_above_rtt(Scenario& scenario) {
  const Duration full_queues = Duration::us(256ll * 4500 * 8 * 2 * scenario.queue_pairs / 250);
  const Duration rtt = scenario.links[0].delay + scenario.links[1].delay + full_queues;
  if (scenario.timeout > 0) {
    while (Duration::ns(4096) * (int64_t{1} << scenario.timeout) < rtt) ++scenario.timeout;
  }
  for (auto& sides : scenario.sides) {
    for (SideKnobs& side : sides) {
      transport::Params& p = side.params;
      p.initial_rtt = std::max(p.initial_rtt, rtt);
      p.rto_floor = std::max(p.rto_floor, rtt * 8);
      if (p.rto_low != Duration::zero()) p.rto_low = p.rto_high = p.rto_floor;
      p.rto_ceiling = std::max(p.rto_ceiling, p.rto_floor);
      p.probe_floor = std::max(p.probe_floor, rtt * 4);
    }
  }
}

// Makes a run of bulk traffic through large windows: deep maps, many losses at once, real
// congestion.
void make_heavy(Scenario& s, Prng prng) {
  s.path_mtu = pick<uint32_t>(prng, {256, 512});
  s.message_max = 32 * 1024;
  s.sizes = Sizes::kUniform;
  for (uint32_t n = 0; n < 2; ++n) s.links[n].mark_bytes = prng.chance(1, 2) ? 0 : 20'000;
  for (auto& sides : s.sides) {
    for (SideKnobs& side : sides) {
      side.send_pattern = SendPattern::kBulk;
      side.recv_pattern = prng.chance(1, 2) ? RecvPattern::kEager : RecvPattern::kLazy;
      side.operations = std::min<uint32_t>(side.operations, 30);
      side.send_depth = std::max<uint32_t>(side.send_depth, 16);
      side.recv_depth = std::max<uint32_t>(side.recv_depth, 8);
      transport::Params& p = side.params;
      p.initial_window = static_cast<uint32_t>(prng.range(p.window_slots / 2, p.window_slots));
      p.window_max = param_range(&transport::Params::window_max).high;
    }
  }
}

// Draws a controller that follows the round trip, in every fourth run. Its least rate, a thousandth
// of the link, is that of a slow network here. Half of the others know their link, and obey CNPs.
void draw_rate(Prng prng, transport::Params& p) {
  using transport::Congestion;
  if (prng.chance(1, 4)) {
    p.congestion = prng.chance(1, 2) ? Congestion::kTimely : Congestion::kTimelyPatched;
  } else if (prng.chance(1, 2)) {
    return;
  }
  p.link_mbps = static_cast<uint32_t>(log_uniform(prng, 100'000, 1'000'000));
  p.timely_low = log_duration(prng, Duration::us(1), Duration::us(500));
  p.timely_high = p.timely_low + log_duration(prng, Duration::us(1), Duration::ms(2));
}

// Draws a window control: one in four.
void draw_roce_window(Prng prng, transport::Params& p) {
  if (!prng.chance(1, 4)) return;
  p.window_control = prng.chance(1, 2) ? cc::WindowControl::kSwift : cc::WindowControl::kAimd;
  p.initial_window = static_cast<uint32_t>(prng.range(1, p.window_max));
  p.loss_shrinks_window = prng.chance(3, 4);
  if (prng.chance(1, 2)) p.base_rtt = log_duration(prng, Duration::us(1), Duration::ms(1));
  if (prng.chance(1, 2)) p.target_delay = log_duration(prng, Duration::us(1), Duration::ms(1));
}

// Turns the run into one between connections of the standard.
void make_roce(Scenario& s, Prng prng) {
  s.protocol = transport::Protocol::kRoce;
  // Both ends recover alike. Where much is lost or late, a long message never arrives.
  const bool go_back_0 = prng.split("go-back-0").chance(1, 4);
  if (go_back_0) s.message_max = std::min(s.message_max, 8 * s.path_mtu);
  for (auto& sides : s.sides) {
    for (SideKnobs& side : sides) {
      const transport::Params drawn = side.params;
      side.params = transport::Params::roce();
      side.params.window_max = static_cast<uint32_t>(prng.range(1, 64));
      side.params.rto_floor = drawn.rto_floor;
      side.params.go_back_0 = go_back_0;
      draw_rate(prng.split("rate"), side.params);
      draw_roce_window(prng.split("window control"), side.params);
      side.relaxed_target = side.relaxed_sink = false;
      side.sync_ppm = 0;
    }
  }
  if (s.timeout > 0 && s.timeout < 20) return;
  // Only the transport timer recovers a lost tail. Its retries last until the network is perfect:
  // the first takes one timeout, the others 1.75 each.
  s.timeout = static_cast<uint8_t>(prng.range(11, 13));
  s.retry_cnt = 7;
}

Kind draw_kind(Prng& prng) {
  const uint64_t draw = prng.below(100);
  if (draw < 60) return Kind::kNormal;
  if (draw < 68) return Kind::kClean;
  constexpr Kind kRare[] = {Kind::kAccess,  Kind::kLocalError, Kind::kSilent, Kind::kRnrExhaust,
                            Kind::kTooLong, Kind::kReset,      Kind::kReset,  Kind::kGarbage};
  return kRare[(draw - 68) / 4];
}

void draw_retries(Scenario& s, Prng& prng) {
  s.timeout = 0;
  s.retry_cnt = static_cast<uint8_t>(prng.below(8));
  s.rnr_retry = 7;
  // RNR code 0 is the longest, 655 ms.
  s.min_rnr_timer = static_cast<uint8_t>(prng.chance(1, 10) ? prng.below(32) : prng.range(1, 16));
  const bool peer_dies =
      s.kind == Kind::kSilent || s.kind == Kind::kLocalError || s.kind == Kind::kRnrExhaust;
  if (peer_dies) {
    // The timeout is well above the delays that loss alone causes.
    s.timeout = static_cast<uint8_t>(prng.range(13, 17));
    s.retry_cnt = 7;
    s.min_rnr_timer = static_cast<uint8_t>(prng.range(1, 10));
  }
  if (s.kind == Kind::kRnrExhaust) s.rnr_retry = static_cast<uint8_t>(prng.below(7));
  // Retries last so long that only silence ends in an error.
  if (s.kind == Kind::kNormal && prng.chance(1, 2)) {
    s.timeout = static_cast<uint8_t>(prng.range(20, 31));
    s.retry_cnt = static_cast<uint8_t>(prng.range(2, 7));  // a question may be lost
  }
}

// Draws what the queue pairs of a host share: its link, the budget for held packets, receives.
void draw_hosts(Scenario& s, const Prng& root, Prng& prng) {
  const bool clean = s.kind == Kind::kClean;
  for (uint32_t n = 0; n < 2; ++n) {
    s.links[n] = draw_link(root.split("link knobs").split(n), clean);
    // Room for every window behind a receiver that is not ready, too.
    const auto ample = static_cast<uint32_t>(s.queue_pairs * 2 * transport::kWindowSlotsMax) *
                       (1 + transport::HeldPool::kNotReadyShare);
    s.held_budget[n] = pick<uint32_t>(prng, {0, 1, 2, 8, 64, ample, ample, ample});
    // On a perfect network, overtaken packets must find room.
    if (clean) s.held_budget[n] = ample;
    // These runs have receives of their own: a post to a shared queue lets a waiting message in
    // only when its sender asks again, and receives of other queue pairs would count.
    const bool own = clean || s.kind == Kind::kRnrExhaust || s.kind == Kind::kGarbage;
    s.shared_receives[n] = !own && root.split("shared receives").split(n).chance(1, 3);
  }
}

// A short retry of the queue pair leaves no time for long timers of its streams.
void shorten_timers(Scenario& s) {
  for (auto& sides : s.sides) {
    for (SideKnobs& side : sides) {
      transport::Params& p = side.params;
      p.rto_floor = std::min(p.rto_floor, Duration::ms(4));
      p.rto_ceiling = std::clamp(p.rto_ceiling, p.rto_floor, Duration::ms(8));
    }
  }
}

}  // namespace

const char* kind_name(Kind kind) {
  return kKindNames[static_cast<size_t>(kind)];
}

Scenario draw_scenario(uint64_t seed, Kind want, transport::Protocol protocol) {
  const Prng root(seed);
  Prng prng = root.split("scenario");
  Scenario s;
  s.seed = seed;
  s.kind = draw_kind(prng);
  if (want != Kind::kCount) s.kind = want;
  const bool clean = s.kind == Kind::kClean;
  s.queue_pairs = prng.chance(2, 3) ? 1 : static_cast<uint32_t>(prng.range(2, 4));
  s.path_mtu = pick<uint32_t>(prng, {256, 512, 1024, 2048, 4096});
  s.message_max =
      static_cast<uint32_t>(log_uniform(prng, prng.chance(1, 2) ? 1 : s.path_mtu, 64 * s.path_mtu));
  s.message_max = std::min<uint32_t>(s.message_max, 64 * 1024);
  s.sizes = static_cast<Sizes>(prng.below(static_cast<uint64_t>(Sizes::kCount)));
  // Timestamps have 32 bits: start just before they wrap, or anywhere.
  s.start = Time::from_ns(prng.chance(1, 2)
                              ? (int64_t{1} << 32) - static_cast<int64_t>(prng.below(1'000'000))
                              : static_cast<int64_t>(prng.below(uint64_t{1} << 50)));
  s.clean_at = s.start + log_duration(prng, Duration::us(100), Duration::ms(60));
  if (!clean && prng.chance(1, 8)) {
    s.connect_skew = log_duration(prng, Duration::us(1), Duration::ms(2));
  }
  if (s.kind == Kind::kNormal && prng.chance(1, 4)) {
    s.hostile_gap = log_duration(prng, Duration::us(1), Duration::us(200));
  }
  if (s.kind == Kind::kGarbage)
    s.hostile_gap = log_duration(prng, Duration::us(1), Duration::us(50));
  if (!clean && prng.chance(1, 6)) {
    s.nap_percent = static_cast<uint32_t>(prng.range(5, 80));
    s.nap_max = log_duration(prng, Duration::us(5), Duration::ms(3));
  }
  draw_retries(s, prng);
  const uint32_t window_slots = draw_window_slots(prng);
  draw_hosts(s, root, prng);
  for (uint32_t q = 0; q < s.queue_pairs; ++q) {
    auto& sides = s.sides.emplace_back();
    for (uint32_t n = 0; n < 2; ++n) {
      sides[n] = draw_side(root.split("side").split(q * 2 + n), s, window_slots);
    }
  }
  if (prng.chance(1, 8)) make_heavy(s, root.split("heavy"));
  if (protocol == transport::Protocol::kRoce) make_roce(s, root.split("roce"));
  if (protocol == transport::Protocol::kIrn) make_irn(s, root.split("irn"));
  if (clean) keep_timers_above_rtt(s);
  if (s.timeout > 0 && s.timeout < 20) shorten_timers(s);
  return s;
}

std::string to_string(const Scenario& s) {
  std::string text = fmt::format(
      "kind {}{} queue pairs {} mtu {} message max {} clean after {} us skew {} ns nap {} % of {} "
      "ns "
      "hostile every {} ns timeout {} retry {} rnr retry {} rnr timer {} held {} {} shared "
      "receives {} {}\n",
      s.protocol == transport::Protocol::kMp ? "" : std::string(word_of(s.protocol)) + " ",
      kind_name(s.kind), s.queue_pairs, s.path_mtu, s.message_max,
      (s.clean_at - s.start).count_ns() / 1000, s.connect_skew.count_ns(), s.nap_percent,
      s.nap_max.count_ns(), s.hostile_gap.count_ns(), s.timeout, s.retry_cnt, s.rnr_retry,
      s.min_rnr_timer, s.held_budget[0], s.held_budget[1], s.shared_receives[0],
      s.shared_receives[1]);
  for (const LinkKnobs& l : s.links) {
    text += fmt::format(
        "link: lost {} ppm of data {} of acks, burst {}, twice {} ppm within {} ns, late {} ppm by "
        "{} ns, delay {} jitter {}, {}/{} Mb/s, queue {} mark {} port {}\n",
        l.loss_data_ppm, l.loss_ack_ppm, l.burst_loss, l.duplicate_ppm,
        l.duplicate_delay_max.count_ns(), l.reorder_ppm, l.reorder_delay_max.count_ns(),
        l.delay.count_ns(), l.jitter_max.count_ns(), l.bits_per_us, l.bottleneck_bits_per_us,
        l.queue_bytes, l.mark_bytes, l.port_packets);
    for (const LaneKnobs& lane : l.lanes) {
      text +=
          fmt::format("  path: {} ns more, lost {} ppm\n", lane.delay.count_ns(), lane.loss_ppm);
    }
  }
  for (const auto& sides : s.sides) {
    for (const SideKnobs& k : sides) {
      const transport::Params& p = k.params;
      text += fmt::format(
          "side: ops {} patterns {}/{} pace {} ns depth {}/{} sge {}/{} weights {} rd "
          "{} psn {} L {} iw {} max {} trigger {} delta {} rto {}..{} us probe {} us rtt {} us\n",
          k.operations, static_cast<int>(k.send_pattern), static_cast<int>(k.recv_pattern),
          k.pace.count_ns(), k.send_depth, k.recv_depth, k.send_sge, k.recv_sge,
          fmt::join(k.weights, " "), k.max_rd_atomic, k.sq_psn.value(), p.window_slots,
          p.initial_window, p.window_max, p.loss_trigger, p.reorder_delta,
          p.rto_floor.count_ns() / 1000, p.rto_ceiling.count_ns() / 1000,
          p.probe_floor.count_ns() / 1000, p.initial_rtt.count_ns() / 1000);
      text += fmt::format(
          "  control {} paths {} probing {} or {} us own {} grow {} loss {} rto {} adapt {} late "
          "{} probe {} tries {} map {} reduce {} back {} space {} "
          "restart {} sync wait {}\n",
          static_cast<int>(p.window_control), static_cast<int>(p.path_policy),
          p.path_probe_per_mille, p.path_probe_interval.count_ns() / 1000, p.own_ack_credit,
          p.limit_growth, p.loss_shrinks_window, p.timeout_shrinks_window, p.adapt_timeout,
          p.loss_by_time, p.tail_probe, p.timeout_tries, p.recovery == transport::Recovery::kMp,
          p.path_window_reduction, p.window_give_back, p.window_spacing,
          static_cast<int>(p.restart), p.sync_wait_is_backlog);
      text += fmt::format(
          "  placement {} relaxed target {} sink {} synchronise {} ppm, policy {} alpha {}/2, "
          "window "
          "of type {} zero-based {}\n",
          static_cast<int>(p.placement), k.relaxed_target, k.relaxed_sink, k.sync_ppm,
          static_cast<int>(p.sync_policy), p.sync_alpha.raw() * 2 / Fixed16::kOneRaw,
          k.window_type2 ? 2 : 1, k.window_zero_based);
    }
  }
  return text;
}

}  // namespace mprdma::swarm
