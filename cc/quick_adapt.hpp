// Quick adapt, a part of NSCC (nscc_window.hpp): after a period of a base RTT and a target delay in
// which a packet was lost, or which ends with four times the target, and in which less than an
// eighth of the maximum has arrived, the window becomes what has arrived. What was in flight then
// tells nothing new: its marks do nothing.
#pragma once

#include <cstdint>
#include <optional>

#include "base/units.hpp"
#include "cc/base_delay.hpp"

namespace mprdma::cc {

class QuickAdapt {
 public:
  explicit QuickAdapt(uint32_t max_packets) : gate_(max_packets / 8) {}

  void reset() { *this = QuickAdapt(gate_ * 8); }
  void follow(uint32_t max_packets) { gate_ = max_packets / 8; }
  void on_arrival(uint32_t packets, uint32_t in_flight) {
    arrived_ += packets;
    heard_ += packets;
    in_flight_ = in_flight;
  }
  void on_loss() {
    ++heard_;
    lost_ = true;
  }
  // True if this event is of what was in flight at the last adaptation.
  [[nodiscard]] bool ignores(bool marked) const { return marked && heard_ < ignored_; }
  // The new window, packets; nothing: it stays.
  std::optional<uint32_t> judge(Time now, Duration delay, const BaseDelay& base) {
    if (!period_ends_.is_never() && now <= period_ends_) return {};
    const bool measured = !period_ends_.is_never();
    const bool due = lost_ || delay > base.target() * kPatience;
    const uint32_t arrived = arrived_;
    arrived_ = 0;
    period_ends_ = now + base.rtt() + base.target();
    if (!measured || !due || arrived >= gate_) return {};
    ignored_ = in_flight_;
    heard_ = 0;
    lost_ = false;
    return arrived;
  }

 private:
  static constexpr int64_t kPatience = 4;

  uint32_t gate_;
  uint32_t arrived_ = 0;              // packets in this period
  uint32_t heard_ = 0;                // packets that arrived or were lost since the last adaptation
  uint32_t ignored_ = 0;              // of these, those that were in flight then
  uint32_t in_flight_ = 0;            // after the last acknowledgement
  bool lost_ = false;                 // a packet, since the last adaptation
  Time period_ends_ = Time::never();  // never: before the first sample
};

}  // namespace mprdma::cc
