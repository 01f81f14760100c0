// Posting and polling over the rings of the queue ABI.
#include <cerrno>

#include "tests/provider/verbs_fixture.hpp"

namespace mprdma::provider_test {
namespace {

class Data : public Verbs {
 protected:
  void SetUp() override {
    Verbs::SetUp();
    cq_ = make_cq();
    one_ = make_qp(cq_);
    other_ = make_qp(cq_);
    ASSERT_NE(other_, nullptr);
    establish(one_, other_);
    local_ = reg(local_memory_, sizeof(local_memory_));
    remote_ = reg(remote_memory_, sizeof(remote_memory_));
    for (size_t i = 0; i < sizeof(local_memory_); i++) local_memory_[i] = static_cast<char>(i * 7);
  }
  bool arrived(size_t bytes) const {
    return std::memcmp(local_memory_, remote_memory_, bytes) == 0;
  }

  char local_memory_[4096];
  char remote_memory_[4096] = {};
  ibv_cq* cq_ = nullptr;
  ibv_qp* one_ = nullptr;
  ibv_qp* other_ = nullptr;
  ibv_mr* local_ = nullptr;
  ibv_mr* remote_ = nullptr;
};

TEST_F(Data, WriteReadSend) {
  ASSERT_EQ(post_send(one_, 1, IBV_WR_RDMA_WRITE, local_, 1000, remote_), 0);
  std::vector<ibv_wc> wc = poll_all(cq_);
  ASSERT_EQ(wc.size(), 1u);
  EXPECT_EQ(wc[0].opcode, IBV_WC_RDMA_WRITE);
  EXPECT_EQ(wc[0].qp_num, one_->qp_num);
  EXPECT_TRUE(arrived(1000));

  std::memset(local_memory_, 0, 1000);
  ASSERT_EQ(post_send(one_, 2, IBV_WR_RDMA_READ, local_, 1000, remote_), 0);
  wc = poll_all(cq_);
  ASSERT_EQ(wc.size(), 1u);
  EXPECT_EQ(wc[0].opcode, IBV_WC_RDMA_READ);
  EXPECT_TRUE(arrived(1000));

  ASSERT_EQ(post_recv(other_, 3, remote_, 4096), 0);
  ASSERT_EQ(post_send(one_, 4, IBV_WR_SEND_WITH_IMM, local_, 2000), 0);
  wc = poll_all(cq_);
  ASSERT_EQ(wc.size(), 2u);
  EXPECT_EQ(wc[0].opcode, IBV_WC_RECV);
  EXPECT_EQ(wc[0].wr_id, 3u);
  EXPECT_EQ(wc[0].byte_len, 2000u);
  EXPECT_EQ(wc[0].imm_data, 0x01020304u);
  EXPECT_EQ(wc[0].wc_flags, static_cast<unsigned>(IBV_WC_WITH_IMM));
  EXPECT_EQ(wc[1].wr_id, 4u);
}

TEST_F(Data, UnsignalledRequestsMakeNoCompletion) {
  ASSERT_EQ(post_send(one_, 1, IBV_WR_RDMA_WRITE, local_, 100, remote_, 0), 0);
  EXPECT_TRUE(poll_all(cq_).empty());
  EXPECT_TRUE(arrived(100));
}

TEST_F(Data, InlineDataIsCopiedWhenPosted) {
  fake_engine_hold(true);
  ASSERT_EQ(post_send(one_, 1, IBV_WR_RDMA_WRITE, local_, 64, remote_,
                      IBV_SEND_INLINE | IBV_SEND_SIGNALED),
            0);
  char before[64];
  std::memcpy(before, local_memory_, 64);
  std::memset(local_memory_, 0xee, 64);
  fake_engine_hold(false);
  EXPECT_EQ(poll_all(cq_).size(), 1u);
  EXPECT_EQ(std::memcmp(before, remote_memory_, 64), 0);
  EXPECT_EQ(post_send(one_, 2, IBV_WR_RDMA_WRITE, local_, 65, remote_, IBV_SEND_INLINE), EINVAL);
  EXPECT_EQ(post_send(one_, 2, IBV_WR_RDMA_READ, local_, 8, remote_, IBV_SEND_INLINE), EINVAL);
}

TEST_F(Data, InlinePiecesHaveToFitTogether) {
  ibv_sge sge[2]{};
  for (ibv_sge& piece : sge) piece = {reinterpret_cast<uint64_t>(local_memory_), 32, 0};
  ibv_send_wr wr{};
  wr.sg_list = sge;
  wr.num_sge = 2;
  wr.opcode = IBV_WR_RDMA_WRITE;
  wr.send_flags = IBV_SEND_INLINE;
  wr.wr.rdma.remote_addr = reinterpret_cast<uint64_t>(remote_->addr);
  wr.wr.rdma.rkey = remote_->rkey;
  ibv_send_wr* bad = nullptr;
  EXPECT_EQ(ibv_post_send(one_, &wr, &bad), 0);
  sge[1].length = 33;
  EXPECT_EQ(ibv_post_send(one_, &wr, &bad), EINVAL);
}

TEST_F(Data, AMessageIsNotLongerThanThePortSays) {
  ibv_port_attr port{};
  ASSERT_EQ(ibv_query_port(context_, 1, &port), 0);
  ASSERT_EQ(to_state(one_, IBV_QPS_ERR), 0);  // requests are taken, and nothing is read
  ibv_sge sge[2] = {{0, port.max_msg_sz, local_->lkey}, {0, 1, local_->lkey}};
  ibv_send_wr wr{};
  wr.sg_list = sge;
  wr.num_sge = 2;
  wr.opcode = IBV_WR_SEND;
  ibv_send_wr* bad = nullptr;
  EXPECT_EQ(ibv_post_send(one_, &wr, &bad), EINVAL);
}

TEST_F(Data, FullSendQueueIsEnomemAndNamesTheRequest) {
  fake_engine_hold(true);
  std::vector<ibv_send_wr> list(20);
  for (size_t i = 0; i < list.size(); i++) {
    list[i].wr_id = i;
    list[i].opcode = IBV_WR_RDMA_WRITE;
    list[i].wr.rdma.remote_addr = reinterpret_cast<uint64_t>(remote_->addr);
    list[i].wr.rdma.rkey = remote_->rkey;
    list[i].send_flags = IBV_SEND_SIGNALED;
    list[i].next = i + 1 < list.size() ? &list[i + 1] : nullptr;
  }
  ibv_send_wr* bad = nullptr;
  EXPECT_EQ(ibv_post_send(one_, list.data(), &bad), ENOMEM);
  EXPECT_EQ(bad, &list[16]);
  fake_engine_hold(false);
  const std::vector<ibv_wc> wc = poll_all(cq_);
  ASSERT_EQ(wc.size(), 16u);
  EXPECT_EQ(wc[15].wr_id, 15u);
  EXPECT_EQ(ibv_post_send(one_, bad, &bad), 0);
  EXPECT_EQ(poll_all(cq_).size(), 4u);
}

TEST_F(Data, FullReceiveQueueIsEnomem) {
  for (int i = 0; i < 16; i++) ASSERT_EQ(post_recv(one_, 1, local_, 8), 0);
  EXPECT_EQ(post_recv(one_, 1, local_, 8), ENOMEM);
}

TEST_F(Data, PostingNeedsTheRightState) {
  ibv_qp* fresh = make_qp(cq_);
  EXPECT_EQ(post_recv(fresh, 1, local_, 8), EINVAL);
  EXPECT_EQ(post_send(fresh, 1, IBV_WR_SEND, local_, 8), EINVAL);
  ASSERT_EQ(to_init(fresh), 0);
  EXPECT_EQ(post_recv(fresh, 1, local_, 8), 0);
  EXPECT_EQ(post_send(fresh, 1, IBV_WR_SEND, local_, 8), EINVAL);
  ASSERT_EQ(to_rtr(fresh, fresh->qp_num), 0);
  EXPECT_EQ(post_send(fresh, 1, IBV_WR_SEND, local_, 8), EINVAL);
}

TEST_F(Data, TooManySegmentsAndUnknownOpcodesAreRefused) {
  ibv_sge sge[3]{};
  ibv_send_wr wr{};
  wr.sg_list = sge;
  wr.num_sge = 3;
  wr.opcode = IBV_WR_SEND;
  ibv_send_wr* bad = nullptr;
  EXPECT_EQ(ibv_post_send(one_, &wr, &bad), EINVAL);
  EXPECT_EQ(bad, &wr);
  wr.num_sge = 1;
  wr.opcode = IBV_WR_LOCAL_INV;
  EXPECT_EQ(ibv_post_send(one_, &wr, &bad), EOPNOTSUPP);
}

TEST_F(Data, RingsWrapAround) {
  for (uint64_t i = 0; i < 1000; i++) {
    ASSERT_EQ(post_send(one_, i, IBV_WR_RDMA_WRITE, local_, 8, remote_), 0);
    const std::vector<ibv_wc> wc = poll_all(cq_);
    ASSERT_EQ(wc.size(), 1u);
    ASSERT_EQ(wc[0].wr_id, i);
  }
}

TEST_F(Data, AfterAnErrorEverythingIsFlushedIncludingLaterReceives) {
  ibv_mr bogus = *remote_;
  bogus.rkey = 0xdead;
  ASSERT_EQ(post_recv(one_, 7, local_, 8), 0);
  ASSERT_EQ(post_send(one_, 8, IBV_WR_RDMA_WRITE, local_, 8, &bogus), 0);
  std::vector<ibv_wc> wc = poll_all(cq_);
  ASSERT_EQ(wc.size(), 2u);
  EXPECT_EQ(wc[0].status, IBV_WC_REM_ACCESS_ERR);
  EXPECT_EQ(wc[1].status, IBV_WC_WR_FLUSH_ERR);
  // The completions tell the provider that it has to ring for these requests.
  ASSERT_EQ(post_recv(one_, 9, local_, 8), 0);
  ASSERT_EQ(post_send(one_, 10, IBV_WR_SEND, local_, 8), 0);
  wc = poll_all(cq_);
  ASSERT_EQ(wc.size(), 2u);
  EXPECT_EQ(wc[0].status, IBV_WC_WR_FLUSH_ERR);
  EXPECT_EQ(wc[1].status, IBV_WC_WR_FLUSH_ERR);
}

TEST_F(Data, DestroyedQueuePairLeavesNoCompletionBehind) {
  ASSERT_EQ(post_send(one_, 1, IBV_WR_RDMA_WRITE, local_, 8, remote_), 0);
  ASSERT_EQ(post_send(other_, 2, IBV_WR_RDMA_WRITE, local_, 8, remote_), 0);
  ASSERT_EQ(post_send(one_, 3, IBV_WR_RDMA_WRITE, local_, 8, remote_), 0);
  ASSERT_EQ(destroy(one_), 0);
  const std::vector<ibv_wc> wc = poll_all(cq_);
  ASSERT_EQ(wc.size(), 1u);
  EXPECT_EQ(wc[0].wr_id, 2u);
}

TEST_F(Data, ResetForgetsWhatWasPostedAndCompleted) {
  ASSERT_EQ(post_send(one_, 1, IBV_WR_RDMA_WRITE, local_, 8, remote_), 0);
  for (int i = 0; i < 16; i++) ASSERT_EQ(post_recv(one_, 2, local_, 8), 0);
  ASSERT_EQ(to_state(one_, IBV_QPS_RESET), 0);
  EXPECT_TRUE(poll_all(cq_).empty());
  establish(one_, other_);
  for (int i = 0; i < 16; i++) EXPECT_EQ(post_recv(one_, 3, local_, 8), 0);
  ASSERT_EQ(post_send(one_, 4, IBV_WR_RDMA_WRITE, local_, 8, remote_), 0);
  const std::vector<ibv_wc> wc = poll_all(cq_);
  ASSERT_EQ(wc.size(), 1u);
  EXPECT_EQ(wc[0].wr_id, 4u);
}

TEST_F(Data, ResizedQueueKeepsItsEntries) {
  for (uint64_t i = 0; i < 10; i++) {
    ASSERT_EQ(post_send(one_, i, IBV_WR_RDMA_WRITE, local_, 8, remote_), 0);
  }
  ASSERT_EQ(ibv_resize_cq(cq_, 1000), 0);
  EXPECT_GE(cq_->cqe, 1000);
  ASSERT_EQ(post_send(one_, 10, IBV_WR_RDMA_WRITE, local_, 8, remote_), 0);
  const std::vector<ibv_wc> wc = poll_all(cq_);
  ASSERT_EQ(wc.size(), 11u);
  for (uint64_t i = 0; i < wc.size(); i++) EXPECT_EQ(wc[i].wr_id, i);
}

TEST_F(Data, ResizeBelowTheUnreadEntriesFailsAndChangesNothing) {
  for (uint64_t i = 0; i < 10; i++) {
    ASSERT_EQ(post_send(one_, i, IBV_WR_RDMA_WRITE, local_, 8, remote_), 0);
  }
  EXPECT_EQ(ibv_resize_cq(cq_, 4), EINVAL);
  EXPECT_EQ(poll_all(cq_).size(), 10u);
}

// ---- The ibv_wr_* builders ----

class Builder : public Data {
 protected:
  static constexpr uint64_t kOps = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM |
                                   IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM |
                                   IBV_QP_EX_WITH_RDMA_READ;
  void SetUp() override {
    Data::SetUp();
    ibv_qp* qp = make_qp_ex(cq_, kOps);
    ASSERT_NE(qp, nullptr);
    ex_ = ibv_qp_to_qp_ex(qp);
    ASSERT_NE(ex_, nullptr);
    establish(qp, other_);
  }
  void start(uint64_t wr_id) {
    ibv_wr_start(ex_);
    ex_->wr_id = wr_id;
    ex_->wr_flags = IBV_SEND_SIGNALED;
  }
  uint64_t remote_addr() const { return reinterpret_cast<uint64_t>(remote_->addr); }
  uint64_t local_addr() const { return reinterpret_cast<uint64_t>(local_->addr); }

  ibv_qp_ex* ex_ = nullptr;
};

TEST_F(Builder, PlainQueuePairHasNone) {
  EXPECT_EQ(ibv_qp_to_qp_ex(one_), nullptr);
}

TEST_F(Builder, OperationsThatAreNotBuiltAreNotSupported) {
  EXPECT_EQ(make_qp_ex(cq_, IBV_QP_EX_WITH_TSO), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
}

TEST_F(Builder, BatchIsPostedAsOne) {
  const ibv_sge list[2] = {{local_addr(), 10, local_->lkey}, {local_addr() + 10, 20, local_->lkey}};
  ASSERT_EQ(post_recv(other_, 100, remote_, 4096), 0);
  start(1);
  ibv_wr_rdma_write(ex_, remote_->rkey, remote_addr());
  ibv_wr_set_sge_list(ex_, 2, list);
  ex_->wr_id = 2;
  ibv_wr_rdma_read(ex_, remote_->rkey, remote_addr());
  ibv_wr_set_sge(ex_, local_->lkey, local_addr() + 64, 30);
  ex_->wr_id = 3;
  ibv_wr_rdma_write_imm(ex_, remote_->rkey, remote_addr(), 0x05060708);
  ibv_wr_set_sge(ex_, local_->lkey, local_addr(), 8);
  ASSERT_EQ(ibv_wr_complete(ex_), 0);
  const std::vector<ibv_wc> wc = poll_all(cq_);
  ASSERT_EQ(wc.size(), 4u);
  EXPECT_TRUE(arrived(30));
  EXPECT_EQ(std::memcmp(local_memory_ + 64, local_memory_, 30), 0);
  EXPECT_EQ(wc[2].opcode, IBV_WC_RECV_RDMA_WITH_IMM);
  EXPECT_EQ(wc[2].imm_data, 0x05060708u);
  EXPECT_EQ(wc[2].byte_len, 8u);
}

TEST_F(Builder, InlineListIsGathered) {
  char first[] = "inline ";
  char second[] = "data";
  const ibv_data_buf list[2] = {{first, 7}, {second, 5}};
  start(1);
  ibv_wr_rdma_write(ex_, remote_->rkey, remote_addr());
  ibv_wr_set_inline_data_list(ex_, 2, list);
  ASSERT_EQ(ibv_wr_complete(ex_), 0);
  std::memset(first, 0, sizeof(first));
  EXPECT_EQ(poll_all(cq_).size(), 1u);
  EXPECT_STREQ(remote_memory_, "inline data");
}

TEST_F(Builder, ErrorInABatchPostsNothing) {
  char too_long[65] = {};
  start(1);
  ibv_wr_rdma_write(ex_, remote_->rkey, remote_addr());
  ibv_wr_set_sge(ex_, local_->lkey, local_addr(), 8);
  ibv_wr_rdma_write(ex_, remote_->rkey, remote_addr());
  ibv_wr_set_inline_data(ex_, too_long, sizeof(too_long));
  EXPECT_EQ(ibv_wr_complete(ex_), EINVAL);
  EXPECT_TRUE(poll_all(cq_).empty());
  start(2);  // the lock was given back
  ibv_wr_abort(ex_);
}

TEST_F(Builder, AbortedBatchLeavesNoTrace) {
  start(1);
  ibv_wr_rdma_write(ex_, remote_->rkey, remote_addr());
  ibv_wr_set_sge(ex_, local_->lkey, local_addr(), 8);
  ibv_wr_abort(ex_);
  start(2);
  ibv_wr_send(ex_);
  ibv_wr_set_sge(ex_, local_->lkey, local_addr(), 8);
  ASSERT_EQ(ibv_wr_complete(ex_), 0);
  ASSERT_EQ(post_recv(other_, 3, remote_, 64), 0);
  const std::vector<ibv_wc> wc = poll_all(cq_);
  ASSERT_EQ(wc.size(), 2u);
  EXPECT_EQ(wc[1].wr_id, 2u);
}

// ---- Extended completion queues ----

TEST_F(Data, ExtendedPollingReadsInPlace) {
  ibv_cq_init_attr_ex attr{};
  attr.cqe = 16;
  attr.wc_flags = IBV_WC_STANDARD_FLAGS;
  ibv_cq_ex* ex = ibv_create_cq_ex(context_, &attr);
  ASSERT_NE(ex, nullptr);
  cqs_.push_back(ibv_cq_ex_to_cq(ex));
  ibv_qp* qp = make_qp(ibv_cq_ex_to_cq(ex));
  establish(qp, other_);
  ibv_poll_cq_attr poll{};
  EXPECT_EQ(ibv_start_poll(ex, &poll), ENOENT);
  ASSERT_EQ(post_send(qp, 5, IBV_WR_RDMA_WRITE, local_, 8, remote_), 0);
  ASSERT_EQ(post_send(qp, 6, IBV_WR_RDMA_READ, local_, 9, remote_), 0);
  ASSERT_EQ(ibv_start_poll(ex, &poll), 0);
  EXPECT_EQ(ex->wr_id, 5u);
  EXPECT_EQ(ibv_wc_read_opcode(ex), IBV_WC_RDMA_WRITE);
  ASSERT_EQ(ibv_next_poll(ex), 0);
  EXPECT_EQ(ex->wr_id, 6u);
  EXPECT_EQ(ibv_wc_read_byte_len(ex), 9u);
  EXPECT_EQ(ibv_wc_read_qp_num(ex), qp->qp_num);
  EXPECT_EQ(ibv_next_poll(ex), ENOENT);
  ibv_end_poll(ex);
  EXPECT_EQ(ibv_start_poll(ex, &poll), ENOENT);
}

TEST_F(Data, ExtendedQueueRefusesFieldsThatNobodyFills) {
  for (const uint64_t field :
       {IBV_WC_EX_WITH_CVLAN, IBV_WC_EX_WITH_FLOW_TAG, IBV_WC_EX_WITH_TM_INFO}) {
    ibv_cq_init_attr_ex attr{};
    attr.cqe = 16;
    attr.wc_flags = field;
    EXPECT_EQ(ibv_create_cq_ex(context_, &attr), nullptr);
    EXPECT_EQ(errno, EOPNOTSUPP);
  }
  ibv_cq_init_attr_ex attr{};
  attr.cqe = 16;
  attr.comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS;
  attr.flags = IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN;
  EXPECT_EQ(ibv_create_cq_ex(context_, &attr), nullptr) << "an overrun ends the queue pairs";
  EXPECT_EQ(errno, EOPNOTSUPP);
}

}  // namespace
}  // namespace mprdma::provider_test
