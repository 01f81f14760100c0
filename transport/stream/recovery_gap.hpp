// Selective repeat with a threshold: a packet is lost once a SACK is three or more above it, like
// TCP's forward acknowledgement (FACK). Correct on one path; over many paths it mistakes reordering
// for loss.
#pragma once

#include <string_view>

#include "transport/stream/loss_detector.hpp"

namespace mprdma::transport {

class GapRecovery : public SelectiveRepeat {
 public:
  static constexpr std::string_view kName = "gap";
  explicit GapRecovery(const Params&) {}

  template <class Report>
  void on_ack(const Scoreboard& board, Report& report) {
    if (board.reach() <= 3) return;
    lose_suspects(board, board.sack_end() - 3, LossCause::kTrigger, report);
  }
};

}  // namespace mprdma::transport
