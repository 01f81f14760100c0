// What an application sees of every kind of queue pair over the real engine: states, events, errors
// and threads, through libibverbs.
#include <sys/wait.h>

#include <atomic>
#include <thread>

#include "tests/provider/real_fixture.hpp"

namespace mprdma::provider_test {
namespace {

TEST_F(Real, DatagramThatCannotBeSentStopsTheSenderOnly) {
  ibv_qp* qp = make(IBV_QPT_UD);
  ASSERT_EQ(to_ud_rts(qp, 7), 0);
  ibv_ah* ah = make_ah();
  ASSERT_NE(ah, nullptr);
  ASSERT_EQ(post_recv(qp, 1, mr_, 1024), 0);
  ASSERT_EQ(send_datagram(qp, ah, 7, 0xdead00), 0);
  std::vector<ibv_wc> wc = poll(cq_, 1);
  ASSERT_EQ(wc.size(), 1u);
  EXPECT_EQ(wc[0].status, IBV_WC_LOC_PROT_ERR);
  EXPECT_EQ(state_of(qp), IBV_QPS_SQE);
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_RTS;
  ASSERT_EQ(ibv_modify_qp(qp, &attr, IBV_QP_STATE), 0);
  ASSERT_EQ(send_datagram(qp, ah, 7, mr_->lkey), 0);
  wc = poll(cq_, 2);
  ASSERT_EQ(wc.size(), 2u);
  EXPECT_EQ(wc[0].status, IBV_WC_SUCCESS);
  EXPECT_EQ(wc[1].status, IBV_WC_SUCCESS);
  EXPECT_EQ(ibv_destroy_ah(ah), 0);
}

TEST_F(Real, DrainedSendQueueSaysSoAndGoesOn) {
  ibv_qp* one = make(IBV_QPT_RC);
  ibv_qp* other = make(IBV_QPT_RC);
  connect_two(one, other);
  ASSERT_EQ(post_send(one, 1, IBV_WR_RDMA_WRITE, mr_, 64, mr_), 0);
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_SQD;
  attr.en_sqd_async_notify = 1;
  ASSERT_EQ(ibv_modify_qp(one, &attr, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY), 0);
  EXPECT_EQ(poll(cq_, 1).size(), 1u);
  ibv_event_type event = IBV_EVENT_COMM_EST;
  while (event == IBV_EVENT_COMM_EST) event = next_event();
  EXPECT_EQ(event, IBV_EVENT_SQ_DRAINED);
  ASSERT_EQ(post_send(one, 2, IBV_WR_RDMA_WRITE, mr_, 64, mr_), 0);
  attr.qp_state = IBV_QPS_RTS;
  ASSERT_EQ(ibv_modify_qp(one, &attr, IBV_QP_STATE), 0);
  const std::vector<ibv_wc> wc = poll(cq_, 1);
  ASSERT_EQ(wc.size(), 1u);
  EXPECT_EQ(wc[0].wr_id, 2u);
}

TEST_F(Real, SharedQueueServesManyWarnsAndOutlivesThem) {
  ibv_srq* srq = make_srq(64);
  std::vector<ibv_qp*> senders;
  std::vector<ibv_qp*> receivers;
  for (int i = 0; i < 3; i++) {
    senders.push_back(make(IBV_QPT_RC));
    receivers.push_back(make(IBV_QPT_RC, srq));
    connect_two(senders.back(), receivers.back());
  }
  for (uint64_t i = 0; i < 9; i++) ASSERT_EQ(post_srq(srq, 100 + i, mr_, 64), 0);
  ibv_srq_attr attr{0, 0, 5};
  ASSERT_EQ(ibv_modify_srq(srq, &attr, IBV_SRQ_LIMIT), 0);
  for (int i = 0; i < 6; i++) {
    ASSERT_EQ(post_send(senders[static_cast<size_t>(i % 3)], 1, IBV_WR_SEND, mr_, 64), 0);
  }
  const std::vector<ibv_wc> wc = poll(cq_, 12);
  ASSERT_EQ(wc.size(), 12u);
  for (const ibv_wc& one : wc) EXPECT_EQ(one.status, IBV_WC_SUCCESS);
  ibv_event_type event = IBV_EVENT_COMM_EST;
  while (event == IBV_EVENT_COMM_EST) event = next_event();
  EXPECT_EQ(event, IBV_EVENT_SRQ_LIMIT_REACHED);
  ASSERT_EQ(to_state(receivers[0], IBV_QPS_ERR), 0);
  event = IBV_EVENT_COMM_EST;
  while (event == IBV_EVENT_COMM_EST) event = next_event();
  EXPECT_EQ(event, IBV_EVENT_QP_LAST_WQE_REACHED);
  ASSERT_EQ(destroy(receivers[0]), 0);
  ASSERT_EQ(post_send(senders[1], 1, IBV_WR_SEND, mr_, 64), 0);
  EXPECT_EQ(poll(cq_, 2).size(), 2u) << "the others go on";
}

TEST_F(Real, ManyThreadsCountTogether) {
  constexpr int kThreads = 4;
  constexpr int kEach = 200;
  auto* word = reinterpret_cast<uint64_t*>(memory_);
  std::atomic<int> done = 0;
  std::atomic<bool> good = true;
  cq_ = make_cq(kThreads * kEach);  // a completion may wait longer than its request's slot
  ibv_qp* one = make(IBV_QPT_RC);
  ibv_qp* other = make(IBV_QPT_RC);
  connect_two(one, other);
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; thread++) {
    threads.emplace_back([&] {
      for (int i = 0; i < kEach; i++) {
        ibv_sge sge{reinterpret_cast<uint64_t>(memory_ + 4096), 8, mr_->lkey};
        ibv_send_wr wr{};
        wr.sg_list = &sge;
        wr.num_sge = 1;
        wr.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
        wr.send_flags = IBV_SEND_SIGNALED;
        wr.wr.atomic.remote_addr = reinterpret_cast<uint64_t>(word);
        wr.wr.atomic.rkey = mr_->rkey;
        wr.wr.atomic.compare_add = 1;
        ibv_send_wr* bad = nullptr;
        const bool posted = eventually([&] { return ibv_post_send(one, &wr, &bad) == 0; }, kLimit);
        if (!posted) good = false;
      }
    });
  }
  for (int poller = 0; poller < 2; poller++) {
    threads.emplace_back([&] {
      ibv_wc wc[8];
      const auto end = std::chrono::steady_clock::now() + kLimit;
      while (done < kThreads * kEach && std::chrono::steady_clock::now() < end) {
        const int count = ibv_poll_cq(cq_, 8, wc);
        for (int i = 0; i < count; i++) good = good && wc[i].status == IBV_WC_SUCCESS;
        done += count;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(good);
  EXPECT_EQ(done, kThreads * kEach);
  EXPECT_EQ(*word, static_cast<uint64_t>(kThreads * kEach));
}

TEST_F(Real, BoundWindowKeepsItsRegionAndClosesWithIt) {
  ibv_qp* one = make(IBV_QPT_RC);
  ibv_qp* other = make(IBV_QPT_RC);
  connect_two(one, other);
  ibv_mw* mw = ibv_alloc_mw(pd_, IBV_MW_TYPE_1);
  ASSERT_NE(mw, nullptr);
  ibv_mw_bind bind{};
  bind.send_flags = IBV_SEND_SIGNALED;
  bind.bind_info = {mr_, reinterpret_cast<uint64_t>(memory_), 4096, IBV_ACCESS_REMOTE_WRITE};
  ASSERT_EQ(ibv_bind_mw(other, mw, &bind), 0);
  std::vector<ibv_wc> wc = poll(cq_, 1);
  ASSERT_EQ(wc.size(), 1u);
  EXPECT_EQ(wc[0].opcode, IBV_WC_BIND_MW);
  EXPECT_EQ(wc[0].status, IBV_WC_SUCCESS);
  EXPECT_EQ(ibv_dereg_mr(mr_), EBUSY);
  ibv_mr target = *mr_;
  target.rkey = mw->rkey;
  ASSERT_EQ(post_send(one, 1, IBV_WR_RDMA_WRITE, mr_, 64, &target), 0);
  wc = poll(cq_, 1);
  ASSERT_EQ(wc.size(), 1u);
  EXPECT_EQ(wc[0].status, IBV_WC_SUCCESS);
  ASSERT_EQ(ibv_dealloc_mw(mw), 0);
  ASSERT_EQ(post_send(one, 2, IBV_WR_RDMA_WRITE, mr_, 64, &target), 0);
  wc = poll(cq_, 1);
  ASSERT_GE(wc.size(), 1u);
  EXPECT_EQ(wc[0].status, IBV_WC_REM_ACCESS_ERR);
}

TEST_F(Real, ChildOfAForkHasADeviceOfItsOwn) {
  ibv_qp* one = make(IBV_QPT_RC);
  ibv_qp* other = make(IBV_QPT_RC);
  connect_two(one, other);
  const pid_t child = fork();
  if (child == 0) {
    const bool good = ibv_destroy_qp(one) == 0 && ibv_destroy_qp(other) == 0 &&
                      ibv_dereg_mr(mr_) == 0 && ibv_destroy_cq(cq_) == 0 &&
                      ibv_dealloc_pd(pd_) == 0 && ibv_close_device(context_) == 0;
    _exit(good ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  ASSERT_EQ(post_send(one, 1, IBV_WR_RDMA_WRITE, mr_, 64, mr_), 0);
  EXPECT_EQ(poll(cq_, 1).size(), 1u) << "the parent's are where they were";
}

}  // namespace
}  // namespace mprdma::provider_test
