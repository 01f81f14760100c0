// Flowlets of a flow where it leaves its host: what lies between two pauses that are longer than a
// gap. For a handful of gaps at once, by counting the pauses that exceed each.
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
  // A packet's first byte leaves at `start` and its last one `wire` later.
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
  // By gap.
  [[nodiscard]] const std::array<uint64_t, kFlowletGapsNs.size()>& pauses() const {
    return pauses_;
  }

 private:
  uint64_t bytes_ = 0;
  SimTime last_end_;
  std::array<uint64_t, kFlowletGapsNs.size()> pauses_{};
};

}  // namespace mprdma::switchsim
