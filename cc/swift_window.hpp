// The congestion window of Swift (Kumar et al., SIGCOMM 2020, algorithm 1), in packets: one delay
// is compared with one target. Fixed point with 16 fraction bits, rounded down.
// Bounds: 1/64 <= window <= max; 1 <= window without Setup::spaces or Setup::base_rtt.
//
//   target = base + T + max(0, min(A (1 / sqrt(w) - 1 / sqrt(100)), 5 T))
//            A = 5 T / (1 / sqrt(0.1) - 1 / sqrt(100)): flow scaling, more delay for small windows
//   an ACK below the target      w += 1/w for each packet acknowledged, 1 below one packet
//   an ACK at or above it        w *= max(1 - 0.8 (rtt - target) / rtt, 1/2)   } at most once
//   a lost packet, a timeout     w *= 1/2                                      } in a round trip
//
// The paper names its constants ai, beta, max_mdf and fs_range without their values; 1, 0.8, 1/2,
// 5 T and the windows 0.1 and 100 of flow scaling are those of public simulators (csg-htsim).
//
// What differs from the paper, because of what an acknowledgement here tells:
//   - topology scaling: no acknowledgement counts hops, so the base round trip of the connection
//     stands for the paper's base target and its h for each hop;
//   - one window: only the receiver's wait is known apart from the fabric's delay, and is taken off
//     by the stream, so that there is no window for the hosts.
//
// Below one packet the paper paces packets 1/w round trips apart. Here the next one waits for the
// rest of that, as far as the stream allows, after the acknowledgement of the one before it. Only
// where somebody has named the base round trip: the smallest one that was measured may be below any
// that full packets can have.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <utility>

#include "cc/algorithm.hpp"
#include "cc/base_delay.hpp"

namespace mprdma::cc {

class SwiftWindow : public PlainWindow {
 public:
  static constexpr std::string_view kName = "swift";

  explicit SwiftWindow(const Setup& setup)
      : PlainWindow(setup),
        base_(setup.base_rtt, setup.target_delay),
        least_(setup.spaces && setup.base_rtt > Duration::zero() ? Fixed16::from_raw(kOneRaw / 64)
                                                                 : kOne) {}

  void reset() {
    PlainWindow::reset();
    below_ = Fixed16();
    base_.reset();
    acknowledged_ = 0;
    rtt_ = Duration();
    last_cut_ = Time();
    was_cut_ = false;
  }

  void on_ack(const AckSample& ack) {
    acknowledged_ += ack.packets;
    if (ack.rtt <= Duration::zero()) return;  // of a run the last one has a sample
    const uint32_t packets = std::exchange(acknowledged_, 0);
    base_.note(ack.rtt);
    rtt_ = ack.rtt;
    const Duration limit = target();
    if (ack.rtt < limit) return increase(ack, packets);
    const int64_t excess_ns = (ack.rtt - limit).count_ns();
    cut(ack.now, static_cast<uint32_t>(excess_ns * kBeta / ack.rtt.count_ns()));
  }
  // Of a run the last acknowledgement has a sample; the others count as the one before.
  [[nodiscard]] bool congested(const AckSample& ack) const {
    const Duration rtt = ack.rtt > Duration::zero() ? ack.rtt : rtt_;
    return rtt_ > Duration::zero() && rtt >= target();
  }
  void on_loss(const LossSample& loss) { cut(loss.now, kMostTaken); }
  void on_timeout(Time now) { cut(now, kMostTaken); }

  // The round trip that it aims at, for the window that it has.
  [[nodiscard]] Duration target() const {
    const int64_t queue_ns = base_.target().count_ns();
    // 1 / sqrt(w), with 16 fraction bits.
    const int64_t inverse = root((uint64_t{1} << 48) / std::max(exact().raw(), kScalesFrom));
    const int64_t share = std::max<int64_t>(inverse - kInverseAtMost, 0);
    const int64_t scaling_ns =
        std::min(kScalingRange * queue_ns * share / kInverseSpan, kScalingRange * queue_ns);
    return base_.rtt() + Duration::ns(queue_ns + scaling_ns);
  }

  // The window; less than window() below one packet.
  [[nodiscard]] Fixed16 exact() const { return window() - below_; }
  void forget_deficit() { below_ = Fixed16(); }
  [[nodiscard]] Fixed16 deficit() const { return below_; }
  [[nodiscard]] Fixed16 spacing() const { return exact().reciprocal() - kOne; }

 private:
  static constexpr uint32_t kOneRaw = Fixed16::kOneRaw;
  static constexpr int64_t kBeta = kOneRaw * 8 / 10;
  static constexpr uint32_t kMostTaken = kOneRaw / 2;  // max_mdf
  static constexpr int64_t kScalingRange = 5;          // fs_range / T
  static constexpr int64_t kInverseAtMost = 6'554;     // 1 / sqrt(100), 16 fraction bits
  static constexpr int64_t kInverseSpan = 200'688;     // 1 / sqrt(0.1) less that
  static constexpr uint32_t kScalesFrom = 6'554;       // 0.1: the range of flow scaling ends

  // Takes `share` / 65536 of the window, but once in a round trip only.
  void cut(Time now, uint32_t share) {
    if (was_cut_ && now - last_cut_ < std::max(rtt_, Duration::ns(1))) return;
    was_cut_ = true;
    last_cut_ = now;
    const uint64_t taken = uint64_t{exact().raw()} * std::min(share, kMostTaken) / kOneRaw;
    settle(exact() - Fixed16::from_raw(static_cast<uint32_t>(taken)));
  }
  // A window below one packet was the limit, whoever waited: it kept the packet from leaving.
  void increase(const AckSample& ack, uint32_t packets) {
    if (exact() < kOne) {
      settle(exact() + Fixed16::from_int(packets));
    } else if (ack.may_grow()) {
      settle(exact() + exact().reciprocal() * packets);
    }
  }
  void settle(Fixed16 exact) {
    set(exact);
    below_ = kOne - std::max(exact, least_);
  }
  // The square root of a number below 2^36, rounded down.
  static int64_t root(uint64_t of) {
    uint64_t result = 0;
    for (uint64_t bit = uint64_t{1} << 17; bit != 0; bit >>= 1) {
      if ((result + bit) * (result + bit) <= of) result += bit;
    }
    return static_cast<int64_t>(result);
  }

  BaseDelay base_;
  Fixed16 least_;
  Fixed16 below_;              // one packet less the window, where that is less than one
  uint32_t acknowledged_ = 0;  // packets since the last sample
  Duration rtt_;               // the last sample
  Time last_cut_;
  bool was_cut_ = false;
};

}  // namespace mprdma::cc
