// A signal does what it did before the fault report came, each time in a process of its own.
#include "dataplane/sys/memory_fault.hpp"

#include <gtest/gtest.h>

#include <csignal>
#include <cstdlib>

namespace mprdma::dataplane {
namespace {

using ::testing::ExitedWithCode;
using ::testing::KilledBySignal;

constexpr int kAsBefore = 7;
constexpr int kOtherwise = 8;

class FaultReportDeathTest : public ::testing::Test {
 protected:
  // The program is started anew, so no handler is installed there.
  void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

void handle(int signal, void (*handler)(int), int flags) {
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = flags;
  sigemptyset(&action.sa_mask);
  sigaddset(&action.sa_mask, SIGUSR1);
  sigaction(signal, &action, nullptr);
}

void send_to_nobody(int signal) {
  ::signal(signal, SIG_DFL);
  install_fault_report();
  raise(signal);
  std::_Exit(kOtherwise);
}

TEST_F(FaultReportDeathTest, ASignalThatIsSentEndsWhoHasNoHandlerAtOnce) {
  EXPECT_EXIT(send_to_nobody(SIGSEGV), KilledBySignal(SIGSEGV), "");
  EXPECT_EXIT(send_to_nobody(SIGBUS), KilledBySignal(SIGBUS), "");
}

void send_to_who_ignores(int signal) {
  ::signal(signal, SIG_IGN);
  install_fault_report();
  raise(signal);
  raise(signal);
  std::_Exit(kAsBefore);
}

TEST_F(FaultReportDeathTest, WhoIgnoresSignalsThatAreSentGoesOn) {
  EXPECT_EXIT(send_to_who_ignores(SIGSEGV), ExitedWithCode(kAsBefore), "");
  EXPECT_EXIT(send_to_who_ignores(SIGBUS), ExitedWithCode(kAsBefore), "");
}

void fault() {
  volatile int* volatile nowhere = nullptr;
  *nowhere = 1;
  std::_Exit(kOtherwise);
}

void fault_of_who_ignores() {
  ::signal(SIGSEGV, SIG_IGN);
  install_fault_report();
  fault();
}

// signal(7): the kernel does not let a fault be ignored.
TEST_F(FaultReportDeathTest, AFaultEndsAlsoWhoIgnoresIt) {
  EXPECT_EXIT(fault_of_who_ignores(), KilledBySignal(SIGSEGV), "");
}

void look_at_the_mask(int signal) {
  sigset_t blocked;
  sigprocmask(SIG_BLOCK, nullptr, &blocked);
  const bool kept = sigismember(&blocked, SIGUSR1) == 1 && sigismember(&blocked, signal) == 0;
  std::_Exit(kept ? kAsBefore : kOtherwise);
}

void send_to_who_has_a_mask(int signal) {
  handle(signal, look_at_the_mask, SA_NODEFER);
  install_fault_report();
  raise(signal);
}

#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define MPRDMA_TEST_TSAN
#endif
#endif
#ifdef __SANITIZE_THREAD__
#define MPRDMA_TEST_TSAN
#endif

TEST_F(FaultReportDeathTest, TheHandlerThatWasThereKeepsItsMask) {
#ifdef MPRDMA_TEST_TSAN
  GTEST_SKIP() << "ThreadSanitizer calls every handler with all signals blocked";
#endif
  EXPECT_EXIT(send_to_who_has_a_mask(SIGSEGV), ExitedWithCode(kAsBefore), "");
  EXPECT_EXIT(send_to_who_has_a_mask(SIGBUS), ExitedWithCode(kAsBefore), "");
}

void return_at_once(int /*signal*/) {}

void send_twice_to_a_handler_for_once() {
  handle(SIGSEGV, return_at_once, static_cast<int>(SA_RESETHAND));
  install_fault_report();
  raise(SIGSEGV);
  raise(SIGSEGV);
  std::_Exit(kOtherwise);
}

TEST_F(FaultReportDeathTest, AHandlerForOneTimeOnlyIsCalledOnce) {
  EXPECT_EXIT(send_twice_to_a_handler_for_once(), KilledBySignal(SIGSEGV), "");
}

}  // namespace
}  // namespace mprdma::dataplane
