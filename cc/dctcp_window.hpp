// The congestion window of DCTCP (RFC 8257; Alizadeh et al., SIGCOMM 2010), in packets: the share
// of marked packets, averaged over round trips, decides how much a mark costs. Fixed point with 16
// fraction bits, every operation rounded down. Bounds: 1 <= window <= max.
//
//   every ACK                    w += 1/w   (if the caller says that the window was in use)
//   an ACK with ECE              w -= w * alpha / 2   } not again for a round
//   a lost packet                w -= w / 2           } after either
//   after every round            alpha += (marked / acknowledged - alpha) / 16
//   timeout                      w = 1
//   restart                      w = initial
//
// A round has as many acknowledgements as the window had packets when it began, or before the cut.
// This replaces the round trip, because a window does not know time. Alpha begins with 1, as the
// RFC recommends.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string_view>

#include "base/fixed_point.hpp"
#include "cc/algorithm.hpp"

namespace mprdma::cc {

class DctcpWindow : public AlgorithmDefaults {
 public:
  static constexpr std::string_view kName = "dctcp";
  static constexpr bool kNeedsMarks = true;

  explicit DctcpWindow(const Setup& setup)
      : initial_(Fixed16::from_int(setup.initial_packets)),
        max_(Fixed16::from_int(setup.max_packets)) {
    reset();
  }

  void reset() {
    window_ = initial_;
    alpha_raw_ = Fixed16::kOneRaw;
    settling_ = 0;
    begin_round();
  }

  void on_ack(const AckSample& ack) {
    ++acked_;
    marked_ += ack.ece ? 1 : 0;
    settling_ -= std::min(settling_, 1U);
    if (ack.ece) {
      cut(alpha_raw_);
    } else if (ack.may_grow()) {
      window_ = std::min(window_ + window_.reciprocal(), max_);
    }
    if (acked_ < round_) return;
    // At most 2^16 acknowledgements to a round, so that the shift fits.
    const auto share_raw = static_cast<int64_t>((uint64_t{marked_} << 16) / acked_);
    alpha_raw_ = static_cast<uint32_t>(alpha_raw_ + ((share_raw - alpha_raw_) >> kGainShift));
    begin_round();
  }
  // A loss halves the window as in TCP (RFC 8257, 3.5).
  void on_loss(const LossSample&) { cut(Fixed16::kOneRaw); }
  // DCTCP has no rule for paths: the window only gives up the packet of the slow path.
  void on_slow_path(const AckSample&) { window_ = std::max(kOne, window_ - kOne); }
  void on_timeout(Time) {
    window_ = kOne;
    settling_ = 0;
    begin_round();
  }

  void follow(uint32_t initial_packets, uint32_t max_packets) {
    initial_ = Fixed16::from_int(initial_packets);
    max_ = Fixed16::from_int(max_packets);
    window_ = std::min(window_, max_);
  }

  [[nodiscard]] Fixed16 window() const { return window_; }
  // Alpha, the share of marked packets, in units of 1/65536.
  [[nodiscard]] uint32_t alpha_raw() const { return alpha_raw_; }

 private:
  static constexpr Fixed16 kOne = Fixed16::from_int(1);
  static constexpr int kGainShift = 4;  // g = 1/16

  // Cuts the window by `alpha` / 2 of it, once for the packets in flight, which tell nothing new.
  void cut(uint32_t alpha_raw) {
    if (settling_ > 0) return;
    settling_ = window_.floor();
    const uint64_t taken = uint64_t{window_.raw()} * alpha_raw >> (Fixed16::kFractionBits + 1);
    window_ = std::max(kOne, window_ - Fixed16::from_raw(static_cast<uint32_t>(taken)));
  }
  void begin_round() {
    round_ = window_.floor();
    acked_ = marked_ = 0;
  }

  Fixed16 initial_;
  Fixed16 max_;
  Fixed16 window_;
  uint32_t alpha_raw_ = Fixed16::kOneRaw;
  uint32_t round_ = 1;
  uint32_t acked_ = 0;
  uint32_t marked_ = 0;
  uint32_t settling_ = 0;  // acknowledgements until the window may be cut again
};

}  // namespace mprdma::cc
