// The congestion window of MP-RDMA (paper, section 3.2): events in, a window in packets out.
//
// Fixed point with 16 fraction bits, every operation rounded down (base/fixed_point.hpp), so that
// software and RTL agree bit for bit. Bounds: 1 <= window <= max. Pure: no time, no packets.
//
//   every ACK without ECE   w += 1/w          (only if the caller says that the window was in use)
//   every ACK with ECE      w -= 1/2
//   a lost PSN, once        w -= 1/2          [mend: a control loop where nothing marks]
//   a PSN dropped by the receiver's window    w -= 1/4   [mend]
//   timeout                 w  = min(w/2, initial)
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/fixed_point.hpp"

namespace mprdma::cc {

class MpWindow {
 public:
  MpWindow(uint32_t initial_packets, uint32_t max_packets)
      : initial_(Fixed16::from_int(initial_packets)),
        max_(Fixed16::from_int(max_packets)),
        window_(initial_) {}

  void reset() { window_ = initial_; }
  void on_ack(bool ece, bool may_grow) {
    if (ece) {
      shrink(kHalf);
    } else if (may_grow) {
      window_ = std::min(window_ + window_.reciprocal(), max_);
    }
  }
  void on_hole() { shrink(kHalf); }
  void on_window_drop() { shrink(kQuarter); }
  void on_timeout() { window_ = std::max(kOne, std::min(window_.half(), initial_)); }

  // Whole packets that may be in flight, at least 1.
  [[nodiscard]] uint32_t packets() const { return window_.floor(); }
  [[nodiscard]] Fixed16 exact() const { return window_; }

 private:
  static constexpr Fixed16 kOne = Fixed16::from_int(1);
  static constexpr Fixed16 kHalf = Fixed16::from_raw(Fixed16::kOneRaw / 2);
  static constexpr Fixed16 kQuarter = Fixed16::from_raw(Fixed16::kOneRaw / 4);

  void shrink(Fixed16 by) { window_ = std::max(kOne, window_ - by); }

  Fixed16 initial_;
  Fixed16 max_;
  Fixed16 window_;
};

}  // namespace mprdma::cc
