// Shared receive queues and XRC.
#include <fcntl.h>

#include <cstdlib>

#include "tests/provider/full_fixture.hpp"

namespace mprdma::provider_test {
namespace {

class Srq : public Full {
 protected:
  void SetUp() override {
    Full::SetUp();
    mr_ = reg(memory_, sizeof(memory_));
    srq_ = make_srq();
    ASSERT_NE(srq_, nullptr);
  }
  char memory_[256] = {};
  ibv_mr* mr_ = nullptr;
  ibv_srq* srq_ = nullptr;
};

TEST_F(Srq, WithoutTheFeatureNothingIsOffered) {
  ibv_device_attr_ex attr{};
  ASSERT_EQ(ibv_query_device_ex(context_, nullptr, &attr), 0);
  EXPECT_NE(attr.orig_attr.device_cap_flags & IBV_DEVICE_SRQ_RESIZE, 0u);
  EXPECT_GT(attr.orig_attr.max_srq, 0);
}

TEST_F(Srq, AnyQueuePairTakesTheNextReceive) {
  ibv_qp* one = make(IBV_QPT_RC, srq_);
  ibv_qp* other = make(IBV_QPT_RC, srq_);
  establish(one, other);
  ASSERT_EQ(post_srq(srq_, 10, mr_, 8), 0);
  ASSERT_EQ(post_srq(srq_, 11, mr_, 8), 0);
  ASSERT_EQ(post_send(one, 1, IBV_WR_SEND, mr_, 8, nullptr, 0), 0);
  ASSERT_EQ(post_send(other, 2, IBV_WR_SEND, mr_, 8, nullptr, 0), 0);
  const std::vector<ibv_wc> wc = poll_all(cq_);
  ASSERT_EQ(wc.size(), 2u);
  EXPECT_EQ(wc[0].wr_id, 10u);
  EXPECT_EQ(wc[0].qp_num, other->qp_num);
  EXPECT_EQ(wc[1].wr_id, 11u);
  EXPECT_EQ(wc[1].qp_num, one->qp_num);
}

TEST_F(Srq, PostingIsChecked) {
  EXPECT_EQ(post_srq(srq_, 1, mr_, 8, 3), EINVAL) << "max_sge is 2";
  for (int i = 0; i < 8; i++) ASSERT_EQ(post_srq(srq_, 1, mr_, 8), 0);
  EXPECT_EQ(post_srq(srq_, 1, mr_, 8), ENOMEM);
  ibv_qp* qp = make(IBV_QPT_RC, srq_);
  ASSERT_EQ(to_init(qp), 0);
  EXPECT_EQ(post_recv(qp, 1, mr_, 8), EINVAL) << "it has no receive queue of its own";
}

TEST_F(Srq, LimitIsReachedOnce) {
  ibv_qp* one = make(IBV_QPT_RC, srq_);
  ibv_qp* other = make(IBV_QPT_RC);
  establish(one, other);
  for (int i = 0; i < 4; i++) ASSERT_EQ(post_srq(srq_, 1, mr_, 8), 0);
  ibv_srq_attr attr{0, 0, 3};
  ASSERT_EQ(ibv_modify_srq(srq_, &attr, IBV_SRQ_LIMIT), 0);
  ASSERT_EQ(ibv_query_srq(srq_, &attr), 0);
  EXPECT_EQ(attr.srq_limit, 3u);
  EXPECT_EQ(attr.max_wr, 8u);
  ASSERT_EQ(post_send(other, 1, IBV_WR_SEND, mr_, 8, nullptr, 0), 0);
  ASSERT_EQ(post_send(other, 2, IBV_WR_SEND, mr_, 8, nullptr, 0), 0);
  void* element = nullptr;
  EXPECT_EQ(next_event(&element), IBV_EVENT_SRQ_LIMIT_REACHED);
  EXPECT_EQ(element, srq_);
  ASSERT_EQ(ibv_query_srq(srq_, &attr), 0);
  EXPECT_EQ(attr.srq_limit, 0u) << "disarmed";
  attr.srq_limit = 9;
  EXPECT_EQ(ibv_modify_srq(srq_, &attr, IBV_SRQ_LIMIT), EINVAL);
}

TEST_F(Srq, ResizedQueueKeepsItsReceives) {
  ibv_qp* one = make(IBV_QPT_RC, srq_);
  ibv_qp* other = make(IBV_QPT_RC);
  establish(one, other);
  for (uint64_t i = 0; i < 8; i++) ASSERT_EQ(post_srq(srq_, i, mr_, 8), 0);
  for (int i = 0; i < 3; i++) {
    ASSERT_EQ(post_send(other, 99, IBV_WR_SEND, mr_, 8, nullptr, 0), 0);
  }
  ibv_srq_attr attr{2, 0, 0};
  EXPECT_EQ(ibv_modify_srq(srq_, &attr, IBV_SRQ_MAX_WR), EINVAL) << "5 are posted";
  attr.max_wr = 100;
  ASSERT_EQ(ibv_modify_srq(srq_, &attr, IBV_SRQ_MAX_WR), 0);
  ASSERT_EQ(ibv_query_srq(srq_, &attr), 0);
  EXPECT_GE(attr.max_wr, 100u);
  for (uint64_t i = 8; i < 100; i++) ASSERT_EQ(post_srq(srq_, i, mr_, 8), 0);
  std::vector<ibv_wc> wc = poll_all(cq_);
  ASSERT_EQ(wc.size(), 3u);
  for (uint64_t i = 3; i < 50; i++) {
    ASSERT_EQ(post_send(other, 99, IBV_WR_SEND, mr_, 8, nullptr, 0), 0);
    wc = poll_all(cq_);
    ASSERT_EQ(wc.size(), 1u);
    EXPECT_EQ(wc[0].wr_id, i);
  }
}

TEST_F(Srq, InErrorTheQueuePairSaysThatItTakesNoMore) {
  ibv_qp* qp = make(IBV_QPT_RC, srq_);
  ASSERT_EQ(post_srq(srq_, 1, mr_, 8), 0);
  ASSERT_EQ(to_init(qp), 0);
  ASSERT_EQ(to_state(qp, IBV_QPS_ERR), 0);
  EXPECT_TRUE(poll_all(cq_).empty()) << "what is shared is not flushed";
  EXPECT_EQ(next_event(), IBV_EVENT_QP_LAST_WQE_REACHED);
}

TEST_F(Srq, InUseItIsBusyAndItsUnreadEventsGoWithIt) {
  ibv_qp* qp = make(IBV_QPT_RC, srq_);
  EXPECT_EQ(ibv_destroy_srq(srq_), EBUSY);
  ASSERT_EQ(destroy(qp), 0);
  ibv_srq_attr attr{0, 0, 1};
  ASSERT_EQ(ibv_modify_srq(srq_, &attr, IBV_SRQ_LIMIT), 0);  // below it at once: an event
  srqs_.clear();
  ASSERT_EQ(ibv_destroy_srq(srq_), 0);
  fake_engine_raise_port(MPRDMA_ABI_EVENT_PORT_ERR);
  EXPECT_EQ(next_event(), IBV_EVENT_PORT_ERR) << "the first one is gone";
}

// ---- XRC ----

class Xrc : public Srq {
 protected:
  void SetUp() override {
    Srq::SetUp();
    char name[] = "/tmp/mprdma-xrc-XXXXXX";
    fd_ = mkstemp(name);
    ASSERT_GE(fd_, 0);
    unlink(name);
    xrcd_ = open(fd_, O_CREAT);
    ASSERT_NE(xrcd_, nullptr);
  }
  void TearDown() override {
    while (!qps_.empty()) EXPECT_EQ(destroy(qps_.back()), 0);
    for (ibv_srq* srq : srqs_) EXPECT_EQ(ibv_destroy_srq(srq), 0);
    srqs_.clear();
    EXPECT_EQ(ibv_close_xrcd(xrcd_), 0);
    close(fd_);
    Srq::TearDown();
  }
  ibv_xrcd* open(int fd, int flags) {
    ibv_xrcd_init_attr attr{};
    attr.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
    attr.fd = fd;
    attr.oflags = flags;
    return ibv_open_xrcd(context_, &attr);
  }
  ibv_srq* make_xrc_srq() {
    ibv_srq_init_attr_ex attr{};
    attr.attr = {8, 2, 0};
    attr.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_XRCD |
                     IBV_SRQ_INIT_ATTR_CQ;
    attr.srq_type = IBV_SRQT_XRC;
    attr.pd = pd_;
    attr.xrcd = xrcd_;
    attr.cq = cq_;
    ibv_srq* srq = ibv_create_srq_ex(context_, &attr);
    if (srq != nullptr) srqs_.push_back(srq);
    return srq;
  }
  ibv_qp* make_recv() {
    ibv_qp_init_attr_ex attr{};
    attr.qp_type = IBV_QPT_XRC_RECV;
    attr.comp_mask = IBV_QP_INIT_ATTR_XRCD;
    attr.xrcd = xrcd_;
    ibv_qp* qp = ibv_create_qp_ex(context_, &attr);
    if (qp != nullptr) qps_.push_back(qp);
    return qp;
  }
  ibv_qp* open_again(uint32_t qpn, ibv_xrcd* xrcd) {
    ibv_qp_open_attr attr{};
    attr.comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE;
    attr.qp_num = qpn;
    attr.xrcd = xrcd;
    attr.qp_type = IBV_QPT_XRC_RECV;
    ibv_qp* qp = ibv_open_qp(context_, &attr);
    if (qp != nullptr) qps_.push_back(qp);
    return qp;
  }
  int fd_ = -1;
  ibv_xrcd* xrcd_ = nullptr;
};

TEST_F(Xrc, OneFileIsOneDomain) {
  EXPECT_EQ(open(fd_, O_CREAT | O_EXCL), nullptr);
  EXPECT_EQ(errno, EINVAL);
  ibv_xrcd* again = open(fd_, 0);
  ASSERT_NE(again, nullptr);
  EXPECT_EQ(ibv_close_xrcd(again), 0);
  const int other = memfd_create("other", 0);
  EXPECT_EQ(open(other, 0), nullptr) << "nobody made it";
  EXPECT_EQ(errno, EAGAIN);
  EXPECT_EQ(open(1000, O_CREAT), nullptr);
  EXPECT_EQ(errno, EBADF);
  close(other);
}

TEST_F(Xrc, MessageGoesToTheQueueThatItNames) {
  ibv_srq* srq = make_xrc_srq();
  ASSERT_NE(srq, nullptr);
  uint32_t srqn = 0;
  ASSERT_EQ(ibv_get_srq_num(srq, &srqn), 0);
  EXPECT_EQ(ibv_get_srq_num(srq_, &srqn), EINVAL) << "a plain one has no number";
  ASSERT_EQ(ibv_get_srq_num(srq, &srqn), 0);
  ibv_qp* receiver = make_recv();
  ASSERT_NE(receiver, nullptr);
  ibv_qp* sender = make(IBV_QPT_XRC_SEND);
  ASSERT_NE(sender, nullptr);
  ASSERT_EQ(to_init(sender), 0);
  ibv_qp_attr attr = rtr_attr(receiver->qp_num);
  const int sender_mask = kRtrMask & ~(IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
  EXPECT_EQ(ibv_modify_qp(sender, &attr, sender_mask & ~IBV_QP_AV), EINVAL);
  ASSERT_EQ(ibv_modify_qp(sender, &attr, sender_mask), 0);
  ASSERT_EQ(to_rts(sender), 0);
  ASSERT_EQ(to_init(receiver), 0);
  ASSERT_EQ(to_rtr(receiver, sender->qp_num), 0);
  attr.qp_state = IBV_QPS_RTS;
  EXPECT_EQ(ibv_modify_qp(receiver, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN), EINVAL);
  EXPECT_EQ(ibv_modify_qp(receiver, &attr, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_SQ_PSN), 0);

  ASSERT_EQ(post_srq(srq, 5, mr_, 8), 0);
  ibv_sge sge{reinterpret_cast<uint64_t>(memory_), 8, mr_->lkey};
  ibv_send_wr wr{};
  wr.sg_list = &sge;
  wr.num_sge = 1;
  wr.opcode = IBV_WR_SEND;
  wr.qp_type.xrc.remote_srqn = srqn;
  ibv_send_wr* bad = nullptr;
  ASSERT_EQ(ibv_post_send(sender, &wr, &bad), 0);
  const std::vector<ibv_wc> wc = poll_all(cq_);
  ASSERT_EQ(wc.size(), 1u);
  EXPECT_EQ(wc[0].wr_id, 5u);
  EXPECT_EQ(wc[0].qp_num, receiver->qp_num);
  EXPECT_EQ(post_recv(sender, 1, mr_, 8), EINVAL);
  EXPECT_EQ(ibv_post_send(receiver, &wr, &bad), EINVAL);
}

// As perftest does it.
TEST_F(Xrc, AttributesOfAReliableConnectionAreTaken) {
  ibv_qp* receiver = make_recv();
  ibv_qp* sender = make(IBV_QPT_XRC_SEND);
  ASSERT_EQ(to_init(sender), 0);
  ASSERT_EQ(to_rtr(sender, receiver->qp_num), 0);
  ASSERT_EQ(to_rts(sender), 0);
  ASSERT_EQ(to_init(receiver), 0);
  ASSERT_EQ(to_rtr(receiver, sender->qp_num), 0);
  ASSERT_EQ(to_rts(receiver), 0);
}

TEST_F(Xrc, OpenedAgainItIsTheSameQueuePair) {
  ibv_qp* first = make_recv();
  ibv_xrcd* other_open = open(fd_, 0);
  ibv_qp* second = open_again(first->qp_num, other_open);
  ASSERT_NE(second, nullptr);
  EXPECT_EQ(second->qp_num, first->qp_num);
  ASSERT_EQ(to_init(second), 0);
  ibv_qp_attr attr;
  ibv_qp_init_attr init;
  ASSERT_EQ(ibv_query_qp(first, &attr, IBV_QP_STATE, &init), 0);
  EXPECT_EQ(attr.qp_state, IBV_QPS_INIT);
  EXPECT_EQ(attr.port_num, 1);
  ASSERT_TRUE(fake_engine_raise_qp(MPRDMA_ABI_EVENT_COMM_EST, first->qp_num));
  void* one = nullptr;
  void* other = nullptr;
  EXPECT_EQ(next_event(&one), IBV_EVENT_COMM_EST);
  EXPECT_EQ(next_event(&other), IBV_EVENT_COMM_EST);
  EXPECT_NE(one, other) << "each handle is told";
  EXPECT_EQ(ibv_close_xrcd(other_open), EBUSY);
  ASSERT_EQ(destroy(first), 0);
  EXPECT_EQ(ibv_query_qp(second, &attr, IBV_QP_STATE, &init), 0) << "the other still has it";
  const uint32_t qpn = second->qp_num;
  ASSERT_EQ(destroy(second), 0);
  EXPECT_EQ(ibv_close_xrcd(other_open), 0);
  EXPECT_EQ(open_again(qpn, xrcd_), nullptr);
  EXPECT_EQ(errno, EINVAL);
}

// ibv_open_xrcd(3): a domain lives as long as somebody has it open.
TEST_F(Xrc, DomainOutlivesTheContextThatMadeIt) {
  ibv_device** list = ibv_get_device_list(nullptr);
  ibv_context* maker = ibv_open_device(list[0]);
  ibv_free_device_list(list);
  const int file = memfd_create("shared", 0);
  ibv_xrcd_init_attr attr{};
  attr.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
  attr.fd = file;
  attr.oflags = O_CREAT;
  ibv_xrcd* made = ibv_open_xrcd(maker, &attr);
  ASSERT_NE(made, nullptr);
  ibv_xrcd* own = xrcd_;
  xrcd_ = open(file, 0);
  ASSERT_NE(xrcd_, nullptr);
  EXPECT_EQ(ibv_close_xrcd(made), 0);
  EXPECT_EQ(ibv_close_device(maker), 0);
  ibv_qp* receiver = make_recv();
  ASSERT_NE(receiver, nullptr);
  ASSERT_NE(make_xrc_srq(), nullptr);
  EXPECT_EQ(ibv_close_xrcd(xrcd_), EBUSY);
  EXPECT_EQ(destroy(receiver), 0);
  EXPECT_EQ(ibv_destroy_srq(srqs_.back()), 0);
  srqs_.pop_back();
  const uint32_t before = fake_engine_objects();
  EXPECT_EQ(ibv_close_xrcd(xrcd_), 0);
  EXPECT_EQ(fake_engine_objects(), before - 1);
  xrcd_ = own;
  close(file);
}

TEST_F(Xrc, DomainInUseIsBusy) {
  make_recv();
  make_xrc_srq();
  EXPECT_EQ(ibv_close_xrcd(xrcd_), EBUSY);
}

}  // namespace
}  // namespace mprdma::provider_test
