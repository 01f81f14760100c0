// Whichever thread runs the worker, no doorbell and no frame is lost; an idle engine costs next to
// nothing. Fit for the thread sanitizer.
#include "dataplane/engine/progress.hpp"

#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <atomic>
#include <chrono>
#include <ctime>
#include <optional>
#include <thread>

#include "abi/mprdma_ring.h"
#include "dataplane/engine/engine.hpp"
#include "tests/support/eventually.hpp"
#include "tests/unit/dataplane/engine/engine_host.hpp"
#include "tests/unit/dataplane/engine/scripted_daemon.hpp"
#include "tests/unit/dataplane/port/port_test_support.hpp"

namespace mprdma::dataplane {
namespace {

using testing::HostCq;
using testing::HostMr;
using testing::HostQp;
using testing::MemoryPort;
using testing::MemoryWire;

// A process: an engine with its helper, and one connected client.
struct Process {
  Process(const std::shared_ptr<MemoryWire>& wire, int side, Duration away_max = Config{}.away_max)
      : Process(std::make_unique<MemoryPort>(wire, side, derived_mac(testing::Host::ip(side))),
                side, away_max) {}
  Process(std::unique_ptr<Port> port, int side, Duration away_max = Config{}.away_max) {
    Config config;
    config.away_max = away_max;
    config.ipv4 = testing::Host::ip(side);
    config.mac = derived_mac(config.ipv4);
    const Status status =
        Engine::create_over(config, std::move(port), static_cast<uint64_t>(side) + 1, &engine);
    EXPECT_TRUE(status.ok()) << status.text;
    mprdma_abi_client client{};
    client.abi_major = MPRDMA_ABI_MAJOR;
    client.abi_minor = MPRDMA_ABI_MINOR;
    client.context = this;
    client.on_event = [](void* context, const mprdma_abi_event* event) {
      auto* self = static_cast<Process*>(context);
      if (event->type == MPRDMA_ABI_EVENT_COMPLETION) self->events.fetch_add(1);
      pthread_testcancel();  // a provider writes to a pipe
    };
    engine->connect(client, &channel);
    execute(MPRDMA_ABI_ALLOC_PD, mprdma_abi_handle{}, &pd);
    const mprdma_abi_create_cq create{reinterpret_cast<uint64_t>(cq.ring.data()),
                                      reinterpret_cast<uint64_t>(&cq.dbr), 1, cq.depth, 0};
    mprdma_abi_handle handle{};
    execute(MPRDMA_ABI_CREATE_CQ, create, &handle);
    cq.handle = handle.handle;
    mr.bytes.resize(1 << 16);
    const mprdma_abi_reg_mr reg{
        mr.addr(), mr.bytes.size(), mr.addr(), pd.handle, testing::Host::kAllRights, 0, 0};
    mprdma_abi_reg_mr_out keys{};
    execute(MPRDMA_ABI_REG_MR, reg, &keys);
    mr.key = keys.rkey;
    create_qp();
  }

  template <class In, class Out>
  void execute(uint32_t command, const In& in, Out* out) {
    EXPECT_EQ(channel.execute(channel.engine, command, &in, sizeof(in), out, sizeof(*out)), 0);
  }

  void create_qp() {
    mprdma_abi_create_qp in{};
    in.type = MPRDMA_ABI_QP_RC;
    in.pd = pd.handle;
    in.send_cq = in.recv_cq = cq.handle;
    in.cookie = 1;
    in.sq = {reinterpret_cast<uint64_t>(qp.sq_memory.data()),
             reinterpret_cast<uint64_t>(&qp.sq),
             HostQp::kDepth,
             HostQp::kSendStride,
             HostQp::kMaxSge,
             HostQp::kMaxInline};
    in.rq = {reinterpret_cast<uint64_t>(qp.rq_memory.data()),
             reinterpret_cast<uint64_t>(&qp.rq),
             HostQp::kDepth,
             HostQp::kRecvStride,
             HostQp::kMaxSge,
             0};
    mprdma_abi_create_qp_out out{};
    execute(MPRDMA_ABI_CREATE_QP, in, &out);
    qp.handle = out.handle;
    qp.qpn = out.qpn;
    qp.doorbell = out.doorbell;
  }

  void connect(int peer_side, uint32_t peer_qpn) {
    mprdma_abi_modify_qp in{};
    in.handle = qp.handle;
    in.attr = testing::Host::attributes(testing::Host::ip(peer_side), peer_qpn);
    in.attr.timeout = 14;
    in.attr.mask |= MPRDMA_ABI_QP_STATE;
    for (const uint32_t state : {MPRDMA_ABI_QPS_INIT, MPRDMA_ABI_QPS_RTR, MPRDMA_ABI_QPS_RTS}) {
      in.attr.state = state;
      uint64_t none = 0;
      execute(MPRDMA_ABI_MODIFY_QP, in, &none);
    }
  }

  void post_write(Process& peer, uint32_t bytes, uint64_t to_offset) {
    post_write_to(peer.mr.addr() + to_offset, peer.mr.key, bytes);
  }
  void post_write_to(uint64_t addr, uint32_t rkey, uint32_t bytes) {
    mprdma_abi_send_wqe* wqe = qp.send_slot();
    *wqe = mprdma_abi_send_wqe{};
    wqe->opcode = MPRDMA_ABI_WRITE;
    wqe->flags = MPRDMA_ABI_WQE_SIGNALED;
    wqe->num_sge = 1;
    wqe->remote_addr = addr;
    wqe->rkey = rkey;
    *reinterpret_cast<mprdma_abi_sge*>(wqe + 1) = {mr.addr(), bytes, mr.key};
    mprdma_abi_store_release(&qp.sq.producer, qp.sq.producer + 1);
    mprdma_abi_ring_doorbell(channel.doorbells, qp.doorbell);
  }
  // Acts as a provider does after a doorbell.
  void poke() {
    channel.progress(channel.engine);
    if (mprdma_abi_doorbell_waits(channel.doorbells, qp.doorbell) != 0 &&
        mprdma_abi_engine_sleeps(channel.doorbells) != 0) {
      channel.kick(channel.engine);
    }
  }

  std::unique_ptr<Engine> engine;
  mprdma_abi_channel channel{};
  mprdma_abi_handle pd{};
  HostCq cq{64};
  HostMr mr;
  HostQp qp;
  std::atomic<uint64_t> events{0};
};

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

struct Pair {
  Pair() : wire(std::make_shared<MemoryWire>()), a(wire, 0), b(wire, 1) {
    a.connect(1, b.qp.qpn);
    b.connect(0, a.qp.qpn);
  }
  std::shared_ptr<MemoryWire> wire;
  Process a;
  Process b;
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
  constexpr int kPosts = 40;
  int at_once = 0;
  for (int i = 1; i <= kPosts; ++i) {
    self.mr.bytes[0] = static_cast<unsigned char>(i);
    self.post_write(self, 1, 9);
    self.poke();
    const auto arrived = [&] { return __atomic_load_n(&self.mr.bytes[9], __ATOMIC_ACQUIRE) == i; };
    at_once += arrived() ? 1 : 0;
    ASSERT_TRUE(eventually(arrived));
    mprdma_abi_cqe cqe;
    ASSERT_TRUE(eventually([&] { return self.cq.poll(&cqe); }));
  }
  // The helper sometimes has the lock, and more often where a sanitizer slows both down.
  EXPECT_GT(at_once, kPosts / 8);
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

struct BusyPair : Pair {
  std::atomic<int> posts{0};
};

void* post_and_poll_for_ever(void* busy_pair) {
  auto& pair = *static_cast<BusyPair*>(busy_pair);
  for (;; pair.posts.fetch_add(1)) {
    pair.a.post_write(pair.b, 64, 0);
    pair.a.poke();
    mprdma_abi_cqe cqe;
    while (!pair.a.cq.poll(&cqe)) {
      pair.a.channel.progress(pair.a.channel.engine);
      pthread_testcancel();
    }
  }
}

// The engine wakes others by writing, which is a cancellation point; a cancelled thread leaves no
// lock behind. Each round has a thread of its own, cancelled at a random place.
TEST(Progress, ThreadThatIsCancelledLeavesTheEngineUsable) {
  for (int round = 0; round < 100; ++round) {
    BusyPair pair;
    pthread_t thread;
    ASSERT_EQ(pthread_create(&thread, nullptr, &post_and_poll_for_ever, &pair), 0);
    ASSERT_TRUE(eventually([&] { return pair.posts.load() >= round; }));
    pthread_cancel(thread);
    pthread_join(thread, nullptr);
    mprdma_abi_handle pd{};
    pair.a.execute(MPRDMA_ABI_ALLOC_PD, mprdma_abi_handle{}, &pd);  // waits for the lock
    EXPECT_NE(pd.handle, 0u);
    pair.a.engine.reset();  // before the memory that its last packets are about
    pair.b.engine.reset();
  }
}

// Two processes on a wire of shared memory, on which posts and polls are not protected as a whole.
struct SharedMemoryPair {
  SharedMemoryPair() {
    a.connect(1, b.qp.qpn);
    b.connect(0, a.qp.qpn);
  }
  uint64_t rounds = 0;
  testing::LinkedPorts ports;
  Process a{std::move(ports.a), 0};
  Process b{std::move(ports.b), 1};
};

// With a cancellation pending, which the first cancellation point carries out: a post that wakes
// the peer's engine, polls until the completion, which raises an event, and polls in vain until
// they nap.
void* use_verbs_with_a_cancellation_pending(void* shared_memory_pair) {
  auto& pair = *static_cast<SharedMemoryPair*>(shared_memory_pair);
  Process& a = pair.a;
  pthread_cancel(pthread_self());
  for (uint32_t serial = 1; serial <= 20; ++serial) {
    mprdma_abi_store_release(&a.cq.dbr.arm, serial << 2 | MPRDMA_ABI_ARM_NEXT);
    a.post_write(pair.b, 64, 0);
    a.channel.send(a.channel.engine, a.qp.doorbell);
    mprdma_abi_cqe cqe;
    while (!a.cq.poll(&cqe)) a.channel.progress(a.channel.engine);
    const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(15);
    while (std::chrono::steady_clock::now() < end) a.channel.progress(a.channel.engine);
    a.channel.idle(a.channel.engine);
    ++pair.rounds;
  }
  pthread_testcancel();
  return nullptr;
}

TEST(Progress, NothingInAPostOrAPollIsACancellationPoint) {
  SharedMemoryPair pair;
  pthread_t thread;
  ASSERT_EQ(pthread_create(&thread, nullptr, &use_verbs_with_a_cancellation_pending, &pair), 0);
  void* result = nullptr;
  pthread_join(thread, &result);
  EXPECT_EQ(result, PTHREAD_CANCELED);
  EXPECT_EQ(pair.rounds, 20u);
  EXPECT_GT(pair.a.events.load(), 0u);
  pair.a.engine.reset();  // before the memory that its last packets are about
  pair.b.engine.reset();
}

// Unmapping registered memory is the application's fault on every RDMA system, but it must not die
// without a message.
void write_to_unmapped_memory() {
  Pair pair;
  void* page = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  const auto addr = reinterpret_cast<uint64_t>(page);
  const mprdma_abi_reg_mr reg{addr, 4096, addr, pair.b.pd.handle, testing::Host::kAllRights, 0, 0};
  mprdma_abi_reg_mr_out keys{};
  pair.b.execute(MPRDMA_ABI_REG_MR, reg, &keys);
  munmap(page, 4096);
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

TEST(Progress, IdleEngineUsesNextToNothing) {
  Pair pair;
  const auto clock_ns = [](clockid_t clock) {
    timespec t{};
    clock_gettime(clock, &t);
    return t.tv_sec * 1'000'000'000LL + t.tv_nsec;
  };
  // Measures the CPU time of the process; this thread only waits.
  const auto engines_ns = [&] {
    return clock_ns(CLOCK_PROCESS_CPUTIME_ID) - clock_ns(CLOCK_THREAD_CPUTIME_ID);
  };
  // Work that is left from connecting ends soon, so an idle half second comes.
  constexpr long long kWall = 500'000'000;
  const auto idle_for_a_while = [&] {
    const long long cpu_before = engines_ns();
    const long long before = clock_ns(CLOCK_MONOTONIC);
    eventually([&] { return clock_ns(CLOCK_MONOTONIC) - before >= kWall; });
    // The limit is one percent for each of two engines.
    return engines_ns() - cpu_before < kWall / 50;
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
