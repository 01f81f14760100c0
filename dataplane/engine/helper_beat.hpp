// How long the helper leaves an application alone that polls, before it looks again whether the
// application still does.
//
// A look takes the core of a thread that polls: on a virtual machine the timer, two switches and
// the cold caches come to tens of microseconds (AMD EPYC: with one look each 200 us a message of 8
// bytes took 2.1 us on the average, with one each millisecond 1.25; the median is 0.8). So the time
// until the next look doubles while the application polls, from kMin to kMax. It is kMin again when
// a look finds that the application has stopped.
//
// Polls put off a look that is kMax away (Progress::put_off_look), so an application that polls for
// long is hardly looked at.
//
// What an application leaves behind waits for the next look that finds its last poll old enough
// (Progress::kPolling): one beat and 60 us, where a beat is at most twice the time that the
// application has polled.
//
// The helper calls on_polling() and on_silence(); any thread may call get().
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
  // A look finds that the application polls. A look before the beat is over, because something else
  // has woken the helper, changes nothing.
  void on_polling(Time now) {
    if (now - since_ < get()) return;
    since_ = now;
    set(std::min(get() * 2, kMax));
  }
  // A look finds that the application does not poll.
  void on_silence(Time now) {
    since_ = now;
    set(kMin);
  }

 private:
  void set(Duration beat) {
    if (beat != get()) ns_.store(beat.count_ns(), std::memory_order_relaxed);
  }

  std::atomic<int64_t> ns_{kMin.count_ns()};
  Time since_;  // when the beat began
};

}  // namespace mprdma::dataplane
