// How long the helper leaves an application alone that polls, before it looks again whether the
// application still does.
//
// A look takes the core of a thread that polls: on a virtual machine the timer, two switches and
// the cold caches come to tens of microseconds (AMD EPYC: with one look each 200 us a message of 8
// bytes took 1.9 us on the average, with one each millisecond 1.2; the median is 0.8). So looks are
// further and further apart while the application polls, and close to each other again once it has
// stopped: what it leaves behind waits for about twice as long as it has polled before at most, and
// kMax at most, and until the next look sees that the last poll is long ago (Progress::kPolling).
//
// The helper's own, but for get(): whoever runs the worker reads that.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "base/units.hpp"

namespace mprdma::dataplane {

class HelperBeat {
 public:
  static constexpr Duration kMin = Duration::us(200);
  static constexpr Duration kMax = Duration::ms(1);

  [[nodiscard]] Duration get() const { return Duration::ns(ns_.load(std::memory_order_relaxed)); }
  // A look: the application has polled a moment ago. Something else than the beat may have woken
  // the helper, too early.
  void on_polling(Time now) {
    if (now - since_ < get()) return;
    since_ = now;
    set(std::min(get() * 2, kMax));
  }
  // A look: it has not.
  void on_silence(Time now) {
    since_ = now;
    set(kMin);
  }

 private:
  void set(Duration beat) {
    if (beat != get()) ns_.store(beat.count_ns(), std::memory_order_relaxed);
  }

  std::atomic<int64_t> ns_{kMin.count_ns()};
  Time since_;  // of the last change, or the last beat that passed
};

}  // namespace mprdma::dataplane
