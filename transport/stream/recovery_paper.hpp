// The paper's accounting and loss recovery to the letter (3.2, 3.4, figure 7), for comparison:
// Recovery::kPaper.
//
//   in flight = span - inflate; `inflate` grows by one with every acknowledgement of a received
//   packet and falls by as much as snd_una advances. A lost acknowledgement leaks.
//   A NACK begins recovery: snd_retx = the NACKed PSN, recovery = snd_nxt. Until snd_una reaches
//   `recovery`, acknowledgements clock out snd_retx, snd_retx + 1, .. up to `recovery`, one each,
//   then new packets; nothing is detected a second time. The copies do not count as in flight.
//   Outside recovery, an acknowledgement that finds nothing new to send clocks out snd_retx as new
//   data (3.5, the scheme of FUSO), so that the end of a message needs no timeout: each outstanding
//   packet once, whether it is lost or under way, because the paper's sender has no map of SACKs.
//   As new data: the copy counts as in flight (inflate falls by one), and its acknowledgement
//   takes that back. Where the first copy was lost, the window leaks by one.
//   A timeout begins the sweep again, from snd_una, and sends a whole window whatever is in flight.
//
// snd_retx and recovery never lie before snd_una, nor behind snd_nxt, so no comparison inverts.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "base/check.hpp"
#include "base/psn.hpp"
#include "transport/stream/loss_detector.hpp"
#include "transport/stream/recovery_mp.hpp"

namespace mprdma::transport {

class PaperRecovery : public SelectiveRepeat {
 public:
  static constexpr std::string_view kName = "paper";
  static constexpr bool kExact = false;

  explicit PaperRecovery(const Params& params) : trigger_(params.loss_trigger) {}

  void reset(Psn first) {
    inflate_ = 0;
    retx_ = recovery_ = first;
    recovering_ = by_timeout_ = false;
    clocked_ = 0;
  }

  void on_received() {
    ++inflate_;
    clocked_ = kBurstPackets;
  }
  void on_sent(Time, Psn, Duration) { use_clock(); }
  void on_copy(Time, Psn, Duration) { use_clock(); }
  void on_early() {
    ++retx_;
    --inflate_;
  }
  void on_advance(const Scoreboard& board, uint32_t count) {
    inflate_ -= static_cast<int32_t>(count);
    retx_ = psn_max(retx_, board.una());
    recovery_ = psn_max(recovery_, board.una());
    if (recovery_ == board.una()) recovering_ = false;
  }
  template <class Report>
  void on_nack(const Scoreboard& board, const Nack& nack, Report& report) {
    if (board.una() != nack.aack || board.idle()) return;
    if (!recovering_) {
      begin(board);
      by_timeout_ = false;
      report.penalise_hole();
    }
    if (nack.dropped) report.penalise_drop(nack.dropped->psn);
  }
  template <class Report>
  void on_ack(const Scoreboard& board, Report& report) {
    lose_below_trigger(board, trigger_, report);
  }
  template <class Report>
  void on_timeout(const Scoreboard& board, Report&) {
    begin(board);
    by_timeout_ = true;
  }
  void on_restart() { inflate_ = 0; }

  [[nodiscard]] uint32_t in_flight(const Scoreboard& board) const {
    const auto sent = static_cast<int32_t>(board.span() - board.lost_count());
    const int32_t count = sent - inflate_;
    return count > 0 ? static_cast<uint32_t>(count) : 0;
  }
  [[nodiscard]] std::optional<Psn> next(const Scoreboard& board) const {
    return sweeps() ? retx_ : SelectiveRepeat::next(board);
  }
  std::optional<LossCause> on_retransmit(Psn psn) {
    if (!sweeps() || psn != retx_) return std::nullopt;
    ++retx_;
    return by_timeout_ ? LossCause::kTimeout : LossCause::kNack;
  }
  [[nodiscard]] std::optional<Psn> early(const Scoreboard& board) const {
    const bool none = recovering_ || clocked_ == 0 || !retx_.before(board.nxt());
    if (none || board.lost(retx_)) return std::nullopt;  // what the receiver refused waits
    return retx_;
  }
  [[nodiscard]] uint32_t burst() const { return recovering_ ? 1 : kBurstPackets; }
  [[nodiscard]] bool exceeds_window() const { return recovering_ && by_timeout_; }

 private:
  [[nodiscard]] bool sweeps() const { return recovering_ && retx_.before(recovery_); }
  void use_clock() {
    if (clocked_ > 0) --clocked_;
  }
  void begin(const Scoreboard& board) {
    retx_ = board.una();
    recovery_ = board.nxt();
    recovering_ = retx_.before(recovery_);
  }

  uint32_t trigger_;
  int32_t inflate_ = 0;
  Psn retx_;
  Psn recovery_;
  bool recovering_ = false;
  bool by_timeout_ = false;
  uint32_t clocked_ = 0;  // packets that the last acknowledgement may still clock out
};

}  // namespace mprdma::transport
