// Verbs are thread safe: many threads on the same objects. Run under the thread sanitizer as well.
#include <atomic>
#include <thread>

#include "tests/provider/verbs_fixture.hpp"
#include "tests/support/eventually.hpp"

namespace mprdma::provider_test {
namespace {

class Threads : public Verbs {};

TEST_F(Threads, PostersAndPollersShareOneQueuePair) {
  constexpr uint64_t kPosters = 3;
  constexpr uint64_t kPerPoster = 3000;
  static char memory[64];
  ibv_cq* cq = make_cq(
      static_cast<int>(kPosters * kPerPoster));  // a slot of the send queue is free before its
  ibv_qp* qp = make_qp(cq);                      // completion is polled: the CQ must hold them all
  ibv_qp* other = make_qp(cq);
  establish(qp, other);
  ibv_mr* mr = reg(memory, sizeof(memory));
  std::vector<std::atomic<int>> seen(kPosters * kPerPoster);
  std::atomic<uint64_t> completed = 0;
  std::vector<std::thread> threads;
  for (uint64_t poster = 0; poster < kPosters; poster++) {
    threads.emplace_back([&, poster] {
      for (uint64_t i = 0; i < kPerPoster; i++) {
        // A full queue is the only error that may occur; the pollers make room.
        while (post_send(qp, poster * kPerPoster + i, IBV_WR_RDMA_WRITE, mr, 8, mr) != 0) {
          std::this_thread::yield();
        }
      }
    });
  }
  for (int poller = 0; poller < 2; poller++) {
    threads.emplace_back([&] {
      ibv_wc wc[4];
      while (completed < kPosters * kPerPoster) {
        const int count = ibv_poll_cq(cq, 4, wc);
        for (int i = 0; i < count; i++) {
          EXPECT_EQ(wc[i].status, IBV_WC_SUCCESS);
          seen[wc[i].wr_id]++;
          completed++;
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::atomic<int>& times : seen) ASSERT_EQ(times, 1);
}

TEST_F(Threads, EventsOfQueuesThatComeAndGoReachTheirOwners) {
  ibv_comp_channel* channel = ibv_create_comp_channel(context_);
  ASSERT_NE(channel, nullptr);
  static char memory[64];
  ibv_mr* mr = reg(memory, sizeof(memory));
  std::atomic<bool> stop = false;
  std::thread churn([&] {
    // Makes queues whose events nobody reads, on the channel that the other thread uses.
    while (!stop) {
      ibv_cq* cq = ibv_create_cq(context_, 4, nullptr, channel, 0);
      ibv_qp_init_attr attr = init_attr(cq);
      ibv_qp* qp = ibv_create_qp(pd_, &attr);
      establish_loop(qp);
      ibv_req_notify_cq(cq, 0);
      post_send(qp, 1, IBV_WR_RDMA_WRITE, mr, 8, mr);
      EXPECT_EQ(ibv_destroy_qp(qp), 0);
      EXPECT_EQ(ibv_destroy_cq(cq), 0);
    }
  });
  ibv_cq* cq = make_cq(64, channel);
  ibv_qp* qp = make_qp(cq);
  establish_loop(qp);
  constexpr int kRounds = 3000;
  int own = 0;
  for (int i = 0; i < kRounds; i++) {
    ASSERT_EQ(ibv_req_notify_cq(cq, 0), 0);
    ASSERT_EQ(post_send(qp, 1, IBV_WR_RDMA_WRITE, mr, 8, mr), 0);
    ibv_cq* from = nullptr;
    void* unused = nullptr;
    do {
      ASSERT_EQ(ibv_get_cq_event(channel, &from, &unused), 0);
      ibv_ack_cq_events(from, 1);
    } while (from != cq);
    own++;
    EXPECT_EQ(poll_all(cq).size(), 1u);
  }
  stop = true;
  churn.join();
  EXPECT_EQ(own, kRounds);
  EXPECT_EQ(destroy(qp), 0);
  EXPECT_EQ(destroy(cq), 0);
  EXPECT_EQ(ibv_destroy_comp_channel(channel), 0);
}

}  // namespace
}  // namespace mprdma::provider_test
