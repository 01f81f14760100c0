// Polls of a thread whose core others want sleep until a frame comes. Fit for the thread sanitizer.
#include <gtest/gtest.h>
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

  // It polls until it is told to stop.
  void add_poller(Progress& progress) {
    pollers_.emplace_back([this, &progress] {
      pin();
      while (!pollers_stop_) progress.poll();
    });
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
    ASSERT_TRUE(testing::until([&] {
      a.host.worker->service(clock_now());
      b.host.worker->service(clock_now());
      return a.host.worker->link_up() && b.host.worker->link_up();
    }));
    a.connect(b, 1);
    b.connect(a, 0);
    ASSERT_EQ(a.progress.start(), 0);
    ASSERT_EQ(b.progress.start(), 0);
  }
  void TearDown() override {
    a.progress.stop();
    b.progress.stop();
  }
  uint64_t counter(uint64_t EngineCounters::*which) {
    return b.progress.command([&](Time) { return b.host.worker->counters().*which; });
  }
  // A WRITE that this thread posts, and polls for.
  void one() {
    a.post(b);
    ASSERT_TRUE(eventually([&] {
      a.progress.poll();
      return a.completions() > 0;
    }));
  }

  // Yields of a poll in vain say nothing for long: there have to be frames.
  void until_it_sleeps() {
    ASSERT_TRUE(eventually([&] {
      one();
      return counter(&EngineCounters::poll_sleeps) > 10;
    }));
  }

  testing::LinkedPorts ports;
  Program a;
  Program b;
};

TEST_F(Crowd, APollSleepsAndIsWokenByAFrame) {
  Neighbours neighbours;
  neighbours.add_poller(b.progress);
  until_it_sleeps();
  // One may come just when a sleep ends by itself.
  const uint64_t before = counter(&EngineCounters::poll_sleeps_late);
  for (int i = 0; i < 300; ++i) one();
  EXPECT_LT(counter(&EngineCounters::poll_sleeps_late) - before, 15u);
}

// The port then wakes the helper again.
TEST_F(Crowd, AnApplicationThatStopsPollingIsServedByTheHelper) {
  Neighbours neighbours;
  neighbours.add_poller(b.progress);
  until_it_sleeps();
  neighbours.stop_polling();
  for (int i = 0; i < 20; ++i) one();
}

TEST_F(Crowd, AnotherThreadPollsMeanwhile) {
  Neighbours neighbours;
  neighbours.add_poller(b.progress);
  until_it_sleeps();
  neighbours.add_poller(b.progress);
  for (int i = 0; i < 100; ++i) one();
}

}  // namespace
}  // namespace mprdma::dataplane
