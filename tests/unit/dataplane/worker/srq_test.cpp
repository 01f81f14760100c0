// Shared receive queues: which message takes which receive, what is left, where completions go.
#include "dataplane/worker/srq.hpp"

#include <cerrno>

#include "tests/unit/dataplane/engine/engine_host.hpp"

namespace mprdma::dataplane {
namespace {

using testing::Host;
using testing::HostMr;
using testing::HostPair;
using testing::HostQp;
using testing::HostSrq;

mprdma_abi_sge sge(const HostMr& mr, uint32_t offset, uint32_t bytes) {
  return {mr.addr() + offset, bytes, mr.key};
}

// Host b takes its receives from a shared queue of 8, through two queue pairs with a peer each.
class SrqTest : public ::testing::Test {
 protected:
  SrqTest() : srq_(pair_.b.make_srq(8)) {
    for (size_t i = 0; i < 2; ++i) {
      to_[i] = pair_.b.make_qp_on_srq(*pair_.cq_b, *srq_);
      from_[i] = pair_.a.make_qp(*pair_.cq_a);
      pair_.a.connect(*from_[i], Host::ip(1), to_[i]->qpn);
      pair_.b.connect(*to_[i], Host::ip(0), from_[i]->qpn);
    }
  }
  void send(size_t i, uint64_t wr_id, uint32_t bytes = 100) {
    pair_.a.begin_send(*from_[i], MPRDMA_ABI_SEND, wr_id, {sge(*pair_.mr_a, 0, bytes)});
    pair_.a.end_send(*from_[i]);
  }
  void post(uint64_t wr_id, uint32_t bytes = 100) {
    srq_->post(wr_id, {sge(*pair_.mr_b, 0, bytes)});
  }
  mprdma_abi_cqe received() {
    mprdma_abi_cqe cqe{};
    EXPECT_TRUE(pair_.completion(pair_.b, *pair_.cq_b, &cqe));
    return cqe;
  }
  int modify(uint32_t mask, uint32_t limit, const mprdma_abi_queue& rq = {}) {
    return pair_.b.execute(MPRDMA_ABI_MODIFY_SRQ,
                           mprdma_abi_modify_srq{srq_->handle, mask, limit, 0, rq});
  }
  mprdma_abi_srq_info query() {
    mprdma_abi_srq_info info{};
    EXPECT_EQ(pair_.b.execute(MPRDMA_ABI_QUERY_SRQ, mprdma_abi_handle{srq_->handle, 0}, &info), 0);
    return info;
  }
  auto events(uint32_t type) {
    return std::ranges::count(pair_.b.events, type, &mprdma_abi_event::type);
  }

  HostPair pair_;
  std::unique_ptr<HostSrq> srq_;
  std::unique_ptr<HostQp> to_[2];
  std::unique_ptr<HostQp> from_[2];
};

TEST_F(SrqTest, QueuePairsTakeFromOneQueueInTheOrderOfTheirMessages) {
  for (uint64_t i = 0; i < 6; ++i) post(50 + i);
  for (uint64_t i = 0; i < 6; ++i) {
    send(i % 2, i);
    const mprdma_abi_cqe cqe = received();
    EXPECT_EQ(cqe.status, MPRDMA_ABI_WC_SUCCESS);
    EXPECT_EQ(cqe.wr_id, 50 + i);
    EXPECT_EQ(cqe.qpn, to_[i % 2]->qpn) << "the completion is the queue pair's";
    EXPECT_EQ(cqe.qp_cookie, reinterpret_cast<uint64_t>(to_[i % 2].get()));
  }
  EXPECT_EQ(srq_->left(), 0u);
}

TEST_F(SrqTest, EmptyQueueMakesTheSenderWaitAndAReceiveWithoutDoorbellLetsItIn) {
  send(0, 1);
  pair_.settle(200);
  EXPECT_GT(pair_.b.worker->transport_counters().rnr_sent, 0u);
  post(9);
  EXPECT_EQ(received().wr_id, 9u);
}

TEST_F(SrqTest, LimitIsOneEventAndThenDisarmed) {
  for (uint64_t i = 0; i < 5; ++i) post(i);
  ASSERT_EQ(modify(MPRDMA_ABI_SRQ_LIMIT, 4), 0);
  EXPECT_EQ(query().limit, 4u);
  send(0, 1);
  received();
  EXPECT_EQ(events(MPRDMA_ABI_EVENT_SRQ_LIMIT_REACHED), 0) << "four are left";
  send(0, 2);
  received();
  send(1, 3);
  received();
  ASSERT_EQ(events(MPRDMA_ABI_EVENT_SRQ_LIMIT_REACHED), 1);
  EXPECT_EQ(pair_.b.events.back().cookie, reinterpret_cast<uint64_t>(srq_.get()));
  EXPECT_EQ(query().limit, 0u);
  ASSERT_EQ(modify(MPRDMA_ABI_SRQ_LIMIT, 8), 0);
  EXPECT_EQ(events(MPRDMA_ABI_EVENT_SRQ_LIMIT_REACHED), 2) << "fewer are left already";
  EXPECT_EQ(modify(MPRDMA_ABI_SRQ_LIMIT, 9), EINVAL) << "more than the queue holds";
}

TEST_F(SrqTest, ReceivesMoveIntoAnotherRing) {
  for (uint64_t i = 0; i < 8; ++i) post(i);
  for (uint64_t i = 0; i < 3; ++i) {
    send(0, i);
    EXPECT_EQ(received().wr_id, i);
  }
  HostSrq small(4);
  EXPECT_EQ(modify(MPRDMA_ABI_SRQ_RING, 0, small.queue()), EINVAL) << "five wait";
  HostSrq large(16);
  ASSERT_EQ(modify(MPRDMA_ABI_SRQ_RING, 0, large.queue()), 0);
  EXPECT_EQ(query().depth, 16u);
  EXPECT_EQ(large.left(), 5u);
  for (auto& block : srq_->memory) std::memset(&block, 0xee, sizeof(block));
  large.post(8, {sge(*pair_.mr_b, 0, 100)});
  for (uint64_t i = 3; i < 9; ++i) {
    send(1, i);
    const mprdma_abi_cqe cqe = received();
    EXPECT_EQ(cqe.status, MPRDMA_ABI_WC_SUCCESS);
    EXPECT_EQ(cqe.wr_id, i);
  }
}

TEST_F(SrqTest, QueueInUseIsBusyAndItsDomainAsWell) {
  const mprdma_abi_handle handle{srq_->handle, 0};
  EXPECT_EQ(pair_.b.execute(MPRDMA_ABI_DESTROY_SRQ, handle), EBUSY);
  for (const auto& qp : to_) {
    EXPECT_EQ(pair_.b.execute(MPRDMA_ABI_DESTROY_QP, mprdma_abi_handle{qp->handle, 0}), 0);
  }
  EXPECT_EQ(pair_.b.execute(MPRDMA_ABI_DESTROY_SRQ, handle), 0);
  EXPECT_EQ(pair_.b.execute(MPRDMA_ABI_DESTROY_SRQ, handle), EINVAL);
  EXPECT_EQ(pair_.b.worker->srqs().in_use(), 0u);
}

TEST_F(SrqTest, WrongArgumentsAreEinval) {
  HostSrq memory(8);
  mprdma_abi_srq_out out{};
  const auto attempt = [&](auto&& change) {
    mprdma_abi_create_srq in = pair_.b.describe_srq(memory);
    change(in);
    return pair_.b.execute(MPRDMA_ABI_CREATE_SRQ, in, &out);
  };
  EXPECT_EQ(attempt([](auto& in) { in.type = 2; }), EINVAL);
  EXPECT_EQ(attempt([](auto& in) { in.pd = 999; }), EINVAL);
  EXPECT_EQ(attempt([](auto& in) { in.limit = 9; }), EINVAL);
  EXPECT_EQ(attempt([](auto& in) { in.rq.depth = 0; }), EINVAL);
  EXPECT_EQ(attempt([](auto& in) { in.rq.depth = 6; }), EINVAL);
  EXPECT_EQ(attempt([](auto& in) { in.rq.max_sge = 17; }), EINVAL);
  EXPECT_EQ(attempt([](auto& in) { in.rq.stride = 32; }), EINVAL);
  EXPECT_EQ(attempt([](auto& in) { in.type = MPRDMA_ABI_SRQ_XRC; }), EINVAL) << "no domain";
  HostQp qp;
  mprdma_abi_create_qp in = pair_.b.describe(qp, *pair_.cq_b);
  mprdma_abi_create_qp_out qp_out{};
  in.srq = srq_->handle;
  EXPECT_EQ(pair_.b.execute(MPRDMA_ABI_CREATE_QP, in, &qp_out), EINVAL) << "a queue of its own";
  in.rq = {};
  in.srq = 12345;
  EXPECT_EQ(pair_.b.execute(MPRDMA_ABI_CREATE_QP, in, &qp_out), EINVAL);
}

TEST_F(SrqTest, IndicesAndCountsWithoutSenseDoNoHarm) {
  post(1);
  mprdma_abi_recv_slot(srq_->memory.data(), 8, HostQp::kRecvStride, 0)->num_sge = 0xffffffff;
  send(0, 1);
  EXPECT_EQ(received().wr_id, 1u);
  mprdma_abi_store_release(&srq_->dbr.producer, 1000);
  send(0, 2);
  send(1, 2);
  pair_.settle();
  EXPECT_EQ(events(MPRDMA_ABI_EVENT_SRQ_ERR), 1);
  EXPECT_EQ(srq_->dbr.consumer, 1u);
}

}  // namespace
}  // namespace mprdma::dataplane
