// For benchmarks of two processes, one of which is the child of the other: it serves, the parent
// measures. Any error ends the program.
#pragma once

#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>

#include "base/units.hpp"

namespace mprdma::bench {

inline constexpr Duration kWarmUp = Duration::ms(30);

[[noreturn]] inline void die(const char* what) {
  std::fprintf(stderr, "%s: %s: %s\n", program_invocation_short_name, what, std::strerror(errno));
  std::exit(1);
}

inline Time now() {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return Time::from_ns(t.tv_sec * 1'000'000'000LL + t.tv_nsec);
}

// Lets the other busy process run when there is nothing to do for a while.
class Idle {
 public:
  void found(bool something) {
    if (something) {
      spins_ = 0;
    } else if (++spins_ >= kSpins) {
      spins_ = 0;
      sched_yield();
    }
  }

 private:
  static constexpr int kSpins = 2000;
  int spins_ = 0;
};

// Runs `serve` in a child until the parent's `measure` is done, then kills the child.
inline double with_child(const std::function<void()>& serve,
                         const std::function<double()>& measure) {
  const pid_t pid = fork();
  if (pid < 0) die("fork");
  if (pid == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    alarm(60);  // in any case
    serve();
    _exit(0);
  }
  const double result = measure();
  kill(pid, SIGKILL);
  waitpid(pid, nullptr, 0);
  return result;
}

// Counts what `step` says it did, over the time, after a warm-up. Units per second.
inline double rate_of(const std::function<uint64_t()>& step, Duration time) {
  for (const Time end = now() + kWarmUp; now() < end;) step();
  uint64_t done = 0;
  const Time start = now();
  Time t = start;
  while (t - start < time) {
    for (int i = 0; i < 64; ++i) done += step();
    t = now();
  }
  return static_cast<double>(done) * 1e9 / static_cast<double>((t - start).count_ns());
}

}  // namespace mprdma::bench
