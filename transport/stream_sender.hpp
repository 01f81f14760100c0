// The sender half of a reliable packet stream (design 3.1): which PSN may be sent now, what is in
// flight, what is lost, and when silence has lasted too long. It knows PSNs, never their contents;
// its owner (requester or responder) turns a PSN into a packet.
//
// snd_una = next PSN expected to be acknowledged, snd_nxt = next PSN to send; all comparisons are
// serial. Three maps lie over [snd_una, snd_nxt), at most kSendSpanMax wide:
//   sacked  the receiver has it
//   lost    known lost and not yet sent again (disjoint from sacked)
//   recent  sent again within the last one or two epochs of 5/4 SRTT: not judged again yet
// in flight = span - popcount(sacked) - popcount(lost)   [mend: the paper's `inflate` leaks]
//
// Detection of loss, from the surest to the least sure: a NACK (names the hole and the dropped
// packet), a PSN far below the highest SACKed one, a PSN below it and older than 5/4 SRTT, the tail
// probe, the timeout.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/psn.hpp"
#include "base/units.hpp"
#include "base/window_bitmap.hpp"
#include "cc/window.hpp"
#include "transport/counters.hpp"
#include "transport/params.hpp"
#include "transport/path_select.hpp"
#include "transport/recovery_paper.hpp"
#include "transport/stats.hpp"
#include "wire/packet.hpp"

namespace mprdma::transport {

class StreamSender {
 public:
  // What to send next.
  struct Choice {
    enum class Kind : uint8_t { kNothing, kNew, kRetransmit, kEarly, kProbe };
    Kind kind = Kind::kNothing;
    Psn psn;
    [[nodiscard]] bool any() const { return kind != Kind::kNothing; }
    [[nodiscard]] bool again() const { return any() && kind != Kind::kNew; }
  };
  enum class AckResult : uint8_t {
    kGhost,  // acknowledges what was never sent: nothing was changed
    kStale,  // says nothing new
    kNews,
  };

  StreamSender(const Params& params, TransportCounters* counters);

  // Forgets everything; the first packet will be `first`. `vp` is the path of kSingle, `paths` what
  // random paths are drawn from.
  void reset(Psn first, uint16_t vp = wire::kVirtualPathMin, const Prng& paths = Prng(0));

  // ---- Facts. `has_new`: the owner has a packet for snd_nxt.
  AckResult on_ack(Time now, const wire::Packet& ack, bool has_new);
  // Everything before `aack` has arrived, as something else tells (a READ response).
  void on_implied_ack(Time now, Psn aack);
  void on_deadline(Time now);
  // The owner has something new to send, and had nothing before.
  void on_backlog(Time now);
  void on_back_pressure() { wire_limited_ = true; }
  // The receiver is not ready: silence until `until`, then a probe.
  void pause(Time until);
  // After any sign of life: a dormant stream tries again at once.
  void wake(Time now);
  // The receiver says that it still waits for snd_una: it is sent again at once.
  void repeat_head();

  // ---- Work out
  [[nodiscard]] Choice choose(bool has_new) const;
  // The chosen packet is handed to the host; returns its virtual path. `follows_all`: a new packet
  // that begins an operation which the receiver refuses before everything else has arrived
  // (synchronise).
  uint16_t on_sent(Time now, const Choice& choice, bool follows_all = false);
  [[nodiscard]] Time next_deadline(bool has_new) const;
  // A path for a packet that is none of the stream's.
  uint16_t draw_path() { return paths_.draw(); }

  // ---- Getters
  [[nodiscard]] Psn una() const { return una_; }
  [[nodiscard]] Psn nxt() const { return nxt_; }
  [[nodiscard]] bool idle() const { return una_ == nxt_; }
  [[nodiscard]] uint32_t span() const { return static_cast<uint32_t>(una_.distance_to(nxt_)); }
  [[nodiscard]] uint32_t in_flight() const {
    const uint32_t sent = span() - lost_count_;
    return params_.sack_map ? sent - sacked_count_ : paper_.in_flight(sent);
  }
  // Packets that may leave at once; in_flight() + clocks() <= window, but see stream_sender_clocks.
  [[nodiscard]] uint32_t clocks() const { return paths_.clocks(); }
  // Does a packet need one (path_select.hpp)?
  [[nodiscard]] bool clocked() const { return paths_.clocked(); }
  [[nodiscard]] Duration srtt() const { return Duration::ns(srtt_ns_); }
  // How long a synchronise operation stays behind what was sent before it: alpha * delta * SRTT /
  // cwnd, rounded down.
  [[nodiscard]] Duration sync_delay() const;
  // When such an operation may follow what was sent: never, while something is to be sent again
  // first.
  [[nodiscard]] Time sync_release() const;
  // `verbs_timeout`: of the transport timer (IBTA 9.9.2.1); infinite: there is none. The
  // retransmission timeout is at most max(verbs_timeout, kTimeoutLimitMin), whatever RTT one slow
  // path has shown; backed off it is at most max(verbs_timeout, 2 x without back-off). So something
  // is sent for each of the verbs' retries before these are exceeded.
  void limit_timeouts(Duration verbs_timeout) {
    timeout_limit_ = std::max(verbs_timeout, kTimeoutLimitMin);
    backoff_limit_ = verbs_timeout;
  }
  // The retransmission timeout without back-off.
  [[nodiscard]] Duration base_rto() const;
  [[nodiscard]] const cc::Window& window() const { return window_; }
  [[nodiscard]] bool paused() const { return !paused_until_.is_never(); }
  // Timeouts in a row without news.
  [[nodiscard]] uint32_t timeouts_in_a_row() const { return backoff_; }
  // When the peer last acknowledged something new, or sending began.
  [[nodiscard]] Time last_progress() const { return last_progress_; }
  [[nodiscard]] StreamStats stats() const;

 private:
  enum class Cause : uint8_t { kNack, kTrigger, kEarly, kTimeout };

  bool advance(Time now, Psn aack);
  void take_sack(Psn sack);
  void take_rtt_sample(Time now, uint32_t echoed_timestamp);
  void take_nack(const wire::Packet& ack);
  void take_nack_as_paper(const wire::Packet& ack);
  // stream_sender_sync.cpp
  void defer(Time now, Psn aack, Psn psn);
  void release_deferred(Time now);
  [[nodiscard]] Psn first_deferred() const {
    return una_ + deferred_.next_set(una_.value(), span());
  }
  [[nodiscard]] bool deferred_is_next() const;
  [[nodiscard]] bool deferral_runs() const;
  // No acknowledgement is to be expected before the resend: the timers rest.
  [[nodiscard]] bool only_deferred() const {
    return params_.sack_map && deferred_count_ > 0 && in_flight() == 0 && due_count() == 0;
  }
  void end_deferral() {
    deferred_.reset();
    deferred_count_ = 0;
  }
  void clear_lost(Psn psn);
  [[nodiscard]] uint32_t due_count() const { return lost_count_ - deferred_count_; }
  [[nodiscard]] Psn first_due() const;
  void mark_lost(Psn psn, Cause cause);
  void count_cause(Cause cause);
  void mark_holes_below(Psn end, Cause cause);
  void on_timeout(Time now);
  void judge_timeout(const wire::MpAckExt& ext);
  void undo_timeout();
  void roll_epoch(Time now);
  // stream_sender_clocks.cpp
  void begin_instant(Time now, bool has_new);
  [[nodiscard]] bool may_grow(bool has_new) const;
  [[nodiscard]] bool from_slow_path(const wire::MpAckExt& ext) const;
  void clock_out(Time now, uint16_t vp, bool news, bool slow, bool has_new);
  void settle_clocks(bool work);
  [[nodiscard]] uint32_t unclocked_room() const;
  [[nodiscard]] bool restart_due(Time now) const;
  uint16_t take_path(Time now, const Choice& choice);
  [[nodiscard]] Time burst_deadline(bool has_new) const;
  void release_burst(Time now);

  void news(Time now);
  void take_news_into_window(bool ece, bool slow, bool may_grow_now);
  [[nodiscard]] bool outstanding(Psn psn) const {
    return una_.at_or_before(psn) && psn.before(nxt_);
  }
  [[nodiscard]] bool recent(Psn psn) const {
    return recent_.test(psn.value()) || recent_before_.test(psn.value());
  }
  [[nodiscard]] Choice early_candidate() const;
  [[nodiscard]] Psn probe_psn() const;
  [[nodiscard]] Duration with_variance() const;
  [[nodiscard]] Duration rto() const;
  [[nodiscard]] Duration probe_timeout() const;

  using Map = WindowBitmap<kSendSpanMax>;

  Params params_;
  TransportCounters* counters_;
  cc::Window window_;
  PathSelector paths_;
  PaperRecovery paper_;  // used, and so not at rest, without Params::sack_map only

  Psn una_;
  Psn nxt_;
  Psn ooh_;  // highest SACKed PSN + 1; una_ when there is none: clamped at each advance
  Map sacked_;
  Map lost_;
  Map charged_;        // has cost window already: a hole costs once
  Map recent_;         // sent again in this epoch
  Map recent_before_;  // .. in the one before
  uint32_t sacked_count_ = 0;
  uint32_t lost_count_ = 0;
  // Of the lost ones: refused by the receiver as too early (synchronise), not to be sent again yet:
  // before deferred_until_, or before everything ahead of them has arrived. No loss: costs no
  // window.
  Map deferred_;
  uint32_t deferred_count_ = 0;
  Time deferred_until_;
  Map followers_;   // first packets of synchronise operations
  Time last_sent_;  // any packet

  // Epochs of 5/4 SRTT: what was sent before old_psn_ is older than a whole epoch.
  Time epoch_start_;
  Psn epoch_psn_;
  Psn old_psn_;

  // The first timeout of a row, until an acknowledgement tells whether it was right.
  bool timeout_open_ = false;
  Psn timeout_end_;  // snd_nxt then; never before snd_una
  Map timed_out_;    // marked lost by it
  cc::Window window_before_timeout_;

  int64_t srtt_ns_;
  int64_t rttvar_ns_ = 0;
  bool has_rtt_ = false;
  bool window_limited_ = false;
  bool wire_limited_ = false;
  // ACK clocking.
  Time burst_base_;    // the last acknowledgement, or what the burst timer let go
  Time last_backlog_;  // when an acknowledgement last found the application with packets
  Time round_start_;   // of SRTT
  bool path_probe_due_ = false;
  Time instant_ = Time::never();
  bool wire_waits_ = false;  // at instant_
  uint64_t vps_ = 0;         // hashed paths of this round, and of the one before: statistics
  uint64_t vps_before_ = 0;

  bool probe_due_ = false;   // send one packet whatever the window says
  bool probe_head_ = false;  // .. and that is snd_una: was the receiver ready meanwhile?
  bool probe_done_ = false;  // one probe for each silence
  uint32_t backoff_ = 0;
  Duration timeout_limit_ = Duration::infinite();
  Duration backoff_limit_ = Duration::infinite();
  StreamStats stats_;  // the counts in it; what is a state is filled in by stats()
  Time timer_base_;
  Time last_progress_;
  Time paused_until_ = Time::never();
};

}  // namespace mprdma::transport
