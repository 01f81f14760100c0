// Send credits and path selection of the sender half (paper 3.2 to 3.5): what grants a credit, and
// on which path a packet leaves. A stream whose gate is the window alone has no credits.
#include <algorithm>

#include "transport/path/echoed_path.hpp"
#include "transport/stream/stream_sender.hpp"

namespace mprdma::transport {

// An acknowledgement is here. Judges once for each point in time whether the wire is the limit, by
// the backlog before it: a host that handles acknowledgements in bursts sends only after the burst.
void StreamSender::begin_instant(Time now) {
  heard_ = true;
  if (now != use_.instant) {
    use_.instant = now;
    use_.wire_waits = use_.wire_limited || gate_.credits() > kWireBacklogMax;
    if (gate_.clocked()) use_.wire_limited = false;
  }
  if (now - round_.start < srtt()) return;
  const bool alone = round_.first.distance_to(nxt()) <= 1;
  round_.start = now;
  round_.first = nxt();
  round_.vps_before = round_.vps;
  round_.vps = 0;
  follow_network();
  paths_.on_round();
  gate_.note_orphans(late_.end_round(una()));
  if (!gate_.clocked()) return;
  round_.explore = paths_.chance(explore_per_mille(alone));
  if (params_.path_probe_per_mille > 0 && paths_.seeks()) round_.explore = true;
}

// The window may grow to two bandwidth-delay products of the link and the least round trip, where
// that is more than is configured; what is judged by a distance of PSNs grows in proportion. It
// fits the window that was agreed with the peer.
void StreamSender::follow_network() {
  if (params_.window_rtt == Duration::zero() || !rtt_.measured()) return;
  const uint64_t wanted = 2 * bandwidth_delay(params_.link_mbps, rtt_.least(), path_mtu_);
  const uint32_t room = std::max(params_.window_max, params_.window_slots);
  const auto most = static_cast<uint32_t>(std::clamp<uint64_t>(wanted, params_.window_max, room));
  // Where L bounds the window, the product may change and `most` does not.
  if (most != window_max_ || wanted > most) follow(most);
}

// `most`: the largest window.
void StreamSender::follow(uint32_t most) {
  window_max_ = most;
  // Nothing is as far as the window of the receiver.
  const auto scaled = [&](uint32_t configured) {
    const uint64_t distance = uint64_t{configured} * most / params_.window_max;
    return static_cast<uint32_t>(std::min<uint64_t>(distance, params_.window_slots));
  };
  // Half of `most` is less where L is what bounds the window.
  const uint64_t needed = bandwidth_delay(params_.link_mbps, rtt_.least(), path_mtu_);
  const auto product = static_cast<uint32_t>(
      std::min<uint64_t>({needed, uint64_t{most}, uint64_t{params_.window_slots}}));
  window_.follow(std::max(params_.initial_window, product), most);
  reorder_delta_ = scaled(params_.reorder_delta);
  if (MpRecovery* const detector = recovery_.mp()) {
    detector->set_reach(scaled(params_.loss_trigger), reorder_delta_);
  }
}

// A path that was lost, or has been repaired, is found by chance alone: once in so many round
// trips, which take milliseconds where hosts in software or slow links make them. A packet that is
// alone in its round trip is missed by nobody but the tail probe, which may take many of them: as
// much rarer it explores.
uint32_t StreamSender::explore_per_mille(bool alone) const {
  const uint32_t by_rounds = params_.path_probe_per_mille;
  const int64_t interval_ns = params_.path_probe_interval.count_ns();
  if (interval_ns == 0 || by_rounds == 0) return by_rounds;
  const auto by_time = std::min<int64_t>(srtt().count_ns() * 1000 / interval_ns, kExploreMax);
  const uint32_t per_mille = std::max(by_rounds, static_cast<uint32_t>(by_time));
  if (!params_.tail_probe || !alone) return per_mille;
  const int64_t rare = per_mille * srtt().count_ns() * kExploredWait / probe_timeout().count_ns();
  return std::clamp(static_cast<uint32_t>(rare), 1U, per_mille);
}

// An acknowledgement is about to advance snd_una to `aack`: the packets in flight that it covers
// have arrived, and their own acknowledgements are under way, except that of `named`.
void StreamSender::expect_late_acks(Psn aack, Psn named) {
  if (!params_.own_ack_credit || !gate_.clocked() || !recovery_.exact()) return;
  const Psn end = psn_max(board_.sack_end(), aack);
  for (Psn psn = una(); psn.before(aack); ++psn) {
    if (psn == named || board_.sacked(psn) || board_.lost(psn)) continue;
    late_.expect(psn, judge_lag(psn, end));
  }
}

// Tells what kept the stream from sending more before this acknowledgement.
cc::LimitedBy StreamSender::limited_by(bool has_new, Lag lag) const {
  if (lag != Lag::kSmall) return cc::LimitedBy::kPath;
  if (!params_.limit_growth) return cc::LimitedBy::kWindow;
  const bool clocked = gate_.clocked();
  // A window that ramps is one burst: its acknowledgements come as fast as the wire sends, and each
  // lets two packets leave while the wire takes one. The wire rests for the rest of the round trip.
  const bool wire = clocked ? use_.wire_waits : use_.wire_limited;
  if (wire && !window_.ramps()) return cc::LimitedBy::kWire;
  const bool backlog = clocked ? has_new || board_.due_count() > 0 : use_.window_limited;
  return backlog ? cc::LimitedBy::kWindow : cc::LimitedBy::kApplication;
}

// Judges a path by a packet that came over it when end - 1 was the furthest one. With delta = L no
// path is too slow.
Lag StreamSender::judge_lag(Psn psn, Psn end) const {
  if (reorder_delta_ >= params_.window_slots) return Lag::kSmall;
  const int32_t lag = psn.distance_to(end) - 1;
  const auto delta = static_cast<int32_t>(reorder_delta_);
  if (lag > delta) return Lag::kSlow;
  return params_.own_ack_credit && lag > delta * 3 / 4 ? Lag::kLimit : Lag::kSmall;
}

// Grants the credits of an acknowledgement, after the window and the maps were updated.
void StreamSender::grant_credits(const PathSample& ack, bool progress, bool has_new) {
  if (gate_.clocked()) grant_clocked(ack, progress, has_new);
  if (progress && (ack.ece || !plain_)) space(ack.now);
}

void StreamSender::grant_clocked(const PathSample& ack, bool progress, bool has_new) {
  const bool work = has_new || has_due() || early_candidate().any();
  const bool keep = progress && keeps_path(gate_.pathless());
  const uint16_t own = keep ? uint16_t{0} : ack.vp;
  const bool room = gate_.on_ack(ack.now, own, facts(), work && !ack.slow ? recovery_.burst() : 0);
  if (progress && !ack.slow && (!work || (keep && room))) note_spare(ack);
  if (room && !ack.slow && !work && progress && params_.path_window_reduction) {
    window_.on_unused_ack();
    ++stats_.window_reductions;
    ++counters_->window_reductions;
  }
  gate_.update(facts(), work);
}

// The path of an acknowledgement that finds nothing to send, or whose credit does not take it.
void StreamSender::note_spare(const PathSample& ack) {
  if (ack.vp != 0) paths_.on_spare(ack, srtt());
}

void StreamSender::on_peer_path(uint16_t vp) {
  if (const uint16_t path = echoed_path(vp); path != 0) paths_.on_peer(path);
}

void StreamSender::on_clocked_backlog(Time now) {
  if (in_hardware()) [[unlikely]]
    return hardware_event(now, HardwareSender::Kind::kPost, true);
  if (restart_due(now)) return restart(now);
  const bool recovers = params_.restart == RestartRule::kUncongested && idle() &&
                        now - last_congestion_ > srtt() * kForgetCongestionRtts &&
                        (plain_ || !window_.has_deficit());
  if (params_.window_give_back) window_.give_back();
  if (recovers) {
    const Fixed16 before = window_.exact();
    window_.recover();
    if (window_.exact() != before) count_restart(now);
  }
  if (recovers || params_.window_give_back) gate_.refill(facts());
}

bool StreamSender::restart_due(Time now) const {
  return params_.restart == RestartRule::kIdle && rtt_.measured() && idle() &&
         now - last_progress_ > spaced_round() * kRestartRtts;
}

void StreamSender::restart(Time now) {
  window_.reset();
  stop_spacing();
  recovery_.on_restart();
  late_.forget(una());
  gate_.restart(facts());
  count_restart(now);
}

void StreamSender::count_restart(Time now) {
  ++stats_.restarts;
  ++counters_->window_restarts;
  if (trace_.on()) [[unlikely]] {
    raise(now, TraceKind::restart, board_.nxt());
  }
}

// The new packet leaves on a path that may take longer than those in use: twice as long as the
// slowest straggler (Stragglers::takes), and at least `least`. A tail probe has to come before the
// timeout.
void StreamSender::expect_long_trip(Psn psn, Duration least) {
  const RecycledPaths* const recycled = paths_.as<RecycledPaths>();
  if (recycled == nullptr) return;
  if (long_trip_ && board_.outstanding(*long_trip_) && !board_.arrived(*long_trip_)) return;
  long_trip_ = psn;
  const Duration takes = std::max(recycled->stragglers().takes(), least);
  long_trip_takes_ = std::min({takes, srtt() * Stragglers::kTakesMax, base_rto() / 2});
  probe_.patience = std::max(probe_.patience, long_trip_takes_);
}

// The path of a packet that leaves now.
uint16_t StreamSender::choose_path(Time now, const Choice& choice) {
  std::optional<uint16_t> granted;
  if (choice.kind != Choice::Kind::kProbe) {
    granted = gate_.consume(now, spaced_round() * kRestartRtts,
                            choice.retransmits() && params_.own_ack_credit);
    if (round_.explore && (granted || paths_.retries()) &&
        !(choice.retransmits() && paths_.retries())) {
      round_.explore = false;
      expect_long_trip(choice.psn, srtt() * kExploredTrip);
      ++stats_.path_probes;
      ++counters_->path_probes;
      ++stats_.random_paths;
      return note_path(paths_.explore(now));
    }
  }
  if (choice.retransmits() && paths_.retries())
    return note_path(path_of_copy(now, choice, granted));
  if (granted) return note_path(*granted);
  stats_.random_paths += gate_.clocked() ? 1 : 0;
  const uint16_t vp = paths_.draw(now, idle());
  const RecycledPaths* const recycled = paths_.as<RecycledPaths>();
  if (recycled != nullptr && recycled->stragglers().has(vp)) {
    expect_long_trip(choice.psn, Duration::zero());
  }
  return note_path(vp);
}

// A copy leaves on another path than the packet that was lost, as far as that is known.
uint16_t StreamSender::path_of_copy(Time now, const Choice& choice,
                                    std::optional<uint16_t> granted) {
  const uint16_t lost_on = path_of(choice.psn);
  if (granted && *granted != lost_on) return *granted;
  stats_.random_paths += gate_.clocked() ? 1 : 0;
  if (choice.kind == Choice::Kind::kProbe) {
    const uint32_t attempt = probe_.tries;
    if (probe_.tries < UINT8_MAX) ++probe_.tries;
    return paths_.retry(now, lost_on, attempt);
  }
  return paths_.retry(now, lost_on, 0);
}

}  // namespace mprdma::transport
