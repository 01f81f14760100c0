// UD and UC: address handles, datagrams, multicast groups; states and operations of each type.
#include "tests/provider/full_fixture.hpp"

namespace mprdma::provider_test {
namespace {

class Datagram : public Full {
 protected:
  void SetUp() override {
    Full::SetUp();
    mr_ = reg(memory_, sizeof(memory_));
    qp_ = make(IBV_QPT_UD);
    ASSERT_NE(qp_, nullptr);
    ASSERT_EQ(to_ud_rts(qp_, 0x11111111), 0);
    ibv_ah_attr attr = address(1);
    ah_ = ibv_create_ah(pd_, &attr);
    ASSERT_NE(ah_, nullptr);
  }
  void TearDown() override {
    EXPECT_EQ(ibv_destroy_ah(ah_), 0);
    Full::TearDown();
  }
  int send(ibv_ah* ah, uint32_t qpn, uint32_t qkey, uint32_t bytes = 8) {
    ibv_sge sge{reinterpret_cast<uint64_t>(memory_), bytes, mr_->lkey};
    ibv_send_wr wr{};
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.opcode = IBV_WR_SEND;
    wr.wr.ud.ah = ah;
    wr.wr.ud.remote_qpn = qpn;
    wr.wr.ud.remote_qkey = qkey;
    ibv_send_wr* bad = nullptr;
    return ibv_post_send(qp_, &wr, &bad);
  }
  char memory_[256] = {};
  ibv_mr* mr_ = nullptr;
  ibv_qp* qp_ = nullptr;
  ibv_ah* ah_ = nullptr;
};

TEST_F(Datagram, AddressIsAGidOfAPortThatIsThere) {
  for (int wrong = 0; wrong < 3; wrong++) {
    ibv_ah_attr attr = address(1);
    if (wrong == 0) attr.is_global = 0;
    if (wrong == 1) attr.port_num = 2;
    if (wrong == 2) attr.grh.sgid_index = 2;
    EXPECT_EQ(ibv_create_ah(pd_, &attr), nullptr);
    EXPECT_EQ(errno, EINVAL);
  }
  EXPECT_EQ(ibv_dealloc_pd(pd_), EBUSY);
}

TEST_F(Datagram, ArrivesBehindItsGrh) {
  ASSERT_EQ(post_recv(qp_, 3, mr_, 256), 0);
  ASSERT_EQ(send(ah_, qp_->qp_num, 0x11111111), 0);
  ASSERT_EQ(send(ah_, qp_->qp_num, 0x2), 0);  // another Q_Key: nobody takes it
  const std::vector<ibv_wc> wc = poll_all(cq_);
  ASSERT_EQ(wc.size(), 1u);
  EXPECT_EQ(wc[0].byte_len, 48u);
  EXPECT_EQ(wc[0].wc_flags, static_cast<unsigned>(IBV_WC_GRH));
  EXPECT_EQ(send(nullptr, qp_->qp_num, 0), EINVAL);
}

TEST_F(Datagram, BuilderNamesTheDestination) {
  ibv_qp_init_attr_ex attr{};
  attr.send_cq = attr.recv_cq = cq_;
  attr.qp_type = IBV_QPT_UD;
  attr.cap = {16, 16, 2, 2, 64};
  attr.pd = pd_;
  attr.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
  attr.send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE;
  EXPECT_EQ(ibv_create_qp_ex(context_, &attr), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
  attr.send_ops_flags = IBV_QP_EX_WITH_SEND;
  ibv_qp* qp = ibv_create_qp_ex(context_, &attr);
  ASSERT_NE(qp, nullptr);
  qps_.push_back(qp);
  ASSERT_EQ(to_ud_rts(qp, 1), 0);
  ASSERT_EQ(post_recv(qp_, 3, mr_, 256), 0);
  ibv_qp_ex* ex = ibv_qp_to_qp_ex(qp);
  char text[] = "datagram";
  ibv_wr_start(ex);
  ex->wr_flags = 0;
  ibv_wr_send(ex);
  ibv_wr_set_ud_addr(ex, ah_, qp_->qp_num, 0x11111111);
  ibv_wr_set_inline_data(ex, text, sizeof(text));
  ASSERT_EQ(ibv_wr_complete(ex), 0);
  ASSERT_EQ(poll_all(cq_).size(), 1u);
  EXPECT_STREQ(memory_ + 40, "datagram");
  ibv_wr_start(ex);
  ibv_wr_send(ex);
  ibv_wr_set_ud_addr(ex, nullptr, 1, 1);
  EXPECT_EQ(ibv_wr_complete(ex), EINVAL);
}

TEST_F(Datagram, GroupIsAttachedOnceAndDetachedBeforeTheEnd) {
  ibv_gid group{};
  group.raw[0] = 0xff;
  group.raw[15] = 5;
  ibv_gid unicast{};
  unicast.raw[0] = 0xfe;
  EXPECT_EQ(ibv_attach_mcast(qp_, &unicast, 0), EINVAL);
  EXPECT_EQ(ibv_detach_mcast(qp_, &group, 0), EINVAL);
  ASSERT_EQ(ibv_attach_mcast(qp_, &group, 0), 0);
  ASSERT_EQ(ibv_attach_mcast(qp_, &group, 0), 0);
  EXPECT_EQ(destroy(qp_), EBUSY);
  qps_.push_back(qp_);
  ibv_ah_attr attr = address(1);
  attr.grh.dgid = group;
  ibv_ah* ah = ibv_create_ah(pd_, &attr);
  ASSERT_EQ(post_recv(qp_, 3, mr_, 256), 0);
  ASSERT_EQ(post_recv(qp_, 4, mr_, 256), 0);
  ASSERT_EQ(send(ah, 0xffffff, 0x11111111), 0);
  EXPECT_EQ(poll_all(cq_).size(), 1u) << "one copy";
  EXPECT_EQ(ibv_detach_mcast(qp_, &group, 0), 0);
  EXPECT_EQ(ibv_detach_mcast(qp_, &group, 0), EINVAL);
  ibv_qp* rc = make(IBV_QPT_RC);
  EXPECT_EQ(ibv_attach_mcast(rc, &group, 0), EINVAL);
  EXPECT_EQ(ibv_destroy_ah(ah), 0);
}

TEST_F(Datagram, OperationsOfOtherTransportsAreInvalid) {
  EXPECT_EQ(post_send(qp_, 1, IBV_WR_RDMA_WRITE, mr_, 8, mr_), EINVAL);
  ibv_qp* uc = make(IBV_QPT_UC);
  ASSERT_EQ(to_init(uc), 0);
  ibv_qp_attr attr = rtr_attr(uc->qp_num);
  const int rtr = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
  EXPECT_EQ(ibv_modify_qp(uc, &attr, kRtrMask), EINVAL) << "nothing is answered";
  ASSERT_EQ(ibv_modify_qp(uc, &attr, rtr), 0);
  attr.qp_state = IBV_QPS_RTS;
  EXPECT_EQ(to_rts(uc), EINVAL) << "nothing is retried";
  ASSERT_EQ(ibv_modify_qp(uc, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN), 0);
  EXPECT_EQ(post_send(uc, 1, IBV_WR_RDMA_READ, mr_, 8, mr_), EINVAL);
  EXPECT_EQ(post_send(uc, 1, IBV_WR_ATOMIC_FETCH_AND_ADD, mr_, 8, mr_), EINVAL);
  EXPECT_EQ(post_send(uc, 1, IBV_WR_RDMA_WRITE, mr_, 8, mr_), 0);
  EXPECT_EQ(poll_all(cq_).size(), 1u);
}

TEST_F(Datagram, QueryTellsTheKeyAndStatesHaveTheirAttributes) {
  ibv_qp_attr attr;
  ibv_qp_init_attr init;
  ASSERT_EQ(ibv_query_qp(qp_, &attr, IBV_QP_QKEY, &init), 0);
  EXPECT_EQ(attr.qkey, 0x11111111u);
  EXPECT_EQ(attr.sq_psn, 7u);
  EXPECT_EQ(init.qp_type, IBV_QPT_UD);
  attr.qp_state = IBV_QPS_RTS;
  attr.qkey = 5;
  EXPECT_EQ(ibv_modify_qp(qp_, &attr, IBV_QP_QKEY), 0);
  EXPECT_EQ(ibv_modify_qp(qp_, &attr, IBV_QP_STATE | IBV_QP_ACCESS_FLAGS), EINVAL);
  EXPECT_EQ(to_state(qp_, IBV_QPS_SQD), 0);
}

TEST_F(Datagram, TypesThatAreNotOfferedAndCapsBeyondTheLimits) {
  EXPECT_EQ(make(IBV_QPT_RAW_PACKET), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
  EXPECT_EQ(make(static_cast<ibv_qp_type>(77)), nullptr);
  EXPECT_EQ(errno, EINVAL);
  ibv_qp_init_attr attr = init_attr(cq_);
  attr.qp_type = IBV_QPT_UD;
  attr.cap.max_send_wr = UINT32_MAX;
  EXPECT_EQ(ibv_create_qp(pd_, &attr), nullptr);
  EXPECT_EQ(errno, EINVAL);
}

}  // namespace
}  // namespace mprdma::provider_test
