// A descriptor that becomes readable at a given time, for a thread that sleeps on many (EventLoop).
//
// It may ring early: an alarm that is set for an earlier time than is asked for stays. A thread
// that is woken before its time, message after message, so does not program a timer for each sleep:
// where the timer is a hypervisor's that costs more than the rest of the wake-up (10 us, measured
// on a virtual machine).
#pragma once

#include <atomic>

#include "base/units.hpp"

namespace mprdma::dataplane {

class Alarm {
 public:
  Alarm();
  ~Alarm();
  Alarm(const Alarm&) = delete;
  Alarm& operator=(const Alarm&) = delete;

  // -1: the kernel gave none.
  [[nodiscard]] int fd() const { return fd_; }
  // Rings at `at` (CLOCK_MONOTONIC), or before.
  void ring_by(Time now, Time at);
  // Rings at `at`, whatever it was set for. Any thread may call this while another one sleeps on
  // the alarm; what that one sets afterwards holds.
  void move(Time at);
  // Makes the descriptor silent after it has rung.
  void quit();

 private:
  int fd_;
  std::atomic<int64_t> set_for_ns_{Time::never().ns()};
};

}  // namespace mprdma::dataplane
