// The loss detection of the mode `mp`. Its signs, the surest first: a NACK (names the hole and the
// dropped packet), a PSN far below the highest SACKed one, and time: a packet is lost when another
// one that left later has arrived, and it has not in the time that the slowest path takes (RACK,
// RFC 8985). The sender has the tail probes and the timeout (stream_sender.hpp).
//
// Over many paths the age that RFC 8985 allows, by the latest round trip, is that of the fastest
// path, and every packet of a loaded one would be lost [deviation]: here it is the largest round
// trip of the last 8 to 16, or SRTT + 4 RTTVAR, and in addition a quarter of SRTT, more of it after
// verdicts that were wrong. A packet that explores a path may take longer (path/stragglers.hpp).
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string_view>

#include "transport/stream/loss_detector.hpp"
#include "transport/stream/send_times.hpp"

namespace mprdma::transport {

// The trigger of Params::loss_trigger, shared with recovery_paper.hpp.
template <class Report>
void lose_below_trigger(const Scoreboard& board, uint32_t trigger, Report& report) {
  if (trigger == 0 || board.reach() <= trigger) return;
  lose_suspects(board, board.sack_end() - trigger, LossCause::kTrigger, report);
}

class MpRecovery : public SelectiveRepeat {
 public:
  static constexpr std::string_view kName = "mp";

  explicit MpRecovery(const Params& params)
      : slots_(params.window_slots),
        trigger_(params.loss_trigger),
        delta_(params.reorder_delta),
        by_time_(params.loss_by_time),
        copies_(send_span(params.window_slots)) {}

  // How far behind the highest SACKed PSN another one may be (Params::loss_trigger, reorder_delta).
  void set_reach(uint32_t trigger, uint32_t delta) {
    trigger_ = trigger;
    delta_ = delta;
  }

  template <class Report>
  void on_nack(const Scoreboard& board, const Nack& nack, Report& report) {
    const bool answered = by_time_ && nack.dropped && is_former(*nack.dropped);
    SelectiveRepeat::on_nack(board, answered ? Nack{.aack = nack.aack} : nack, report);
    if (board.reach() > delta_) {
      lose_suspects(board, board.sack_end() - delta_, LossCause::kNack, report);
    }
  }
  template <class Report>
  void on_ack(const Scoreboard& board, Report& report) {
    lose_below_trigger(board, trigger_, report);
  }

  // What the receiver's window dropped is dropped again until the hole before it is filled. It
  // follows the copy that fills it, but not a copy that seems lost. Without losses by
  // time nothing tells of the copy, and it leaves at once.
  [[nodiscard]] std::optional<Psn> next(const Scoreboard& board) const {
    const std::optional<Psn> psn = SelectiveRepeat::next(board);
    if (!psn || !by_time_ || psn->before(board.una() + slots_)) return psn;
    return copy_is_coming(board.una()) ? psn : std::nullopt;
  }

  // ---- By time
  void on_begin(Psn una) {
    times_.reset();
    copies_.reset();
    first_end_ = una;
    any_arrived_ = false;
    deadline_ = Time::never();
  }
  void on_sent(Time now, Psn psn, Duration srtt) { times_.note(now, psn, srtt / kGrains); }
  void on_copy(Time now, Psn psn, Duration srtt) { copies_.note(now, psn, srtt / kCopyGrains); }
  void on_advance(const Scoreboard& board, uint32_t count) {
    copies_.forget(board.una() - count, count);
  }
  bool on_delivery(const Scoreboard& board, const Delivery& delivery, const LossClock& clock) {
    const Tick sent = Tick::at_or_before(delivery.sent);
    if (delivery.sent > Time() && (!any_arrived_ || latest_sent_.before(sent))) {
      latest_sent_ = sent;
      any_arrived_ = true;
    }
    if (delivery.copy) return false;
    first_end_ = psn_max(first_end_, delivery.psn + 1);
    const bool wrong =
        board.outstanding(delivery.psn) &&
        (board.lost(delivery.psn) || board.given_up(delivery.psn) || copies_.has(delivery.psn));
    if (wrong) on_wrong_verdict(clock);
    return wrong && by_time_;
  }
  template <class Report>
  void find_late(const Scoreboard& board, const LossClock& clock, Report& report) {
    deadline_ = Time::never();
    if (!by_time_ || !clock.rtt->measured()) return;
    find_late_firsts(board, clock, report);
    if (copies_.any() && any_arrived_) find_late_copies(board, clock, report);
  }
  [[nodiscard]] bool has_copies() const { return copies_.any(); }
  // True if a packet has arrived that left at most `grain` before the last new one. Nothing was
  // outstanding before `began`, which was noted.
  [[nodiscard]] bool end_arrives(Psn una, Psn began, Duration grain) const {
    if (any_arrived_ && times_.last().since(latest_sent_) <= grain) return true;
    return began.before(una) && times_.last().since(times_.of(una - 1)) <= grain;
  }
  [[nodiscard]] Time deadline() const { return deadline_; }

 private:
  static constexpr int64_t kGrains = 8;       // grains of times_ in SRTT
  static constexpr int64_t kCopyGrains = 4;   // of copies_
  static constexpr int64_t kReorderMax = 16;  // most quarters of SRTT in addition
  static constexpr int64_t kReorderCold = 8;  // the least while little is known

  // The age from which on a packet is late.
  [[nodiscard]] Duration late_after(const LossClock& clock) const {
    const RttEstimator& rtt = *clock.rtt;
    const int64_t quarters = rtt.cold() ? std::max(reorder_, kReorderCold) : reorder_;
    return std::max(rtt.largest() + rtt.srtt() / 4 * quarters, rtt.with_variance());
  }
  // True if the packet is late; otherwise it will be at deadline_.
  bool is_late(Tick sent, Duration after, Time now) {
    const Time late_at = sent.near(now) + after;
    if (now >= late_at) return true;
    deadline_ = std::min(deadline_, late_at);
    return false;
  }
  // True if the packet has left again since: that copy has an answer of its own. The network copies
  // NACKs, too.
  [[nodiscard]] bool is_former(const Delivery& dropped) const {
    if (!dropped.copy) return copies_.has(dropped.psn);
    return dropped.sent > Time() && copies_.left_after(dropped.psn, dropped.sent);
  }
  // True if it was sent again, and nothing that left later has arrived.
  [[nodiscard]] bool copy_is_coming(Psn psn) const {
    if (!copies_.any()) return false;
    for (const CopyTimes::Generation& g : copies_.generations()) {
      if (g.psns.test(psn.value())) return !any_arrived_ || !g.last.before(latest_sent_);
    }
    return false;
  }
  // Of the packets that were sent once. They left in the order of their PSNs.
  template <class Report>
  void find_late_firsts(const Scoreboard& board, const LossClock& clock, Report& report) {
    const Duration after = late_after(clock);
    const Psn end = board.nxt();
    const auto patience = [&](Psn psn) {
      return clock.long_trip == psn ? std::max(after, clock.long_trip_takes) : after;
    };
    for (Psn psn = board.next_suspect(board.una(), end); psn.before(end);
         psn = board.next_suspect(psn + 1, end)) {
      if (copies_.has(psn)) continue;
      const Tick sent = times_.of(psn);
      const bool passed = psn.before(first_end_) || (any_arrived_ && sent.before(latest_sent_));
      if (passed && is_late(sent, patience(psn), clock.now)) {
        report.lose(psn, LossCause::kEarly);
      } else if (clock.long_trip != psn) {
        return;
      }
    }
  }
  template <class Report>
  void find_late_copies(const Scoreboard& board, const LossClock& clock, Report& report) {
    const Duration after = late_after(clock);
    for (const CopyTimes::Generation& g : copies_.generations()) {
      if (!g.last.before(latest_sent_)) continue;
      const uint32_t span = board.span();
      for (uint32_t at = g.psns.next_set(board.una().value(), span); at < span;
           at += 1 + g.psns.next_set(board.una().value() + at + 1, span - at - 1)) {
        const Psn psn = board.una() + at;
        if (board.sacked(psn) || board.lost(psn)) continue;
        if (!is_late(g.last, after, clock.now)) break;
        report.lose(psn, LossCause::kEarly);
      }
    }
  }
  // A packet, or its acknowledgement, was held for lost, and comes: more patience, doubled once in
  // a round trip at most.
  void on_wrong_verdict(const LossClock& clock) {
    if (clock.now - reorder_raised_ < clock.rtt->srtt()) return;
    reorder_raised_ = clock.now;
    reorder_ = std::min(reorder_ * 2, kReorderMax);
  }

  uint32_t slots_;
  uint32_t trigger_;
  uint32_t delta_;
  bool by_time_;
  bool any_arrived_ = false;  // since the stream was idle, with a time
  Tick latest_sent_;          // when the packet left that left last of those that arrived
  Psn first_end_;             // the PSN behind the highest that has arrived as a first copy
  int64_t reorder_ = 1;       // quarters of SRTT
  Time reorder_raised_;
  Time deadline_ = Time::never();
  SendTimes times_;   // of packets that were not sent again
  CopyTimes copies_;  // of the others
};

}  // namespace mprdma::transport
