// TIMELY (Mittal et al., SIGCOMM 2015, algorithm 1): the rate of a connection follows the gradient
// of its round trip. And TIMELY with the correction of Zhu et al. ("ECN or Delay", CoNEXT 2016,
// equations 29 and 30), which has one fair fix point. Events in, a rate out; integers only.
//
//   d = (1 - a) d + a (rtt - the one before),  g = d / base RTT
//   rtt < low      R += delta
//   rtt > high     R -= R b (1 - high / rtt)
//   else, timely:          g <= 0   R += N delta, N = 5 from the fifth falling sample on, else 1
//                          g > 0    R -= R b g
//   else, timely-patched:  R += delta (1 - w) - R b w (rtt - low) / low
//                          w = 0 for g <= -1/4, 1 for g >= 1/4, 2 g + 1/2 between
//
// a = 7/8, b = 0.8, patched 0.008 (CoNEXT 2016). delta is 10 Mb/s at 10 Gb/s and grows with the
// link; it is the least rate, too, since the papers name none. One update takes at most half of the
// rate, as in the authors' published code.
//
// An update stands for a segment of 16 KB: there is one in max(segment / R, base RTT), as in the
// fluid model of CoNEXT 2016, and samples in between are not heard. The segment's own serialisation
// is in no sample here, because packets are timed one by one. A connection begins at the rate of
// its link: the paper divides it by the connections of the host, of which this one knows nothing. A
// flow of the original has no fix point of its own (CoNEXT 2016): flows keep the shares that they
// happen to have.
//
// Invariant: delta <= R <= link rate.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string_view>

#include "base/check.hpp"
#include "base/units.hpp"
#include "cc/algorithm.hpp"
#include "cc/base_delay.hpp"

namespace mprdma::cc {

template <bool kPatched>
class TimelyRate : public AlgorithmDefaults {
 public:
  static constexpr std::string_view kName = kPatched ? "timely-patched" : "timely";
  static constexpr uint64_t kLinkMaxBps = uint64_t{1} << 40;
  static constexpr uint64_t kSegmentBits = uint64_t{16'384} * 8;
  static constexpr uint64_t kDeltaShare = 1000;  // delta is this part of the link
  static constexpr uint32_t kHyperAfter = 5;
  static constexpr uint32_t kHyperSteps = 5;

  explicit TimelyRate(const Setup& setup)
      : link_bps_(setup.link_bps),
        low_ns_(std::max<int64_t>(setup.rtt_low.count_ns(), 1)),
        high_ns_(setup.rtt_high.count_ns()),
        base_(setup.base_rtt) {
    CHECK(link_bps_ > 0 && link_bps_ <= kLinkMaxBps);
    delta_bps_ = std::max<uint64_t>(link_bps_ / kDeltaShare, 1);
    rate_bps_ = link_bps_;
  }

  void reset() {
    rate_bps_ = link_bps_;
    difference_ = 0;
    falling_ = 0;
    last_ns_ = 0;
    due_ = Time();
    base_.reset();
  }

  void on_ack(const AckSample& ack) {
    const int64_t rtt_ns = ack.rtt.count_ns();
    if (rtt_ns <= 0) return;
    base_.note(ack.rtt);
    if (ack.now < due_) return;
    note(rtt_ns);
    const uint64_t before_bps = rate_bps_;
    update(rtt_ns);
    rate_bps_ = std::clamp(std::max(rate_bps_, before_bps / 2), delta_bps_, link_bps_);
    const auto segment_ns = static_cast<int64_t>(kSegmentBits * 1'000'000'000 / rate_bps_);
    due_ = ack.now + Duration::ns(std::max(segment_ns, base_.rtt().count_ns()));
  }
  // At the rate of the link there is nothing to keep.
  [[nodiscard]] uint64_t rate_bps() const { return rate_bps_ < link_bps_ ? rate_bps_ : kNoRate; }
  // The gradient, in units of 1/65536.
  [[nodiscard]] int64_t gradient_raw() const {
    return std::clamp(
        difference_ * (kOne >> kFractionBits) / std::max<int64_t>(base_.rtt().count_ns(), 1),
        -kSteepest, kSteepest);
  }

 private:
  static constexpr int64_t kOne = 1 << 16;
  static constexpr int64_t kSteepest = 16 * kOne;       // far beyond what takes half of the rate
  static constexpr int kFractionBits = 8;               // of the mean difference
  static constexpr int64_t kBeta = kPatched ? 8 : 800;  // b, in units of 1/1000

  // Averages the difference of two samples.
  void note(int64_t rtt_ns) {
    const int64_t step = last_ns_ == 0 ? 0 : (rtt_ns - last_ns_) * (1 << kFractionBits);
    difference_ += (step - difference_) * 7 / 8;
    falling_ = step < 0 ? falling_ + 1 : 0;
    last_ns_ = rtt_ns;
  }

  void update(int64_t rtt_ns) {
    if (rtt_ns < low_ns_) return raise(kOne);
    if (rtt_ns > high_ns_) return lower(kOne - high_ns_ * kOne / rtt_ns);
    const int64_t gradient = gradient_raw();
    if constexpr (kPatched) {
      const int64_t weight = std::clamp<int64_t>(2 * gradient + kOne / 2, 0, kOne);
      const int64_t error = std::min((rtt_ns - low_ns_) * kOne / low_ns_, kFarthest);
      raise(kOne - weight);
      lower(weight * error / kOne);
    } else if (gradient <= 0) {
      raise(falling_ >= kHyperAfter ? kHyperSteps * kOne : kOne);
    } else {
      lower(gradient);
    }
  }
  // R += delta `share` / 65536
  void raise(int64_t share) { rate_bps_ += delta_bps_ * static_cast<uint64_t>(share) >> 16; }
  // R -= R b `share` / 65536, at most all of it
  void lower(int64_t share) {
    constexpr int64_t kFiner = 16;  // b is small: 20 fraction bits
    const auto taken =
        static_cast<uint64_t>(std::min(share * kFiner * kBeta / 1000, kFiner * kOne));
    rate_bps_ -= rate_bps_ * taken >> 20;
  }
  static constexpr int64_t kFarthest = 1000 * kOne;  // b times this takes it all

  uint64_t link_bps_;
  uint64_t delta_bps_ = 1;
  uint64_t rate_bps_ = 1;
  int64_t low_ns_;
  int64_t high_ns_;
  BaseDelay base_;
  int64_t last_ns_ = 0;     // the sample before; 0: none
  int64_t difference_ = 0;  // d, ns with 8 fraction bits
  Time due_;                // the next update
  uint32_t falling_ = 0;    // samples in a row that were smaller than the one before
};

using Timely = TimelyRate<false>;
using TimelyPatched = TimelyRate<true>;

}  // namespace mprdma::cc
