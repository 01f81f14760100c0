// The sender half of a reliable packet stream (design 3.1): it decides which PSN may be sent now,
// on which path, and when silence has lasted too long. It knows PSNs, never their contents; its
// owner (requester or responder) turns a PSN into a packet.
//
// Its parts, each in a file of its own: the scoreboard (state of each packet), the loss detector
// (which packets are lost or in flight), the window (congestion control), the send gate (when a
// packet may leave), the path selector (where), the RTT and the timers. All comparisons of PSNs are
// serial.
//
// In the common case (steady()) all parts come to a plain result together, which
// stream_sender_steady.cpp computes in one piece: what it does is what the parts would do.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "base/psn.hpp"
#include "base/units.hpp"
#include "cc/window.hpp"
#include "transport/core/counters.hpp"
#include "transport/core/follow_network.hpp"
#include "transport/core/params.hpp"
#include "transport/core/stats.hpp"
#include "transport/core/trace.hpp"
#include "transport/path/path_select.hpp"
#include "transport/stream/hardware.hpp"
#include "transport/stream/late_acks.hpp"
#include "transport/stream/loss_detectors.hpp"
#include "transport/stream/offload_context.hpp"
#include "transport/stream/retransmission_timer.hpp"
#include "transport/stream/rtt_estimator.hpp"
#include "transport/stream/scoreboard.hpp"
#include "transport/stream/send_gates.hpp"
#include "transport/stream/timeout_undo.hpp"
#include "wire/packet.hpp"

namespace mprdma::transport {

class StreamSender {
 public:
  // The packet to send next.
  struct Choice {
    enum class Kind : uint8_t { kNothing, kNew, kRetransmit, kEarly, kProbe };
    Kind kind = Kind::kNothing;
    Psn psn;
    [[nodiscard]] bool any() const { return kind != Kind::kNothing; }
    [[nodiscard]] bool retransmits() const { return any() && kind != Kind::kNew; }
  };
  enum class AckResult : uint8_t {
    kGhost,  // acknowledges a PSN that was never sent: nothing was changed
    kStale,  // acknowledges nothing new
    kLate,   // of a packet that another acknowledgement has covered before
    kProgress,
  };

  StreamSender(const Params& params, TransportCounters* counters, Trace trace = {});

  // Forgets everything; the first packet will be `first`. `vp` is the path of kSingle; random paths
  // are drawn from `paths`.
  void reset(Psn first, uint16_t vp = wire::kVirtualPathMin, const Prng& paths = Prng(0));

  // ---- Facts. `has_new`: the owner has a packet for snd_nxt.
  AckResult on_ack(Time now, const wire::Packet& ack, bool has_new);
  // on_ack() of the common acknowledgement, in the common case. False: nothing was done, because
  // it is another one.
  bool take_in_order(Time now, const wire::Packet& ack, bool has_new) {
    constexpr uint8_t kAny = wire::kMpAckResponseStream | wire::kMpAckOrderedPlacement;
    const wire::MpAckExt& ext = ack.mp_ack;
    const SteadyAck in_order{.aack = ack.psn,
                             .run = ext.run,
                             .vp = ack.vp,
                             .echoed_timestamp = ext.echoed_timestamp,
                             .delay_us = ext.delay_us};
    if ((ext.flags & static_cast<uint8_t>(~kAny)) != wire::kMpAckSackValid ||
        ext.nack != wire::NackCode::kNone || ext.sack + 1 != ack.psn || !expects(in_order)) {
      return false;
    }
    take_steady(now, in_order, has_new);
    return true;
  }
  // An acknowledgement of the packets up to `aack`, unmarked, whose last one it answers with SACK.
  struct SteadyAck {
    Psn aack;
    uint32_t run;  // as in wire::MpAckExt
    uint16_t vp;
    uint32_t echoed_timestamp;
    uint32_t delay_us;
  };
  // True if the acknowledgement is of the next packets, all of them, in the common case.
  [[nodiscard]] bool expects(const SteadyAck& ack) const {
    return steady() && una() + ack.run + 1 == ack.aack && ack.aack.at_or_before(nxt());
  }
  // on_ack() of what expects() allows.
  void take_steady(Time now, const SteadyAck& ack, bool has_new);
  // Everything before `aack` has arrived, which a packet other than an acknowledgement (a READ
  // response) shows.
  void on_implied_ack(Time now, Psn aack);
  // The peer's answer to a packet of this stream, or the request for one, has come on this path.
  void on_peer_path(uint16_t vp);
  void on_deadline(Time now);
  // The owner has new packets to send, and had none before.
  void on_backlog(Time now) {
    if (!plain_) on_spaced_backlog(now);
    if (gate_.clocked()) on_clocked_backlog(now);
  }
  void on_back_pressure() { use_.wire_limited = true; }
  // The receiver is not ready: silence until `until`, then the packet that it refused alone, until
  // it is taken.
  void pause(Time now, Time until);
  // Called after any packet of the peer: a dormant stream tries again at once.
  void wake(Time now);
  // The receiver says that it still waits for snd_una: it is sent again at once.
  void repeat_head();

  // ---- Work out
  [[nodiscard]] Choice choose(bool has_new) const;
  // The chosen packet is handed to the host; returns its virtual path.
  uint16_t on_sent(Time now, const Choice& choice);
  [[nodiscard]] Time next_deadline(bool has_new) const;
  // True if choose() finds a new packet or nothing, and an acknowledgement in order moves only
  // snd_una, window and credits: nothing is lost, out of order, late, refused, asked for or to be
  // undone.
  [[nodiscard]] bool steady() const {
    return plain_ && !board_.marked() && probe_.due == 0 && paused_until_.is_never() &&
           !undo_.holds() && rto_.backoff() == 0 && late_.count() == 0;
  }
  // While steady(): choose(true) finds a new packet.
  [[nodiscard]] bool may_send_steady() const {
    const AckClock* const clock = gate_.ack_clock();
    const uint32_t in_flight = board_.span();
    const bool open = clock != nullptr ? clock->credits() > 0 : in_flight < window_.packets();
    return open && in_flight < board_.span_max();
  }
  // The window has room that no credit fills yet: the burst timer runs.
  [[nodiscard]] bool awaits_burst() const {
    return gate_.clocked() && in_flight() + credits() < window_.packets();
  }
  // The next packet waits for the time that the window puts between two (cc::Window::spacing).
  [[nodiscard]] bool spaced() const { return !plain_ && !spaced_until_.is_never(); }
  // on_sent() of that packet; returns its virtual path. Defined in stream_sender_steady.hpp.
  uint16_t send_steady(Time now);
  // Draws a path for a packet outside the stream (the keep-alive acknowledgement).
  uint16_t draw_path(Time now) { return paths_.draw(now); }

  // ---- Hardware (offload_context.hpp; stream_sender_offload.cpp)
  // Nothing: the context has no room for this state, which another acknowledgement may change; or
  // the parameters keep more than offload_params() do. Credits that have a path lose it.
  [[nodiscard]] std::optional<OffloadContext> to_offload(Time now) const;
  // From the next reset() on the half of the device decides (stream_sender_hardware.cpp), if the
  // parameters are such that it can; nullptr: none does. It outlives the sender.
  void attach(HardwareSender* half);
  [[nodiscard]] bool in_hardware() const { return hardware_ != nullptr; }
  [[nodiscard]] RoceSender roce_half() const {
    return {una(), nxt(), rto_.base(), rto_.backoff(), last_progress_};
  }
  // As reset(), and goes on from there. Requires the parameters of the sender that was stored, and
  // that less than 1.07 s have passed since then.
  void from_offload(Time now, const OffloadContext& context, const RoceSender& roce,
                    const Prng& paths);
  [[nodiscard]] uint32_t credits_with_path() const {
    return gate_.clocked() ? gate_.ack_clock()->with_path() : 0;
  }
  [[nodiscard]] const Prng& random_paths() const { return paths_.prng(); }

  // ---- Getters
  [[nodiscard]] Psn una() const { return board_.una(); }
  [[nodiscard]] Psn nxt() const { return board_.nxt(); }
  [[nodiscard]] bool idle() const { return board_.idle(); }
  [[nodiscard]] uint32_t span() const { return board_.span(); }
  [[nodiscard]] uint32_t in_flight() const { return recovery_.in_flight(board_); }
  // Packets that have arrived, and keep their room for their own acknowledgement.
  [[nodiscard]] uint32_t awaited() const { return late_.count(); }
  // Packets that may leave at once; in_flight() + credits() <= window, but see gate_ack_clock.hpp.
  [[nodiscard]] uint32_t credits() const { return gate_.credits(); }
  // True if a packet needs a credit.
  [[nodiscard]] bool clocked() const { return gate_.clocked(); }
  [[nodiscard]] Duration srtt() const { return rtt_.srtt(); }
  // How long a synchronise operation stays behind what was sent before it: alpha * delta * SRTT /
  // cwnd, rounded down.
  [[nodiscard]] Duration sync_delay() const;
  // The time at which a synchronise operation may follow the packets sent so far; never, while a
  // retransmission has to come first.
  [[nodiscard]] Time sync_release() const;
  // Payload bytes of a full packet, for what follows the rate of the link.
  void set_path_mtu(uint32_t bytes) { path_mtu_ = bytes; }
  // Limits the timeout by the verbs' transport timer (RetransmissionTimer::limit).
  void limit_timeouts(Duration verbs_timeout) { rto_.limit(verbs_timeout); }
  // The retransmission timeout without back-off.
  [[nodiscard]] Duration base_rto() const;
  [[nodiscard]] const cc::Window& window() const { return window_; }
  [[nodiscard]] bool paused() const { return !paused_until_.is_never(); }
  // Timeouts in a row without an acknowledgement of something new.
  [[nodiscard]] uint32_t timeouts_in_a_row() const { return rto_.backoff(); }
  // True while a silence may be that of a slow peer: IRN's timeouts begin with a tenth of a
  // millisecond.
  [[nodiscard]] bool asks_often() const {
    return params_.rto_low != Duration::zero() && rto() < kSeldom;
  }
  // When the peer last acknowledged something new, or sending began.
  [[nodiscard]] Time last_progress() const { return last_progress_; }
  [[nodiscard]] StreamStats stats() const;

 private:
  // A timeout that fills no network, and is about as long as the seventh one of the mode mp.
  static constexpr Duration kSeldom = Duration::ms(250);
  // The paths of so many newest packets are known, for their copies.
  static constexpr int32_t kKnownPaths = 64;

  class Report;  // takes the loss detector's verdicts; in stream_sender.cpp
  // What the send gate asks (send_gate.hpp).
  struct Facts {
    const StreamSender& sender;
    uint32_t late;  // packets that have arrived, but keep their room for their own acknowledgement
    [[nodiscard]] uint32_t in_flight() const { return sender.in_flight() + late; }
    [[nodiscard]] uint32_t window() const { return sender.window_.packets(); }
    [[nodiscard]] bool idle() const { return sender.idle(); }
    [[nodiscard]] bool exact() const { return sender.recovery_.exact(); }
    [[nodiscard]] bool exceeds_window() const { return sender.recovery_.exceeds_window(); }
  };
  [[nodiscard]] Facts facts() const { return {*this, late_.count()}; }
  // For the burst timer, at which no late acknowledgement is expected any more.
  [[nodiscard]] Facts facts_of_silence() const { return {*this, 0}; }

  [[nodiscard]] std::optional<Lag> lag_of_late(Psn sack, bool given_up);
  AckResult take_ack(Time now, const wire::Packet& ack, bool has_new);
  void take_drop(Time now, const wire::Packet& ack, uint16_t vp);
  void take_overflow(Time now, const wire::Packet& ack, uint16_t vp);
  void take_no_room(const wire::MpAckExt& ext);
  // stream_sender_map.cpp
  void take_more(const wire::Packet& ack);
  void give_up_ack(Psn psn, LossCause cause);
  AckResult take_run(Time now, const wire::Packet& ack, bool has_new);
  // stream_sender_offload.cpp
  [[nodiscard]] bool fits_offload() const;
  [[nodiscard]] OffloadContext stored_context(Time now) const;
  void load_context(Time now, const OffloadContext& context, const RoceSender& roce);
  // stream_sender_hardware.cpp; each requires in_hardware().
  void load_hardware(Time now);
  HardwareSender::Answer ask_hardware(HardwareSender::Event event);
  void keep_answer(Time now, const HardwareSender::Answer& answer);
  AckResult hardware_acks(Time now, const wire::Packet& ack, bool has_new);
  AckResult hardware_ack(Time now, const OffloadAck& ack, bool has_new);
  void hardware_implied_ack(Time now, Psn aack);
  void hardware_event(Time now, HardwareSender::Kind kind, bool has_new);
  void hardware_deadline(Time now);
  [[nodiscard]] Time hardware_next_deadline(bool has_new) const;
  uint16_t hardware_sent(Time now, const Choice& choice);
  // stream_sender_steady.cpp
  struct SteadyFacts;
  void grant_steady(const PathSample& ack, AckClock& clock, bool has_new);

  void advance(Time now, Psn aack);
  void process_sack(Psn sack);
  Duration note_delivery(Time now, const wire::MpAckExt& ext, bool* was_lost);
  [[nodiscard]] Delivery delivered(Time now, const wire::MpAckExt& ext) const;
  // stream_sender_undo.cpp. `is_news`: of a packet whose own acknowledgement had not come.
  void take_back(Time now, const wire::MpAckExt& ext, bool is_news, bool was_lost) {
    if (undo_.open() && is_news) judge_timeout(now, ext);
    if (was_lost) undo_loss(now, ext.sack);
  }
  void undo_loss(Time now, Psn psn);
  void detect(Time now);
  void find_late(Time now);
  [[nodiscard]] LossClock at(Time now) const { return {now, &rtt_, long_trip_, long_trip_takes_}; }
  // stream_sender_sync.cpp
  void defer(Time now, Psn aack, Psn psn);
  void release_deferred();
  [[nodiscard]] bool deferral_runs() const {
    return board_.held_count() > 0 && board_.only_held_lost_first();
  }
  // True if no acknowledgement can come before deferred packets are sent again: the timers rest.
  [[nodiscard]] bool only_deferred() const {
    return recovery_.exact() && board_.held_count() > 0 && in_flight() == 0 &&
           board_.due_count() == 0;
  }
  void mark_lost(Time now, Psn psn, LossCause cause, uint16_t vp = 0);
  // Counts a loss and tells the trace.
  void tell_lost(Time now, Psn psn, LossCause cause);
  void count_cause(LossCause cause);
  // Raises an event; the caller has asked trace_.on(). stream_sender_trace.cpp
  [[gnu::cold]] void raise(Time now, TraceKind kind, Psn psn, std::string_view reason = {}) const;
  // What a stream waits for besides packets (stream_sender_timers.cpp). A stream that is paused or
  // spaced has one timer, the end of that.
  enum class Timer : uint8_t {
    kDeferral,  // a refused synchronise operation is sent again
    kLate,      // a packet is late, and lost
    kBurst,     // packets that burst control held back leave
    kTimeout,   // silence has lasted for a retransmission timeout
    kProbe,     // silence has lasted long enough for a tail probe
  };
  template <Timer kTimer>
  [[nodiscard]] Time expiry(bool has_new) const;
  template <Timer kTimer>
  void expire(Time now);
  void expire_late(Time now);
  void begin_probe(Time now);
  void end_pause(Time now);
  // How long the next packet waits after the acknowledgement of the only one. A peer with timeouts
  // like these does not take who waits for half of one for silent.
  [[nodiscard]] Duration spacing() const {
    if (plain_) return Duration::zero();
    const int64_t wait_ns = srtt().count_ns() * window_.spacing().raw() / Fixed16::kOneRaw;
    return std::min(Duration::ns(wait_ns), base_rto() / 2);
  }
  // The time from one packet to the next, where each is acknowledged before the next one leaves.
  [[nodiscard]] Duration spaced_round() const { return srtt() + spacing(); }
  void on_spaced_backlog(Time now);
  void space(Time now);
  void stop_spacing() {
    spaced_until_ = Time::never();
    settle_plain();
  }
  void end_spacing(Time now);
  // Packets since nothing was outstanding: more have not been in flight. Where they are too many to
  // count by PSNs, it is the largest number, or what is outstanding.
  [[nodiscard]] uint32_t in_use() const {
    const int32_t sent = use_.began.distance_to(nxt());
    return sent < 0 ? UINT32_MAX : std::max(static_cast<uint32_t>(sent), board_.span());
  }
  void set_asking(bool asking) {
    asking_ = asking;
    settle_plain();
  }
  void set_refused(std::optional<Psn> refused) {
    refused_ = refused;
    settle_plain();
  }
  void settle_plain() {
    plain_ =
        plain_kind_ && !asking_ && !refused_ && spaced_until_.is_never() && !window_.has_deficit();
  }
  // What lies there would be refused, too: the receiver's window stays where it is until it has
  // taken the operation that it refused.
  [[nodiscard]] bool beyond_refused(Psn psn) const {
    return refused_ && psn.at_or_after(*refused_ + params_.window_slots);
  }
  void on_timeout(Time now);
  void judge_timeout(Time now, const wire::MpAckExt& ext);
  void undo_timeout(Time now);
  // stream_sender_credits.cpp
  void begin_instant(Time now);
  [[nodiscard]] cc::LimitedBy limited_by(bool has_new, Lag lag) const;
  [[nodiscard]] uint32_t explore_per_mille(bool alone) const;
  void expect_late_acks(Psn aack, Psn named);
  [[nodiscard]] Lag judge_lag(Psn psn, Psn end) const;
  void grant_credits(const PathSample& ack, bool progress, bool has_new);
  void grant_clocked(const PathSample& ack, bool progress, bool has_new);
  // Whether the path of an acknowledgement goes to the policy in the place of its credit. While
  // credits without a path wait, these leave first: the next packet is to find the path, and behind
  // them it would be too old before its turn.
  [[nodiscard]] bool keeps_path(uint32_t pathless) const {
    return pathless > 0 && paths_.keeps_spares();
  }
  void note_spare(const PathSample& ack);
  void expect_long_trip(Psn psn, Duration least);
  void on_clocked_backlog(Time now);
  [[nodiscard]] bool restart_due(Time now) const;
  void restart(Time now);
  void count_restart(Time now);
  void follow_network();
  void follow(uint32_t most);
  uint16_t choose_path(Time now, const Choice& choice);
  uint16_t path_of_copy(Time now, const Choice& choice, std::optional<uint16_t> granted);
  // The path on which a packet left last; 0: not known.
  [[nodiscard]] uint16_t path_of(Psn psn) const {
    return psn.distance_to(nxt()) <= kKnownPaths ? known_paths_[psn.value() % kKnownPaths] : 0;
  }
  void note_path_of(Psn psn, uint16_t vp) {
    if (psn.distance_to(nxt()) <= kKnownPaths) known_paths_[psn.value() % kKnownPaths] = vp;
  }
  // A multiplicative hash into 64 buckets; for statistics only.
  uint16_t note_path(uint16_t vp) {
    round_.vps |= uint64_t{1} << ((vp * 0x9e3779b1u) >> 26);
    return vp;
  }

  // A packet leaves while none is outstanding.
  void begin_flight(Time now);
  void on_progress(Time now);
  void on_progress(Time now, const wire::MpAckExt& ext);
  // Not by the acknowledgement of a packet that left once, which gives a round trip.
  void on_progress_unsampled(Time now);
  // Where only the sender knows when a packet left, one that left again gives no round trip, so
  // that timeouts back off until another does (Karn's algorithm).
  [[nodiscard]] bool keeps_backoff() const { return params_.rto_low != Duration::zero(); }
  void hear(cc::AckSample sample, const wire::MpAckExt& ext, Lag lag, bool has_new);
  void report_to_window(const cc::AckSample& sample, bool slow);
  [[nodiscard]] bool has_due() const { return recovery_.next(board_).has_value(); }
  [[nodiscard]] Choice early_candidate() const;
  // Copies that a timeout sends beside what is lost (D19).
  [[nodiscard]] uint8_t more_tries() const;
  [[nodiscard]] Psn probe_psn() const;
  // snd_una is sent again at once, whatever the window says.
  void ask_head() {
    probe_.due = 1;
    probe_.head = true;
  }
  [[nodiscard]] Duration rto() const { return rto_.timeout(params_, rtt_, span()); }
  [[nodiscard]] Duration probe_timeout() const;
  [[nodiscard]] Duration patience() const;
  [[nodiscard]] Duration first_round_trips() const;

  // The limit that keeps the stream from sending more, because only a window in use may grow.
  struct WindowUse {
    bool window_limited = false;
    bool wire_limited = false;
    Time instant = Time::never();
    bool wire_waits = false;  // at `instant`
    Psn began;                // the first packet since nothing was outstanding
  };
  // Tail probes, which leave regardless of the window.
  struct Probe {
    // Silence until the first round: as it was when the stream began to send or packets were last
    // missing, so that an acknowledgement in order moves no timer forward.
    Duration patience = {};
    uint8_t due = 0;     // packets
    bool head = false;   // the probe is snd_una: it asks whether the receiver is ready now
    uint8_t rounds = 0;  // of probes in this silence
    uint8_t tries = 0;   // packets of these rounds
    Time next = {};      // of the next round, after the first
  };
  // Rounds of probes in a silence, at most.
  static constexpr uint8_t kProbeRounds = 12;
  // A round lasts one SRTT and until the next acknowledgement, which begins another one. At most
  // one packet in a round explores a new path.
  struct Round {
    Time start;
    Psn first = {};        // of the packets that left in it
    bool explore = false;  // drawn at the start; the next packet with an echoed path explores
    // The paths used in this round and in the one before, hashed into 64 bits; for statistics only.
    uint64_t vps = 0;
    uint64_t vps_before = 0;
  };

  Params params_;
  uint32_t path_mtu_ = kReferenceMtu;
  // As configured, or as the network asks (follow_network()).
  uint32_t window_max_;
  uint32_t reorder_delta_;
  TransportCounters* counters_;
  Trace trace_;
  cc::Window window_;
  PathSelector paths_;
  StreamGate gate_;
  Scoreboard board_;
  LossRecovery recovery_;
  RttEstimator rtt_;
  RetransmissionTimer rto_;
  TimeoutUndo undo_;
  LateAcks late_;  // only with Params::own_ack_credit
  WindowUse use_;
  Probe probe_;
  Round round_;
  Time deferred_until_;   // release of held packets, unless all before them arrive earlier
  Time last_sent_;        // departure of the last packet
  Time last_congestion_;  // the last mark, loss or timeout
  std::array<uint16_t, kKnownPaths> known_paths_{};  // by PSN, of the newest packets
  Time last_progress_;
  Time paused_until_ = Time::never();
  Time spaced_until_ = Time::never();
  bool heard_ = false;       // something has come back since the stream began
  bool samples_rtt_ = true;  // the acknowledgement that is being taken gives one
  bool plain_kind_;          // all parts are those of the mode mp, and there is no trace
  bool plain_;               // settle_plain()
  // The oldest packet that may take longer than the others, because it explores a path or left on a
  // straggler; or the last one that did.
  std::optional<Psn> long_trip_;
  Duration long_trip_takes_ = {};  // at most
  std::optional<Psn> refused_;  // the first packet of a synchronise operation that came too early
  HardwareSender* hardware_ = nullptr;
  bool asking_ = false;  // after a pause: only the packet that was refused may leave
  StreamStats stats_;    // only its counts; stats() fills in the state
};

}  // namespace mprdma::transport
