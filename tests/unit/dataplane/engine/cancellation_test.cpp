// A thread that is cancelled in a verb leaves the engine usable.
#include <gtest/gtest.h>
#include <pthread.h>

#include <atomic>
#include <chrono>
#include <utility>

#include "tests/support/eventually.hpp"
#include "tests/unit/dataplane/engine/process_host.hpp"
#include "tests/unit/dataplane/port/port_test_support.hpp"

namespace mprdma::dataplane {
namespace {

using testing::Pair;
using testing::Process;

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
TEST(Cancellation, LeavesTheEngineUsable) {
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

TEST(Cancellation, NothingInAPostOrAPollIsACancellationPoint) {
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

}  // namespace
}  // namespace mprdma::dataplane
