// A thread that has to run at once may not take the core from those whom it serves.
#include "dataplane/sys/thread_class.hpp"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <string>

#include "tests/support/eventually.hpp"

namespace mprdma::dataplane {
namespace {

TEST(RealTimeBudget, AThreadThatMostlySleepsMayRunAtOnceEachTime) {
  Time now;
  RealTimeBudget budget(now);
  EXPECT_FALSE(budget.slept_until(now += Duration::us(150))) << "not worth a system call yet";
  EXPECT_TRUE(budget.slept_until(now += Duration::us(150)));
  for (int i = 0; i < 1000; ++i) {
    EXPECT_TRUE(budget.ran_until(now += Duration::us(20)));
    EXPECT_TRUE(budget.slept_until(now += Duration::us(100)));
  }
}

TEST(RealTimeBudget, AThreadThatHardlySleepsIsAnOrdinaryOne) {
  Time now;
  RealTimeBudget budget(now);
  budget.slept_until(now += Duration::s(1));
  Duration real_time;
  Duration all;
  for (int i = 0; i < 1000; ++i) {
    const bool granted = budget.slept_until(now += Duration::us(10));
    budget.ran_until(now += Duration::us(90));
    if (granted) real_time += Duration::us(90);
    all += Duration::us(100);
  }
  EXPECT_LE(real_time, all / 5);
  EXPECT_FALSE(budget.ran_until(now += RealTimeBudget::kBurst));
}

// What `nice` returns in a child, a nice value.
template <class F>
int in_child(F&& nice) {
  const pid_t child = fork();
  if (child == 0) _exit(nice() + 20);
  int status = 0;
  waitpid(child, &status, 0);
  return WEXITSTATUS(status) - 20;
}

int own_nice() {
  return getpriority(PRIO_PROCESS, 0);
}

// That of the session, as the scheduler's group; without such groups that of the process.
int session_nice() {
  int nice = own_nice();
  std::ifstream file("/proc/self/autogroup");
  std::string word;
  file >> word >> word >> nice;  // "/autogroup-17 nice 0"
  return nice;
}

TEST(RequestServiceShare, IsMoreThanOthersHaveWhereThatIsPermitted) {
  const int expected = in_child([] {
    if (own_nice() == 0) (void)setpriority(PRIO_PROCESS, 0, -10);
    return own_nice();
  });
  const auto asks = [](int (*nice)()) {
    return in_child([nice] {
      setsid();
      request_service_share();
      return nice();
    });
  };
  EXPECT_EQ(asks(own_nice), expected);
  if (own_nice() == 0) {
    EXPECT_EQ(asks(session_nice), expected);
  }
}

TEST(RequestServiceShare, ASessionOfOthersAndANiceValueGivenOnPurposeStay) {
  const int session = in_child([] {
    setsid();
    in_child([] {
      request_service_share();
      return 0;
    });
    return session_nice();
  });
  EXPECT_EQ(session, in_child([] {
              setsid();
              return session_nice();
            }));
  const auto asks_late = [] {
    setpriority(PRIO_PROCESS, 0, 19);
    request_service_share();
    return own_nice();
  };
  EXPECT_EQ(in_child(asks_late), 19);
}

// The thread belongs to the application.
TEST(ShortSleep, LeavesTheSlackOfTimersAsItWas) {
  const int before = prctl(PR_GET_TIMERSLACK, 0, 0, 0, 0);
  prctl(PR_SET_TIMERSLACK, 77'000, 0, 0, 0);
  short_sleep();
  EXPECT_EQ(prctl(PR_GET_TIMERSLACK, 0, 0, 0, 0), 77'000);
  prctl(PR_SET_TIMERSLACK, before, 0, 0, 0);
}

// A thread that yields is switched from, but not of its own will.
int64_t sleeps_of(uint32_t tries) {
  const auto sleeps = [] {
    rusage usage{};
    getrusage(RUSAGE_THREAD, &usage);
    return usage.ru_nvcsw;
  };
  const int64_t before = sleeps();
  for (int i = 0; i < 10; ++i) back_off(tries);
  return sleeps() - before;
}

TEST(BackOff, YieldsAtFirstAndSleepsLater) {
  EXPECT_EQ(sleeps_of(0), 0);
  // A short_sleep may be over before the thread sleeps, if another thread, or the host of a virtual
  // machine, had its core that long: ten of ten were in one of a thousand runs.
  EXPECT_TRUE(eventually([] { return sleeps_of(1000) > 0; }));
}

TEST(MoveToCore, GoesWhereItMayRunAndLeavesTheAffinityAsItWas) {
  cpu_set_t allowed;
  ASSERT_EQ(sched_getaffinity(0, sizeof(allowed), &allowed), 0);
  for (int core = -1; core <= CPU_SETSIZE; ++core) {
    move_to_core(core);
    cpu_set_t after;
    ASSERT_EQ(sched_getaffinity(0, sizeof(after), &after), 0);
    ASSERT_TRUE(CPU_EQUAL(&allowed, &after)) << "core " << core;
    ASSERT_TRUE(CPU_ISSET(sched_getcpu(), &allowed)) << "core " << core;
  }
}

}  // namespace
}  // namespace mprdma::dataplane
