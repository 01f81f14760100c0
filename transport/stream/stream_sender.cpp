#include "transport/stream/stream_sender.hpp"

#include <algorithm>
#include <bit>

#include "base/check.hpp"
#include "transport/path/echoed_path.hpp"

namespace mprdma::transport {

// Enters the verdicts of the loss detector in the scoreboard and reduces the window.
class StreamSender::Report {
 public:
  Report(StreamSender& sender, Time now) : sender_(sender), now_(now) {}
  // For a NACK, which echoes the path of the packet that it names as dropped.
  Report(StreamSender& sender, Time now, std::optional<Psn> dropped, uint16_t vp)
      : sender_(sender), now_(now), dropped_(dropped), drop_vp_(vp) {}
  void lose(Psn psn, LossCause cause) {
    sender_.mark_lost(now_, psn, cause, psn == dropped_ ? drop_vp_ : uint16_t{0});
  }
  void penalise_hole() {
    if (!sender_.params_.loss_shrinks_window) return;
    sender_.window_.on_loss({.now = now_, .kind = cc::LossKind::kHole});
  }
  void penalise_drop(Psn psn) {
    const bool first = sender_.board_.penalise(psn);
    if (!first || !sender_.params_.loss_shrinks_window) return;
    sender_.window_.on_loss({.now = now_, .kind = cc::LossKind::kWindowDrop, .vp = drop_vp_});
  }
  void probe_head() { sender_.ask_head(); }

 private:
  StreamSender& sender_;
  Time now_;
  std::optional<Psn> dropped_;
  uint16_t drop_vp_ = 0;
};

StreamSender::StreamSender(const Params& params, TransportCounters* counters, Trace trace)
    : params_(params),
      window_max_(params.window_max),
      reorder_delta_(params.reorder_delta),
      counters_(counters),
      trace_(trace),
      window_(params.window_control, {.initial_packets = params.initial_window,
                                      .max_packets = params.window_max,
                                      .link_bps = uint64_t{params.link_mbps} * 1'000'000,
                                      .base_rtt = params.base_rtt,
                                      .target_delay = params.target_delay,
                                      .spaces = params.window_spacing}),
      paths_(params.path_policy, std::max(params.window_max, params.window_slots)),
      gate_(paths_.clocked() ? GateKind::kAckClock : GateKind::kWindow),
      board_(send_span(params.window_slots)),
      recovery_(params.recovery, params),
      rtt_(params.initial_rtt),
      undo_(board_.span_max(), window_),
      late_(board_.span_max()),
      plain_kind_(params.recovery == Recovery::kMp &&
                  params.window_control == cc::WindowControl::kMp &&
                  (is_clocked(params.path_policy) || params.path_policy == PathPolicy::kSingle) &&
                  !trace.on()),
      plain_(plain_kind_) {}

void StreamSender::reset(Psn first, uint16_t vp, const Prng& paths) {
  Params params = params_;
  TransportCounters* counters = counters_;
  const Trace trace = trace_;
  HardwareSender* const hardware = hardware_;
  *this = StreamSender(params, counters, trace);
  board_ = Scoreboard(board_.span_max(), first);
  recovery_.reset(first);
  undo_.reset(first);
  late_.forget(first);
  paths_.reset(vp, paths);
  gate_.update(facts(), false);
  if (hardware == nullptr) return;
  attach(hardware);
  load_hardware(Time());
}

StreamSender::AckResult StreamSender::on_ack(Time now, const wire::Packet& ack, bool has_new) {
  if (take_in_order(now, ack, has_new)) return AckResult::kProgress;
  if (in_hardware()) [[unlikely]]
    return hardware_acks(now, ack, has_new);
  return ack.mp_ack.run == 0 ? take_ack(now, ack, has_new) : take_run(now, ack, has_new);
}

// Takes a run apart into the acknowledgements that it stands for. Only the last one gives a sample
// of the round trip.
StreamSender::AckResult StreamSender::take_run(Time now, const wire::Packet& ack, bool has_new) {
  wire::Packet one = ack;
  one.mp_ack.run = 0;
  AckResult result = AckResult::kGhost;
  for (uint32_t left = ack.mp_ack.run + 1u; left-- > 0;) {
    one.mp_ack.sack = ack.mp_ack.sack - left;
    one.psn = one.mp_ack.sack + 1;
    samples_rtt_ = left == 0;
    result = std::max(result, take_ack(now, one, has_new));
  }
  return result;
}

StreamSender::AckResult StreamSender::take_ack(Time now, const wire::Packet& ack, bool has_new) {
  const wire::MpAckExt& ext = ack.mp_ack;
  const bool sack_valid = (ext.flags & wire::kMpAckSackValid) != 0;
  if (ack.psn.after(nxt()) || (sack_valid && ext.sack.at_or_after(nxt()))) return AckResult::kGhost;

  begin_instant(now);
  const uint16_t echoed_vp = echoed_path(ack.vp);
  const bool received = sack_valid && ext.nack == wire::NackCode::kNone;
  const bool sack_is_new = received && board_.outstanding(ext.sack) &&
                           (ext.sack.before(ack.psn) || !board_.sacked(ext.sack));
  const bool advanced = una().before(ack.psn);
  const bool given_up = received && board_.outstanding(ext.sack) && board_.given_up(ext.sack);
  const std::optional<Lag> late = received ? lag_of_late(ext.sack, given_up) : std::nullopt;
  const uint32_t open_before = board_.unacknowledged();
  bool was_lost = false;
  const Duration rtt = sack_is_new || late ? note_delivery(now, ext, &was_lost) : Duration();
  take_back(now, ext, sack_is_new || given_up, was_lost);
  if (given_up) board_.answer(ext.sack);
  if (sack_is_new && ext.sack.at_or_after(ack.psn)) process_sack(ext.sack);
  if (received) recovery_.on_received();
  if (advanced) {
    expect_late_acks(ack.psn, sack_is_new ? ext.sack : nxt());
    advance(now, ack.psn);
  }
  const uint32_t acknowledged = open_before - board_.unacknowledged();
  if (received) take_more(ack);

  const uint32_t lost_before = board_.lost_count();
  if (ext.nack != wire::NackCode::kNone) take_drop(now, ack, echoed_vp);
  // Losses found by age or reordering do not make a stale acknowledgement count as progress.
  const bool names_loss = board_.lost_count() != lost_before &&
                          (una() == ack.psn || (sack_valid && board_.outstanding(ext.sack)));
  const bool any_progress = advanced || sack_is_new;
  // That a copy comes late is no fault of its path.
  Lag lag = Lag::kSmall;
  if (gate_.clocked() && (ext.flags & wire::kMpAckReTx) == 0) {
    if (sack_is_new) lag = judge_lag(ext.sack, board_.sack_end());
    if (late) lag = *late;
  }
  if (any_progress || late) {
    hear({.now = now, .rtt = rtt, .packets = acknowledged, .vp = echoed_vp}, ext, lag, has_new);
  }
  if (any_progress) on_progress(now, ext);
  detect(now);
  if (board_.lost_count() != lost_before && !any_progress) rto_.restart(now);
  // Behind the timer: what it waits for may be lost, and only a timeout may tell.
  if (sack_valid && ext.nack == wire::NackCode::kSyncTooEarly) defer(now, ack.psn, ext.sack);
  if (sack_valid && ext.nack == wire::NackCode::kBudgetExhausted) take_no_room(ext);
  const PathSample sample{.now = now,
                          .rtt = rtt,
                          .vp = echoed_vp,
                          .ece = (ext.flags & wire::kMpAckEce) != 0,
                          .slow = lag == Lag::kSlow};
  grant_credits(sample, any_progress || late.has_value(), has_new);
  if (trace_.on()) [[unlikely]] {
    raise(now, TraceKind::window, una());
  }
  if (any_progress || names_loss) return AckResult::kProgress;
  return late ? AckResult::kLate : AckResult::kStale;
}

// Of an acknowledgement that is no more waited for as the one that covers its packet. Nothing: it
// is another one.
std::optional<Lag> StreamSender::lag_of_late(Psn sack, bool given_up) {
  if (given_up) return judge_lag(sack, board_.sack_end());
  return sack.before(una()) ? late_.take(sack) : std::nullopt;
}

// The receiver dropped a packet that it may take later.
void StreamSender::take_drop(Time now, const wire::Packet& ack, uint16_t vp) {
  if (ack.mp_ack.nack == wire::NackCode::kWindowOverflow) return take_overflow(now, ack, vp);
  if (ack.mp_ack.nack != wire::NackCode::kBudgetExhausted) return;
  // It had no frame for a packet that came before its turn: something before it is missing.
  Report report(*this, now, std::nullopt, vp);
  recovery_.on_hole(board_, report);
}

// The receiver's window was full.
void StreamSender::take_overflow(Time now, const wire::Packet& ack, uint16_t vp) {
  const wire::MpAckExt& ext = ack.mp_ack;
  const bool names_drop = (ext.flags & wire::kMpAckSackValid) != 0 && board_.outstanding(ext.sack);
  Nack nack{.aack = ack.psn};
  Report report(*this, now, names_drop ? std::optional(ext.sack) : std::nullopt, vp);
  if (names_drop) nack.dropped = delivered(now, ext);
  recovery_.on_nack(board_, nack, report);
}

// The receiver had no frame for a packet that came before its turn. It would have none for a copy
// that comes at once; that the packet is lost shows as with any other, but the network did well:
// the window stays.
void StreamSender::take_no_room(const wire::MpAckExt& ext) {
  const Psn psn = ext.sack;
  if (!recovery_.exact() || !board_.outstanding(psn) || board_.arrived(psn)) return;
  (void)board_.penalise(psn);
}

void StreamSender::on_implied_ack(Time now, Psn aack) {
  if (!una().before(aack) || aack.after(nxt())) return;
  if (in_hardware()) [[unlikely]]
    return hardware_implied_ack(now, aack);
  heard_ = true;
  advance(now, aack);
  on_progress_unsampled(now);
  gate_.note_ack(now);
  gate_.update(facts(), board_.due_count() > 0);
  if (!plain_) space(now);
}

// Tells window and paths of an acknowledgement whose packet came with this lag.
void StreamSender::hear(cc::AckSample sample, const wire::MpAckExt& ext, Lag lag, bool has_new) {
  sample.in_flight = board_.in_flight();
  sample.ece = (ext.flags & wire::kMpAckEce) != 0;
  if (sample.ece) {
    last_congestion_ = sample.now;
    if (params_.limit_growth) sample.in_use = in_use();
  }
  sample.limited_by = limited_by(has_new, lag);
  report_to_window(sample, lag == Lag::kSlow);
  use_.wire_limited = false;
}

void StreamSender::report_to_window(const cc::AckSample& sample, bool slow) {
  if (sample.ece) {
    ++counters_->ece_received;
    ++stats_.ece_received;
  }
  paths_.on_ack({.now = sample.now,
                 .rtt = sample.rtt,
                 .vp = sample.vp,
                 .ece = sample.ece,
                 .slow = slow,
                 // The window of `mp` knows congestion by marks alone.
                 .congested = plain_kind_ ? sample.ece : window_.congested(sample)});
  if (slow) {
    window_.on_slow_path(sample);
    ++counters_->acks_pruned;
    ++stats_.acks_pruned;
  } else {
    window_.on_ack(sample);
  }
}

// Advances snd_una and drops the state of the PSNs that it passes.
void StreamSender::advance(Time now, Psn aack) {
  const Psn from = una();
  const uint32_t count = board_.advance(aack);
  if (idle()) late_.forget(una());  // the whole window is free
  if (probe_.head) probe_ = {.patience = probe_.patience};
  recovery_.on_advance(board_, count);
  undo_.on_advance(from, aack);
  set_asking(false);
  if (refused_ && !board_.outstanding(*refused_)) {
    set_refused(board_.held_count() > 0 ? std::optional(board_.first_held()) : std::nullopt);
  }
  if (paused()) {  // the receiver went on: it is ready again
    paused_until_ = Time::never();
    rto_.restart(now);
  }
  if (board_.held_count() > 0 && board_.held_is_next()) release_deferred();
}

// The own acknowledgement of a packet has come, which is not in the scoreboard yet. Returns its
// sample of the round trip; 0: it gives none. `was_lost`: it had been held for lost.
Duration StreamSender::note_delivery(Time now, const wire::MpAckExt& ext, bool* was_lost) {
  Duration rtt;
  if (samples_rtt_) rtt = rtt_.on_echo(now, ext.echoed_timestamp, ext.delay_us);
  *was_lost = recovery_.on_delivery(board_, delivered(now, ext), at(now));
  return rtt;
}

// The packet that the answer names.
Delivery StreamSender::delivered(Time now, const wire::MpAckExt& ext) const {
  const uint32_t ago_ns = static_cast<uint32_t>(now.ns()) - ext.echoed_timestamp;
  const bool ours = samples_rtt_ && ext.delay_us < wire::kMpAckDelayMax &&
                    ago_ns <= static_cast<uint32_t>(INT32_MAX);
  return {.psn = ext.sack,
          .sent = ours ? now - Duration::ns(ago_ns) : Time(),
          .copy = (ext.flags & wire::kMpAckReTx) != 0};
}

void StreamSender::process_sack(Psn sack) {
  board_.sack(sack);
  stats_.ooo_degree_max = std::max(stats_.ooo_degree_max, board_.reach());
}

// Detects losses by age and reordering, once an acknowledgement is in the scoreboard.
void StreamSender::detect(Time now) {
  board_.roll_epoch(now, srtt(), recovery_.has_copies());
  // Once an RNR NAK has answered the head of line, what arrives behind it says nothing of it.
  if (!paused() && !probe_.head) {
    Report report(*this, now);
    recovery_.on_ack(board_, report);
    find_late(now);
  }
  if (board_.marked()) probe_.patience = patience();
}

void StreamSender::find_late(Time now) {
  Report report(*this, now);
  recovery_.find_late(board_, at(now), report);
  if (!recovery_.deadline().is_never()) board_.watch();
}

void StreamSender::mark_lost(Time now, Psn psn, LossCause cause, uint16_t vp) {
  if (board_.told(psn)) return give_up_ack(psn, cause);
  board_.lose(psn);
  last_congestion_ = now;
  if (cause == LossCause::kTimeout) {
    undo_.lose(psn);
  } else {
    paths_.on_loss(cause == LossCause::kNack ? vp : path_of(psn));
    // A drop by the receiver's window says nothing against the path, which only its NACK names.
    if (params_.own_ack_credit && cause != LossCause::kNack) gate_.note_orphans(1);
    if (cause == LossCause::kNack && vp != 0) note_path_of(psn, 0);
    if (board_.penalise(psn) && params_.loss_shrinks_window &&
        window_.on_loss({.now = now, .kind = cc::LossKind::kHole, .vp = vp})) {
      board_.charge(psn);
    }
  }
  tell_lost(now, psn, cause);
}

void StreamSender::tell_lost(Time now, Psn psn, LossCause cause) {
  count_cause(cause);
  if (trace_.on()) [[unlikely]] {
    raise(now, TraceKind::lost, psn, to_string(cause));
  }
}

void StreamSender::count_cause(LossCause cause) {
  switch (cause) {
    case LossCause::kNack:
      ++counters_->retransmitted_nack;
      ++stats_.retransmitted_nack;
      break;
    case LossCause::kTrigger:
      ++counters_->retransmitted_trigger;
      ++stats_.retransmitted_trigger;
      break;
    case LossCause::kEarly:
      ++counters_->retransmitted_early;
      ++stats_.retransmitted_early;
      break;
    case LossCause::kTimeout:
      ++counters_->retransmitted_rto;
      ++stats_.retransmitted_rto;
      break;
  }
}

StreamSender::Choice StreamSender::early_candidate() const {
  const std::optional<Psn> psn = recovery_.early(board_);
  return psn ? Choice{Choice::Kind::kEarly, *psn} : Choice{};
}

// The PSN of a tail probe: the highest one within the receiver's window that has not arrived as far
// as is known, because its SACK shows every hole below it. If all have (the receiver holds them and
// was not ready), the first one, to ask again. Where a round has two packets, the second is
// snd_una.
Psn StreamSender::probe_psn() const {
  const bool second = probe_.due == 1 && probe_.rounds > 1;
  if (second && !board_.arrived(una()) && !board_.held(una())) return una();
  const uint32_t reach = std::min(span(), params_.window_slots);
  for (uint32_t back = reach; back > 0; --back) {
    const Psn psn = una() + (back - 1);
    if (!board_.arrived(psn) && !board_.held(psn)) return psn;
  }
  return una();
}

StreamSender::Choice StreamSender::choose(bool has_new) const {
  if (paused()) return {};
  if (probe_.due > 0 && !idle()) return {Choice::Kind::kProbe, probe_.head ? una() : probe_psn()};
  if (asking_ || spaced()) return {};
  if (rto_.silent() && recovery_.exact() && in_flight() > 0) return {};
  const bool open = gate_.open(facts());
  if (open || !recovery_.copies_wait()) {
    if (const std::optional<Psn> lost = recovery_.next(board_)) {
      return {Choice::Kind::kRetransmit, *lost};
    }
  }
  if (open) {
    if (has_new && span() < board_.span_max() && board_.due_count() == 0 && !beyond_refused(nxt()))
      return {Choice::Kind::kNew, nxt()};
    if (!has_new) return early_candidate();
  }
  return {};
}

uint16_t StreamSender::on_sent(Time now, const Choice& choice) {
  if (in_hardware()) [[unlikely]]
    return hardware_sent(now, choice);
  ++counters_->packets_sent;
  ++stats_.packets_sent;
  // A synchronise operation that waits for its delay waits for no needless copy.
  if (choice.kind != Choice::Kind::kEarly) last_sent_ = now;
  const uint16_t vp = choose_path(now, choice);
  if (choice.kind == Choice::Kind::kNew) {
    if (only_deferred()) rto_.restart(now);  // the timers rested
    if (idle()) {
      begin_flight(now);
      if (!keeps_backoff()) rto_.end_backoff();
    }
    recovery_.on_sent(now, nxt(), srtt());
    board_.send_new();
    note_path_of(choice.psn, vp);
    use_.window_limited = in_flight() >= window_.packets();
    return vp;
  }
  ++counters_->packets_retransmitted;
  ++stats_.retransmitted;
  if (choice.kind == Choice::Kind::kProbe) {
    ++stats_.retransmitted_probe;
    if (!probe_.head) ++counters_->tail_probes;
    probe_.head = false;
    --probe_.due;
  }
  if (choice.kind == Choice::Kind::kEarly) {
    tell_lost(now, choice.psn, LossCause::kEarly);
    recovery_.on_early();
  }
  if (choice.kind == Choice::Kind::kRetransmit) {
    if (const auto cause = recovery_.on_retransmit(choice.psn)) tell_lost(now, choice.psn, *cause);
  }
  board_.retransmit(choice.psn);
  if (long_trip_ == choice.psn) long_trip_.reset();
  recovery_.on_copy(now, choice.psn, srtt());
  note_path_of(choice.psn, vp);
  undo_.forget(choice.psn);
  if (board_.held_count() > 0 && choice.psn.before(board_.first_held())) {
    deferred_until_ = now + sync_delay();
  }
  gate_.update(facts(), true);  // a probe needs no credit, but may take the room of one
  return vp;
}

StreamStats StreamSender::stats() const {
  StreamStats out = stats_;
  out.window_raw = window_.effective().raw();
  out.in_flight = in_flight();
  out.srtt_ns = rtt_.measured() ? srtt().count_ns() : 0;
  out.ooo_degree = board_.reach();
  out.paths_in_use = static_cast<uint32_t>(std::popcount(round_.vps | round_.vps_before));
  return out;
}

// The last resort: every un-SACKed packet is lost. The accounting of packets in flight is
// unchanged.
void StreamSender::on_timeout(Time now) {
  ++counters_->rto_expired;
  ++stats_.rto_expired;
  set_asking(false);
  rto_.back_off();
  rto_.restart(now);
  probe_.rounds = kProbeRounds;
  long_trip_.reset();
  last_congestion_ = now;
  if (!undo_.open()) undo_.begin(window_, nxt(), params_.adapt_timeout && recovery_.exact());
  // The window shrinks once for each silence: with many dead paths the next timeouts try other
  // paths, and halving the window each time would leave one try at a time, further and further
  // apart.
  if (params_.timeout_shrinks_window && rto_.backoff() == 1) window_.on_timeout(now);
  board_.forget_resent();
  board_.release_all();
  Report report(*this, now);
  recovery_.on_timeout(board_, report);
  late_.forget(una());
  gate_.on_timeout(facts());
  paths_.on_timeout(now);
  // The receiver holds the head of line: it was not ready, and its word of that was lost.
  probe_.head = board_.sacked(una());
  probe_.due = probe_.head ? 1 : more_tries();
  if (trace_.on()) [[unlikely]] {
    raise(now, TraceKind::timeout, una());
  }
}

}  // namespace mprdma::transport
