// What a control by delay measures against: the round trip of the empty network and the delay that
// it allows to queues. Both are configured, or follow from the smallest sample of the connection,
// which is too large while there was always a queue.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/units.hpp"

namespace mprdma::cc {

class BaseDelay {
 public:
  // `rtt` zero: the smallest sample; `target` zero: as long as the round trip.
  explicit BaseDelay(Duration rtt, Duration target = {})
      : rtt_(rtt), target_(target), measures_(rtt_ == kNone) {}

  void reset() {
    if (measures_) rtt_ = kNone;
  }
  void note(Duration rtt) {
    if (measures_ && (rtt_ == kNone || rtt < rtt_)) rtt_ = rtt;
  }
  // Zero before the first sample.
  [[nodiscard]] Duration rtt() const { return rtt_; }
  // Delay of the queues that is allowed.
  [[nodiscard]] Duration target() const { return target_ == kNone ? rtt_ : target_; }
  // Delay of the queues in a sample.
  [[nodiscard]] Duration queueing(Duration rtt) const {
    return std::max(rtt - rtt_, Duration::zero());
  }

 private:
  static constexpr Duration kNone = Duration::zero();
  Duration rtt_;
  Duration target_;
  bool measures_;
};

}  // namespace mprdma::cc
