#include "dataplane/sys/thread_class.hpp"

#include <fcntl.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>
#include <ctime>
#include <string>

#include "dataplane/sys/no_cancellation.hpp"

namespace mprdma::dataplane {

namespace {

// The layout of the kernel's struct sched_attr, version 0 (sched_setattr(2)).
struct SchedAttr {
  uint32_t size = sizeof(SchedAttr);
  uint32_t policy = SCHED_OTHER;
  uint64_t flags = 0;
  int32_t nice = 0;
  uint32_t priority = 0;
  uint64_t runtime_ns = 0;
  uint64_t deadline_ns = 0;
  uint64_t period_ns = 0;
};

// Nine times the share of an ordinary process.
constexpr int kServiceNice = -10;

// A lock is held for less than these take, unless its holder is not running.
constexpr uint32_t kYields = 32;

}  // namespace

void request_low_latency() {
  prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0);
  SchedAttr attr;
  if (syscall(SYS_sched_getattr, 0, &attr, sizeof(attr), 0) != 0) return;
  if (attr.policy != SCHED_OTHER) return;
  attr.runtime_ns = 100'000;
  (void)syscall(SYS_sched_setattr, 0, &attr, 0);
}

void request_service_share() {
  if (getpriority(PRIO_PROCESS, 0) != 0) return;
  if (setpriority(PRIO_PROCESS, 0, kServiceNice) != 0) return;
  if (getsid(0) != getpid()) return;
  // A kernel without such groups has no such file.
  const int group = open("/proc/self/autogroup", O_WRONLY | O_CLOEXEC);
  if (group < 0) return;
  const std::string nice = std::to_string(kServiceNice);
  (void)!write(group, nice.data(), nice.size());
  close(group);
}

ThreadClass::ThreadClass(Time now, bool real_time)
    : budget_(now), allowed_(real_time && sched_getscheduler(0) == SCHED_OTHER) {
  request_low_latency();
}

// Threads that it makes are ordinary ones.
void ThreadClass::change_class(bool real_time) {
  sched_param param{};
  param.sched_priority = real_time ? 1 : 0;
  const int policy = real_time ? SCHED_FIFO : SCHED_OTHER;
  if (sched_setscheduler(0, policy | SCHED_RESET_ON_FORK, &param) != 0) {
    allowed_ = false;
    return;
  }
  real_time_ = real_time;
  if (!real_time) request_low_latency();  // the slice went with the class
}

void move_to_core(int core) {
  cpu_set_t allowed;
  if (core < 0 || core >= CPU_SETSIZE || core == sched_getcpu()) return;
  if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0 || !CPU_ISSET(core, &allowed)) return;
  cpu_set_t wanted;
  CPU_ZERO(&wanted);
  CPU_SET(core, &wanted);
  if (sched_setaffinity(0, sizeof(wanted), &wanted) != 0) return;
  (void)sched_setaffinity(0, sizeof(allowed), &allowed);
}

void short_sleep() {
  const NoCancellation whole;
  const int slack = prctl(PR_GET_TIMERSLACK, 0, 0, 0, 0);
  if (slack > 1) prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0);
  const timespec pause{0, static_cast<long>(kShortSleep.count_ns())};
  nanosleep(&pause, nullptr);
  if (slack > 1) prctl(PR_SET_TIMERSLACK, slack, 0, 0, 0);
}

void back_off(uint32_t tries) {
  if (tries < kYields) {
    sched_yield();
  } else {
    short_sleep();
  }
}

// Yielding lets in nobody of a lower class.
void ThreadClass::back_off(uint32_t tries) const {
  mprdma::dataplane::back_off(real_time_ ? kYields : tries);
}

}  // namespace mprdma::dataplane
