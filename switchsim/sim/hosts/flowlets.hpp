// Flowlets of a flow where it leaves its host: packets between two pauses that are longer than a
// gap. The meter counts, for several gaps at once, the pauses that exceed each.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "switchsim/model/sim_time.hpp"

namespace mprdma::switchsim {

inline constexpr std::array<int64_t, 10> kFlowletGapsNs = {
    500, 1'000, 2'000, 5'000, 10'000, 20'000, 50'000, 100'000, 200'000, 500'000};

class FlowletMeter {
 public:
  // Counts a packet whose first byte leaves at `start` and whose last one leaves `wire` later.
  void note(SimTime start, SimSpan wire, uint32_t payload_bytes) {
    if (bytes_ > 0) {
      const int64_t pause_ps = (start - last_end_).count_ps();
      for (size_t i = 0; i < pauses_.size() && pause_ps > kFlowletGapsNs[i] * 1000; ++i) {
        ++pauses_[i];
      }
    }
    bytes_ += payload_bytes;
    last_end_ = start + wire;
  }

  [[nodiscard]] uint64_t bytes() const { return bytes_; }
  // The counts by gap.
  [[nodiscard]] const std::array<uint64_t, kFlowletGapsNs.size()>& pauses() const {
    return pauses_;
  }

 private:
  uint64_t bytes_ = 0;
  SimTime last_end_;
  std::array<uint64_t, kFlowletGapsNs.size()> pauses_{};
};

}  // namespace mprdma::switchsim
