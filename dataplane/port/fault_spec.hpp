// Faults to inject into a wire, for tests: "seed=7,loss=0.01,reorder=0.02,dup=0.01,delay_us=50".
// "pause_after_ms=500": the NIC goes mad, and pauses its peer without end (a pause storm).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.hpp"
#include "base/units.hpp"

namespace mprdma::dataplane {

struct FaultSpec {
  uint64_t seed = 1;
  // Probabilities for each frame sent, in millionths.
  uint32_t loss_ppm = 0;
  uint32_t reorder_ppm = 0;  // held back for `delay`, so that later frames overtake it
  uint32_t dup_ppm = 0;      // sent once more after `delay`
  Duration delay = Duration::us(50);
  // So long after the link came up; infinite: never.
  Duration pause_after = Duration::infinite();

  [[nodiscard]] bool pauses() const { return pause_after != Duration::infinite(); }
  [[nodiscard]] bool any() const {
    return loss_ppm > 0 || reorder_ppm > 0 || dup_ppm > 0 || pauses();
  }
};

Status parse_fault(std::string_view text, FaultSpec* out);

}  // namespace mprdma::dataplane
