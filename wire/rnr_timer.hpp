// RNR NAK timer codes (InfiniBand Architecture Specification, volume 1, table 45): how long the
// requester waits before it sends again what the responder was not ready for.
//
// The durations are not monotonic in the code: code 0 is the longest.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/units.hpp"

namespace mprdma::wire {

inline constexpr size_t kRnrTimerCodes = 32;

inline constexpr std::array<int64_t, kRnrTimerCodes> kRnrTimerUs = {
    655360, 10,    20,    30,    40,    60,     80,     120,    160,    240,   320,
    480,    640,   960,   1280,  1920,  2560,   3840,   5120,   7680,   10240, 15360,
    20480,  30720, 40960, 61440, 81920, 122880, 163840, 245760, 327680, 491520};

// Only the low five bits of the code count.
constexpr Duration rnr_timer(uint8_t code) {
  return Duration::us(kRnrTimerUs[code % kRnrTimerCodes]);
}

}  // namespace mprdma::wire
