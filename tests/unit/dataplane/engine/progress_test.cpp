// Whichever thread runs the worker, no doorbell and no frame is lost; an idle engine costs next to
// nothing. Fit for the thread sanitizer.
#include "dataplane/engine/progress.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <array>
#include <atomic>
#include <chrono>
#include <optional>
#include <span>
#include <string_view>
#include <thread>

#include "abi/mprdma_abi_stats.h"
#include "abi/mprdma_ring.h"
#include "dataplane/engine/engine.hpp"
#include "tests/support/eventually.hpp"
#include "tests/unit/dataplane/engine/process_host.hpp"
#include "tests/unit/dataplane/engine/scripted_daemon.hpp"

namespace mprdma::dataplane {
namespace {

using testing::MemoryWire;
using testing::Pair;
using testing::Process;

// The outcome of a WRITE that is posted after mprdmad went away, observed for a given time.
struct Absence {
  explicit Absence(Duration away_max) : wire(std::make_shared<MemoryWire>()) {
    daemon.its_device = {testing::Host::ip(0), 24, derived_mac(testing::Host::ip(0)), 4096};
    wire->daemon[0] = &daemon;
    wire->on_frame = [this](int, const testing::Bytes&) { return !daemon.is_away.load(); };
    a.emplace(wire, 0, away_max);
    b.emplace(wire, 1);
    a->connect(1, b->qp.qpn);
    b->connect(0, a->qp.qpn);
    mprdma_abi_cqe cqe;
    a->post_write(*b, 100, 0);
    a->poke();
    EXPECT_TRUE(eventually([&] { return a->cq.poll(&cqe); }));
    go_away(true);
    a->post_write(*b, 100, 0);
    a->poke();
  }
  void go_away(bool away) { daemon.is_away.store(away); }
  bool completes(mprdma_abi_cqe* cqe, std::chrono::nanoseconds limit) {
    return eventually([&] { return a->cq.poll(cqe); }, limit);
  }

  testing::ScriptedDaemon daemon;
  std::shared_ptr<MemoryWire> wire;
  std::optional<Process> a;
  std::optional<Process> b;
};

TEST(Progress, RetryTimersStandStillWhileTheDaemonIsAway) {
  Absence absence(Duration::s(60));
  mprdma_abi_cqe cqe{};
  // Several times the time that the queue pair's timeout and retries allow.
  EXPECT_FALSE(absence.completes(&cqe, std::chrono::seconds(3)));
  absence.go_away(false);
  ASSERT_TRUE(absence.completes(&cqe, std::chrono::seconds(10)));
  EXPECT_EQ(cqe.status, MPRDMA_ABI_WC_SUCCESS);
}

TEST(Progress, DaemonThatIsAwayForTooLongEndsInTheStandardsError) {
  Absence absence(Duration::zero());
  mprdma_abi_cqe cqe{};
  ASSERT_TRUE(absence.completes(&cqe, std::chrono::seconds(20)));
  EXPECT_EQ(cqe.status, MPRDMA_ABI_WC_RETRY_EXC_ERR);
}

// An application that spins on its completion queue: the frame that comes while the port is looked
// at is taken by the same poll. One that polls now and then is not held up.
TEST(Progress, APollLooksAtThePortAfterPollsInVain) {
  Pair pair;
  mprdma_abi_cqe cqe;
  const auto finished = [&] {
    pair.a.poke();
    return pair.a.cq.poll(&cqe);
  };
  // The two agree on a mode first.
  pair.a.post_write(pair.b, 1, 8);
  ASSERT_TRUE(eventually(finished));
  pair.a.mr.bytes[0] = 7;
  const auto underway = [&] {
    const std::lock_guard<std::mutex> guard(pair.wire->mutex);
    return !pair.wire->side[1].incoming.empty();
  };
  int looks = 0;
  pair.wire->on_await = [&](int side) {
    if (side != 1 || looks++ > 0) return;
    pair.a.post_write(pair.b, 1, 9);
    EXPECT_TRUE(eventually([&] {
      pair.a.poke();
      return underway();
    }));
  };
  int polls = 0;
  EXPECT_TRUE(eventually([&] {
    pair.b.channel.progress(pair.b.channel.engine);
    ++polls;
    return looks > 0;
  }));
  EXPECT_EQ(pair.b.mr.bytes[9], 7) << "taken by that poll";
  EXPECT_GE(polls, 3);
  EXPECT_TRUE(eventually(finished));
}

TEST(Progress, PassiveTargetNeedsNoPolling) {
  Pair pair;
  pair.a.mr.bytes[0] = 7;
  for (int i = 0; i < 20; ++i) {
    pair.a.post_write(pair.b, 5000, 0);
    pair.a.poke();
    mprdma_abi_cqe cqe;
    ASSERT_TRUE(eventually([&] {
      pair.a.channel.progress(pair.a.channel.engine);
      return pair.a.cq.poll(&cqe);
    }));
    ASSERT_EQ(cqe.status, MPRDMA_ABI_WC_SUCCESS);
  }
}

TEST(Progress, ApplicationThatNeverPollsAgainIsServedByTheHelper) {
  Pair pair;
  for (int i = 0; i < 20; ++i) {
    pair.a.post_write(pair.b, 5000, 0);
    pair.a.poke();
    mprdma_abi_cqe cqe;
    ASSERT_TRUE(eventually([&] { return pair.a.cq.poll(&cqe); })) << "without progress()";
  }
}

TEST(Progress, ArmedQueueWakesAnApplicationThatSleeps) {
  Pair pair;
  for (uint32_t i = 1; i <= 50; ++i) {
    pair.a.post_write(pair.b, 100, 0);
    pair.a.poke();
    mprdma_abi_store_release(&pair.a.cq.dbr.arm, i << 2 | MPRDMA_ABI_ARM_NEXT);
    pair.a.channel.idle(pair.a.channel.engine);
    std::atomic_thread_fence(std::memory_order_seq_cst);
    mprdma_abi_cqe cqe;
    if (!pair.a.cq.poll(&cqe)) {
      ASSERT_TRUE(eventually([&] { return pair.a.events.load() > 0; })) << i;
      ASSERT_TRUE(pair.a.cq.poll(&cqe)) << i;
    }
    pair.a.events.store(0);
  }
}

// A byte that the peer writes is seen by an application that looks at memory only.
TEST(Progress, ByteInMemoryArrivesWhileNobodyPolls) {
  Pair pair;
  for (unsigned char i = 1; i <= 50; ++i) {
    pair.a.mr.bytes[0] = i;
    pair.a.post_write(pair.b, 1, 9);
    pair.a.poke();
    ASSERT_TRUE(
        eventually([&] { return __atomic_load_n(&pair.b.mr.bytes[9], __ATOMIC_ACQUIRE) == i; }));
    pair.b.mr.bytes[0] = i;
    pair.b.post_write(pair.a, 1, 9);
    pair.b.poke();
    ASSERT_TRUE(
        eventually([&] { return __atomic_load_n(&pair.a.mr.bytes[9], __ATOMIC_ACQUIRE) == i; }));
    mprdma_abi_cqe cqe;
    ASSERT_TRUE(eventually([&] { return pair.a.cq.poll(&cqe); }));
    ASSERT_TRUE(eventually([&] { return pair.b.cq.poll(&cqe); }));
  }
}

// A program that posts and then reads memory never polls. The thread that posts completes the rest
// of its work, here the way over the process's own loopback; nothing else would wake the helper.
TEST(Progress, PostToItselfArrivesWithThePost) {
  auto wire = std::make_shared<MemoryWire>();
  Process self(wire, 0);
  self.connect(0, self.qp.qpn);
  // The helper sometimes has the lock, for many posts in a row where other programs want the core.
  constexpr int kPosts = 40;
  constexpr int kRounds = 25;
  int at_once = 0;
  for (int post = 0; post < kPosts * kRounds && at_once <= kPosts / 8; ++post) {
    if (post % kPosts == 0) at_once = 0;
    const int i = post % kPosts + 1;
    self.mr.bytes[0] = static_cast<unsigned char>(i);
    self.post_write(self, 1, 9);
    self.poke();
    const auto arrived = [&] { return __atomic_load_n(&self.mr.bytes[9], __ATOMIC_ACQUIRE) == i; };
    at_once += arrived() ? 1 : 0;
    ASSERT_TRUE(eventually(arrived));
    mprdma_abi_cqe cqe;
    ASSERT_TRUE(eventually([&] { return self.cq.poll(&cqe); }));
  }
  EXPECT_GT(at_once, kPosts / 8) << "in the last round";
}

// A poller that finds nothing for long sleeps between its polls: yielding is not enough
// (sys/thread_class.hpp, short_sleep()). A thread that yields is switched from, but never of its
// own will.
TEST(Progress, PollsInVainSleepNowAndThen) {
  Pair pair;
  const auto sleeps = [] {
    rusage usage{};
    getrusage(RUSAGE_THREAD, &usage);
    return usage.ru_nvcsw;
  };
  const int64_t before = sleeps();
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (sleeps() < before + 20 && std::chrono::steady_clock::now() < limit) {
    pair.a.channel.progress(pair.a.channel.engine);
  }
  EXPECT_GE(sleeps(), before + 20);
}

// Two threads that post to two queue pairs of one engine and poll one lock: each request completes
// though a poster that finds the lock taken leaves at once.
TEST(Progress, DoorbellsOfTwoThreadsAreNotLost) {
  constexpr int kRequests = 2000;
  Pair pair;
  Pair other_pair;  // a second engine pair, so that the threads do not share a ring
  const auto work = [&](Process& from, Process& to, Process& also_poll) {
    for (int i = 0; i < kRequests; ++i) {
      from.post_write(to, 64, 0);
      from.poke();
      also_poll.channel.progress(also_poll.channel.engine);
      mprdma_abi_cqe cqe;
      const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(20);
      while (!from.cq.poll(&cqe)) {
        if (std::chrono::steady_clock::now() > limit) return i;
        if (i % 3 != 0) from.channel.progress(from.channel.engine);
      }
    }
    return kRequests;
  };
  int first = 0;
  int second = 0;
  std::thread one([&] { first = work(pair.a, pair.b, other_pair.a); });
  std::thread two([&] { second = work(other_pair.a, other_pair.b, pair.a); });
  one.join();
  two.join();
  EXPECT_EQ(first, kRequests);
  EXPECT_EQ(second, kRequests);
}

// Unmapping registered memory is the application's fault on every RDMA system, but it must not die
// without a message.
void write_to_unmapped_memory() {
  // A kernel gives whoever maps memory next the upper end of a hole: of one page, some thread could
  // get just this one, and the WRITE would land there.
  constexpr size_t kHole = size_t{1} << 30;
  Pair pair;
  void* page = mmap(nullptr, kHole, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  mprotect(page, 4096, PROT_READ | PROT_WRITE);
  const auto addr = reinterpret_cast<uint64_t>(page);
  const mprdma_abi_reg_mr reg{addr, 4096, addr, pair.b.pd.handle, testing::Host::kAllRights, 0, 0};
  mprdma_abi_reg_mr_out keys{};
  pair.b.execute(MPRDMA_ABI_REG_MR, reg, &keys);
  munmap(page, kHole);
  pair.a.post_write_to(addr, keys.rkey, 64);
  pair.a.poke();
  mprdma_abi_cqe cqe;
  eventually([&] { return pair.a.cq.poll(&cqe); });
}

TEST(ProgressDeathTest, UnmappedRegisteredMemoryIsNamedBeforeTheProcessDies) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(write_to_unmapped_memory(),
               "mprdma: address 0x[0-9a-f]+ is registered memory .* was unmapped");
}

// What the engine's own thread has done so far: each wake-up and each burst costs microseconds.
struct HelperWork {
  explicit HelperWork(Process& of) {
    struct {
      mprdma_abi_counters head;
      std::array<mprdma_abi_counter, 400> counters;
    } out{};
    of.execute(MPRDMA_ABI_QUERY_COUNTERS, mprdma_abi_handle{}, &out);
    EXPECT_EQ(out.head.filled, out.head.total);
    for (const mprdma_abi_counter& counter : std::span(out.counters).first(out.head.filled)) {
      const std::string_view name = counter.name;
      if (name == "bursts") bursts = counter.value;
      if (name == "helper_wakeups") wakeups = counter.value;
    }
  }
  uint64_t bursts = 0;
  uint64_t wakeups = 0;
};

TEST(Progress, IdleEngineUsesNextToNothing) {
  Pair pair;
  // Work that is left from connecting ends soon, so an idle half second comes.
  constexpr auto kWall = std::chrono::milliseconds(500);
  const auto idle_for_a_while = [&] {
    const HelperWork before(pair.a);
    const auto start = std::chrono::steady_clock::now();
    eventually([&] { return std::chrono::steady_clock::now() - start >= kWall; });
    const auto idle = std::chrono::steady_clock::now() - start;
    const HelperWork after(pair.a);
    // One look for the service in 10 ms, which does no burst; reading the counters adds few.
    const auto services = static_cast<uint64_t>(idle / std::chrono::milliseconds(10));
    return after.wakeups - before.wakeups <= services + 5 && after.bursts - before.bursts <= 10;
  };
  EXPECT_TRUE(eventually(idle_for_a_while));
}

TEST(Progress, CommandsGetThroughWhileSomebodyPollsWithoutEnd) {
  Pair pair;
  std::atomic<bool> stop{false};
  std::thread poller([&] {
    while (!stop) pair.a.channel.progress(pair.a.channel.engine);
  });
  for (int i = 0; i < 200; ++i) {
    mprdma_abi_port_info info{};
    pair.a.execute(MPRDMA_ABI_QUERY_PORT, mprdma_abi_handle{}, &info);
    EXPECT_EQ(info.active, 1u);
  }
  stop = true;
  poller.join();
}

}  // namespace
}  // namespace mprdma::dataplane
