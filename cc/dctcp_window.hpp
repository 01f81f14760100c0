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
// A round is as many acknowledgements as the window had packets when it began, or before the cut:
// time is not known here, and over a round trip the two are the same. Alpha begins with 1, as the
// RFC recommends.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string_view>

#include "base/fixed_point.hpp"

namespace mprdma::cc {

class DctcpWindow {
 public:
  static constexpr std::string_view kName = "dctcp";

  DctcpWindow(uint32_t initial_packets, uint32_t max_packets)
      : initial_(Fixed16::from_int(initial_packets)), max_(Fixed16::from_int(max_packets)) {
    reset();
  }

  void reset() {
    window_ = initial_;
    alpha_raw_ = Fixed16::kOneRaw;
    settling_ = 0;
    begin_round();
  }

  void on_ack(bool ece, bool may_grow) {
    ++acked_;
    marked_ += ece ? 1 : 0;
    settling_ -= std::min(settling_, 1U);
    if (ece) {
      cut(alpha_raw_);
    } else if (may_grow) {
      window_ = std::min(window_ + window_.reciprocal(), max_);
    }
    if (acked_ < round_) return;
    // At most 2^16 acknowledgements to a round, so that the shift fits.
    const auto share_raw = static_cast<int64_t>((uint64_t{marked_} << 16) / acked_);
    alpha_raw_ = static_cast<uint32_t>(alpha_raw_ + ((share_raw - alpha_raw_) >> kGainShift));
    begin_round();
  }
  // As TCP (RFC 8257, 3.5).
  void on_hole() { cut(Fixed16::kOneRaw); }
  void on_window_drop() { cut(Fixed16::kOneRaw); }
  // What a path is worth is no affair of DCTCP's; it takes the packet that the path had.
  void on_slow_path() { window_ = std::max(kOne, window_ - kOne); }
  void on_unused_ack() {}
  void give_back() {}
  void on_timeout() {
    window_ = kOne;
    settling_ = 0;
    begin_round();
  }

  [[nodiscard]] Fixed16 exact() const { return window_; }
  [[nodiscard]] Fixed16 owed() const { return {}; }
  // Of 65536: how much of what is sent is marked.
  [[nodiscard]] uint32_t alpha_raw() const { return alpha_raw_; }

 private:
  static constexpr Fixed16 kOne = Fixed16::from_int(1);
  static constexpr int kGainShift = 4;  // g = 1/16

  // By `alpha` / 2 of the window. What was in flight then tells nothing new.
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
