// Processes of two PID namespaces, or of one that is not known, do not trust each other.
#include "dataplane/sys/pid_namespace.hpp"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

namespace mprdma::dataplane {
namespace {

TEST(PidNamespace, IsThatOfTheParentAndOfNobodyWhoIsNotToBeSeen) {
  const uint64_t own = pid_namespace(getpid());
  EXPECT_TRUE(same_pid_namespace(own, pid_namespace(getppid())));
  EXPECT_EQ(pid_namespace(0), 0U);
  EXPECT_EQ(pid_namespace(-1), 0U);
  EXPECT_FALSE(same_pid_namespace(own, 0));
  EXPECT_FALSE(same_pid_namespace(0, 0)) << "two that are not known";
}

TEST(PidNamespace, OfAContainerIsAnotherOne) {
  // As fork(), into a new namespace.
  const long child = syscall(SYS_clone, CLONE_NEWPID | SIGCHLD, nullptr, nullptr, nullptr, nullptr);
  if (child == 0) {
    pause();
    _exit(0);
  }
  if (child < 0 && errno == EPERM) GTEST_SKIP() << "only root makes one";
  ASSERT_GT(child, 0);
  const auto pid = static_cast<pid_t>(child);
  EXPECT_NE(pid_namespace(pid), 0U);
  EXPECT_FALSE(same_pid_namespace(pid_namespace(pid), pid_namespace(getpid())));
  kill(pid, SIGKILL);
  waitpid(pid, nullptr, 0);
}

}  // namespace
}  // namespace mprdma::dataplane
