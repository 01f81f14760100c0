// The sending half of a connection as hardware has it: pure steps (context, event -> context,
// packets) on the offload context and what a plain RoCE connection has. It is the reference of an
// RTL sender, and a test holds it against the software's StreamSender, event by event.
//
// An event is an acknowledgement, a timer, a post, or a packet of the peer that is none of these.
// The packets that it releases leave at once: while next() gives one. A credit that finds nothing
// to send loses its path when the event ends. Time and random draws are inputs.
//
// A run of acknowledgements (wire::MpAckExt) is taken one by one; only the last one has a sample.
// Synchronise operations, waits for a receiver that is not ready, and what offload_params()
// switches off are software's.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <optional>

#include "base/check.hpp"
#include "base/psn.hpp"
#include "base/units.hpp"
#include "cc/mp_window.hpp"
#include "transport/core/params.hpp"
#include "transport/path/echoed_path.hpp"
#include "transport/stream/offload_ack.hpp"
#include "transport/stream/offload_context.hpp"
#include "transport/stream/offload_fields.hpp"
#include "transport/stream/psn_map_bits.hpp"
#include "transport/stream/retransmission_timer.hpp"
#include "transport/stream/rtt_estimator.hpp"
#include "wire/mp_ack_ext.hpp"

namespace mprdma::transport {

// One event. Draw has explore(), whether a round trip explores a path, and path(), a random one.
template <class Draw>
class OffloadSender {
 public:
  OffloadSender(const Params& params, const OffloadContext& context, const RoceSender& roce,
                Draw& draw)
      : params_(params),
        context_(context),
        roce_(roce),
        draw_(draw),
        window_({.initial_packets = params.initial_window, .max_packets = params.window_max}),
        rtt_(params.initial_rtt) {
    window_.load(Fixed16::from_raw(context.window_raw), Fixed16::from_raw(context.owed_raw));
    rtt_.load(Duration::ns(context.srtt_ns), is(OffloadContext::kRttKnown));
    rto_.restart(roce.silent_since);
    for (uint32_t i = 0; i < roce.backoff; ++i) rto_.back_off();
  }

  // The state after the event.
  [[nodiscard]] OffloadContext context() const {
    OffloadContext out = context_;
    out.window_raw = window_.window().raw();
    out.owed_raw = saturated_bytes(window_.owed().raw(), 3);
    out.srtt_ns = saturated_bytes(static_cast<uint64_t>(rtt_.srtt().count_ns()), 3);
    out.credits = static_cast<uint8_t>(saturated_bytes(credits(), 1));
    if (rtt_.measured()) out.flags |= OffloadContext::kRttKnown;
    return out;
  }
  [[nodiscard]] RoceSender roce() const {
    return {roce_.una, roce_.nxt, rto_.base(), rto_.backoff(), roce_.last_progress};
  }

  // ---- Events
  // `has_new`: there is a packet for snd_nxt, which may leave. False: it acknowledges what was
  // never sent, and nothing was done.
  bool on_ack(Time now, const OffloadAck& ack, bool has_new) {
    if (ack.aack.after(roce_.nxt) || (ack.sack_valid && ack.sack.at_or_after(roce_.nxt))) {
      return false;
    }
    const bool received = ack.sack_valid && ack.nack == wire::NackCode::kNone;
    // Nor does a receiver take what lies beyond its window.
    const Psn first = psn_max(roce_.una, ack.aack);
    if (received && first.distance_to(ack.sack) >= kSlots) return false;
    begin_round(now);
    const bool is_new = received && !ack.sack.before(roce_.una) &&
                        (ack.sack.before(ack.aack) || !sacked(offset(ack.sack)));
    const bool advanced = roce_.una.before(ack.aack);
    if (is_new && ack.sample) {
      rtt_.on_echo(now, ack.echoed_timestamp, ack.delay_us);
    }
    if (advanced) advance(offset(ack.aack));
    if (is_new && !ack.sack.before(ack.aack)) sack(offset(ack.sack));

    const uint32_t lost_before = count(context_.lost);
    if (ack.nack == wire::NackCode::kWindowOverflow) take_overflow(now, ack);
    const bool progress = advanced || is_new;
    const bool slow = is_new && !ack.copy && is_slow(ack.sack);
    if (progress) {
      report_to_window(now, ack.ece, slow, has_new);
      on_progress(now);
    }
    roll_epoch(now);
    if (!progress && count(context_.lost) != lost_before) rto_.restart(now);
    if (ack.sack_valid && ack.nack == wire::NackCode::kBudgetExhausted) take_no_room(ack.sack);
    grant(now, echoed_path(ack.vp), slow, progress, has_new);
    return true;
  }
  // The timers that have expired, as StreamSender has it.
  void on_deadline(Time now) {
    on_burst_timer(now);
    if (now >= rto_.base() + rto_.timeout(params_, rtt_, span())) on_transport_timer(now);
  }
  // Half a round trip may have passed without an acknowledgement.
  void on_burst_timer(Time now) {
    if (idle() || room() == 0 || since_ack(now) < rtt_.srtt() / 2) return;
    context_.last_ack = offload_units(now);
    clear(OffloadContext::kAckOld);
    pathless_ += room();
  }
  // The transport timer, which a RoCE connection has anyway, has expired.
  void on_transport_timer(Time now) {
    if (!idle()) on_timeout(now);
  }
  // There are new packets to send, and were none before.
  void on_backlog(Time now) {
    const bool recovers =
        idle() && since(now, context_.last_congestion, OffloadContext::kCongestionOld) >
                      rtt_.srtt() * kForgetCongestionRtts;
    window_.give_back();
    if (recovers) window_.recover();
    pathless_ += room();
  }
  // The peer lives: a sender that has run into timeouts tries again at once.
  void wake(Time now) {
    if (idle() || rto_.backoff() == 0) return;
    rto_.end_backoff();
    rto_.restart(now);
    set(OffloadContext::kProbes);
  }
  // The receiver still waits for snd_una.
  void repeat_head() {
    if (!idle()) set(OffloadContext::kProbes | OffloadContext::kAsksHead);
  }

  // The next packet that leaves; nothing: the event ends. `has_new` as in on_ack(), now.
  std::optional<OffloadPacketOut> next(Time now, bool has_new) {
    using Kind = OffloadPacketOut::Kind;
    if (is(OffloadContext::kProbes) && !idle()) {
      const Psn psn = is(OffloadContext::kAsksHead) ? roce_.una : probe_psn();
      clear(OffloadContext::kProbes | OffloadContext::kAsksHead);
      return copy({Kind::kProbe, psn, draw_.path()});
    }
    if ((rto_.silent() && in_flight() > 0) || credits() == 0) return std::nullopt;
    const uint32_t lost = lowest(context_.lost);
    if (lost < OffloadContext::kSpan) return copy({Kind::kCopy, roce_.una + lost, clocked_path()});
    if (!has_new) return std::nullopt;
    const OffloadPacketOut out{Kind::kNew, roce_.nxt, clocked_path()};
    if (idle()) begin_flight(now);
    ++roce_.nxt;
    return out;
  }

 private:
  // ---- The context
  [[nodiscard]] bool is(uint8_t flag) const { return (context_.flags & flag) != 0; }
  void set(int flags) { context_.flags = static_cast<uint8_t>(context_.flags | flags); }
  void clear(int flags) { context_.flags = static_cast<uint8_t>(context_.flags & ~flags); }
  [[nodiscard]] Duration since(Time now, uint32_t stored, uint8_t old) const {
    return offload_since(now, stored, is(old));
  }
  [[nodiscard]] Duration since_ack(Time now) const {
    return since(now, context_.last_ack, OffloadContext::kAckOld);
  }
  void note_congestion(Time now) {
    context_.last_congestion = offload_units(now);
    clear(OffloadContext::kCongestionOld);
  }

  // ---- The maps, over [snd_una, snd_nxt)
  [[nodiscard]] uint32_t span() const {
    return static_cast<uint32_t>(roce_.una.distance_to(roce_.nxt));
  }
  [[nodiscard]] bool idle() const { return roce_.una == roce_.nxt; }
  [[nodiscard]] uint32_t offset(Psn psn) const {
    return static_cast<uint32_t>(roce_.una.distance_to(psn));
  }
  [[nodiscard]] bool sacked(uint32_t at) const {
    return at < OffloadContext::kSlots && (context_.sacked >> at & 1) != 0;
  }
  [[nodiscard]] bool resent(uint32_t at) const {
    return test(context_.resent, at) || test(context_.resent_before, at);
  }
  [[nodiscard]] uint32_t in_flight() const {
    return span() - count(context_.lost) - static_cast<uint32_t>(std::popcount(context_.sacked));
  }
  // A SACK lies within the receiver's window, which begins at AACK.
  void sack(uint32_t at) {
    DCHECK(at < OffloadContext::kSlots);
    context_.sacked |= uint64_t{1} << at;
    context_.lost = without(context_.lost, at);
    context_.ooh_offset = std::max(context_.ooh_offset, static_cast<uint8_t>(at + 1));
  }
  void advance(uint32_t by) {
    context_.sacked = by < 64 ? context_.sacked >> by : 0;
    for (PsnMap* map :
         {&context_.lost, &context_.penalised, &context_.resent, &context_.resent_before}) {
      *map = shifted(*map, by);
    }
    context_.ooh_offset = static_cast<uint8_t>(std::max<uint32_t>(context_.ooh_offset, by) - by);
    roce_.una += by;
    if (is(OffloadContext::kAsksHead)) clear(OffloadContext::kProbes | OffloadContext::kAsksHead);
  }
  // So many of the lowest that are neither SACKed nor lost nor resent lately.
  [[nodiscard]] PsnMap suspects(uint32_t below) const {
    const PsnMap known =
        context_.lost | context_.resent | context_.resent_before | PsnMap{{context_.sacked, 0}};
    return lowest_bits(below) & ~known;
  }

  // ---- What an acknowledgement does
  void begin_round(Time now) {
    if (since(now, context_.round_start, OffloadContext::kRoundOld) < rtt_.srtt()) return;
    context_.round_start = offload_units(now);
    clear(OffloadContext::kRoundOld | OffloadContext::kPathProbeDue);
    if (draw_.explore()) set(OffloadContext::kPathProbeDue);
  }
  void roll_epoch(Time now) {
    const Duration age = since(now, context_.epoch_start, OffloadContext::kEpochOld);
    if (age < rtt_.srtt() + rtt_.srtt() / 4) return;
    begin_epoch(now);
    context_.resent_before = context_.resent;
    context_.resent = {};
  }
  void begin_epoch(Time now) {
    context_.epoch_start = offload_units(now);
    clear(OffloadContext::kEpochOld);
  }
  // The receiver's window was full: what it dropped is lost, the hole before its window, and what
  // is far behind the highest SACK.
  void take_overflow(Time now, const OffloadAck& ack) {
    if (roce_.una == ack.aack && !idle() && !resent(0)) {
      if (sacked(0)) {
        set(OffloadContext::kProbes | OffloadContext::kAsksHead);
      } else if (!test(context_.lost, 0)) {
        lose(now, lowest_bits(1));
      }
    }
    if (ack.sack_valid && !ack.sack.before(roce_.una)) {
      const uint32_t at = offset(ack.sack);
      if (!sacked(at) && !test(context_.lost, at)) {
        const PsnMap dropped = with({}, at);
        if (!test(context_.penalised, at)) window_.on_loss({.now = now, .kind = kDrop});
        context_.penalised = context_.penalised | dropped;
        lose(now, dropped);
      }
    }
    if (context_.ooh_offset > params_.reorder_delta) {
      lose(now, suspects(context_.ooh_offset - params_.reorder_delta));
    }
  }
  // Each costs window once.
  void lose(Time now, const PsnMap& packets) {
    if (!any(packets)) return;
    note_congestion(now);
    const PsnMap first = packets & ~context_.penalised;
    for (uint32_t n = count(first); n > 0; --n) window_.on_loss({.now = now, .kind = kHole});
    context_.lost = context_.lost | packets;
    context_.penalised = context_.penalised | packets;
  }
  // The receiver had no frame: the packet is not held for lost, and costs nothing later.
  void take_no_room(Psn psn) {
    if (psn.before(roce_.una) || sacked(offset(psn))) return;
    context_.penalised = context_.penalised | with({}, offset(psn));
  }
  [[nodiscard]] bool is_slow(Psn sack) const {
    const Psn end = roce_.una + context_.ooh_offset;
    return sack.distance_to(end) - 1 > static_cast<int32_t>(params_.reorder_delta);
  }
  void report_to_window(Time now, bool ece, bool slow, bool has_new) {
    if (ece) note_congestion(now);
    cc::AckSample sample{.now = now};
    sample.ece = ece;
    // Credits wait only where nothing may leave: the window is not what limits.
    const bool limits = context_.credits <= kWireBacklogMax && (has_new || any(context_.lost));
    sample.limited_by = limits ? cc::LimitedBy::kWindow : cc::LimitedBy::kApplication;
    slow ? window_.on_slow_path(sample) : window_.on_ack(sample);
  }
  void on_progress(Time now) {
    rto_.restart(now);
    rto_.end_backoff();
    roce_.last_progress = now;
    if (!is(OffloadContext::kAsksHead)) clear(OffloadContext::kProbes);
  }
  void on_timeout(Time now) {
    rto_.back_off();
    rto_.restart(now);
    note_congestion(now);
    if (rto_.backoff() == 1) window_.on_timeout(now);
    context_.resent = context_.resent_before = {};
    context_.lost = context_.lost | suspects(span());
    pathless_ = window();
    with_path_ = 0;
    clear(OffloadContext::kProbes | OffloadContext::kAsksHead);
    if (sacked(0)) set(OffloadContext::kProbes | OffloadContext::kAsksHead);
  }

  // ---- Credits
  [[nodiscard]] uint32_t window() const { return window_.window().floor(); }
  [[nodiscard]] uint32_t credits() const { return pathless_ + with_path_; }
  [[nodiscard]] uint32_t room() const {
    const uint32_t used = in_flight() + credits();
    return used < window() ? window() - used : 0;
  }
  void grant(Time now, uint16_t vp, bool slow, bool progress, bool has_new) {
    context_.last_ack = offload_units(now);
    clear(OffloadContext::kAckOld);
    const bool work = has_new || any(context_.lost);
    const uint32_t allowed = room();
    const uint32_t granted = work && !slow ? std::min(allowed, kBurstPackets) : 0;
    (vp == 0 ? pathless_ : with_path_) += granted;
    vp_ = vp;
    if (allowed > 0 && !slow && !work && progress) window_.on_unused_ack();
    settle_credits(work);
  }
  // Credits do not exceed the window's room; while nothing is in flight, all of it may leave.
  void settle_credits(bool work) {
    const uint32_t used = in_flight() + credits();
    if (used > window()) {
      const uint32_t drop = std::min(used - window(), credits());
      const uint32_t of_pathless = std::min(drop, pathless_);
      pathless_ -= of_pathless;
      with_path_ -= drop - of_pathless;
    }
    if (in_flight() > 0 || (work && credits() > 0)) return;
    pathless_ += room();
  }

  // ---- What leaves
  uint16_t clocked_path() {
    const bool has_path = pathless_ == 0;
    has_path ? --with_path_ : --pathless_;
    if (!has_path) return draw_.path();
    if (!is(OffloadContext::kPathProbeDue)) return vp_;
    clear(OffloadContext::kPathProbeDue);
    return draw_.path();
  }
  [[nodiscard]] Psn probe_psn() const {
    if (!sacked(0)) return roce_.una;
    for (uint32_t at = std::min(span(), OffloadContext::kSlots); at > 0; --at) {
      if (!sacked(at - 1)) return roce_.una + (at - 1);
    }
    return roce_.una;
  }
  OffloadPacketOut copy(const OffloadPacketOut& packet) {
    const uint32_t at = offset(packet.psn);
    context_.lost = without(context_.lost, at);
    context_.resent = with(context_.resent, at);
    settle_credits(true);
    return packet;
  }
  void begin_flight(Time now) {
    rto_.restart(now);
    roce_.last_progress = now;
    begin_epoch(now);
    clear(OffloadContext::kProbes | OffloadContext::kAsksHead);
  }

  static constexpr auto kSlots = static_cast<int32_t>(OffloadContext::kSlots);
  static constexpr cc::LossKind kHole = cc::LossKind::kHole;
  static constexpr cc::LossKind kDrop = cc::LossKind::kWindowDrop;

  const Params& params_;
  OffloadContext context_;
  RoceSender roce_;
  Draw& draw_;
  cc::MpWindow window_;
  RttEstimator rtt_;
  RetransmissionTimer rto_;
  uint32_t pathless_ = context_.credits;
  uint32_t with_path_ = 0;  // credits of this event's acknowledgement
  uint16_t vp_ = 0;         // its path
};

}  // namespace mprdma::transport
