#include "dataplane/prompt_thread.hpp"

#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>

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

}  // namespace

void make_prompt() {
  prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0);
  SchedAttr attr;
  if (syscall(SYS_sched_getattr, 0, &attr, sizeof(attr), 0) != 0) return;
  if (attr.policy != SCHED_OTHER) return;
  attr.runtime_ns = 100'000;
  (void)syscall(SYS_sched_setattr, 0, &attr, 0);
}

}  // namespace mprdma::dataplane
