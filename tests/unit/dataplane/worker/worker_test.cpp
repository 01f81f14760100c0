// End to end through the queue ABI: two workers, a wire in memory, virtual time.
#include "dataplane/worker/worker.hpp"

#include <algorithm>
#include <numeric>

#include "tests/unit/dataplane/engine/engine_host.hpp"

namespace mprdma::dataplane {
namespace {

using testing::Bytes;
using testing::Host;
using testing::HostPair;

void fill(Bytes& bytes, unsigned char first) {
  std::iota(bytes.begin(), bytes.end(), first);
}

mprdma_abi_sge sge(const testing::HostMr& mr, uint64_t offset, uint32_t length) {
  return {mr.addr() + offset, length, mr.key};
}

TEST(Worker, WriteReachesThePeersMemoryAndCompletes) {
  HostPair pair;
  fill(pair.mr_a->bytes, 3);
  auto& wqe = pair.a.begin_send(*pair.qp_a, MPRDMA_ABI_WRITE, 77, {sge(*pair.mr_a, 10, 5000)});
  wqe.remote_addr = pair.mr_b->addr() + 100;
  wqe.rkey = pair.mr_b->key;
  pair.a.end_send(*pair.qp_a);
  mprdma_abi_cqe cqe;
  ASSERT_TRUE(pair.completion(pair.a, *pair.cq_a, &cqe));
  EXPECT_EQ(cqe.wr_id, 77u);
  EXPECT_EQ(cqe.status, MPRDMA_ABI_WC_SUCCESS);
  EXPECT_EQ(cqe.opcode, MPRDMA_ABI_WC_WRITE);
  EXPECT_EQ(cqe.qpn, pair.qp_a->qpn);
  EXPECT_EQ(cqe.qp_cookie, reinterpret_cast<uint64_t>(pair.qp_a.get()));
  EXPECT_TRUE(std::equal(&pair.mr_a->bytes[10], &pair.mr_a->bytes[5010], &pair.mr_b->bytes[100]));
  EXPECT_EQ(pair.mr_b->bytes[5100], 0) << "nothing behind the message is touched";
  EXPECT_EQ(pair.qp_a->sq.consumer, 1u);
}

// Requests that the transport has are still outstanding: a queue holds no more than its depth
// (ENOMEM).
TEST(Worker, AReceiveKeepsItsSlotUntilItCompletes) {
  HostPair pair;
  pair.b.post_recv(*pair.qp_b, 1, {sge(*pair.mr_b, 0, 64)});
  pair.b.post_recv(*pair.qp_b, 2, {sge(*pair.mr_b, 64, 64)});
  pair.settle();
  EXPECT_EQ(pair.qp_b->rq.consumer, 0u);
  pair.a.begin_send(*pair.qp_a, MPRDMA_ABI_SEND, 3, {sge(*pair.mr_a, 0, 8)});
  pair.a.end_send(*pair.qp_a);
  mprdma_abi_cqe cqe;
  ASSERT_TRUE(pair.completion(pair.b, *pair.cq_b, &cqe));
  EXPECT_EQ(pair.qp_b->rq.consumer, 1u);
}

TEST(Worker, SendWithImmediateScattersAndCarriesTheImmediate) {
  HostPair pair;
  fill(pair.mr_a->bytes, 9);
  pair.b.post_recv(*pair.qp_b, 5, {sge(*pair.mr_b, 0, 1500), sge(*pair.mr_b, 4000, 3000)});
  auto& wqe = pair.a.begin_send(*pair.qp_a, MPRDMA_ABI_SEND_IMM, 6,
                                {sge(*pair.mr_a, 0, 1000), sge(*pair.mr_a, 2000, 2000)});
  wqe.imm_or_rkey = 0x12345678;
  pair.a.end_send(*pair.qp_a);
  mprdma_abi_cqe cqe;
  ASSERT_TRUE(pair.completion(pair.b, *pair.cq_b, &cqe));
  EXPECT_EQ(cqe.wr_id, 5u);
  EXPECT_EQ(cqe.opcode, MPRDMA_ABI_WC_RECV);
  EXPECT_EQ(cqe.byte_len, 3000u);
  EXPECT_EQ(cqe.imm_or_rkey, 0x12345678u);
  EXPECT_NE(cqe.flags & MPRDMA_ABI_CQE_IMM, 0);
  EXPECT_EQ(cqe.src_qpn, pair.qp_a->qpn);
  Bytes sent(&pair.mr_a->bytes[0], &pair.mr_a->bytes[1000]);
  sent.insert(sent.end(), &pair.mr_a->bytes[2000], &pair.mr_a->bytes[4000]);
  EXPECT_TRUE(std::equal(&sent[0], &sent[1500], &pair.mr_b->bytes[0]));
  EXPECT_TRUE(std::equal(&sent[1500], &sent[0] + 3000, &pair.mr_b->bytes[4000]));
  EXPECT_EQ(pair.qp_b->rq.consumer, 1u);
}

TEST(Worker, ReadBringsThePeersMemory) {
  HostPair pair;
  fill(pair.mr_b->bytes, 40);
  auto& wqe = pair.a.begin_send(*pair.qp_a, MPRDMA_ABI_READ, 8, {sge(*pair.mr_a, 1, 7000)});
  wqe.remote_addr = pair.mr_b->addr() + 5;
  wqe.rkey = pair.mr_b->key;
  pair.a.end_send(*pair.qp_a);
  mprdma_abi_cqe cqe;
  ASSERT_TRUE(pair.completion(pair.a, *pair.cq_a, &cqe));
  EXPECT_EQ(cqe.status, MPRDMA_ABI_WC_SUCCESS);
  EXPECT_EQ(cqe.opcode, MPRDMA_ABI_WC_READ);
  EXPECT_TRUE(std::equal(&pair.mr_b->bytes[5], &pair.mr_b->bytes[7005], &pair.mr_a->bytes[1]));
}

TEST(Worker, InlineDataIsTakenFromTheSlotAndNeedsNoKey) {
  HostPair pair;
  auto& wqe = pair.a.begin_send(*pair.qp_a, MPRDMA_ABI_WRITE, 1, {});
  wqe.flags |= MPRDMA_ABI_WQE_INLINE;
  wqe.inline_bytes = 11;
  std::memcpy(&wqe + 1, "hello there", 11);
  wqe.remote_addr = pair.mr_b->addr();
  wqe.rkey = pair.mr_b->key;
  pair.a.end_send(*pair.qp_a);
  mprdma_abi_cqe cqe;
  ASSERT_TRUE(pair.completion(pair.a, *pair.cq_a, &cqe));
  EXPECT_EQ(std::memcmp(pair.mr_b->bytes.data(), "hello there", 11), 0);
}

TEST(Worker, UnsignaledRequestsFreeTheirSlotsWithoutAnEntry) {
  HostPair pair;
  for (int round = 0; round < 200; ++round) {
    auto& wqe = pair.a.begin_send(*pair.qp_a, MPRDMA_ABI_WRITE, 1, {sge(*pair.mr_a, 0, 8)});
    wqe.flags = 0;
    wqe.remote_addr = pair.mr_b->addr();
    wqe.rkey = pair.mr_b->key;
    pair.a.end_send(*pair.qp_a);
    ASSERT_TRUE(
        pair.run_until([&] { return pair.qp_a->sq.producer - pair.qp_a->sq.consumer < 64; }));
  }
  ASSERT_TRUE(pair.run_until([&] { return pair.qp_a->sq.consumer == 200; }));
  mprdma_abi_cqe cqe;
  EXPECT_FALSE(pair.cq_a->poll(&cqe));
}

TEST(Worker, TwoQueuePairsOfOneDeviceTalkToEachOther) {
  HostPair pair;
  auto cq = pair.a.make_cq();
  auto one = pair.a.make_qp(*cq);
  auto two = pair.a.make_qp(*cq);
  pair.a.connect(*one, Host::ip(0), two->qpn);
  pair.a.connect(*two, Host::ip(0), one->qpn);
  fill(pair.mr_a->bytes, 1);
  pair.a.post_recv(*two, 2, {sge(*pair.mr_a, 30000, 9000)});
  pair.a.begin_send(*one, MPRDMA_ABI_SEND, 1, {sge(*pair.mr_a, 0, 9000)});
  pair.a.end_send(*one);
  mprdma_abi_cqe first;
  mprdma_abi_cqe second;
  ASSERT_TRUE(pair.completion(pair.a, *cq, &first));
  ASSERT_TRUE(pair.completion(pair.a, *cq, &second));
  EXPECT_EQ(first.wr_id + second.wr_id, 3u);
  EXPECT_TRUE(std::equal(&pair.mr_a->bytes[0], &pair.mr_a->bytes[9000], &pair.mr_a->bytes[30000]));
}

TEST(Worker, PeerThatFallsSilentEndsInRetryExceeded) {
  HostPair pair;
  pair.settle();
  pair.wire->on_frame = [](int, const Bytes&) { return false; };
  auto& wqe = pair.a.begin_send(*pair.qp_a, MPRDMA_ABI_WRITE, 4, {sge(*pair.mr_a, 0, 100)});
  wqe.remote_addr = pair.mr_b->addr();
  wqe.rkey = pair.mr_b->key;
  pair.a.end_send(*pair.qp_a);
  mprdma_abi_cqe cqe;
  ASSERT_TRUE(pair.completion(pair.a, *pair.cq_a, &cqe));
  EXPECT_EQ(cqe.status, MPRDMA_ABI_WC_RETRY_EXC_ERR);
  EXPECT_EQ(pair.a.query(*pair.qp_a).state, uint32_t{MPRDMA_ABI_QPS_ERR});
}

TEST(Worker, NeighbourThatNeverAnswersEndsInRetryExceededToo) {
  auto wire = std::make_shared<testing::MemoryWire>();
  wire->on_frame = [](int, const Bytes&) { return false; };
  Host host(wire, 0);
  auto cq = host.make_cq();
  auto qp = host.make_qp(*cq);
  auto mr = host.make_mr(4096);
  host.connect(*qp, Host::ip(1), 5);
  auto& wqe = host.begin_send(*qp, MPRDMA_ABI_WRITE, 4, {sge(*mr, 0, 100)});
  wqe.remote_addr = 0;
  host.end_send(*qp);
  mprdma_abi_cqe cqe{};
  bool done = false;
  for (int i = 0; i < 50'000 && !done; ++i) {
    host.now += Duration::us(100);
    host.worker->run(host.now);
    done = cq->poll(&cqe);
  }
  ASSERT_TRUE(done);
  EXPECT_EQ(cqe.status, MPRDMA_ABI_WC_RETRY_EXC_ERR);
  EXPECT_GT(host.worker->counters().arp_requests_sent, 0u);
  EXPECT_GT(host.worker->counters().drop_no_path, 0u);
}

TEST(Worker, LossAndReorderingOnTheWireAreRepaired) {
  HostPair pair;
  pair.settle();
  Prng prng(3);
  pair.wire->on_frame = [&](int, const Bytes&) { return !prng.chance(1, 20); };
  for (int round = 0; round < 30; ++round) {
    fill(pair.mr_a->bytes, static_cast<unsigned char>(round));
    auto& wqe = pair.a.begin_send(*pair.qp_a, MPRDMA_ABI_WRITE, 1, {sge(*pair.mr_a, 0, 40'000)});
    wqe.remote_addr = pair.mr_b->addr();
    wqe.rkey = pair.mr_b->key;
    pair.a.end_send(*pair.qp_a);
    mprdma_abi_cqe cqe;
    ASSERT_TRUE(pair.completion(pair.a, *pair.cq_a, &cqe));
    ASSERT_EQ(cqe.status, MPRDMA_ABI_WC_SUCCESS);
    ASSERT_TRUE(std::equal(&pair.mr_a->bytes[0], &pair.mr_a->bytes[40'000], &pair.mr_b->bytes[0]));
  }
  pair.wire->on_frame = nullptr;
  pair.settle();
  EXPECT_EQ(pair.b.port().borrowed, 0) << "every frame went back to its port";
  EXPECT_EQ(pair.a.port().borrowed, 0);
}

TEST(Worker, FullWireIsBackPressureAndNothingIsLost) {
  HostPair pair;
  pair.settle();
  pair.wire->room = 2;
  fill(pair.mr_a->bytes, 1);
  auto& wqe = pair.a.begin_send(*pair.qp_a, MPRDMA_ABI_WRITE, 1, {sge(*pair.mr_a, 0, 60'000)});
  wqe.remote_addr = pair.mr_b->addr();
  wqe.rkey = pair.mr_b->key;
  pair.a.end_send(*pair.qp_a);
  pair.step();
  EXPECT_TRUE(pair.a.worker->wants_wire());
  mprdma_abi_cqe cqe;
  ASSERT_TRUE(pair.completion(pair.a, *pair.cq_a, &cqe));
  EXPECT_EQ(cqe.status, MPRDMA_ABI_WC_SUCCESS);
  EXPECT_EQ(pair.a.worker->transport_counters().packets_retransmitted, 0u);
}

TEST(Worker, RequestThatFailsWhenItIsSentRaisesItsEventThoughNothingElseHappens) {
  HostPair pair;
  pair.settle();
  pair.wire->room = 0;
  auto& wqe = pair.a.begin_send(*pair.qp_a, MPRDMA_ABI_WRITE, 1, {sge(*pair.mr_a, 0, 100)});
  wqe.remote_addr = pair.mr_b->addr();
  wqe.rkey = pair.mr_b->key;
  pair.a.end_send(*pair.qp_a);
  pair.a.worker->run(pair.a.now);
  ASSERT_EQ(pair.a.execute(MPRDMA_ABI_DEREG_MR, mprdma_abi_handle{pair.mr_a->handle, 0}), 0);
  mprdma_abi_store_release(&pair.cq_a->dbr.arm, 1u << 2 | MPRDMA_ABI_ARM_NEXT);
  pair.a.events.clear();
  pair.wire->room = 1024;
  pair.a.worker->run(pair.a.now);
  mprdma_abi_cqe cqe;
  ASSERT_TRUE(pair.cq_a->poll(&cqe));
  EXPECT_EQ(cqe.status, MPRDMA_ABI_WC_LOC_PROT_ERR);
  ASSERT_EQ(pair.a.events.size(), 1u);
  EXPECT_EQ(pair.a.events[0].type, uint32_t{MPRDMA_ABI_EVENT_COMPLETION});
}

TEST(Worker, SendQueuePairsTakeTurns) {
  HostPair pair;
  auto second = pair.a.make_qp(*pair.cq_a);
  auto peer = pair.b.make_qp(*pair.cq_b);
  pair.a.connect(*second, Host::ip(1), peer->qpn);
  pair.b.connect(*peer, Host::ip(0), second->qpn);
  pair.settle();
  std::vector<uint32_t> sent_to;
  pair.wire->on_frame = [&](int side, const Bytes& frame) {
    if (side == 0) sent_to.push_back(load_be24(&frame[14 + 20 + 8 + 5]));
    return true;
  };
  for (testing::HostQp* qp : {pair.qp_a.get(), second.get()}) {
    auto& wqe = pair.a.begin_send(*qp, MPRDMA_ABI_WRITE, 1, {sge(*pair.mr_a, 0, 40'000)});
    wqe.remote_addr = pair.mr_b->addr();
    wqe.rkey = pair.mr_b->key;
    pair.a.end_send(*qp);
  }
  pair.a.worker->run(pair.a.now);
  const auto first_of = [&](uint32_t qpn) {
    return std::find(sent_to.begin(), sent_to.end(), qpn) - sent_to.begin();
  };
  EXPECT_LE(first_of(peer->qpn), 8);
  EXPECT_LE(first_of(pair.qp_b->qpn), 8);
}

TEST(Worker, ResetForgetsWhatWasPostedAndTheQueuePairWorksAgain) {
  HostPair pair;
  pair.settle();
  pair.wire->on_frame = [](int, const Bytes&) { return false; };
  for (int i = 0; i < 10; ++i) {
    auto& wqe = pair.a.begin_send(*pair.qp_a, MPRDMA_ABI_WRITE, 4, {sge(*pair.mr_a, 0, 5000)});
    wqe.remote_addr = pair.mr_b->addr();
    wqe.rkey = pair.mr_b->key;
    pair.a.end_send(*pair.qp_a);
  }
  pair.step();
  pair.wire->on_frame = nullptr;
  ASSERT_EQ(pair.a.move_to(*pair.qp_a, MPRDMA_ABI_QPS_RESET), 0);
  ASSERT_EQ(pair.b.move_to(*pair.qp_b, MPRDMA_ABI_QPS_RESET), 0);
  EXPECT_EQ(pair.qp_a->sq.consumer, pair.qp_a->sq.producer);
  pair.a.connect(*pair.qp_a, Host::ip(1), pair.qp_b->qpn);
  pair.b.connect(*pair.qp_b, Host::ip(0), pair.qp_a->qpn);
  pair.b.post_recv(*pair.qp_b, 5, {sge(*pair.mr_b, 0, 100)});
  pair.a.begin_send(*pair.qp_a, MPRDMA_ABI_SEND, 6, {sge(*pair.mr_a, 0, 100)});
  pair.a.end_send(*pair.qp_a);
  mprdma_abi_cqe cqe;
  ASSERT_TRUE(pair.completion(pair.b, *pair.cq_b, &cqe));
  EXPECT_EQ(cqe.wr_id, 5u);
}

TEST(Worker, CompletionThatItsQueueCannotTakeEndsTheQueuePair) {
  HostPair pair;
  for (int i = 0; i < 65; ++i) {  // one more than the completion queue holds, none of them polled
    auto& wqe = pair.a.begin_send(*pair.qp_a, MPRDMA_ABI_WRITE, 1, {sge(*pair.mr_a, 0, 8)});
    wqe.remote_addr = pair.mr_b->addr();
    wqe.rkey = pair.mr_b->key;
    pair.a.end_send(*pair.qp_a);
    pair.settle();
  }
  const auto events_of = [&](uint32_t type) {
    return std::ranges::count(pair.a.events, type, &mprdma_abi_event::type);
  };
  EXPECT_EQ(events_of(MPRDMA_ABI_EVENT_CQ_ERR), 1);
  EXPECT_EQ(events_of(MPRDMA_ABI_EVENT_QP_FATAL), 1);
  mprdma_abi_handle in{};
  in.handle = pair.qp_a->handle;
  mprdma_abi_qp_attr attr{};
  ASSERT_EQ(pair.a.execute(MPRDMA_ABI_QUERY_QP, in, &attr), 0);
  EXPECT_EQ(attr.state, uint32_t{MPRDMA_ABI_QPS_ERR});
}

TEST(Worker, ErrorStateFlushesBothQueues) {
  HostPair pair;
  pair.a.post_recv(*pair.qp_a, 1, {sge(*pair.mr_a, 0, 100)});
  pair.settle();
  ASSERT_EQ(pair.a.move_to(*pair.qp_a, MPRDMA_ABI_QPS_ERR), 0);
  pair.a.begin_send(*pair.qp_a, MPRDMA_ABI_SEND, 2, {sge(*pair.mr_a, 0, 100)});
  pair.a.end_send(*pair.qp_a);
  pair.a.post_recv(*pair.qp_a, 3, {});
  pair.settle(3);
  std::vector<uint64_t> flushed;
  mprdma_abi_cqe cqe;
  while (pair.cq_a->poll(&cqe)) {
    EXPECT_EQ(cqe.status, MPRDMA_ABI_WC_WR_FLUSH_ERR);
    flushed.push_back(cqe.wr_id);
  }
  std::sort(flushed.begin(), flushed.end());
  EXPECT_EQ(flushed, (std::vector<uint64_t>{1, 2, 3}));
}

TEST(Worker, RequestThatTheTransportRefusesCompletesInErrorAfterWhatWasBeforeIt) {
  HostPair pair;
  auto& good = pair.a.begin_send(*pair.qp_a, MPRDMA_ABI_WRITE, 1, {sge(*pair.mr_a, 0, 5000)});
  good.remote_addr = pair.mr_b->addr();
  good.rkey = pair.mr_b->key;
  pair.a.end_send(*pair.qp_a);
  pair.a.begin_send(*pair.qp_a, 200, 2, {});
  pair.a.end_send(*pair.qp_a);
  mprdma_abi_cqe first;
  mprdma_abi_cqe second;
  ASSERT_TRUE(pair.completion(pair.a, *pair.cq_a, &first));
  ASSERT_TRUE(pair.completion(pair.a, *pair.cq_a, &second));
  EXPECT_EQ(first.wr_id, 1u);
  EXPECT_EQ(second.wr_id, 2u);
  EXPECT_EQ(second.status, MPRDMA_ABI_WC_LOC_QP_OP_ERR);
  EXPECT_EQ(pair.qp_a->sq.consumer, 2u);
}

TEST(Worker, LateReceiveLetsAWaitingSendInAndAcknowledgesIt) {
  HostPair pair;
  pair.a.begin_send(*pair.qp_a, MPRDMA_ABI_SEND, 6, {sge(*pair.mr_a, 0, 3000)});
  pair.a.end_send(*pair.qp_a);
  pair.settle(200);
  EXPECT_GT(pair.b.worker->transport_counters().rnr_sent, 0u);
  pair.b.post_recv(*pair.qp_b, 5, {sge(*pair.mr_b, 0, 3000)});
  mprdma_abi_cqe cqe;
  ASSERT_TRUE(pair.completion(pair.b, *pair.cq_b, &cqe));
  ASSERT_TRUE(pair.completion(pair.a, *pair.cq_a, &cqe));
  EXPECT_EQ(cqe.status, MPRDMA_ABI_WC_SUCCESS);
}

TEST(Worker, PeerWithOurOwnAddressAndNoQueuePairHereIsSaid) {
  HostPair pair;
  const auto qp = pair.a.make_qp(*pair.cq_a);
  ::testing::internal::CaptureStderr();
  pair.a.connect(*qp, Host::ip(0), pair.qp_a->qpn);
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "") << "two queue pairs of one device";
  const auto lost = pair.a.make_qp(*pair.cq_a);
  ::testing::internal::CaptureStderr();
  pair.a.connect(*lost, Host::ip(0), 0x123456);
  EXPECT_NE(::testing::internal::GetCapturedStderr().find("own address"), std::string::npos);
}

TEST(Worker, DestroyedQueuePairLeavesNothingBehind) {
  HostPair pair;
  pair.settle();
  for (int round = 0; round < 100; ++round) {
    auto qp = pair.a.make_qp(*pair.cq_a);
    pair.a.connect(*qp, Host::ip(1), 99);
    auto& wqe = pair.a.begin_send(*qp, MPRDMA_ABI_WRITE, 1, {sge(*pair.mr_a, 0, 5000)});
    wqe.remote_addr = 1;
    pair.a.end_send(*qp);
    if (round % 2 == 0) pair.step();
    ASSERT_EQ(pair.a.execute(MPRDMA_ABI_DESTROY_QP, mprdma_abi_handle{qp->handle, 0}), 0);
  }
  pair.settle(10);
  EXPECT_FALSE(pair.a.worker->busy());
  EXPECT_EQ(pair.a.worker->qps().in_use(), 1u);
  EXPECT_EQ(pair.a.worker->frames_borrowed(), 0u);
}

TEST(Worker, LinkChangesAreEvents) {
  HostPair pair;
  pair.a.port().up = false;
  pair.a.worker->service(pair.a.now);
  ASSERT_EQ(pair.a.events.size(), 1u);
  EXPECT_EQ(pair.a.events[0].type, uint32_t{MPRDMA_ABI_EVENT_PORT_ERR});
  pair.a.port().up = true;
  pair.a.worker->service(pair.a.now);
  ASSERT_EQ(pair.a.events.size(), 2u);
  EXPECT_EQ(pair.a.events[1].type, uint32_t{MPRDMA_ABI_EVENT_PORT_ACTIVE});
}

}  // namespace
}  // namespace mprdma::dataplane
