// The congestion window of MP-RDMA (paper, section 3.2): events in, a window in packets out.
//
// Fixed point with 16 fraction bits, every operation rounded down (base/fixed_point.hpp), so that
// software and RTL agree bit for bit. Bounds: 1 <= window <= max. Pure: no time, no packets.
//
//   every ACK without ECE   w += 1/w          (only if the caller says that the window was in use)
//   every ACK with ECE      w -= 1/2
//   the first of them       before: w = min(w, 3/2 of the packets that were in use)   [deviation:
//                           the initial window was a guess, and what is in use is too much]
//   a lost PSN, once        w -= 1/2          [deviation: a control loop where nothing marks]
//   a PSN that was held for lost arrives      w += 1/2  [deviation], if its loss took as much
//   a PSN dropped by the receiver's window    w -= 1/4  [deviation]
//   an ACK of a path that is too slow         w -= 1
//   an ACK that finds nothing to send         w -= 1 ("use it or lose it", 3.5), and is owed
//   the application has packets again         w += what is owed, to the initial window [deviation]
//   timeout                 w  = min(w/2, initial)  [deviation]
//   every ACK without ECE, below the initial window and before the first sign of congestion
//                           w += 1            [deviation: after the network has proved to be
//                           longer]
//   restart                 w  = initial
//   the same, congestion was long ago         w  = max(w, initial)  [deviation]
//
// The owed window does not survive congestion: a decrease that would pass below 1 reduces it. What
// marks ask for beyond that is the deficit (window_deficit.hpp) [deviation].
#pragma once

#include <algorithm>
#include <string_view>

#include "base/fixed_point.hpp"
#include "cc/algorithm.hpp"
#include "cc/window_deficit.hpp"

namespace mprdma::cc {

class MpWindow : public AlgorithmDefaults {
 public:
  static constexpr std::string_view kName = "mp";
  static constexpr bool kNeedsMarks = true;
  static constexpr Fixed16 kLossCost = Fixed16::from_raw(Fixed16::kOneRaw / 2);

  explicit MpWindow(const Setup& setup)
      : initial_(Fixed16::from_int(setup.initial_packets)),
        max_(Fixed16::from_int(setup.max_packets)),
        window_(initial_),
        spaces_(setup.spaces) {}

  // Begins a connection, or restarts it.
  void reset() {
    window_ = initial_;
    owed_ = Fixed16();
    deficit_.forget();
    guessed_ = true;
  }
  void on_ack(const AckSample& ack) {
    if (ack.ece) {
      ramp_to_ = Fixed16();
      if (guessed_) judge_guess(ack.in_use);
      if (spaces_ && window_ == kOne && owed_ == Fixed16()) deficit_.on_mark();
      shrink(kHalf);
    } else if (deficit_.any()) {
      deficit_.on_ack();
    } else if (ack.may_grow()) {
      const Fixed16 step = ramps() ? kOne : window_.reciprocal();
      window_ = std::min(window_ + step, max_);
    }
  }
  void on_loss(const LossSample& loss) {
    ramp_to_ = Fixed16();
    shrink(loss.kind == LossKind::kHole ? kHalf : kQuarter);
  }
  void on_loss_undone() { window_ = std::min(window_ + kLossCost, max_); }
  void on_slow_path(const AckSample&) { shrink(kOne); }
  void on_unused_ack() {
    const Fixed16 taken = std::min(kOne, window_ - kOne);
    window_ -= taken;
    owed_ += taken;
  }
  void give_back() {
    if (window_ < initial_) window_ = std::min(initial_, window_ + owed_);
    owed_ = Fixed16();
  }
  void forget_deficit() { deficit_.forget(); }
  void recover() {
    if (window_ >= initial_) return;
    window_ = initial_;
    guessed_ = true;
  }
  void follow(uint32_t initial_packets, uint32_t max_packets) {
    initial_ = Fixed16::from_int(initial_packets);
    max_ = Fixed16::from_int(max_packets);
    window_ = std::min(window_, max_);
    if (!congested()) ramp_to_ = initial_;
  }
  [[nodiscard]] bool ramps() const { return window_ < ramp_to_; }
  void on_timeout(Time) {
    ramp_to_ = Fixed16();
    window_ = std::max(kOne, std::min(window_.half(), initial_));
    owed_ = Fixed16();
  }

  // As hardware has kept it.
  void load(Fixed16 window, Fixed16 owed) {
    window_ = window;
    owed_ = owed;
    deficit_.forget();
    guessed_ = false;
  }

  [[nodiscard]] Fixed16 window() const { return window_; }
  [[nodiscard]] Fixed16 owed() const { return owed_; }
  [[nodiscard]] Fixed16 deficit() const { return deficit_.value(); }
  [[nodiscard]] Fixed16 spacing() const { return deficit_.spacing(); }

 private:
  static constexpr Fixed16 kOne = Fixed16::from_int(1);
  static constexpr Fixed16 kHalf = kLossCost;
  static constexpr Fixed16 kQuarter = Fixed16::from_raw(Fixed16::kOneRaw / 4);

  // The network says that what is in use is too much; what is not was never tried. Half as much
  // again stays, for messages that differ: without it, 64 loops of 16 KB that pause for 400 us take
  // twice as long in the 99th percentile, and with three times as much no incast is shorter. A
  // window above the initial one has grown, so it was in use.
  void judge_guess(uint32_t in_use) {
    guessed_ = false;
    if (window_ > initial_ || in_use >= (window_ + owed_).floor()) return;
    const Fixed16 tried = Fixed16::from_int(in_use);
    const Fixed16 limit = std::max(kOne, tried + tried.half());
    window_ = std::min(window_, limit);
    owed_ = std::min(owed_, limit - window_);
  }
  [[nodiscard]] bool congested() const { return ramp_to_ == Fixed16(); }
  void shrink(Fixed16 by) {
    const Fixed16 above_one = window_ - kOne;
    owed_ -= by - above_one;  // saturates at zero, both times
    window_ -= std::min(by, above_one);
  }

  Fixed16 initial_;
  Fixed16 max_;
  Fixed16 window_;
  // Up to here it grows by a packet with each acknowledgement; 0 after the first sign of
  // congestion.
  Fixed16 ramp_to_ = kOne;
  bool guessed_ = true;    // no mark has come since the window was set to the initial one
  Fixed16 owed_;           // taken by on_unused_ack() and not given back
  WindowDeficit deficit_;  // grows at a window of one packet only
  bool spaces_;
};

}  // namespace mprdma::cc
