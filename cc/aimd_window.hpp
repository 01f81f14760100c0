// Additive increase, multiplicative decrease (RFC 5681 without slow start): one packet more in a
// round trip, half the window for a mark or a loss. Every mark counts by itself, so a window of
// many packets falls far; DCTCP is the remedy (dctcp_window.hpp).
#pragma once

#include <string_view>

#include "cc/algorithm.hpp"

namespace mprdma::cc {

class AimdWindow : public PlainWindow {
 public:
  static constexpr std::string_view kName = "aimd";
  using PlainWindow::PlainWindow;

  void on_ack(const AckSample& ack) {
    if (ack.ece) return set(window().half());
    if (ack.may_grow()) grow();
  }
  void on_loss(const LossSample&) { set(window().half()); }
  void on_timeout(Time) { set(kOne); }
};

}  // namespace mprdma::cc
