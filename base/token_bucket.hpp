// Rate limit: a token bucket, kept as the time at which it would be full again. Time is an
// argument.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/units.hpp"

namespace mprdma {

class TokenBucket {
 public:
  // Allows one event every `interval` in the long run, `burst` events at once.
  constexpr TokenBucket(Duration interval, int64_t burst) : interval_(interval), burst_(burst) {}

  // Takes a token. False: there is none yet.
  bool consume(Time now) {
    const Time full = std::max(full_at_, now);
    if (full - now > interval_ * (burst_ - 1)) return false;
    full_at_ = full + interval_;
    return true;
  }

 private:
  Duration interval_;
  int64_t burst_;
  Time full_at_;
};

}  // namespace mprdma
