// XRC from one ring to the other: messages to shared queues, and the domain that holds them.
#include <algorithm>
#include <cerrno>

#include "tests/unit/dataplane/engine/engine_host.hpp"

namespace mprdma::dataplane {
namespace {

using testing::Bytes;
using testing::Host;
using testing::HostCq;
using testing::HostMr;
using testing::HostPair;
using testing::HostQp;
using testing::HostSrq;

mprdma_abi_sge sge(const HostMr& mr, uint32_t offset, uint32_t bytes) {
  return {mr.addr() + offset, bytes, mr.key};
}

// Host a sends to two shared queues of host b over one pair of queue pairs.
class Xrc : public ::testing::Test {
 protected:
  Xrc() {
    Host& b = pair_.b;
    xrcd_ = b.out_handle(MPRDMA_ABI_ALLOC_XRCD);
    for (size_t i = 0; i < 2; ++i) {
      cq_[i] = b.make_cq();
      srq_[i] = b.make_srq(16, xrcd_, cq_[i]->handle);
    }
    from_ = pair_.a.make_qp_with(*pair_.cq_a, [](mprdma_abi_create_qp& in) {
      in.type = MPRDMA_ABI_QP_XRC_SEND;
      in.recv_cq = 0;
      in.rq = {};
    });
    to_ = b.make_qp_with(*pair_.cq_b, [&](mprdma_abi_create_qp& in) {
      in.type = MPRDMA_ABI_QP_XRC_RECV;
      in.pd = in.send_cq = in.recv_cq = 0;
      in.sq = in.rq = {};
      in.xrcd = xrcd_;
    });
    pair_.a.connect(*from_, Host::ip(1), to_->qpn);
    b.connect(*to_, Host::ip(0), from_->qpn);
  }
  void send(uint64_t wr_id, uint32_t srqn, uint32_t bytes = 3000) {
    pair_.a.begin_send(*from_, MPRDMA_ABI_SEND, wr_id, {sge(*pair_.mr_a, 0, bytes)}).xrc_srqn =
        srqn;
    pair_.a.end_send(*from_);
  }
  void post(size_t i, uint64_t wr_id) {
    srq_[i]->post(wr_id, {sge(*pair_.mr_b, static_cast<uint32_t>(i) * 4096, 4096)});
  }
  mprdma_abi_cqe taken_from(HostCq& cq, Host& host) {
    mprdma_abi_cqe cqe{};
    EXPECT_TRUE(pair_.completion(host, cq, &cqe));
    return cqe;
  }
  int destroy_srq(size_t i) {
    return pair_.b.execute(MPRDMA_ABI_DESTROY_SRQ, mprdma_abi_handle{srq_[i]->handle, 0});
  }
  int destroy_qp() {
    return pair_.b.execute(MPRDMA_ABI_DESTROY_QP, mprdma_abi_handle{to_->handle, 0});
  }
  int free_xrcd() { return pair_.b.execute(MPRDMA_ABI_FREE_XRCD, mprdma_abi_handle{xrcd_, 0}); }

  HostPair pair_;
  uint32_t xrcd_ = 0;
  std::unique_ptr<HostCq> cq_[2];
  std::unique_ptr<HostSrq> srq_[2];
  std::unique_ptr<HostQp> from_, to_;
};

TEST_F(Xrc, MessageGoesToTheQueueThatItNamesAndCompletesThere) {
  for (uint64_t i = 0; i < 8; ++i) {
    const size_t which = i % 2;
    post(which, 100 + i);
    send(i, srq_[which]->number);
    const mprdma_abi_cqe cqe = taken_from(*cq_[which], pair_.b);
    EXPECT_EQ(cqe.status, MPRDMA_ABI_WC_SUCCESS);
    EXPECT_EQ(cqe.wr_id, 100 + i);
    EXPECT_EQ(cqe.byte_len, 3000u);
    EXPECT_EQ(cqe.qpn, to_->qpn);
    EXPECT_EQ(taken_from(*pair_.cq_a, pair_.a).status, MPRDMA_ABI_WC_SUCCESS);
  }
}

TEST_F(Xrc, ObjectsOfADomainKeepIt) {
  EXPECT_EQ(free_xrcd(), EBUSY);
  EXPECT_EQ(pair_.b.execute(MPRDMA_ABI_DESTROY_CQ, mprdma_abi_handle{cq_[0]->handle, 0}), EBUSY);
  EXPECT_EQ(destroy_srq(0), 0);
  EXPECT_EQ(destroy_srq(1), 0);
  EXPECT_EQ(free_xrcd(), EBUSY);
  EXPECT_EQ(destroy_qp(), 0);
  EXPECT_EQ(free_xrcd(), 0);
  EXPECT_EQ(pair_.b.execute(MPRDMA_ABI_DESTROY_CQ, mprdma_abi_handle{cq_[0]->handle, 0}), 0);
}

TEST_F(Xrc, QueueThatGoesWhileAMessageFillsItsReceiveDoesNoHarm) {
  // The last packets of the message are lost, so that it does not end.
  unsigned frames = 0;
  pair_.wire->on_frame = [&](int side, const Bytes&) { return side != 0 || ++frames < 3; };
  post(0, 1);
  send(1, srq_[0]->number, 4000);
  ASSERT_TRUE(pair_.run_until([&] { return srq_[0]->left() == 0; }));
  ASSERT_EQ(destroy_srq(0), 0);
  EXPECT_EQ(pair_.b.execute(MPRDMA_ABI_DESTROY_CQ, mprdma_abi_handle{cq_[0]->handle, 0}), 0);
  // From here on the application owns the memory again.
  std::ranges::fill(pair_.mr_b->bytes, 0xee);
  std::ranges::fill(srq_[0]->memory, HostQp::Block{});
  pair_.wire->on_frame = nullptr;
  EXPECT_EQ(taken_from(*pair_.cq_a, pair_.a).status, MPRDMA_ABI_WC_REM_INV_REQ_ERR);
  pair_.settle();
  EXPECT_EQ(pair_.b.query(*to_).state, uint32_t{MPRDMA_ABI_QPS_ERR});
  EXPECT_EQ(std::ranges::count(pair_.mr_b->bytes, 0xee), std::ssize(pair_.mr_b->bytes));
  EXPECT_EQ(pair_.b.worker->frames_borrowed(), 0u);
  EXPECT_EQ(destroy_qp(), 0);
  EXPECT_EQ(destroy_srq(1), 0);
  EXPECT_EQ(free_xrcd(), 0);
}

TEST_F(Xrc, NumberOfNoQueueIsRefused) {
  send(1, srq_[0]->number + 5);
  EXPECT_NE(taken_from(*pair_.cq_a, pair_.a).status, MPRDMA_ABI_WC_SUCCESS);
}

}  // namespace
}  // namespace mprdma::dataplane
