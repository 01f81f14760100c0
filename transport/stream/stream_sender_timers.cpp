// The timers of the sender half. None is armed by hand: each follows from the state of the stream,
// so that no event can forget to move one.
#include <algorithm>

#include "transport/stream/offload_fields.hpp"
#include "transport/stream/stream_sender.hpp"

namespace mprdma::transport {

Duration StreamSender::base_rto() const {
  return rto_.shortest(params_, rtt_);
}

Duration StreamSender::probe_timeout() const {
  // Everybody may have begun at once, and the first queue be the longest.
  if (!rtt_.measured()) return std::max(params_.probe_floor, params_.initial_rtt * 10);
  const Duration variance = params_.adapt_timeout ? rtt_.with_variance() : Duration::zero();
  const Duration largest = rtt_.cold() ? first_round_trips() : rtt_.largest() + srtt() / 4;
  return std::max({params_.probe_floor, srtt() * 2, variance, largest});
}

// The silence before the first tail probe.
Duration StreamSender::patience() const {
  const Duration usual = probe_timeout();
  if (!long_trip_ || long_trip_->before(una()) || long_trip_->after(nxt())) return usual;
  if (long_trip_->before(nxt()) && board_.arrived(*long_trip_)) return usual;
  return std::max(usual, long_trip_takes_);
}

// While little is known: what may have to be waited for. Packets of one burst come soon after each
// other. A packet that left later than what has arrived may meet a queue that has grown since: up
// to three round trips have to be allowed for, and five where the network marks (64 senders that
// begin within 20 us).
Duration StreamSender::first_round_trips() const {
  const Duration largest = std::max(rtt_.largest(), params_.initial_rtt);
  const MpRecovery* const detector = recovery_.mp();
  if (detector != nullptr && detector->end_arrives(una(), use_.began, srtt() / 4)) {
    return largest + srtt() / 4;
  }
  return largest * (stats_.ece_received > 0 ? 5 : 3);
}

// When a timer of a stream that is neither idle nor paused expires; never: it does not run.
template <StreamSender::Timer kTimer>
Time StreamSender::expiry(bool has_new) const {
  if constexpr (kTimer == Timer::kDeferral) {
    return deferral_runs() ? deferred_until_ : Time::never();
  } else if constexpr (kTimer == Timer::kBurst) {
    if (!gate_.clocked() || !(has_new || has_due())) return Time::never();
    return gate_.deadline(facts_of_silence(), srtt() / 2);
  } else if constexpr (kTimer == Timer::kLate) {
    return probe_.head ? Time::never() : recovery_.deadline();  // as in detect()
  } else if constexpr (kTimer == Timer::kTimeout) {
    return only_deferred() ? Time::never() : rto_.base() + rto();
  } else {
    static_assert(kTimer == Timer::kProbe);
    if (!params_.tail_probe || probe_.rounds == kProbeRounds || only_deferred())
      return Time::never();
    if (probe_.rounds > 0) return probe_.next;
    return std::max(rto_.base(), last_sent_) + probe_.patience;
  }
}

void StreamSender::on_progress(Time now) {
  rto_.restart(now);
  last_progress_ = now;
  rto_.end_backoff();
  probe_.rounds = probe_.tries = 0;
  if (!probe_.head) probe_.due = 0;
}

void StreamSender::on_progress_unsampled(Time now) {
  const uint32_t backoff = rto_.backoff();
  on_progress(now);
  if (keeps_backoff()) rto_.ease_backoff(backoff);
}

void StreamSender::on_progress(Time now, const wire::MpAckExt& ext) {
  constexpr uint8_t kFlags = wire::kMpAckSackValid | wire::kMpAckReTx;
  const bool sampled =
      (ext.flags & kFlags) == wire::kMpAckSackValid && ext.nack == wire::NackCode::kNone;
  sampled ? on_progress(now) : on_progress_unsampled(now);
}

template <StreamSender::Timer kTimer>
void StreamSender::expire(Time now) {
  if constexpr (kTimer == Timer::kDeferral) {
    if (only_deferred()) rto_.restart(now);
    release_deferred();
    gate_.update(facts(), true);
  } else if constexpr (kTimer == Timer::kBurst) {
    late_.forget(una());
    gate_.on_deadline(now, facts(), srtt() / 2);
  } else if constexpr (kTimer == Timer::kLate) {
    expire_late(now);
  } else if constexpr (kTimer == Timer::kTimeout) {
    on_timeout(now);
  } else {
    static_assert(kTimer == Timer::kProbe);
    begin_probe(now);
  }
}

// What is lost now leaves by the next acknowledgements, or by the burst timer: beside the clock it
// would meet a full queue, and be lost again (of two flows into a queue of 60 KB, three in ten).
void StreamSender::expire_late(Time now) {
  find_late(now);
  gate_.update(facts(), true);
}

// While a path is dead, silence is broken by few tries on paths that live: as many come soon as it
// takes to find one, the others ever later.
void StreamSender::begin_probe(Time now) {
  ++probe_.rounds;
  probe_.due = probe_.rounds == 1 ? 1 : 2;
  Duration interval = probe_timeout();
  probe_.patience = interval;
  // Where no round trip is known yet, the first queue has had its time: the paths are probably
  // dead.
  if (!rtt_.measured()) interval = std::max(params_.probe_floor, params_.initial_rtt * 2);
  constexpr uint32_t kSame = 4;  // rounds with this interval
  const uint32_t doublings = probe_.rounds < kSame ? 0 : probe_.rounds - kSame;
  probe_.next = now + interval * (int64_t{1} << doublings);
}

// Where three of four paths are dead in both directions, one pair of ways in sixteen works. Lost
// packets that the window lets leave are tries. If they are few, the last one leaves again and
// again until there are enough tries, and the first one once more. A stream that was heard may be
// one of a crowd, which the copies would hurt.
uint8_t StreamSender::more_tries() const {
  if (!params_.tail_probe || !paths_.retries() || heard_ || rto_.silent()) return 0;
  const uint32_t copies = std::min(board_.due_count(), window_.packets());
  if (params_.timeout_tries == 1 || copies >= params_.timeout_tries) return 0;
  return static_cast<uint8_t>(params_.timeout_tries + 2 - std::max(copies, 2U));
}

Time StreamSender::next_deadline(bool has_new) const {
  if (idle()) return has_new && spaced() ? spaced_until_ : Time::never();
  if (spaced()) return spaced_until_;
  if (paused()) return paused_until_;
  if (in_hardware()) [[unlikely]]
    return hardware_next_deadline(has_new);
  return std::min({expiry<Timer::kDeferral>(has_new), expiry<Timer::kBurst>(has_new),
                   expiry<Timer::kLate>(has_new), expiry<Timer::kTimeout>(has_new),
                   expiry<Timer::kProbe>(has_new)});
}

// In the order of Timer: a timer that expires may stop those behind it, or give them work.
void StreamSender::on_deadline(Time now) {
  if (in_hardware()) [[unlikely]]
    return hardware_deadline(now);
  if (spaced()) end_spacing(now);
  if (spaced() || idle()) return;
  if (paused()) return end_pause(now);
  if (now >= expiry<Timer::kDeferral>(true)) expire<Timer::kDeferral>(now);
  if (now >= expiry<Timer::kLate>(true)) expire<Timer::kLate>(now);
  if (now >= expiry<Timer::kBurst>(true)) expire<Timer::kBurst>(now);
  if (now >= expiry<Timer::kTimeout>(true)) expire<Timer::kTimeout>(now);
  if (now >= expiry<Timer::kProbe>(true)) expire<Timer::kProbe>(now);
}

void StreamSender::pause(Time now, Time until) {
  if (idle()) return;
  paused_until_ = until;
  spaced_until_ = Time::never();
  set_asking(false);
  last_progress_ = until;  // the peer lives
  if (trace_.on()) [[unlikely]] {
    raise(now, TraceKind::not_ready, una());
  }
}

void StreamSender::wake(Time now) {
  if (idle() || rto_.backoff() == 0) return;
  if (in_hardware()) [[unlikely]]
    return hardware_event(now, HardwareSender::Kind::kWake, true);
  rto_.end_backoff();
  rto_.restart(now);
  probe_.due = 1;
}

void StreamSender::repeat_head() {
  if (idle() || paused()) return;
  if (in_hardware()) [[unlikely]]
    return hardware_event(hardware_->told_at, HardwareSender::Kind::kAsk, true);
  ask_head();
}

// ---- Where a device keeps the half: its burst timer, and the two that a RoCE connection has

void StreamSender::hardware_deadline(Time now) {
  if (idle()) return;
  if (paused()) {
    if (now < paused_until_) return;
    paused_until_ = Time::never();
    rto_.restart(now);
    hardware_event(now, HardwareSender::Kind::kAsk, true);
    return set_asking(true);
  }
  if (now >= expiry<Timer::kBurst>(true)) hardware_event(now, HardwareSender::Kind::kBurst, true);
  if (now < expiry<Timer::kTimeout>(true)) return;
  ++counters_->rto_expired;
  ++stats_.rto_expired;
  set_asking(false);
  hardware_event(now, HardwareSender::Kind::kTimeout, true);
}

// The device counts in units: before one is over it finds no time gone.
Time StreamSender::hardware_next_deadline(bool has_new) const {
  const Time next = std::min(expiry<Timer::kBurst>(has_new), expiry<Timer::kTimeout>(has_new));
  if (next.is_never()) return next;
  const int64_t units = (next.ns() + kOffloadUnitNs - 1) / kOffloadUnitNs;
  return Time::from_ns(units * kOffloadUnitNs);
}

// The receiver was not ready: the head of line asks it again. What was sent behind it found no
// frame, or fills the share of the stream, so that the rest waits for the answer.
void StreamSender::end_pause(Time now) {
  if (now < paused_until_) return;
  paused_until_ = Time::never();
  rto_.restart(now);
  ask_head();
  set_asking(true);
}

// The only packet was acknowledged, and the window wants the next one later than now. Until then
// the other timers rest: nothing is in flight, unless a probe was due.
void StreamSender::space(Time now) {
  settle_plain();
  const Duration wait = spacing();
  const bool waits = spaced() || paused() || in_flight() + late_.count() > 0;
  if (wait == Duration::zero() || waits) return;
  spaced_until_ = now + wait;
  settle_plain();
}

void StreamSender::end_spacing(Time now) {
  if (now < spaced_until_) return;
  stop_spacing();
  if (idle()) return;
  rto_.restart(now);
  last_progress_ = now;  // the peer lives
}

// Marks that are missing pay the deficit back packet by packet; an application that rests for long
// has it forgotten.
void StreamSender::on_spaced_backlog(Time now) {
  if (spaced()) end_spacing(now);
  const bool rested = idle() && now - last_progress_ > spaced_round() * kForgetCongestionRtts;
  if (!rested || !window_.has_deficit()) return;
  window_.forget_deficit();
  settle_plain();
}

}  // namespace mprdma::transport
