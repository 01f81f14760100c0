// Behaviour that programs and suites written for adapters take for granted, over the real engine.
// Each case names the standard's clause, or the adapters and drivers that do the same.
#include <cerrno>
#include <functional>
#include <utility>

#include "tests/provider/real_fixture.hpp"

namespace mprdma::provider_test {
namespace {

class Semantics : public Real {
 protected:
  void SetUp() override {
    Real::SetUp();
    one_ = make(IBV_QPT_RC);
    other_ = make(IBV_QPT_RC);
    connect_two(one_, other_);
  }
  ibv_wc wait_for_one(ibv_cq* cq) {
    const std::vector<ibv_wc> wc = poll(cq, 1);
    EXPECT_GE(wc.size(), 1u);
    ibv_wc none{};
    none.status = IBV_WC_GENERAL_ERR;
    return wc.empty() ? none : wc[0];
  }
  ibv_send_wr bind_of(ibv_mw* mw, uint32_t rkey) {
    ibv_send_wr wr{};
    wr.opcode = IBV_WR_BIND_MW;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.bind_mw.mw = mw;
    wr.bind_mw.rkey = rkey;
    wr.bind_mw.bind_info = {mr_, start(), 4096, IBV_ACCESS_REMOTE_WRITE};
    return wr;
  }
  ibv_wc_status run(ibv_qp* qp, ibv_send_wr wr) {
    ibv_send_wr* bad = nullptr;
    EXPECT_EQ(ibv_post_send(qp, &wr, &bad), 0);
    return wait_for_one(cq_).status;
  }
  ibv_wc_status write_by(ibv_qp* qp, uint32_t rkey) {
    ibv_mr target = *mr_;
    target.rkey = rkey;
    EXPECT_EQ(post_send(qp, 1, IBV_WR_RDMA_WRITE, mr_, 64, &target), 0);
    return wait_for_one(cq_).status;
  }
  ibv_send_wr fetch_add(ibv_sge* sge, uint64_t addr, uint32_t rkey) const {
    ibv_send_wr wr{};
    wr.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.sg_list = sge;
    wr.num_sge = 1;
    wr.wr.atomic.remote_addr = addr;
    wr.wr.atomic.rkey = rkey;
    wr.wr.atomic.compare_add = 1;
    return wr;
  }
  // Connects a sender and a receiver, whose receives complete in `receives`.
  std::pair<ibv_qp*, ibv_qp*> make_receiving_into(ibv_cq* receives) {
    ibv_qp_init_attr attr = init_attr(cq_);
    attr.recv_cq = receives;
    ibv_qp* sender = make(IBV_QPT_RC);
    ibv_qp* receiver = ibv_create_qp(pd_, &attr);
    qps_.push_back(receiver);
    connect_two(sender, receiver);
    return {sender, receiver};
  }
  uint64_t start() const { return reinterpret_cast<uint64_t>(memory_); }

  ibv_qp* one_ = nullptr;
  ibv_qp* other_ = nullptr;
};

// IBTA 10.6.7.2.4: the consumer owns the low 8 bits of the key. irdma, mlx5 and rdma_rxe take these
// of whatever they are given, and mw->rkey is the new key from the post on (irdma).
TEST_F(Semantics, WindowOfTypeTwoTakesTheLowByteOfTheKeyItIsGiven) {
  ibv_mw* mw = ibv_alloc_mw(pd_, IBV_MW_TYPE_2);
  ASSERT_NE(mw, nullptr);
  const uint32_t before = mw->rkey;
  const uint32_t given = ~before << 8 | ((before + 7) & 0xff);  // no bit of the window's above it
  ASSERT_EQ(run(other_, bind_of(mw, given)), IBV_WC_SUCCESS);
  EXPECT_EQ(mw->rkey, (before & ~0xffu) | (given & 0xffu));
  EXPECT_EQ(write_by(one_, mw->rkey), IBV_WC_SUCCESS);
  EXPECT_EQ(ibv_dealloc_mw(mw), 0);
}

// IBTA 10.6.7.2 (o10-37.2.30): a window of type 2 has to be invalid before it is bound, by whatever
// queue pair and to whatever key.
TEST_F(Semantics, WindowOfTypeTwoThatIsBoundIsNotBoundAgain) {
  ibv_mw* mw = ibv_alloc_mw(pd_, IBV_MW_TYPE_2);
  ASSERT_EQ(run(other_, bind_of(mw, 1)), IBV_WC_SUCCESS);
  EXPECT_EQ(run(other_, bind_of(mw, 2)), IBV_WC_MW_BIND_ERR);
  ibv_qp* third = make(IBV_QPT_RC);
  ibv_qp* fourth = make(IBV_QPT_RC);
  connect_two(third, fourth);
  EXPECT_EQ(run(third, bind_of(mw, 3)), IBV_WC_MW_BIND_ERR);
  EXPECT_EQ(ibv_dealloc_mw(mw), 0);
}

// IBTA 10.6.5; 11.6.2 has a status of its own, which the verbs lack: mlx5 and irdma say this one.
TEST_F(Semantics, WindowOfAnotherQueuePairIsNotInvalidated) {
  ibv_mw* mw = ibv_alloc_mw(pd_, IBV_MW_TYPE_2);
  ASSERT_EQ(run(other_, bind_of(mw, 1)), IBV_WC_SUCCESS);
  ibv_send_wr wr{};
  wr.opcode = IBV_WR_LOCAL_INV;
  wr.send_flags = IBV_SEND_SIGNALED;
  wr.invalidate_rkey = mw->rkey;
  EXPECT_EQ(run(one_, wr), IBV_WC_MW_BIND_ERR);
  EXPECT_EQ(ibv_dealloc_mw(mw), 0);
}

// IBTA 9.9.3, class D: whoever knows the Q_Key must not be able to end a server's queue pair.
TEST_F(Semantics, DatagramThatDoesNotFitIsDroppedAndTheQueuePairLives) {
  ibv_qp* qp = make(IBV_QPT_UD);
  ASSERT_EQ(to_ud_rts(qp, 7), 0);
  ibv_ah* ah = make_ah();
  ASSERT_EQ(post_recv(qp, 1, mr_, 64), 0);  // 40 of them are the GRH's
  ASSERT_EQ(send_datagram(qp, ah, 7, mr_->lkey), 0);
  ibv_wc wc = wait_for_one(cq_);
  EXPECT_EQ(wc.opcode, IBV_WC_SEND);
  EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
  ASSERT_EQ(post_recv(qp, 2, mr_, 1024), 0);
  ibv_sge sge{start(), 24, mr_->lkey};
  ibv_send_wr wr{};
  wr.sg_list = &sge;
  wr.num_sge = 1;
  wr.opcode = IBV_WR_SEND;
  wr.wr.ud = {ah, qp->qp_num, 7};
  ibv_send_wr* bad = nullptr;
  ASSERT_EQ(ibv_post_send(qp, &wr, &bad), 0);
  wc = wait_for_one(cq_);
  EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
  EXPECT_EQ(wc.wr_id, 1u) << "the first receive was not used up";
  EXPECT_EQ(wc.byte_len, 64u);
  EXPECT_EQ(state_of(qp), IBV_QPS_RTS);
  EXPECT_EQ(ibv_destroy_ah(ah), 0);
}

// mlx5 reports the RoCE packet type in place of a service level: bit 3 UDP, then 1 IPv6, 2 IPv4.
// UCX finds out from it how much of the GRH to
// compare.
TEST_F(Semantics, ServiceLevelOfADatagramNamesItsIpVersion) {
  ibv_qp* qp = make(IBV_QPT_UD);
  ASSERT_EQ(to_ud_rts(qp, 7), 0);
  ibv_ah_attr link_local{};
  link_local.is_global = 1;
  link_local.port_num = 1;
  ASSERT_EQ(ibv_query_gid(context_, 1, 0, &link_local.grh.dgid), 0);
  ibv_ah* ipv6 = ibv_create_ah(pd_, &link_local);
  ibv_ah* ipv4 = make_ah();
  ASSERT_TRUE(ipv6 != nullptr && ipv4 != nullptr);
  for (const auto& [ah, sl] : {std::pair{ipv6, 9}, {ipv4, 10}}) {
    ASSERT_EQ(post_recv(qp, 1, mr_, 1024), 0);
    ASSERT_EQ(send_datagram(qp, ah, 7, mr_->lkey), 0);
    for (ibv_wc& wc : poll(cq_, 2)) {
      EXPECT_EQ(wc.sl, wc.opcode == IBV_WC_RECV ? sl : 0);
      if (wc.opcode != IBV_WC_RECV) continue;
      // udaddy and rdma-core's test of rdma_cm answer through such an address handle.
      ibv_ah* back = ibv_create_ah_from_wc(pd_, &wc, reinterpret_cast<ibv_grh*>(memory_), 1);
      ASSERT_NE(back, nullptr) << strerror(errno);
      EXPECT_EQ(ibv_destroy_ah(back), 0);
    }
  }
  EXPECT_EQ(ibv_destroy_ah(ipv6), 0);
  EXPECT_EQ(ibv_destroy_ah(ipv4), 0);
}

// IBTA 9.4.5, 9.7.4.1: the operation is validated before the R_Key; 10.10.2: the result is 8 bytes.
TEST_F(Semantics, AtomicsAreJudgedByAddressThenByKey) {
  auto* words = reinterpret_cast<uint64_t*>(memory_);
  words[8] = 2;
  ibv_sge sge{start(), 8, mr_->lkey};
  EXPECT_EQ(run(one_, fetch_add(&sge, start() + 65, 0xdead00)), IBV_WC_REM_INV_REQ_ERR);
  ibv_qp* third = make(IBV_QPT_RC);
  ibv_qp* fourth = make(IBV_QPT_RC);
  connect_two(third, fourth);
  EXPECT_EQ(run(third, fetch_add(&sge, start() + 64, 0xdead00)), IBV_WC_REM_ACCESS_ERR);
  ibv_qp* fifth = make(IBV_QPT_RC);
  ibv_qp* sixth = make(IBV_QPT_RC);
  connect_two(fifth, sixth);
  sge.length = 9;
  EXPECT_EQ(run(fifth, fetch_add(&sge, start() + 64, mr_->rkey)), IBV_WC_LOC_LEN_ERR);
  EXPECT_EQ(words[8], 2u);
}

// mlx5 and irdma complete the receive that the WRITE would have taken with an error of its own.
TEST_F(Semantics, RefusedWriteWithImmediateEndsTheReceiveThatItWouldHaveTaken) {
  ibv_cq* receives = make_cq();
  const auto [sender, receiver] = make_receiving_into(receives);
  ASSERT_EQ(post_recv(receiver, 3, mr_, 64), 0);
  ibv_mr target = *mr_;
  target.rkey = 0xdeadbeef;
  ASSERT_EQ(post_send(sender, 1, IBV_WR_RDMA_WRITE_WITH_IMM, mr_, 64, &target), 0);
  EXPECT_EQ(wait_for_one(cq_).status, IBV_WC_REM_ACCESS_ERR);
  const ibv_wc wc = wait_for_one(receives);
  EXPECT_EQ(wc.wr_id, 3u);
  EXPECT_EQ(wc.status, IBV_WC_LOC_ACCESS_ERR);
}

// IBTA 9.9.3, class J (mlx5, rdma_rxe): no NAK, so that the sender ends as with a silent peer.
TEST_F(Semantics, SendWithInvalidateOfAWrongKeyIsNotAnswered) {
  ibv_cq* receives = make_cq();
  const auto [sender, receiver] = make_receiving_into(receives);
  ASSERT_EQ(post_recv(receiver, 3, mr_, 64), 0);
  ibv_sge sge{start(), 64, mr_->lkey};
  ibv_send_wr wr{};
  wr.opcode = IBV_WR_SEND_WITH_INV;
  wr.sg_list = &sge;
  wr.num_sge = 1;
  wr.invalidate_rkey = 0xdeadbeef;
  ibv_send_wr* bad = nullptr;
  ASSERT_EQ(ibv_post_send(sender, &wr, &bad), 0);
  EXPECT_EQ(wait_for_one(receives).status, IBV_WC_REM_INV_REQ_ERR);
  EXPECT_EQ(state_of(receiver), IBV_QPS_ERR);
  EXPECT_EQ(wait_for_one(cq_).status, IBV_WC_RETRY_EXC_ERR);
}

// Kernel drivers leave the error number of their system call in errno, and suites check it.
TEST_F(Semantics, ErrorNumbersStandInErrnoToo) {
  ibv_port_attr port{};
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_INIT;
  ibv_modify_cq_attr moderation{};
  ibv_qp* fresh = make(IBV_QPT_RC);
  ibv_mw* mw = ibv_alloc_mw(pd_, IBV_MW_TYPE_2);
  ASSERT_EQ(run(other_, bind_of(mw, 1)), IBV_WC_SUCCESS);
  const struct {
    const char* what;
    int error;
    std::function<int()> call;
  } verbs[] = {
      {"ibv_dealloc_pd", EBUSY, [&] { return ibv_dealloc_pd(pd_); }},
      {"ibv_destroy_cq", EBUSY, [&] { return ibv_destroy_cq(cq_); }},
      {"ibv_dereg_mr", EBUSY, [&] { return ibv_dereg_mr(mr_); }},
      {"ibv_query_port", EINVAL, [&] { return ibv_query_port(context_, 2, &port); }},
      {"ibv_modify_qp", EINVAL, [&] { return ibv_modify_qp(one_, &attr, IBV_QP_STATE); }},
      {"ibv_resize_cq", EINVAL, [&] { return ibv_resize_cq(cq_, -1); }},
      {"ibv_modify_cq", EINVAL, [&] { return ibv_modify_cq(cq_, &moderation); }},
      {"ibv_post_send", EINVAL, [&] { return post_send(fresh, 1, IBV_WR_SEND, mr_, 8); }},
      {"ibv_post_recv", EINVAL, [&] { return post_recv(fresh, 1, mr_, 8); }},
  };
  for (const auto& verb : verbs) {
    errno = EXDEV;
    EXPECT_EQ(verb.call(), verb.error) << verb.what;
    EXPECT_EQ(errno, verb.error) << verb.what;
  }
  EXPECT_EQ(ibv_dealloc_mw(mw), 0);
}

// A kernel does not find a handle that names nothing, and leaves the object as it is.
TEST_F(Semantics, HandlesThatNameNothingAreEnoent) {
  ibv_srq* srq = make_srq();
  ibv_mw* mw = ibv_alloc_mw(pd_, IBV_MW_TYPE_1);
  ibv_ah* ah = make_ah();
  ibv_qp_attr attr{};
  ibv_qp_init_attr init = init_attr(cq_);
  const auto wrong = [](uint32_t* handle, const std::function<int()>& call) {
    *handle += 0x10000;
    const int error = call();
    *handle -= 0x10000;
    return error;
  };
  EXPECT_EQ(wrong(&pd_->handle, [&] { return ibv_dealloc_pd(pd_); }), ENOENT);
  EXPECT_EQ(wrong(&cq_->handle, [&] { return ibv_destroy_cq(cq_); }), ENOENT);
  EXPECT_EQ(wrong(&mr_->handle, [&] { return ibv_dereg_mr(mr_); }), ENOENT);
  EXPECT_EQ(wrong(&one_->handle, [&] { return ibv_destroy_qp(one_); }), ENOENT);
  EXPECT_EQ(wrong(&one_->handle, [&] { return ibv_query_qp(one_, &attr, 0, &init); }), ENOENT);
  EXPECT_EQ(wrong(&srq->handle, [&] { return ibv_destroy_srq(srq); }), ENOENT);
  EXPECT_EQ(wrong(&mw->handle, [&] { return ibv_dealloc_mw(mw); }), ENOENT);
  EXPECT_EQ(wrong(&ah->handle, [&] { return ibv_destroy_ah(ah); }), ENOENT);
  const auto create = [&] { return ibv_create_qp(pd_, &init) == nullptr ? errno : 0; };
  EXPECT_EQ(wrong(&pd_->handle, create), ENOENT);
  EXPECT_EQ(wrong(&cq_->handle, create), ENOENT);
  const auto null_mr = [&] { return ibv_alloc_null_mr(pd_) == nullptr ? errno : 0; };
  EXPECT_EQ(wrong(&pd_->handle, null_mr), ENOENT);
  ibv_ece ece{.vendor_id = 1, .options = 0, .comp_mask = 0};
  EXPECT_EQ(wrong(&one_->handle, [&] { return ibv_query_ece(one_, &ece); }), ENOENT);
  EXPECT_EQ(wrong(&one_->handle, [&] { return ibv_set_ece(one_, &ece); }), ENOENT);
  uint32_t number = 0;
  EXPECT_EQ(wrong(&srq->handle, [&] { return ibv_get_srq_num(srq, &number); }), ENOENT);
  EXPECT_EQ(ibv_dealloc_mw(mw), 0);
  EXPECT_EQ(ibv_destroy_ah(ah), 0);
}

// ibv_create_cq_ex(3): times of day of completions, in their order; adapters keep one offset.
TEST_F(Semantics, WallClockOfCompletionsGoesForward) {
  ibv_cq_init_attr_ex attr{};
  attr.cqe = 64;
  attr.wc_flags =
      IBV_WC_EX_WITH_COMPLETION_TIMESTAMP | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK;
  ibv_cq_ex* ex = ibv_create_cq_ex(context_, &attr);
  ASSERT_NE(ex, nullptr);
  ibv_qp_init_attr init = init_attr(ibv_cq_ex_to_cq(ex));
  ibv_qp* qp = ibv_create_qp(pd_, &init);
  ibv_qp* peer = make(IBV_QPT_RC);
  connect_two(qp, peer);
  std::vector<uint64_t> stamps;
  std::vector<uint64_t> times;
  for (int round = 0; round < 100; ++round) {
    for (uint64_t i = 0; i < 10; ++i) {
      ASSERT_EQ(post_send(qp, i, IBV_WR_RDMA_WRITE, mr_, 8, mr_), 0);
    }
    ibv_poll_cq_attr none{};
    ASSERT_TRUE(eventually([&] { return ibv_start_poll(ex, &none) == 0; }, kLimit));
    for (int i = 0; i < 10; ++i) {
      // A caller that polls again after ENOENT waits for the next entry, and misses none.
      if (i > 0) {
        ASSERT_TRUE(eventually([&] { return ibv_next_poll(ex) == 0; }, kLimit));
      }
      EXPECT_EQ(ex->wr_id, static_cast<uint64_t>(i));
      stamps.push_back(ibv_wc_read_completion_ts(ex));
      times.push_back(ibv_wc_read_completion_wallclock_ns(ex));
    }
    ibv_end_poll(ex);
    for (size_t i = 1; i < times.size(); ++i) {
      EXPECT_EQ(times[i] - times[0], stamps[i] - stamps[0]) << "one offset for a batch";
    }
    times.clear();
    stamps.clear();
  }
  EXPECT_EQ(ibv_destroy_qp(qp), 0);
  EXPECT_EQ(ibv_destroy_cq(ibv_cq_ex_to_cq(ex)), 0);
}

// The limits of ibv_query_device can be reached, and not exceeded.
TEST_F(Semantics, LimitsAreWhatCanBeMade) {
  ibv_device_attr limits{};
  ASSERT_EQ(ibv_query_device(context_, &limits), 0);
  const auto count = [](auto make_one, auto free_one, int have) {
    std::vector<decltype(make_one())> made;
    while (auto* one = make_one()) made.push_back(one);
    const int error = errno;
    for (auto* one : made) EXPECT_EQ(free_one(one), 0);
    EXPECT_EQ(error, ENOMEM);
    return static_cast<int>(made.size()) + have;
  };
  EXPECT_EQ(count([&] { return ibv_alloc_pd(context_); }, ibv_dealloc_pd, 1), limits.max_pd);
  EXPECT_EQ(count([&] { return make_ah(); }, ibv_destroy_ah, 0), limits.max_ah);
  // Windows share the table of regions, in which there is one region already.
  EXPECT_EQ(count([&] { return ibv_alloc_mw(pd_, IBV_MW_TYPE_1); }, ibv_dealloc_mw, 1),
            limits.max_mw);
  EXPECT_EQ(count([&] { return ibv_reg_mr(pd_, memory_, 64, 0); }, ibv_dereg_mr, 1), limits.max_mr);
}

}  // namespace
}  // namespace mprdma::provider_test
