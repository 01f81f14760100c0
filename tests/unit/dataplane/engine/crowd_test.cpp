// Polls of a thread whose core others want sleep until a frame comes. Fit for the thread sanitizer.
#include <gtest/gtest.h>
#include <pthread.h>
#include <sched.h>

#include <atomic>
#include <thread>
#include <vector>

#include "tests/support/eventually.hpp"
#include "tests/unit/dataplane/engine/program.hpp"
#include "tests/unit/dataplane/port/port_test_support.hpp"

namespace mprdma::dataplane {
namespace {

using testing::Program;

// A thread that uses its core and gives it to nobody, and some that have to share that core.
class Neighbours {
 public:
  Neighbours() {
    cpu_set_t allowed;
    sched_getaffinity(0, sizeof allowed, &allowed);
    CPU_ZERO(&one_);
    for (int core = 0; core < CPU_SETSIZE; ++core) {
      if (CPU_ISSET(core, &allowed)) CPU_SET(core, &one_);
      if (CPU_COUNT(&one_) > 0) break;
    }
    busy_ = std::thread([this] {
      pin();
      while (!stop_) {
      }
    });
  }
  ~Neighbours() {
    stop_ = true;
    busy_.join();
    stop_polling();
  }
  Neighbours(const Neighbours&) = delete;
  Neighbours& operator=(const Neighbours&) = delete;

  // How long a yield of a thread on that core takes, on the average. Less than a slice: the kernel
  // gives the core back to who yields, as Linux before 6.12.63 does at times.
  [[nodiscard]] Duration a_yield() const {
    constexpr int kYields = 40;
    Duration took;
    std::thread([&] {
      pin();
      const Time start = clock_now();
      for (int i = 0; i < kYields; ++i) sched_yield();
      took = (clock_now() - start) / kYields;
    }).join();
    return took;
  }
  // It polls until it is told to stop.
  void add_poller(Progress& progress) {
    pollers_.emplace_back([this, &progress] {
      pin();
      while (!pollers_stop_) progress.poll();
    });
  }
  void cancel_polling() {
    for (std::thread& poller : pollers_) pthread_cancel(poller.native_handle());
  }
  void stop_polling() {
    pollers_stop_ = true;
    for (std::thread& poller : pollers_) poller.join();
    pollers_.clear();
  }

 private:
  void pin() const { sched_setaffinity(0, sizeof one_, &one_); }

  cpu_set_t one_{};
  std::atomic<bool> stop_{false};
  std::atomic<bool> pollers_stop_{false};
  std::thread busy_;
  std::vector<std::thread> pollers_;
};

class Crowd : public ::testing::Test {
 protected:
  Crowd() : a(std::move(ports.a), 0, Duration::s(1)), b(std::move(ports.b), 1, Duration::s(1)) {}
  void SetUp() override {
    ASSERT_TRUE(testing::connect(a, b));
    ASSERT_EQ(a.progress.start(), 0);
    ASSERT_EQ(b.progress.start(), 0);
    if (!yields_take_slices()) GTEST_SKIP() << "yields take no slices here";
  }
  void TearDown() override {
    neighbours.stop_polling();
    a.progress.stop();
    b.progress.stop();
  }
  uint64_t sleeps() {
    return b.progress.command([&](Time) { return b.host.worker->counters().poll_sleeps; });
  }
  [[nodiscard]] bool yields_take_slices() const {
    return neighbours.a_yield() > YieldPace::kYieldsTakeMax + Duration::us(200);
  }
  // A WRITE that this thread posts, and polls for.
  bool one() {
    a.post(b);
    return eventually([&] {
      a.progress.poll();
      return a.completions() > 0;
    });
  }
  // Most messages find it asleep, if yields take slices all the time.
  bool sleeps_mostly() {
    return eventually([&] {
             const uint64_t before = sleeps();
             for (int i = 0; i < 100; ++i) {
               if (!one()) return false;
             }
             return sleeps() >= before + 50;
           }) ||
           !yields_take_slices();
  }

  testing::LinkedPorts ports;
  Program a;
  Program b;
  Neighbours neighbours;
};

// Frames end its sleeps: it would stop to sleep if they did not.
TEST_F(Crowd, APollSleepsUntilAFrameComes) {
  neighbours.add_poller(b.progress);
  EXPECT_TRUE(sleeps_mostly());
}

// Its polls were expected to come late, but not for ever.
TEST_F(Crowd, AnApplicationThatStopsPollingIsServedByTheHelper) {
  neighbours.add_poller(b.progress);
  ASSERT_TRUE(sleeps_mostly());
  neighbours.stop_polling();
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(one());
}

TEST_F(Crowd, AnotherThreadPollsMeanwhile) {
  neighbours.add_poller(b.progress);
  ASSERT_TRUE(sleeps_mostly());
  neighbours.add_poller(b.progress);
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(one());
}

// It has no cancellation point there, and polls on.
TEST_F(Crowd, AThreadThatIsCancelledLeavesTheLockFree) {
  neighbours.add_poller(b.progress);
  ASSERT_TRUE(sleeps_mostly());
  neighbours.cancel_polling();
  for (int i = 0; i < 200; ++i) ASSERT_TRUE(one());
}

}  // namespace
}  // namespace mprdma::dataplane
