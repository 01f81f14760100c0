// Payloads that the receiver reads in the sender's memory: in order, whole, and never after the
// application has been told that its request is over.
#include <gtest/gtest.h>

#include <vector>

#include "dataplane/port/lent_payload.hpp"
#include "tests/unit/dataplane/worker/engines_on_memory.hpp"

namespace mprdma::dataplane {
namespace {

using testing::Host;
using testing::kSegment;

using LentPayloads = testing::EnginesOnMemory;

TEST_F(LentPayloads, OfWritesArriveInOneSystemCallForMany) {
  const uint64_t before = counters().payload_bytes_pulled;
  const uint64_t pulls = counters().pulls;
  write(2 * kSegment + 10'000, 7, 3);
  write(kSegment, 100'000, 100'001);
  ASSERT_TRUE(completes(3));
  EXPECT_TRUE(same(7, 3, 2 * kSegment + 10'000));
  EXPECT_TRUE(same(100'000, 100'001, kSegment));
  EXPECT_EQ(mr_b->bytes[2], 0);
  EXPECT_EQ(mr_b->bytes[3 + 2 * kSegment + 10'000], 0);
  EXPECT_EQ(counters().payload_bytes_pulled - before, 3 * kSegment + 10'000);
  EXPECT_EQ(counters().pulls - pulls, 1u);
  EXPECT_EQ(a.worker->counters().payload_bytes_lent, 3 * kSegment + 10'000);
  write(kLendMin - 1, 0, 0);
  ASSERT_TRUE(completes(4));
  EXPECT_EQ(counters().pulls - pulls, 1u) << "a short one is copied";
}

// The last request that wrote a byte decides, however requests overlap.
TEST_F(LentPayloads, OfWritesThatOverlapArriveAsIfOneByOne) {
  std::vector<unsigned char> expected(mr_b->bytes);
  uint32_t random = 1;
  for (int round = 0; round < 80; ++round) {
    const uint64_t pulls = counters().pulls;
    for (int i = 0; i < 6; ++i) {
      const uint32_t bytes = round % 2 == 0 ? kSegment : (1 + i % 3) * kSegment + i * 1'000;
      random = random * 1'103'515'245 + 12'345;
      const size_t from = random >> 16;
      // Whole lines, and some bytes, apart; often the same place.
      const size_t to = i % 3 == 0 ? 0 : (random >> 12) % (kSegment / 64) * 64 + (random >> 8) % 3;
      write(bytes, from, to);
      std::memcpy(expected.data() + to, source.data() + from, bytes);
    }
    ASSERT_TRUE(completes(posted));
    ASSERT_TRUE(mr_b->bytes == expected) << "round " << round;
    ASSERT_GT(counters().pulls, pulls);
  }
}

TEST_F(LentPayloads, ThatCannotBeReadComeInFrames) {
  write(kSegment, 0, 0);
  pass();
  a.worker->run(a.now);
  source.allow(false);
  b.worker->run(b.now);
  source.allow(true);
  EXPECT_EQ(counters().drop_not_pulled, 1u);
  const uint64_t lent = a.worker->counters().payload_bytes_lent;
  write(3 * kSegment, 5, kSegment);
  ASSERT_TRUE(completes(3));
  EXPECT_TRUE(same(0, 0, kSegment));
  EXPECT_TRUE(same(5, kSegment, 3 * kSegment));
  EXPECT_FALSE(a.worker->port().takes_lent());
  // Frames that a had reserved before are the last ones to lend.
  write(3 * kSegment, 9, 0);
  ASSERT_TRUE(completes(4));
  EXPECT_LE(a.worker->counters().payload_bytes_lent - lent, uint64_t{kBurst} * kSegment);
}

// The application may use its memory anew once it is told that the request has failed.
TEST_F(LentPayloads, OfARequestThatWasFlushedAreNotTaken) {
  struct Ending {
    const char* name;
    std::function<void()> end;
  };
  const Ending endings[] = {
      {"ERR", [this] { EXPECT_EQ(a.move_to(*qp_a, MPRDMA_ABI_QPS_ERR), 0); }},
      {"RESET", [this] { EXPECT_EQ(a.move_to(*qp_a, MPRDMA_ABI_QPS_RESET), 0); }},
      {"destroyed", [this] {
         mprdma_abi_handle in{qp_a->handle, 0};
         EXPECT_EQ(a.execute(MPRDMA_ABI_DESTROY_QP, in), 0);
       }}};
  for (const Ending& ending : endings) {
    SCOPED_TRACE(ending.name);
    const uint64_t before = received();
    const uint64_t dropped = counters().drop_not_pulled;
    for (int i = 0; i < 3; ++i) write(kSegment, 0, 0);
    pass();
    a.worker->run(a.now);
    ending.end();
    pass();
    b.worker->run(b.now);
    EXPECT_EQ(received(), before);
    EXPECT_EQ(counters().drop_not_pulled - dropped, 3u);
    for (mprdma_abi_cqe cqe; cq_a->poll(&cqe);) {
    }
    former.push_back(std::move(qp_a));
    former.push_back(std::move(qp_b));
    connect();
  }
}

// As before, of a packet that is not in turn.
TEST_F(LentPayloads, OfAFlushedRequestBehindARefusedOneAreNotTaken) {
  a.begin_send(*qp_a, MPRDMA_ABI_SEND, ++posted, {{source.addr(), 8, source.key}});
  a.end_send(*qp_a);
  write(kSegment, 0, 0);
  pass();
  a.worker->run(a.now);
  EXPECT_EQ(a.move_to(*qp_a, MPRDMA_ABI_QPS_ERR), 0);
  const uint64_t before = received();
  pass();
  b.worker->run(b.now);
  EXPECT_EQ(counters().drop_not_pulled, 1u);
  EXPECT_EQ(b.worker->frames_borrowed(), 1u) << "the SEND, which waits for its receive";
  EXPECT_EQ(received(), before);
}

TEST_F(LentPayloads, OfARequestThatFailsWhileItIsSentAreNotTaken) {
  auto& wqe = a.begin_send(*qp_a, MPRDMA_ABI_WRITE, 2,
                           {{source.addr() + kMemory - 2 * kSegment, 3 * kSegment, source.key}});
  wqe.remote_addr = mr_b->addr();
  wqe.rkey = mr_b->key;
  a.end_send(*qp_a);
  const uint64_t before = received();
  pass();
  a.worker->run(a.now);
  ASSERT_GT(a.worker->counters().payload_bytes_lent, 0u) << "its first packets have left";
  mprdma_abi_cqe cqe{};
  ASSERT_TRUE(cq_a->poll(&cqe));
  EXPECT_EQ(cqe.status, MPRDMA_ABI_WC_LOC_PROT_ERR);
  pass();
  b.worker->run(b.now);
  EXPECT_EQ(received(), before);
}

TEST_F(LentPayloads, OfMemoryThatIsRegisteredNoMoreAreNotTaken) {
  write(kSegment, 0, 0);
  pass();
  a.worker->run(a.now);
  const mprdma_abi_handle in{source.key, 0};
  ASSERT_EQ(a.execute(MPRDMA_ABI_DEREG_MR, in), 0);
  source.allow(false);
  const uint64_t before = received();
  mprdma_abi_cqe cqe{};
  ASSERT_TRUE(run_until([&] { return cq_a->poll(&cqe); }));
  EXPECT_EQ(cqe.status, MPRDMA_ABI_WC_LOC_PROT_ERR);
  EXPECT_EQ(received(), before);
  EXPECT_TRUE(a.worker->port().takes_lent()) << "nothing else is wrong";
}

// Another region is deregistered that covers the second of four packets. That packet is lost, and
// the request succeeds.
TEST_F(LentPayloads, OfWhichAPartIsTakenBackArriveAllTheSame) {
  mprdma_abi_reg_mr in{
      source.addr() + kSegment, kSegment, source.addr() + kSegment, a.pd, Host::kAllRights, 0, 0};
  mprdma_abi_reg_mr_out out{};
  ASSERT_EQ(a.execute(MPRDMA_ABI_REG_MR, in, &out), 0);
  write(4 * kSegment, 0, 0);
  pass();
  a.worker->run(a.now);
  const mprdma_abi_handle other{out.rkey, 0};
  ASSERT_EQ(a.execute(MPRDMA_ABI_DEREG_MR, other), 0);
  ASSERT_TRUE(completes(2));
  EXPECT_TRUE(same(0, 0, 4 * kSegment));
  EXPECT_GT(counters().drop_not_pulled, 0u);
  EXPECT_TRUE(a.worker->port().takes_lent());
}

TEST_F(LentPayloads, AreReadNoMoreOnceTheyAreTakenBack) {
  write(kSegment, 0, 0);
  pass();
  a.worker->run(a.now);
  EXPECT_EQ(a.move_to(*qp_a, MPRDMA_ABI_QPS_ERR), 0);
  source.allow(false);
  const uint64_t pulls = counters().pulls;
  pass();
  b.worker->run(b.now);
  EXPECT_EQ(counters().drop_not_pulled, 1u);
  EXPECT_EQ(counters().pulls, pulls);
  EXPECT_TRUE(a.worker->port().takes_lent()) << "others go on";
}

// Behind a SEND for which there is no receive yet.
TEST_F(LentPayloads, ThatComeOutOfTurnAreTakenInTurn) {
  a.begin_send(*qp_a, MPRDMA_ABI_SEND, ++posted, {{source.addr(), 8, source.key}});
  a.end_send(*qp_a);
  write(kSegment, 0, 0);
  write(2 * kSegment, 11, kSegment);
  for (int i = 0; i < 20; ++i) step();
  EXPECT_GT(b.worker->frames_borrowed(), 0u);
  b.post_recv(*qp_b, 1, {{mr_b->addr() + 200'000, 8, mr_b->key}});
  ASSERT_TRUE(completes(4));
  EXPECT_TRUE(same(0, 0, kSegment));
  EXPECT_TRUE(same(11, kSegment, 2 * kSegment));
  EXPECT_TRUE(same(0, 200'000, 8));
  EXPECT_EQ(b.worker->frames_borrowed(), 0u);
  // As often as there are buffers, and more: none is lost.
  for (int i = 0; i < 100; ++i) {
    a.begin_send(*qp_a, MPRDMA_ABI_SEND, ++posted, {{source.addr(), 8, source.key}});
    a.end_send(*qp_a);
    write(kSegment, 0, 0);
    step();
    b.post_recv(*qp_b, 1, {{mr_b->addr() + 200'000, 8, mr_b->key}});
    ASSERT_TRUE(completes(posted)) << i;
    mprdma_abi_cqe cqe{};
    while (cq_b->poll(&cqe)) EXPECT_EQ(cqe.status, MPRDMA_ABI_WC_SUCCESS);
  }
  EXPECT_EQ(counters().drop_not_pulled, 0u);
}

TEST_F(LentPayloads, ForAKeyThatDoesNotFitAreRefused) {
  auto& wqe = a.begin_send(*qp_a, MPRDMA_ABI_WRITE, 2, {{source.addr(), kSegment, source.key}});
  wqe.remote_addr = mr_b->addr();
  wqe.rkey = mr_b->key + 1;
  a.end_send(*qp_a);
  mprdma_abi_cqe cqe{};
  ASSERT_TRUE(run_until([&] { return cq_a->poll(&cqe); }));
  EXPECT_EQ(cqe.status, MPRDMA_ABI_WC_REM_ACCESS_ERR);
  EXPECT_FALSE(same(64, 64, kSegment - 64));
}

}  // namespace
}  // namespace mprdma::dataplane
