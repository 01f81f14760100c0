// The engine's clock: CLOCK_MONOTONIC, read once a burst (through the vDSO: no system call).
#pragma once

#include <ctime>

#include "base/units.hpp"

namespace mprdma::dataplane {

inline Time clock_now() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return Time::from_ns(int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec);
}

}  // namespace mprdma::dataplane
