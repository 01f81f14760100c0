// Scheduling of threads that run for microseconds and have to run at once.
//
// An application that polls memory uses all of its core, and so may its peer: the thread that
// brings the data must run before them. Where permitted (root, RLIMIT_RTPRIO) that thread runs in a
// real-time class, as the kernel's network input runs in interrupts: for no longer than it slept
// before, so that at least half of the core is left to the application.
//
// MPRDMA_REAL_TIME=0 in the environment keeps every thread out of the real-time class.
#pragma once

#include <algorithm>

#include "base/units.hpp"

namespace mprdma::dataplane {

// Gives the calling thread a short slice (EEVDF, Linux 6.12; ignored by older kernels), so that it
// is scheduled earlier, and timers without slack (the default adds 50 us to each). Changes nothing
// if the thread was given a scheduling class on purpose.
void request_low_latency();

// Gives this process a larger share of the cores than the processes that it serves have, where
// that is permitted (root, RLIMIT_NICE): they all wait for it, and there may be many. It concerns
// the calling thread, threads that it makes later, and the session that it leads, which Linux
// schedules as a group (sched_autogroup_enabled, sched(7)). Changes nothing if the process was
// given a nice value on purpose.
void request_service_share();

// Much shorter than a scheduling slice, but long enough that another thread gets the core: sleeps
// of 5 us always ended before that (measured on a virtual machine).
inline constexpr Duration kShortSleep = Duration::us(20);

// Puts the calling thread to sleep for kShortSleep, without timer slack. Repeated sched_yield() is
// no substitute: it lets in no thread of a lower class, and threads that poll and yield can keep
// all others from their cores (seen on Linux 6.18: two pollers had two cores for 27 s, and mprdmad,
// which had frames for them, none; EEVDF is known to lose its point of reference under rapid
// yields).
void short_sleep();

// Pause of a thread that waits for another one, which may need this very core: yields in the first
// tries in a row, then sleeps.
void back_off(uint32_t tries);

// Moves the calling thread to this core, if it may run there; it may leave again.
void move_to_core(int core);

// How much of its time a thread may run in the real-time class.
class RealTimeBudget {
 public:
  static constexpr Duration kBurst = Duration::ms(1);
  // Below this budget the class is not worth the system call that changes it.
  static constexpr Duration kWorthIt = Duration::us(200);

  explicit RealTimeBudget(Time now) : since_(now) {}

  // slept_until() and ran_until() return whether the thread belongs in the real-time class from now
  // on.
  bool slept_until(Time now) {
    credit_ = std::min(credit_ + (now - since_), kBurst);
    since_ = now;
    granted_ = granted_ || credit_ >= kWorthIt;
    return granted_;
  }
  bool ran_until(Time now) {
    // Outside the class the thread may have waited for the core all that time.
    if (granted_) credit_ = std::max(credit_ - (now - since_), Duration::zero());
    since_ = now;
    granted_ = granted_ && credit_ > Duration::zero();
    return granted_;
  }

 private:
  Duration credit_;
  Time since_;
  bool granted_ = false;
};

// Controls the class of the calling thread, which creates it and is its only user. At most two
// system calls for each change of the class, none otherwise.
class ThreadClass {
 public:
  // `real_time`: the thread may use the real-time class (Config::real_time).
  ThreadClass(Time now, bool real_time);

  // `urgent`: a thread that waits for this one is using its core.
  void slept_until(Time now, bool urgent) { set_real_time(budget_.slept_until(now) && urgent); }
  void ran_until(Time now) { set_real_time(budget_.ran_until(now) && real_time_); }
  // Lets other threads have the core, whatever this thread's class is.
  void back_off(uint32_t tries) const;

 private:
  void set_real_time(bool wanted) {
    if (wanted != real_time_ && allowed_) change_class(wanted);
  }
  void change_class(bool real_time);

  RealTimeBudget budget_;
  bool allowed_;
  bool real_time_ = false;
};

}  // namespace mprdma::dataplane
