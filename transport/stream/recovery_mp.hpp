// The loss detection of the mode `mp`. Its signs, the surest first: a NACK (names the hole and the
// dropped packet), a PSN far below the highest SACKed one, a PSN below the highest SACKed one and
// older than an epoch of 5/4 SRTT. The sender has the tail probe and the timeout
// (stream_sender.hpp).
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "transport/stream/loss_detector.hpp"

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
      : trigger_(params.loss_trigger),
        delta_(params.reorder_delta),
        early_(params.early_retransmit) {}

  template <class Report>
  void on_nack(const Scoreboard& board, const Nack& nack, Report& report) {
    SelectiveRepeat::on_nack(board, nack, report);
    if (board.reach() > delta_) {
      lose_suspects(board, board.sack_end() - delta_, LossCause::kNack, report);
    }
  }
  template <class Report>
  void on_ack(const Scoreboard& board, Report& report) {
    lose_below_trigger(board, trigger_, report);
  }
  [[nodiscard]] std::optional<Psn> early(const Scoreboard& board) const {
    if (!early_) return std::nullopt;
    const Psn end = psn_min(board.old_end(), board.sack_end());
    const Psn psn = board.next_suspect(board.una(), end);
    if (!psn.before(end)) return std::nullopt;
    return psn;
  }

 private:
  uint32_t trigger_;
  uint32_t delta_;
  bool early_;
};

}  // namespace mprdma::transport
