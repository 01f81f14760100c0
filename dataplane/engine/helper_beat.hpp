// How long the helper leaves an application alone that polls, before it looks again whether the
// application still does.
//
// A look takes the core of a thread that polls: on a virtual machine the timer, two switches and
// the cold caches come to tens of microseconds (AMD EPYC: with one look each 200 us a message of 8
// bytes took 2.3 us on the average, with one each 2 ms 1.3, median 0.9). So looks are further and
// further apart while the application polls, and close to each other again once it has stopped:
// what it leaves behind waits for twice as long as it has polled before at most, and kMax at most.
//
// Written by the helper, read by whoever runs the worker.
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
  // A look: the application has polled a moment ago.
  void on_polling() { ns_.store(std::min(get() * 2, kMax).count_ns(), std::memory_order_relaxed); }
  // A look: it has not.
  void on_silence() { ns_.store(kMin.count_ns(), std::memory_order_relaxed); }

 private:
  std::atomic<int64_t> ns_{kMin.count_ns()};
};

}  // namespace mprdma::dataplane
