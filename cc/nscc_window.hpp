// The congestion window of NSCC, the network signal congestion control of Ultra Ethernet
// (specification 1.0, with the constants of its simulator uet-htsim), in packets: mark and delay
// choose what an acknowledgement does. Fixed point, rounded down. Bounds: 1 <= window <= max.
//
//               delay below the target                at or above it
//   no mark     proportional increase                 fair increase
//               I += 4 a (target - delay) / 12 us     I += 5 a
//   mark        nothing                               multiplicative decrease, once in a base RTT:
//                                                     w *= max(1 - 0.8 (m - target) / m, 1/2)
//
//   adjustment      after 8 packets or a base RTT: w += I / w; after a base RTT also w += 0.15 a
//   fast increase   no mark and no delay (below 1 us) for a window of packets: w += 0.25 a for
//                   each packet, in place of the proportional increase
//   a lost packet   w -= 1; quick adapt may follow (quick_adapt.hpp). Timeout: w = 1
//
// I sums over packets acknowledged; delay is a round trip less the base RTT, m its mean; a scales
// with the network (nscc_units.hpp). The target is as long as the base RTT where none is
// configured, the rule without trimming. A delay above the target without a mark counts as a
// quarter of the base RTT to m, because nothing that marks was full.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>

#include "cc/algorithm.hpp"
#include "cc/base_delay.hpp"
#include "cc/nscc_units.hpp"
#include "cc/quick_adapt.hpp"

namespace mprdma::cc {

class NsccWindow : public PlainWindow {
 public:
  static constexpr std::string_view kName = "nscc";
  static constexpr bool kNeedsMarks = true;

  explicit NsccWindow(const Setup& setup)
      : PlainWindow(setup),
        base_(setup.base_rtt, setup.target_delay),
        quick_(setup.max_packets),
        link_bps_(setup.link_bps) {}

  void follow(uint32_t initial_packets, uint32_t max_packets) {
    PlainWindow::follow(initial_packets, max_packets);
    quick_.follow(max_packets);
  }
  void reset() {
    PlainWindow::reset();
    base_.reset();
    quick_.reset();
    state_ = {};
  }

  void on_ack(const AckSample& ack) {
    state_.acknowledged += ack.packets;
    if (ack.rtt <= Duration::zero()) return;  // of a run the last one has a sample
    const uint32_t packets = std::exchange(state_.acknowledged, 0);
    base_.note(ack.rtt);
    const Duration delay = base_.queueing(ack.rtt);
    average(delay, ack.ece);
    quick_.on_arrival(packets, ack.in_flight);
    state_.since_adjusted += packets;
    if (adapts(ack.now, delay, ack.ece)) return;
    const bool much = delay >= base_.target();
    if (!ack.ece && ack.may_grow()) increase(packets, delay);
    if (ack.ece && much) decrease(ack.now);
    const bool round = ack.now - state_.adjusted >= base_.rtt();
    if (state_.since_adjusted > kAdjustPackets || round) adjust(ack, round);
  }
  void on_loss(const LossSample& loss) {
    quick_.on_loss();
    average(base_.rtt(), true);
    if (!adapts(loss.now, Duration::zero(), true)) set(window() - kOne);
  }
  void on_timeout(Time) {
    set(kOne);
    state_.calm = 0;
    state_.increase.forget();
  }

  [[nodiscard]] Duration mean_delay() const { return state_.mean.value(); }  // m
  [[nodiscard]] uint64_t scale_raw() const { return nscc_scale_raw(link_bps_, base_.rtt()); }

 private:
  static constexpr uint64_t kOneRaw = Fixed16::kOneRaw;
  static constexpr uint32_t kAdjustPackets = 8;
  static constexpr Duration kNoDelay = Duration::us(1);

  void average(Duration delay, bool marked) {
    state_.mean.add(!marked && delay > base_.target() ? base_.rtt() / 4 : delay);
  }
  // True: the event does nothing else.
  bool adapts(Time now, Duration delay, bool marked) {
    if (!quick_.ignores(marked)) {
      const std::optional<uint32_t> arrived = quick_.judge(now, delay, base_);
      if (!arrived) return false;
      set(Fixed16::from_int(*arrived));
    }
    state_.increase.forget();
    state_.since_adjusted = 0;
    return true;
  }
  void increase(uint32_t packets, Duration delay) {
    state_.calm = delay < kNoDelay ? state_.calm + packets : 0;
    if (delay >= base_.target()) return state_.increase.add(packets * scale_raw() * 5);
    if (state_.calm > window().floor()) return raise(packets * scale_raw() / 4);
    const auto room_ns = static_cast<uint64_t>((base_.target() - delay).count_ns());
    state_.increase.add(packets * (scale_raw() * 4 * room_ns / kNsccReferenceRttNs));
  }
  void decrease(Time now) {
    state_.calm = 0;
    const int64_t mean_ns = mean_delay().count_ns();
    const int64_t excess_ns = mean_ns - base_.target().count_ns();
    if (excess_ns <= 0 || now < state_.may_cut) return;
    state_.may_cut = now + base_.rtt();
    const auto share = static_cast<uint64_t>(excess_ns * int64_t{kOneRaw} * 8 / 10 / mean_ns);
    const uint64_t taken = uint64_t{window().raw()} * std::min(share, kOneRaw / 2) / kOneRaw;
    set(window() - Fixed16::from_raw(static_cast<uint32_t>(taken)));
  }
  void adjust(const AckSample& ack, bool round) {
    raise(state_.increase.share_raw(window()));
    if (round && ack.may_grow()) raise(scale_raw() * 15 / 100);
    if (round) state_.adjusted = ack.now;
    state_.increase.forget();
    state_.since_adjusted = 0;
  }
  void raise(uint64_t raw) {
    const auto bounded = static_cast<uint32_t>(std::min<uint64_t>(raw, Fixed16::kMaxRaw));
    set(window() + Fixed16::from_raw(bounded));
  }

  struct State {
    PendingIncrease increase;     // I
    MeanDelay mean;               // m
    uint32_t acknowledged = 0;    // packets since the last sample
    uint32_t since_adjusted = 0;  // packets
    uint32_t calm = 0;            // packets in a row without mark and delay
    Time adjusted;
    Time may_cut;
  };
  BaseDelay base_;
  QuickAdapt quick_;
  State state_;
  uint64_t link_bps_;
};

}  // namespace mprdma::cc
