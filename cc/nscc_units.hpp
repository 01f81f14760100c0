// What NSCC (nscc_window.hpp) counts in: its mean delay, its increases, and their scale.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/fixed_point.hpp"
#include "base/units.hpp"

namespace mprdma::cc {

// The mean of delays, each with a weight of 1/80.
class MeanDelay {
 public:
  void add(Duration delay) { raw_ += (delay.count_ns() * (1 << kBits) - raw_) / 80; }
  [[nodiscard]] Duration value() const { return Duration::ns(raw_ >> kBits); }

 private:
  static constexpr int kBits = 8;  // fraction bits
  int64_t raw_ = 0;                // ns
};

// Increases that wait for the next adjustment: I, in units of 1/65536 of a packet squared.
class PendingIncrease {
 public:
  void add(uint64_t raw) { raw_ = std::min(raw_ + raw, kMax); }
  void forget() { raw_ = 0; }
  // What a window takes: I / w.
  [[nodiscard]] uint64_t share_raw(Fixed16 window) const { return (raw_ << 16) / window.raw(); }

 private:
  static constexpr uint64_t kMax = uint64_t{1} << 46;  // 2^30 packets
  uint64_t raw_ = 0;
};

// The round trip of the network that the constants are for, which has links of 100 Gb/s.
inline constexpr uint64_t kNsccReferenceRttNs = 12'000;

// How much larger a network of this link and round trip is: C base / (100 Gb/s 12 us), C the link's
// rate, in units of 1/65536; at most 64.
constexpr uint64_t nscc_scale_raw(uint64_t link_bps, Duration rtt) {
  constexpr uint64_t kReference = uint64_t{100'000} * kNsccReferenceRttNs;  // Mb/s ns
  const Duration base = std::min(rtt, Duration::ms(100));
  const uint64_t product = link_bps / 1'000'000 * static_cast<uint64_t>(base.count_ns());
  return std::clamp<uint64_t>(product * Fixed16::kOneRaw / kReference, 1, 64 * Fixed16::kOneRaw);
}

}  // namespace mprdma::cc
