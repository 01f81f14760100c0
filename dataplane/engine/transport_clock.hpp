// The transport's time: the clock, without the spans in which it was paused. It stands still while
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

  void pause(Time now) {
    if (paused_since_.is_never()) paused_since_ = now;
  }
  void resume(Time now) {
    lost_ = lost(now);
    paused_since_ = Time::never();
  }

  [[nodiscard]] bool paused() const { return !paused_since_.is_never(); }

  // The transport's time at a moment of the clock.
  [[nodiscard]] Time to_transport(Time now) const { return now - lost(now); }

  // The moment of the clock when the transport's time reaches this value, unless resume() comes
  // before.
  [[nodiscard]] Time to_wall(Time transport) const {
    const Time moment = transport + lost_;
    return moment <= paused_since_ ? moment : moment + bound_;
  }

 private:
  [[nodiscard]] Duration lost(Time now) const {
    if (paused_since_.is_never()) return lost_;
    return lost_ + std::clamp(now - paused_since_, Duration::zero(), bound_);
  }

  Duration bound_;
  Duration lost_ = Duration::zero();
  Time paused_since_ = Time::never();
};

}  // namespace mprdma::dataplane
