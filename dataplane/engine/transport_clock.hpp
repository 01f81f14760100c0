// The transport's time: the clock, without the spans in which it was stopped. It stands still while
// the daemon behind the port is away (design 6), so that no timer of a connection expires for that
// reason; for `bound` at most, because after a longer absence the standard's errors are right.
//
// Owned and called by the progress engine, with the worker's lock held. Monotonic if `now` is.
#pragma once

#include <algorithm>

#include "base/units.hpp"

namespace mprdma::dataplane {

class TransportClock {
 public:
  explicit TransportClock(Duration bound) : bound_(bound) {}

  void stop(Time now) {
    if (stopped_since_.is_never()) stopped_since_ = now;
  }
  void go(Time now) {
    lost_ = lost(now);
    stopped_since_ = Time::never();
  }

  // The transport's time at a moment of the clock.
  [[nodiscard]] Time at(Time now) const { return now - lost(now); }

  // The moment of the clock when the transport's time reaches this value, unless go() comes before.
  [[nodiscard]] Time when(Time transport) const {
    const Time moment = transport + lost_;
    return moment <= stopped_since_ ? moment : moment + bound_;
  }

 private:
  [[nodiscard]] Duration lost(Time now) const {
    if (stopped_since_.is_never()) return lost_;
    return lost_ + std::clamp(now - stopped_since_, Duration::zero(), bound_);
  }

  Duration bound_;
  Duration lost_ = Duration::zero();
  Time stopped_since_ = Time::never();
};

}  // namespace mprdma::dataplane
