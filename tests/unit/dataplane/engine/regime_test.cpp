// What a message costs besides its instructions: system calls, and thus the other thread's core.
// Both ends run in one thread and have no helper, so that the counts are exact.
#include <gtest/gtest.h>

#include "dataplane/sys/clock.hpp"
#include "tests/unit/dataplane/engine/program.hpp"
#include "tests/unit/dataplane/port/port_test_support.hpp"

namespace mprdma::dataplane {
namespace {

using testing::Program;

constexpr int kRounds = 1000;

class Regime : public ::testing::Test {
 protected:
  explicit Regime(Duration rto_floor = Duration::s(1))
      : a(std::move(ports.a), 0, rto_floor), b(std::move(ports.b), 1, rto_floor) {}
  void SetUp() override {
    ASSERT_TRUE(testing::connect(a, b));
    // The two agree on a mode, and resolve their addresses.
    ping_pong(10);
  }
  // Each side posts in turn, and both poll all the time.
  void ping_pong(int messages) {
    for (int i = 0; i < messages; ++i) {
      one(a, b);
      a.progress.poll();
      one(b, a);
      b.progress.poll();
    }
  }
  static void one(Program& from, Program& to, uint8_t opcode = MPRDMA_ABI_WRITE) {
    from.post(to, opcode);
    ASSERT_TRUE(testing::until([&] {
      to.progress.poll();
      from.progress.poll();
      return from.completions() > 0;
    }));
  }

  testing::LinkedPorts ports;
  Program a;
  Program b;
};

TEST_F(Regime, APolledPingPongWakesNobody) {
  const uint64_t before = a.wakes() + b.wakes();
  ping_pong(kRounds);
  EXPECT_EQ(a.wakes() + b.wakes() - before, 0u);
}

// It may read memory from then on, without another verb. What a READ brings is the answer that it
// waited for.
TEST_F(Regime, AProgramWhoseLastSendHasFinishedIsWoken) {
  for (const uint8_t opcode : {MPRDMA_ABI_WRITE, MPRDMA_ABI_READ}) {
    for (int i = 0; i < 10; ++i) {
      const uint64_t before = b.wakes();
      one(a, b, opcode);
      b.post(a);
      EXPECT_EQ(b.wakes() - before, 1u) << "opcode " << int{opcode};
      b.progress.poll();
      one(b, a);
    }
  }
}

// It has something to do first, and to ask for a wake-up takes as long as the rest of a poll.
TEST_F(Regime, AProgramThatGetsDataWithTheEndOfItsLastSendIsNotWoken) {
  for (int i = 0; i < 10; ++i) {
    const uint64_t before = b.wakes();
    a.post(b);
    b.progress.poll();
    b.post(a);
    a.progress.poll();
    EXPECT_EQ(a.completions(), 1) << "and data";
    b.post(a);
    EXPECT_EQ(b.wakes() - before, 0u);
    EXPECT_TRUE(testing::until([&] {
      a.progress.poll();
      b.progress.poll();
      return b.completions() > 0;
    }));
  }
}

TEST_F(Regime, AProgramThatSleepsIsWokenOnceForEachMessage) {
  const uint64_t before = a.wakes();
  for (int i = 0; i < 10; ++i) {
    b.progress.idle();
    one(a, b);
  }
  EXPECT_EQ(a.wakes() - before, 10u);
}

class MissedTurns : public Regime {
 protected:
  MissedTurns() : Regime(transport::Params{}.rto_floor) {}
};

// Nobody ran this side for longer than the 32 ms after which it gives up: it may not have heard the
// peer, and asks first.
TEST_F(MissedTurns, NobodyGivesUpOnAPeerForThem) {
  a.post(b);
  const uint64_t before = a.host.worker->counters().turns_missed;
  const Time posted = clock_now();
  ASSERT_TRUE(testing::until([&] { return clock_now() - posted > Duration::ms(50); }));
  a.progress.poll();
  EXPECT_EQ(a.host.worker->counters().turns_missed - before, 1u);
  EXPECT_TRUE(testing::until([&] {
    b.progress.poll();
    a.progress.poll();
    return a.completions() > 0;
  }));
}

TEST_F(MissedTurns, ASilentPeerIsGivenUpAllTheSame) {
  a.post(b);
  const Time posted = clock_now();
  ASSERT_TRUE(testing::until([&] { return clock_now() - posted > Duration::ms(50); }));
  mprdma_abi_cqe cqe{};
  ASSERT_TRUE(testing::until([&] {
    a.progress.poll();
    return a.cq->poll(&cqe);
  }));
  EXPECT_EQ(cqe.status, MPRDMA_ABI_WC_RETRY_EXC_ERR);
}

}  // namespace
}  // namespace mprdma::dataplane
