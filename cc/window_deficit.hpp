// What marks ask for beyond a window of one packet, because a packet of each sender is too much
// where hundreds share a queue [deviation D18]. The deficit d says how many round trips lie between
// two packets:
//
//   an acknowledgement with ECE      d += 1/8, up to 34
//   an acknowledgement without       d -= max(1/8, d/16)
//   a long rest                      d  = 0
//   spacing, round trips             max(0, d - 2): what comes and goes spaces nothing
//
// A sum up and a share down, so that who sends least comes back fastest: with a spacing that
// doubles with each mark and halves without one, or with larger steps, shares of 1024 senders
// differ more. Fixed point, rounded down.
#pragma once

#include <algorithm>

#include "base/fixed_point.hpp"

namespace mprdma::cc {

class WindowDeficit {
 public:
  // Requires a window of one packet, of which nothing is owed.
  void on_mark() { deficit_ = std::min(deficit_ + kStep, kMax); }
  void on_ack() { deficit_ -= std::max(kStep, deficit_ / 16); }
  void forget() { deficit_ = Fixed16(); }

  [[nodiscard]] bool any() const { return deficit_ != Fixed16(); }
  [[nodiscard]] Fixed16 value() const { return deficit_; }
  // Round trips between two packets.
  [[nodiscard]] Fixed16 spacing() const { return deficit_ - kFree; }

 private:
  static constexpr Fixed16 kStep = Fixed16::from_raw(Fixed16::kOneRaw / 8);
  static constexpr Fixed16 kFree = Fixed16::from_int(2);
  // For some thousand senders; more would be a trap where a switch marks everything.
  static constexpr Fixed16 kMax = Fixed16::from_int(34);

  Fixed16 deficit_;
};

}  // namespace mprdma::cc
