// An acknowledgement that waits for the application's answer leaves with it, and before it: so a
// request is complete at its poster before the answer to it is there, as on an adapter. Programs
// that share one completion channel between their queues rely on it. If no answer comes, or the
// queue pair ends, it leaves all the same.
#include <gtest/gtest.h>

#include <functional>
#include <vector>

#include "tests/unit/dataplane/engine/engine_host.hpp"
#include "wire/frame.hpp"

namespace mprdma::dataplane {
namespace {

using testing::Bytes;
using testing::Host;
using testing::HostPair;
using wire::PacketStream;

enum class TakenBy { kPost, kBurst };  // who takes the posted answer from the ring

class OwedAck : public ::testing::Test {
 protected:
  static constexpr Duration kPatience = Duration::ms(1);

  void SetUp() override {
    pair.settle();
    pair.b.worker->set_ack_patience(kPatience);
    for (int i = 0; i < 4; ++i) {  // until b's answers are expected
      ask();
      answer(TakenBy::kBurst);
      pair.settle();
    }
    for (mprdma_abi_cqe cqe; pair.cq_a->poll(&cqe) || pair.cq_b->poll(&cqe);) {
    }
    pair.wire->on_frame = [this](int side, const Bytes& frame) {
      wire::DecodedFrame decoded;
      if (side == 1 && decode_frame(frame, decoded, false) == wire::DropReason::kNone)
        from_b.push_back(decoded.packet.info().stream);
      return true;
    };
  }
  void post_write(Host& host, testing::HostQp& qp, const testing::HostMr& from,
                  const testing::HostMr& to) {
    auto& wqe = host.begin_send(qp, MPRDMA_ABI_WRITE, 1, {{from.addr(), 8, from.key}});
    wqe.remote_addr = to.addr();
    wqe.rkey = to.key;
    host.end_send(qp);
  }
  // A WRITE of a arrives at b.
  void ask() {
    post_write(pair.a, *pair.qp_a, *pair.mr_a, *pair.mr_b);
    pair.step();
  }
  void ask_and_expect_debt() {
    ask();
    ASSERT_TRUE(pair.b.worker->owes_acks());
    ASSERT_TRUE(from_b.empty());
  }
  // Posted at b at the same time as ask().
  void answer(TakenBy by) {
    post_write(pair.b, *pair.qp_b, *pair.mr_b, *pair.mr_a);
    if (by == TakenBy::kPost) {
      pair.b.worker->run_sends(pair.qp_b->doorbell, pair.b.now);
    } else {
      pair.b.worker->run(pair.b.now);
    }
  }
  void run_b(Time now) {
    pair.b.now = now;
    pair.b.worker->run(now);
  }
  // Nothing but the acknowledgement, and a's request is complete.
  void expect_paid() {
    EXPECT_EQ(from_b, std::vector{PacketStream::kAck});
    run_b(pair.b.now);
    EXPECT_EQ(from_b.size(), 1u);
    EXPECT_FALSE(pair.b.worker->owes_acks());
    pair.a.worker->run(pair.a.now);
    mprdma_abi_cqe cqe{};
    ASSERT_TRUE(pair.cq_a->poll(&cqe));
    EXPECT_EQ(cqe.status, MPRDMA_ABI_WC_SUCCESS);
  }
  [[nodiscard]] uint64_t late() { return pair.b.worker->counters().acks_owed_late; }

  HostPair pair;
  std::vector<PacketStream> from_b;
};

class OwedAckTakenBy : public OwedAck, public ::testing::WithParamInterface<TakenBy> {};

TEST_P(OwedAckTakenBy, LeavesBeforeTheAnswer) {
  ask_and_expect_debt();
  answer(GetParam());
  EXPECT_EQ(from_b, (std::vector{PacketStream::kAck, PacketStream::kRequest}));
  EXPECT_EQ(late(), 0u);
}

INSTANTIATE_TEST_SUITE_P(WhoeverTakesTheAnswer, OwedAckTakenBy,
                         ::testing::Values(TakenBy::kPost, TakenBy::kBurst));

TEST_F(OwedAck, LeavesAfterAShortTimeIfNoAnswerComes) {
  ask_and_expect_debt();
  const Time end = pair.b.now + kPatience;
  EXPECT_LE(pair.b.worker->next_deadline(), end) << "so that the helper runs the worker then";
  run_b(end - Duration::ns(1));
  EXPECT_TRUE(from_b.empty());
  run_b(end);
  expect_paid();
  EXPECT_EQ(late(), 1u);
}

// The application has gone to sleep: the engine does not wait for its answer (Progress::idle()).
TEST_F(OwedAck, LeavesAtOnceWhenNobodyIsGoingToAnswer) {
  ask_and_expect_debt();
  pair.b.worker->set_ack_patience(Duration::zero());
  EXPECT_LE(pair.b.worker->next_deadline(), pair.b.now);
  run_b(pair.b.now);
  expect_paid();
  EXPECT_EQ(late(), 0u) << "nobody has let it wait in vain";
}

struct Ending {
  const char* name;
  std::function<void(HostPair&)> end;
};
void PrintTo(const Ending& ending, std::ostream* out) {
  *out << ending.name;
}

class OwedAckAtTheEnd : public OwedAck, public ::testing::WithParamInterface<Ending> {};

TEST_P(OwedAckAtTheEnd, LeavesBefore) {
  ask_and_expect_debt();
  GetParam().end(pair);
  expect_paid();
}

INSTANTIATE_TEST_SUITE_P(
    TheQueuePairEnds, OwedAckAtTheEnd,
    ::testing::Values(Ending{"Error",
                             [](HostPair& pair) {
                               EXPECT_EQ(pair.b.move_to(*pair.qp_b, MPRDMA_ABI_QPS_ERR), 0);
                             }},
                      Ending{"Reset",
                             [](HostPair& pair) {
                               EXPECT_EQ(pair.b.move_to(*pair.qp_b, MPRDMA_ABI_QPS_RESET), 0);
                             }},
                      Ending{"Destroyed",
                             [](HostPair& pair) {
                               EXPECT_EQ(pair.b.execute(MPRDMA_ABI_DESTROY_QP,
                                                        mprdma_abi_handle{pair.qp_b->handle, 0}),
                                         0);
                             }},
                      Ending{"ContextClosed", [](HostPair& pair) { pair.b.forget_client(); }}),
    [](const ::testing::TestParamInfo<Ending>& ending) { return ending.param.name; });

}  // namespace
}  // namespace mprdma::dataplane
