// Completion channels and asynchronous events, up to the destruction of what they point at.
#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <thread>

#include "abi/mprdma_abi.h"
#include "tests/provider/verbs_fixture.hpp"
#include "tests/support/eventually.hpp"

namespace mprdma::provider_test {
namespace {

bool readable(int fd) {
  pollfd poll_fd{fd, POLLIN, 0};
  return poll(&poll_fd, 1, 0) == 1;
}

class Events : public Verbs {
 protected:
  void SetUp() override {
    Verbs::SetUp();
    channel_ = ibv_create_comp_channel(context_);
    ASSERT_NE(channel_, nullptr);
    cq_ = make_cq(64, channel_);
    plain_cq_ = make_cq();
    ASSERT_NE(plain_cq_, nullptr);
    one_ = make_qp(plain_cq_);
    other_ = make_qp(cq_);
    establish(one_, other_);
    mr_ = reg(memory_, sizeof(memory_));
  }
  void TearDown() override {
    while (!qps_.empty()) EXPECT_EQ(destroy(qps_.back()), 0);
    while (!cqs_.empty()) EXPECT_EQ(destroy(cqs_.back()), 0);
    EXPECT_EQ(ibv_destroy_comp_channel(channel_), 0);
    Verbs::TearDown();
  }
  // Sends one message whose completion goes to the CQ with the channel.
  void deliver(unsigned int flags = 0) {
    ASSERT_EQ(post_recv(other_, 1, mr_, 8), 0);
    ASSERT_EQ(post_send(one_, 2, IBV_WR_SEND, mr_, 8, nullptr, flags), 0);
  }
  // Returns the queue that the next event of the channel names; nullptr: there is no event.
  ibv_cq* take_event() {
    ibv_cq* from = nullptr;
    void* context = nullptr;
    if (!readable(channel_->fd)) return nullptr;
    EXPECT_EQ(ibv_get_cq_event(channel_, &from, &context), 0);
    return from;
  }

  char memory_[64] = {};
  ibv_comp_channel* channel_ = nullptr;
  ibv_cq* cq_ = nullptr;
  ibv_cq* plain_cq_ = nullptr;
  ibv_qp* one_ = nullptr;
  ibv_qp* other_ = nullptr;
  ibv_mr* mr_ = nullptr;
};

TEST_F(Events, ArmedQueueRaisesOneEvent) {
  deliver();
  EXPECT_FALSE(readable(channel_->fd)) << "not armed";
  ASSERT_EQ(ibv_req_notify_cq(cq_, 0), 0);
  deliver();
  deliver();
  ASSERT_EQ(take_event(), cq_);
  EXPECT_FALSE(readable(channel_->fd)) << "one event for each request";
  ibv_ack_cq_events(cq_, 1);
  EXPECT_EQ(poll_all(cq_).size(), 3u);
}

TEST_F(Events, AResizedQueueIsStillArmed) {
  ASSERT_EQ(ibv_req_notify_cq(cq_, 0), 0);
  ASSERT_EQ(ibv_resize_cq(cq_, 128), 0);
  deliver();
  ASSERT_EQ(take_event(), cq_);
  ibv_ack_cq_events(cq_, 1);
}

TEST_F(Events, SolicitedOnlyWaitsForASolicitedMessage) {
  ASSERT_EQ(ibv_req_notify_cq(cq_, 1), 0);
  deliver();
  EXPECT_FALSE(readable(channel_->fd));
  deliver(IBV_SEND_SOLICITED);
  EXPECT_TRUE(readable(channel_->fd));
}

// IBTA 11.4.2.2: "next completion" stays asked for until its event comes.
TEST_F(Events, SolicitedRequestTakesBackNoRequestForAnyCompletion) {
  ASSERT_EQ(ibv_req_notify_cq(cq_, 0), 0);
  ASSERT_EQ(ibv_req_notify_cq(cq_, 1), 0);
  deliver();
  ASSERT_EQ(take_event(), cq_);
  ibv_ack_cq_events(cq_, 1);
  ASSERT_EQ(ibv_req_notify_cq(cq_, 1), 0);
  deliver();
  EXPECT_FALSE(readable(channel_->fd)) << "the request for any was answered";
}

TEST_F(Events, RequestAtTheMomentOfAnEventOutlivesASolicitedOne) {
  static ibv_cq* cq = nullptr;
  cq = cq_;
  ASSERT_EQ(ibv_req_notify_cq(cq_, 0), 0);
  fake_engine_before_event([] { EXPECT_EQ(ibv_req_notify_cq(cq, 0), 0); });
  deliver();
  ASSERT_EQ(take_event(), cq_);
  ibv_ack_cq_events(cq_, 1);
  ASSERT_EQ(ibv_req_notify_cq(cq_, 1), 0);
  deliver();
  EXPECT_TRUE(readable(channel_->fd)) << "the second request for any still stood";
}

TEST_F(Events, UnreadEventsOfADestroyedQueueAreTakenBack) {
  ibv_cq* kept = make_cq(64, channel_);
  ibv_qp* qp = make_qp(kept);
  establish(one_, qp);
  ASSERT_EQ(ibv_req_notify_cq(kept, 0), 0);
  ASSERT_EQ(post_recv(qp, 1, mr_, 8), 0);
  ASSERT_EQ(post_send(one_, 2, IBV_WR_SEND, mr_, 8), 0);
  establish(one_, other_);
  ASSERT_EQ(ibv_req_notify_cq(cq_, 0), 0);
  deliver();
  ASSERT_TRUE(readable(channel_->fd));
  ASSERT_EQ(destroy(other_), 0);
  ASSERT_EQ(destroy(cq_), 0);  // its event was never read: nobody will acknowledge it
  ASSERT_EQ(take_event(), kept);
  EXPECT_FALSE(readable(channel_->fd));
  ibv_ack_cq_events(kept, 1);
}

TEST_F(Events, DestructionWaitsForTheAcknowledgement) {
  ASSERT_EQ(ibv_req_notify_cq(cq_, 0), 0);
  deliver();
  ASSERT_EQ(take_event(), cq_);
  ASSERT_EQ(destroy(other_), 0);
  std::erase(cqs_, cq_);
  std::atomic<bool> destroyed = false;
  std::thread destroyer([&] {
    ibv_destroy_cq(cq_);
    destroyed = true;
  });
  EXPECT_FALSE(eventually([&] { return destroyed.load(); }, std::chrono::milliseconds(50)));
  ibv_ack_cq_events(cq_, 1);
  EXPECT_TRUE(eventually([&] { return destroyed.load(); }));
  destroyer.join();
}

TEST_F(Events, MoreEventsThanThePipeHoldsAreKeptInOrder) {
  // More events than a pipe of 65536 bytes holds, at 8 bytes each.
  constexpr int kEvents = 9000;
  for (int i = 0; i < kEvents; i++) {
    ASSERT_EQ(ibv_req_notify_cq(cq_, 0), 0);
    deliver();
    ASSERT_EQ(poll_all(cq_).size(), 1u);
  }
  int received = 0;
  while (take_event() != nullptr) received++;
  EXPECT_EQ(received, kEvents);
  ibv_ack_cq_events(cq_, kEvents);
}

TEST_F(Events, ChannelInUseIsBusy) {
  EXPECT_EQ(ibv_destroy_comp_channel(channel_), EBUSY);
}

TEST_F(Events, ChannelCanBeMadeNonBlocking) {
  fcntl(channel_->fd, F_SETFL, fcntl(channel_->fd, F_GETFL) | O_NONBLOCK);
  ibv_cq* from = nullptr;
  void* context = nullptr;
  EXPECT_EQ(ibv_get_cq_event(channel_, &from, &context), -1);
  EXPECT_EQ(errno, EAGAIN);
}

TEST_F(Events, ChildOfVforkClosesItsOwnDescriptorsOnly) {
  // Forks as Python's subprocess does: the child shares our memory until it calls exec.
  // NOLINTBEGIN: what vfork allows and what programs do are not the same.
  const pid_t child = vfork();
  if (child == 0) {
    close(context_->cmd_fd);
    close(channel_->fd);
    _exit(0);
  }
  // NOLINTEND
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
  ibv_comp_channel* another = ibv_create_comp_channel(context_);
  ASSERT_NE(another, nullptr);
  ibv_cq* cq = ibv_create_cq(context_, 4, nullptr, another, 0);
  EXPECT_NE(cq, nullptr);
  EXPECT_EQ(ibv_destroy_cq(cq), 0);
  EXPECT_EQ(ibv_destroy_comp_channel(another), 0);
  make_cq(4, channel_);
}

TEST_F(Events, QueuePairEventsNameTheQueuePair) {
  ASSERT_TRUE(fake_engine_raise_qp(MPRDMA_ABI_EVENT_QP_ACCESS_ERR, one_->qp_num));
  ibv_async_event event;
  ASSERT_EQ(ibv_get_async_event(context_, &event), 0);
  EXPECT_EQ(event.event_type, IBV_EVENT_QP_ACCESS_ERR);
  EXPECT_EQ(event.element.qp, one_);
  ibv_ack_async_event(&event);
  EXPECT_EQ(destroy(one_), 0);
}

TEST_F(Events, UnreadQueuePairEventsAreTakenBackOthersStay) {
  ASSERT_TRUE(fake_engine_raise_qp(MPRDMA_ABI_EVENT_COMM_EST, one_->qp_num));
  ASSERT_TRUE(fake_engine_raise_qp(MPRDMA_ABI_EVENT_COMM_EST, other_->qp_num));
  fake_engine_raise_port(MPRDMA_ABI_EVENT_PORT_ERR);
  ASSERT_EQ(destroy(one_), 0);
  ibv_async_event event;
  ASSERT_EQ(ibv_get_async_event(context_, &event), 0);
  EXPECT_EQ(event.element.qp, other_);
  ibv_ack_async_event(&event);
  ASSERT_EQ(ibv_get_async_event(context_, &event), 0);
  EXPECT_EQ(event.event_type, IBV_EVENT_PORT_ERR);
  EXPECT_EQ(event.element.port_num, 1);
  EXPECT_FALSE(readable(context_->async_fd));
}

TEST_F(Events, OverrunOfACompletionQueueIsReported) {
  ibv_cq* small = make_cq(1);
  ibv_qp* qp = make_qp(small);
  establish(qp, one_);
  for (int i = 0; i < 2; i++) {
    ASSERT_EQ(post_send(qp, 1, IBV_WR_RDMA_WRITE, mr_, 8, mr_), 0);
  }
  ibv_async_event event;
  ASSERT_EQ(ibv_get_async_event(context_, &event), 0);
  EXPECT_EQ(event.event_type, IBV_EVENT_CQ_ERR);
  EXPECT_EQ(event.element.cq, small);
  ibv_ack_async_event(&event);
}

}  // namespace
}  // namespace mprdma::provider_test
