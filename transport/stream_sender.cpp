#include "transport/stream_sender.hpp"

#include <algorithm>
#include <bit>
#include <cstdlib>

#include "base/check.hpp"

namespace mprdma::transport {

namespace {

// A timeout is doubled at most this often.
constexpr uint32_t kBackoffShiftMax = 16;
// SRTT is an average over 8 samples, as TCP's (RFC 6298).
constexpr int64_t kSrttWeight = 8;
constexpr int64_t kRttvarWeight = 4;

}  // namespace

StreamSender::StreamSender(const Params& params, TransportCounters* counters)
    : params_(params),
      counters_(counters),
      window_(params.window_control, params.initial_window, params.window_max),
      paths_(params.path_policy),
      window_before_timeout_(window_),
      srtt_ns_(params.initial_rtt.count_ns()) {}

void StreamSender::reset(Psn first, uint16_t vp, const Prng& paths) {
  Params params = params_;
  TransportCounters* counters = counters_;
  *this = StreamSender(params, counters);
  una_ = nxt_ = ooh_ = epoch_psn_ = old_psn_ = timeout_end_ = first;
  paper_.reset(first);
  paths_.reset(vp, paths);
  settle_clocks(false);
}

StreamSender::AckResult StreamSender::on_ack(Time now, const wire::Packet& ack, bool has_new) {
  const wire::MpAckExt& ext = ack.mp_ack;
  const bool sack_valid = (ext.flags & wire::kMpAckSackValid) != 0;
  if (ack.psn.after(nxt_)) return AckResult::kGhost;
  if (sack_valid && ext.sack.at_or_after(nxt_)) return AckResult::kGhost;

  begin_instant(now, has_new);
  const bool received = ext.nack == wire::NackCode::kNone;
  const bool sack_is_new = sack_valid && received && outstanding(ext.sack) &&
                           (ext.sack.before(ack.psn) || !sacked_.test(ext.sack.value()));
  const bool advanced = una_.before(ack.psn);
  if (sack_is_new) {
    if (timeout_open_) judge_timeout(ext);
    take_rtt_sample(now, ext.echoed_timestamp);
    if (ext.sack.at_or_after(ack.psn)) take_sack(ext.sack);
  }
  if (received && sack_valid && !params_.sack_map) paper_.on_ack();
  if (advanced) advance(now, ack.psn);

  const uint32_t lost_before = lost_count_;
  if (ext.nack == wire::NackCode::kWindowOverflow) take_nack(ack);
  // What time or reordering marks as lost is no news of whoever says something old meanwhile.
  const bool names_loss =
      lost_count_ != lost_before && (una_ == ack.psn || (sack_valid && outstanding(ext.sack)));
  const bool any_news = advanced || sack_is_new;
  const bool slow = sack_is_new && from_slow_path(ext);
  if (any_news) {
    const bool ece = (ext.flags & wire::kMpAckEce) != 0;
    take_news_into_window(ece, slow, may_grow(has_new));
    wire_limited_ = false;
    news(now);
  }
  roll_epoch(now);
  if (params_.loss_trigger != 0 &&
      una_.distance_to(ooh_) > static_cast<int32_t>(params_.loss_trigger)) {
    mark_holes_below(ooh_ - params_.loss_trigger, Cause::kTrigger);
  }
  if (lost_count_ != lost_before && !any_news) timer_base_ = now;
  // Behind the timer: what it waits for may be lost, and only a timeout may tell.
  if (sack_valid && ext.nack == wire::NackCode::kSyncTooEarly) defer(now, ack.psn, ext.sack);
  clock_out(now, ack.vp, any_news, slow, has_new);
  return any_news || names_loss ? AckResult::kNews : AckResult::kStale;
}

void StreamSender::on_implied_ack(Time now, Psn aack) {
  if (!una_.before(aack) || aack.after(nxt_)) return;
  advance(now, aack);
  news(now);
  burst_base_ = now;
  settle_clocks(due_count() > 0);
}

void StreamSender::take_news_into_window(bool ece, bool slow, bool may_grow_now) {
  if (ece) {
    ++counters_->ece_received;
    ++stats_.ece_received;
  }
  if (slow) {
    window_.on_slow_path();
    ++counters_->acks_pruned;
    ++stats_.acks_pruned;
  } else {
    window_.on_ack(ece, may_grow_now);
  }
}

void StreamSender::news(Time now) {
  timer_base_ = now;
  last_progress_ = now;
  backoff_ = 0;
  probe_done_ = false;
  if (!probe_head_) probe_due_ = false;
}

// Moves snd_una and drops what the maps say of the PSNs that it passes.
bool StreamSender::advance(Time now, Psn aack) {
  uint32_t left = static_cast<uint32_t>(una_.distance_to(aack));
  DCHECK(left <= span());
  for (uint32_t pos = una_.value(), n = left; n > 0; ++pos, --n) {
    sacked_count_ -= sacked_.test(pos) ? 1 : 0;
    lost_count_ -= lost_.test(pos) ? 1 : 0;
    deferred_count_ -= deferred_.test(pos) ? 1 : 0;
  }
  for (Map* map : {&sacked_, &lost_, &deferred_, &followers_, &charged_, &timed_out_, &recent_,
                   &recent_before_}) {
    map->clear_range(una_.value(), left);
  }
  una_ = aack;
  if (probe_head_) probe_due_ = probe_head_ = false;
  if (!params_.sack_map) paper_.on_advance(una_, left);
  ooh_ = psn_max(ooh_, una_);
  epoch_psn_ = psn_max(epoch_psn_, una_);
  old_psn_ = psn_max(old_psn_, una_);
  if (timeout_end_.at_or_before(una_)) {
    timeout_open_ = false;
    timed_out_.reset();
    timeout_end_ = una_;
  }
  if (paused()) {  // the receiver went on: it is ready again
    paused_until_ = Time::never();
    timer_base_ = now;
  }
  if (deferred_count_ > 0 && deferred_is_next()) release_deferred(now);
  return true;
}

void StreamSender::take_sack(Psn sack) {
  sacked_.set(sack.value());
  ++sacked_count_;
  clear_lost(sack);
  ooh_ = psn_max(ooh_, sack + 1);
  const auto degree = static_cast<uint32_t>(una_.distance_to(ooh_));
  stats_.ooo_degree_max = std::max(stats_.ooo_degree_max, degree);
}

// The echo names the very copy that was received, so retransmissions give good samples too.
void StreamSender::take_rtt_sample(Time now, uint32_t echoed_timestamp) {
  const uint32_t sample_ns = static_cast<uint32_t>(now.ns()) - echoed_timestamp;
  if (sample_ns > static_cast<uint32_t>(INT32_MAX)) return;  // not our clock
  if (!has_rtt_) {
    has_rtt_ = true;
    srtt_ns_ = sample_ns;
    rttvar_ns_ = sample_ns / 2;
  } else {
    const int64_t error_ns = std::abs(static_cast<int64_t>(sample_ns) - srtt_ns_);
    rttvar_ns_ += (error_ns - rttvar_ns_) / kRttvarWeight;
    srtt_ns_ += (static_cast<int64_t>(sample_ns) - srtt_ns_) / kSrttWeight;
  }
}

// A NACK names two PSNs: the hole (= AACK) and the packet that was just dropped. The dropped one
// is lost for certain; the hole only if it was not sent again lately.
void StreamSender::take_nack(const wire::Packet& ack) {
  if (!params_.sack_map) return take_nack_as_paper(ack);
  const wire::MpAckExt& ext = ack.mp_ack;
  const bool hole_open = outstanding(una_) && una_ == ack.psn && !sacked_.test(una_.value()) &&
                         !lost_.test(una_.value()) && !recent(una_);
  if (hole_open && ext.nack == wire::NackCode::kWindowOverflow) mark_lost(una_, Cause::kNack);
  // The receiver holds the head of line and does not move: it was not ready, and its word of that
  // was lost. Ask again before more is dropped.
  if (una_ == ack.psn && sacked_.test(una_.value()) && !recent(una_)) {
    probe_due_ = probe_head_ = true;
  }
  const bool names_drop = (ext.flags & wire::kMpAckSackValid) != 0 && outstanding(ext.sack);
  if (names_drop && !sacked_.test(ext.sack.value()) && !lost_.test(ext.sack.value())) {
    if (params_.loss_shrinks_window && !charged_.test(ext.sack.value())) window_.on_window_drop();
    charged_.set(ext.sack.value());
    mark_lost(ext.sack, Cause::kNack);
  }
  if (una_.distance_to(ooh_) > static_cast<int32_t>(params_.reorder_delta)) {
    mark_holes_below(ooh_ - params_.reorder_delta, Cause::kNack);
  }
}

void StreamSender::take_nack_as_paper(const wire::Packet& ack) {
  if (una_ != ack.psn || idle()) return;
  const bool names_drop =
      (ack.mp_ack.flags & wire::kMpAckSackValid) != 0 && outstanding(ack.mp_ack.sack);
  if (paper_.on_nack(una_, nxt_) && params_.loss_shrinks_window) window_.on_hole();
  if (names_drop && params_.loss_shrinks_window && !charged_.test(ack.mp_ack.sack.value())) {
    charged_.set(ack.mp_ack.sack.value());
    window_.on_window_drop();
  }
}

void StreamSender::clear_lost(Psn psn) {
  if (lost_.test(psn.value())) --lost_count_;
  if (deferred_.test(psn.value())) --deferred_count_;
  lost_.clear(psn.value());
  deferred_.clear(psn.value());
}

// The lowest lost PSN that may be sent now; requires due_count() > 0.
Psn StreamSender::first_due() const {
  Psn psn = una_;
  while (true) {
    psn += lost_.next_set(psn.value(), static_cast<uint32_t>(psn.distance_to(nxt_)));
    if (deferred_count_ == 0 || !deferred_.test(psn.value())) return psn;
    ++psn;
  }
}

void StreamSender::mark_lost(Psn psn, Cause cause) {
  DCHECK(outstanding(psn));
  DCHECK(!sacked_.test(psn.value()) && !lost_.test(psn.value()));
  lost_.set(psn.value());
  ++lost_count_;
  if (cause == Cause::kTimeout) timed_out_.set(psn.value());
  if (!charged_.test(psn.value()) && cause != Cause::kTimeout) {
    charged_.set(psn.value());
    if (params_.loss_shrinks_window) window_.on_hole();
  }
  count_cause(cause);
}

void StreamSender::count_cause(Cause cause) {
  switch (cause) {
    case Cause::kNack:
      ++counters_->retransmitted_nack;
      ++stats_.retransmitted_nack;
      break;
    case Cause::kTrigger:
      ++counters_->retransmitted_trigger;
      ++stats_.retransmitted_trigger;
      break;
    case Cause::kEarly:
      ++counters_->retransmitted_early;
      ++stats_.retransmitted_early;
      break;
    case Cause::kTimeout:
      ++counters_->retransmitted_rto;
      ++stats_.retransmitted_rto;
      break;
  }
}

// Un-SACKed PSNs of [una, end) that were not sent again lately are lost.
void StreamSender::mark_holes_below(Psn end, Cause cause) {
  Psn psn = una_;
  while (psn.before(end)) {
    const uint32_t left = static_cast<uint32_t>(psn.distance_to(end));
    psn += sacked_.next_clear(psn.value(), left);
    if (!psn.before(end)) break;
    if (!lost_.test(psn.value()) && !recent(psn)) mark_lost(psn, cause);
    ++psn;
  }
}

// One epoch lasts 5/4 SRTT or longer. What was sent before the last epoch began is old.
void StreamSender::roll_epoch(Time now) {
  if (now - epoch_start_ < Duration::ns(srtt_ns_ + srtt_ns_ / 4)) return;
  epoch_start_ = now;
  old_psn_ = epoch_psn_;
  epoch_psn_ = nxt_;
  recent_before_ = recent_;
  recent_.reset();
}

StreamSender::Choice StreamSender::early_candidate() const {
  if (!params_.early_retransmit || !params_.sack_map) return {};
  const Psn end = psn_min(old_psn_, ooh_);
  Psn psn = una_;
  while (psn.before(end)) {
    psn += sacked_.next_clear(psn.value(), static_cast<uint32_t>(psn.distance_to(end)));
    if (!psn.before(end)) break;
    if (!lost_.test(psn.value()) && !recent(psn)) return {Choice::Kind::kEarly, psn};
    ++psn;
  }
  return {};
}

// The highest un-SACKed PSN that the receiver's window takes: its SACK shows every hole below it.
// All SACKed (the receiver holds them, not ready): the first, to ask again.
Psn StreamSender::probe_psn() const {
  const uint32_t reach = std::min(span(), params_.window_slots);
  for (uint32_t back = reach; back > 0; --back) {
    const Psn psn = una_ + (back - 1);
    if (!sacked_.test(psn.value()) && !deferred_.test(psn.value())) return psn;
  }
  return una_;
}

StreamSender::Choice StreamSender::choose(bool has_new) const {
  if (paused()) return {};
  if (probe_due_ && !idle()) return {Choice::Kind::kProbe, probe_head_ ? una_ : probe_psn()};
  const uint32_t window = window_.packets();
  const bool clocked = paths_.clocked();
  const bool open = clocked ? paths_.clocks() > 0 : in_flight() < window;
  if (open) {
    if (paper_.has_next()) return {Choice::Kind::kRetransmit, paper_.next()};
    if (due_count() > 0) return {Choice::Kind::kRetransmit, first_due()};
    if (has_new && span() < kSendSpanMax) return {Choice::Kind::kNew, nxt_};
  }
  // It counts as in flight already, so on one path it needs no room of its own.
  if (!idle() && (clocked ? open : in_flight() <= window)) return early_candidate();
  return {};
}

uint16_t StreamSender::on_sent(Time now, const Choice& choice, bool follows_all) {
  ++counters_->packets_sent;
  ++stats_.packets_sent;
  last_sent_ = now;
  const uint16_t vp = take_path(now, choice);
  if (choice.kind == Choice::Kind::kNew) {
    if (follows_all) followers_.set(choice.psn.value());
    if (only_deferred()) timer_base_ = now;  // the timers rested
    if (idle()) {
      timer_base_ = last_progress_ = now;
      epoch_start_ = now;
      epoch_psn_ = old_psn_ = una_;
      probe_done_ = probe_due_ = probe_head_ = false;
      backoff_ = 0;
    }
    ++nxt_;
    window_limited_ = in_flight() >= window_.packets();
    return vp;
  }
  ++counters_->packets_retransmitted;
  ++stats_.retransmitted;
  if (choice.kind == Choice::Kind::kProbe) {
    ++stats_.retransmitted_probe;
    if (!probe_head_) ++counters_->tail_probes;
    probe_due_ = probe_head_ = false;
  }
  if (choice.kind == Choice::Kind::kEarly) mark_lost(choice.psn, Cause::kEarly);
  if (choice.kind == Choice::Kind::kRetransmit && paper_.has_next() &&
      choice.psn == paper_.next()) {
    paper_.on_sent();
    count_cause(paper_.by_timeout() ? Cause::kTimeout : Cause::kNack);
  }
  clear_lost(choice.psn);
  timed_out_.clear(choice.psn.value());
  recent_.set(choice.psn.value());
  if (deferred_count_ > 0 && choice.psn.before(first_deferred())) {
    deferred_until_ = now + sync_delay();
  }
  settle_clocks(true);  // a probe needs no clock, but may take the room of one
  return vp;
}

StreamStats StreamSender::stats() const {
  StreamStats out = stats_;
  out.window_raw = window_.exact().raw();
  out.in_flight = in_flight();
  out.srtt_ns = has_rtt_ ? srtt_ns_ : 0;
  out.ooo_degree = static_cast<uint32_t>(una_.distance_to(ooh_));
  out.paths_in_use = static_cast<uint32_t>(std::popcount(vps_ | vps_before_));
  return out;
}

void StreamSender::pause(Time until) {
  if (idle()) return;
  paused_until_ = until;
  last_progress_ = until;  // the peer lives
}

void StreamSender::wake(Time now) {
  if (idle() || backoff_ == 0) return;
  backoff_ = 0;
  timer_base_ = now;
  probe_due_ = true;
}

void StreamSender::repeat_head() {
  if (!idle() && !paused()) probe_due_ = probe_head_ = true;
}

Duration StreamSender::with_variance() const {
  return params_.adapt_timeout ? Duration::ns(srtt_ns_ + 4 * rttvar_ns_) : Duration::zero();
}

Duration StreamSender::base_rto() const {
  const Duration rto = std::max({params_.rto_floor, Duration::ns(4 * srtt_ns_), with_variance()});
  return std::min(rto, timeout_limit_);
}

Duration StreamSender::rto() const {
  const Duration base = base_rto();
  const uint32_t shift = std::min(backoff_, kBackoffShiftMax);
  return std::min({base * (int64_t{1} << shift), std::max(base, params_.rto_ceiling),
                   std::max(base * 2, backoff_limit_)});
}

Duration StreamSender::probe_timeout() const {
  return std::max({params_.probe_floor, Duration::ns(2 * srtt_ns_), with_variance()});
}

Time StreamSender::next_deadline(bool has_new) const {
  if (idle()) return Time::never();
  if (paused()) return paused_until_;
  Time resend = deferral_runs() ? deferred_until_ : Time::never();
  resend = std::min(resend, burst_deadline(has_new));
  if (only_deferred()) return resend;
  const bool probe = params_.tail_probe && !probe_done_;
  return std::min(resend, timer_base_ + (probe ? std::min(probe_timeout(), rto()) : rto()));
}

void StreamSender::on_deadline(Time now) {
  if (idle()) return;
  if (paused()) {
    if (now < paused_until_) return;
    paused_until_ = Time::never();
    timer_base_ = now;
    probe_due_ = probe_head_ = true;
    return;
  }
  if (deferral_runs() && now >= deferred_until_) {
    if (only_deferred()) timer_base_ = now;
    release_deferred(now);
    settle_clocks(true);
  }
  release_burst(now);
  if (only_deferred()) return;
  if (now >= timer_base_ + rto()) {
    on_timeout(now);
  } else if (params_.tail_probe && !probe_done_ && now >= timer_base_ + probe_timeout()) {
    probe_done_ = true;
    probe_due_ = true;
  }
}

// An acknowledgement of something that was outstanding at the timeout. It says which copy came: the
// original, then the timeout was too early (Eifel, RFC 3522); a later one, then nothing is known
// and it stands. What was SACKed before may come again (a network makes copies) and proves nothing.
void StreamSender::judge_timeout(const wire::MpAckExt& ext) {
  if (ext.sack.at_or_after(timeout_end_) || sacked_.test(ext.sack.value())) return;
  if ((ext.flags & wire::kMpAckReTx) == 0) undo_timeout();
  timeout_open_ = false;
  timed_out_.reset();
}

void StreamSender::undo_timeout() {
  ++counters_->timeouts_undone;
  ++stats_.timeouts_undone;
  window_ = window_before_timeout_;
  for (Psn psn = una_; psn.before(nxt_); ++psn) {
    if (timed_out_.test(psn.value())) clear_lost(psn);
  }
}

// The last resort: everything un-SACKed is lost. In-flight accounting stays what it is.
void StreamSender::on_timeout(Time now) {
  ++counters_->rto_expired;
  ++stats_.rto_expired;
  ++backoff_;
  timer_base_ = now;
  probe_done_ = true;
  if (!timeout_open_) {
    // What is sent from here on says nothing of this timeout, nor of those that follow it.
    window_before_timeout_ = window_;
    timeout_end_ = nxt_;
    timeout_open_ = params_.adapt_timeout && params_.sack_map;
  }
  // Once for each silence: with many dead paths the next timeouts are tries of other paths, and a
  // window that is halved each time leaves one try at a time, further and further apart.
  if (params_.timeout_shrinks_window && backoff_ == 1) window_.on_timeout();
  recent_.reset();
  recent_before_.reset();
  end_deferral();
  if (params_.sack_map) {
    mark_holes_below(nxt_, Cause::kTimeout);
  } else {
    paper_.on_timeout(una_, nxt_);
  }
  if (paths_.clocked()) {
    // Acknowledgements fail to come: whatever paths they spoke of, try others.
    paths_.clear();
    paths_.add_random(window_.packets());
  }
  // The receiver holds the head of line: it was not ready, and its word of that was lost.
  probe_due_ = probe_head_ = sacked_.test(una_.value());
}

}  // namespace mprdma::transport
