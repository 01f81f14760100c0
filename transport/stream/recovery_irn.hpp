// IRN's loss recovery: Recovery::kIrn. Selective retransmission for packets on one path, which come
// in the order in which they left unless one is lost.
//
//   An acknowledgement of a packet behind a hole begins recovery: snd_una is lost, and so is what
//   lies between it and the highest SACKed packet. In recovery each packet is lost once: a hole
//   below a new highest SACKed packet, and snd_una when it moves to a packet that has not been sent
//   again (a partial acknowledgement).
//   A timeout begins recovery anew, from snd_una: it alone finds that a copy was lost.
//   Recovery ends when snd_una passes what had been sent when it began, so that a wrong one (a
//   timeout that was too early) costs a window of copies at most.
//
// In flight are all packets between snd_una and snd_nxt, SACKed ones, too (BDP-FC bounds the maps);
// copies do not wait for the window.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/psn.hpp"
#include "transport/stream/loss_detector.hpp"

namespace mprdma::transport {

class IrnRecovery : public SelectiveRepeat {
 public:
  static constexpr std::string_view kName = "irn";
  static constexpr bool kExact = false;
  static constexpr bool kCopiesWait = false;

  explicit IrnRecovery(const Params&) {}

  void reset(Psn first) {
    judged_ = recovery_ = first;
    recovering_ = false;
  }
  void on_advance(const Scoreboard& board, uint32_t) {
    // Never before snd_una, so that no comparison inverts.
    recovery_ = psn_max(recovery_, board.una());
    if (recovery_ == board.una()) recovering_ = false;
  }
  template <class Report>
  void on_ack(const Scoreboard& board, Report& report) {
    const bool hole = board.sack_end() != board.una();
    if (!recovering_) {
      if (!hole) return;
      begin(board);
    }
    judge(board, LossCause::kNack, report);
  }
  // The packet is dropped, as if it had not come, but tells that something before it is missing.
  template <class Report>
  void on_hole(const Scoreboard& board, Report& report) {
    if (recovering_ || board.idle()) return;
    begin(board);
    judge(board, LossCause::kNack, report);
  }
  template <class Report>
  void on_timeout(const Scoreboard& board, Report& report) {
    begin(board);
    judge(board, LossCause::kTimeout, report);
  }
  [[nodiscard]] uint32_t in_flight(const Scoreboard& board) const { return board.span(); }

 private:
  void begin(const Scoreboard& board) {
    judged_ = board.una();
    recovery_ = board.nxt();
    recovering_ = true;
  }
  // What is not SACKed up to the highest SACKed packet is lost, and snd_una in any case; each
  // packet once.
  template <class Report>
  void judge(const Scoreboard& board, LossCause cause, Report& report) {
    judged_ = psn_max(judged_, board.una());
    const Psn head_end = board.idle() ? board.una() : board.una() + 1;
    for (const Psn end = psn_max(board.sack_end(), head_end); judged_.before(end); ++judged_) {
      if (board.arrived(judged_) || board.lost(judged_)) continue;
      report.lose(judged_, cause);
    }
  }

  Psn judged_;    // in recovery: the next PSN to be judged
  Psn recovery_;  // snd_nxt when recovery began
  bool recovering_ = false;
};

}  // namespace mprdma::transport
