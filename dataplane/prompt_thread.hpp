// Scheduling of threads that run for microseconds and have to run at once.
//
// An application that looks at memory only uses all of its core, and so may its peer: the thread
// that brings the data has to be let in before them. Where it may (root, RLIMIT_RTPRIO) it then
// runs in a real-time class, as the kernel's own network input runs before all others in
// interrupts: for no longer than it slept before, so that at least half of the core is the
// application's.
//
// MPRDMA_REAL_TIME=0 in the environment keeps every thread out of the real-time class.
#pragma once

#include <algorithm>

#include "base/units.hpp"

namespace mprdma::dataplane {

// The calling thread's slice is short (EEVDF, Linux 6.12; ignored by older kernels), so that it is
// let in earlier, and its timers have no slack (the default of 50 us would be added to each).
// Changes nothing where the thread was given a scheduling class on purpose.
void make_prompt();

// Short against what others do with a core. A shorter one may be over before the thread sleeps, and
// let in nobody: 5 us always were, on a virtual machine.
inline constexpr Duration kNap = Duration::us(20);

// The calling thread sleeps for kNap, without the slack of its timers. Who waits for others must
// not call sched_yield() again and again instead: it lets in nobody of a lower class, and threads
// that poll and yield can keep all others from their cores (seen on Linux 6.18: two pollers had two
// cores for 27 s, and mprdmad, which had frames for them, none; EEVDF is known to lose its point of
// reference under rapid yields).
void nap();

// Somebody else has what the calling thread waits for, and may need this very core: yields in the
// first tries in a row, then sleeps.
void give_way(uint32_t tries);

// How much of its time a thread may run in the real-time class.
class PromptBudget {
 public:
  static constexpr Duration kBurst = Duration::ms(1);
  // Below, it is not worth the system call that changes the class.
  static constexpr Duration kWorthIt = Duration::us(200);

  explicit PromptBudget(Time now) : since_(now) {}

  // Both return whether the thread is to be in the real-time class from now on.
  bool slept_until(Time now) {
    credit_ = std::min(credit_ + (now - since_), kBurst);
    since_ = now;
    granted_ = granted_ || credit_ >= kWorthIt;
    return granted_;
  }
  bool ran_until(Time now) {
    // Out of the class it may have waited for the core all that time.
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

// The calling thread, which makes it, uses it, and ends with it. At most two system calls for each
// change of the class, none otherwise.
class PromptThread {
 public:
  // `real_time`: it may be in that class (Config::real_time).
  PromptThread(Time now, bool real_time);

  // `urgent`: whoever waits for this thread uses its core meanwhile.
  void slept_until(Time now, bool urgent) { set_real_time(budget_.slept_until(now) && urgent); }
  void ran_until(Time now) { set_real_time(budget_.ran_until(now) && real_time_); }
  // The same for this thread, in whatever class it is.
  void give_way(uint32_t tries) const;

 private:
  void set_real_time(bool wanted) {
    if (wanted != real_time_ && allowed_) change_class(wanted);
  }
  void change_class(bool real_time);

  PromptBudget budget_;
  bool allowed_;
  bool real_time_ = false;
};

}  // namespace mprdma::dataplane
