// Opens our device through the distribution's libibverbs and builds what tests need on it. The
// engine behind it is the fake one, so every QP reaches every other at once.
#pragma once

#include <gtest/gtest.h>
#include <infiniband/verbs.h>

#include <cstring>
#include <vector>

#include "tests/provider/fake_engine.hpp"

namespace mprdma::provider_test {

class Verbs : public ::testing::Test {
 protected:
  void SetUp() override {
    ibv_device** list = ibv_get_device_list(nullptr);
    ASSERT_NE(list, nullptr);
    ASSERT_NE(list[0], nullptr) << "no device: is the preload loaded?";
    context_ = ibv_open_device(list[0]);
    ibv_free_device_list(list);
    ASSERT_NE(context_, nullptr);
    pd_ = ibv_alloc_pd(context_);
    ASSERT_NE(pd_, nullptr);
  }

  void TearDown() override {
    for (ibv_qp* qp : qps_) EXPECT_EQ(ibv_destroy_qp(qp), 0);
    for (ibv_cq* cq : cqs_) EXPECT_EQ(ibv_destroy_cq(cq), 0);
    for (ibv_mr* mr : mrs_) EXPECT_EQ(ibv_dereg_mr(mr), 0);
    ASSERT_NE(context_, nullptr);
    EXPECT_EQ(ibv_dealloc_pd(pd_), 0);
    EXPECT_EQ(ibv_close_device(context_), 0);
    EXPECT_EQ(fake_engine_objects(), 0u) << "something was left in the engine";
  }

  static constexpr int kAllAccess =
      IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;

  ibv_mr* reg(void* memory, size_t bytes, int access = kAllAccess) {
    ibv_mr* mr = ibv_reg_mr(pd_, memory, bytes, access);
    if (mr != nullptr) mrs_.push_back(mr);
    return mr;
  }

  ibv_cq* make_cq(int entries = 64, ibv_comp_channel* channel = nullptr) {
    ibv_cq* cq = ibv_create_cq(context_, entries, nullptr, channel, 0);
    if (cq != nullptr) cqs_.push_back(cq);
    return cq;
  }

  static ibv_qp_init_attr init_attr(ibv_cq* cq) {
    ibv_qp_init_attr attr{};
    attr.send_cq = attr.recv_cq = cq;
    attr.qp_type = IBV_QPT_RC;
    attr.cap = {16, 16, 2, 2, 64};
    return attr;
  }

  ibv_qp* make_qp(ibv_cq* cq) {
    ibv_qp_init_attr attr = init_attr(cq);
    ibv_qp* qp = ibv_create_qp(pd_, &attr);
    if (qp != nullptr) qps_.push_back(qp);
    return qp;
  }

  ibv_qp* make_qp_ex(ibv_cq* cq, uint64_t ops) {
    ibv_qp_init_attr_ex attr{};
    attr.send_cq = attr.recv_cq = cq;
    attr.qp_type = IBV_QPT_RC;
    attr.cap = {16, 16, 2, 2, 64};
    attr.pd = pd_;
    attr.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    attr.send_ops_flags = ops;
    ibv_qp* qp = ibv_create_qp_ex(context_, &attr);
    if (qp != nullptr) qps_.push_back(qp);
    return qp;
  }

  // Destroys now what the fixture would destroy at the end.
  int destroy(ibv_qp* qp) {
    std::erase(qps_, qp);
    return ibv_destroy_qp(qp);
  }
  int destroy(ibv_cq* cq) {
    const int error = ibv_destroy_cq(cq);
    if (error == 0) std::erase(cqs_, cq);
    return error;
  }

  static int to_init(ibv_qp* qp) {
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_INIT;
    attr.port_num = 1;
    attr.qp_access_flags = kAllAccess;
    return ibv_modify_qp(qp, &attr,
                         IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
  }

  static constexpr int kRtrMask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                                  IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;

  static ibv_qp_attr rtr_attr(uint32_t dest_qpn) {
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_RTR;
    attr.path_mtu = IBV_MTU_4096;
    attr.dest_qp_num = dest_qpn;
    attr.rq_psn = 0x123456;
    attr.max_dest_rd_atomic = 16;
    attr.min_rnr_timer = 12;
    attr.ah_attr.is_global = 1;
    attr.ah_attr.port_num = 1;
    attr.ah_attr.grh.sgid_index = 1;
    return attr;
  }

  static int to_rtr(ibv_qp* qp, uint32_t dest_qpn) {
    ibv_qp_attr attr = rtr_attr(dest_qpn);
    return ibv_modify_qp(qp, &attr, kRtrMask);
  }

  static int to_rts(ibv_qp* qp) {
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_RTS;
    attr.timeout = 14;
    attr.retry_cnt = 7;
    attr.rnr_retry = 7;
    attr.sq_psn = 0x654321;
    attr.max_rd_atomic = 16;
    return ibv_modify_qp(qp, &attr,
                         IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                             IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
  }

  static int to_state(ibv_qp* qp, ibv_qp_state state) {
    ibv_qp_attr attr{};
    attr.qp_state = state;
    return ibv_modify_qp(qp, &attr, IBV_QP_STATE);
  }

  // Connects two QPs to each other, whatever they were before.
  static void establish(ibv_qp* one, ibv_qp* other) {
    for (ibv_qp* qp : {one, other}) {
      ASSERT_EQ(to_state(qp, IBV_QPS_RESET), 0);
    }
    ASSERT_EQ(to_init(one), 0);
    ASSERT_EQ(to_init(other), 0);
    ASSERT_EQ(to_rtr(one, other->qp_num), 0);
    ASSERT_EQ(to_rtr(other, one->qp_num), 0);
    ASSERT_EQ(to_rts(one), 0);
    ASSERT_EQ(to_rts(other), 0);
  }

  // Connects a new QP to itself.
  static void establish_loop(ibv_qp* qp) {
    ASSERT_EQ(to_init(qp), 0);
    ASSERT_EQ(to_rtr(qp, qp->qp_num), 0);
    ASSERT_EQ(to_rts(qp), 0);
  }

  static int post_recv(ibv_qp* qp, uint64_t wr_id, const ibv_mr* mr, uint32_t bytes) {
    ibv_sge sge{reinterpret_cast<uint64_t>(mr->addr), bytes, mr->lkey};
    ibv_recv_wr wr{};
    wr.wr_id = wr_id;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    ibv_recv_wr* bad = nullptr;
    return ibv_post_recv(qp, &wr, &bad);
  }

  // One signalled request of the local range; `remote` for RDMA operations.
  static int post_send(ibv_qp* qp, uint64_t wr_id, ibv_wr_opcode opcode, const ibv_mr* mr,
                       uint32_t bytes, const ibv_mr* remote = nullptr,
                       unsigned int flags = IBV_SEND_SIGNALED) {
    ibv_sge sge{reinterpret_cast<uint64_t>(mr->addr), bytes, mr->lkey};
    ibv_send_wr wr{};
    wr.wr_id = wr_id;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.opcode = opcode;
    wr.send_flags = flags;
    wr.imm_data = 0x01020304;
    if (remote != nullptr) {
      wr.wr.rdma.remote_addr = reinterpret_cast<uint64_t>(remote->addr);
      wr.wr.rdma.rkey = remote->rkey;
    }
    ibv_send_wr* bad = nullptr;
    return ibv_post_send(qp, &wr, &bad);
  }

  // Everything that is in the CQ.
  static std::vector<ibv_wc> poll_all(ibv_cq* cq) {
    std::vector<ibv_wc> all;
    ibv_wc wc;
    while (ibv_poll_cq(cq, 1, &wc) == 1) all.push_back(wc);
    return all;
  }

  ibv_context* context_ = nullptr;
  ibv_pd* pd_ = nullptr;
  std::vector<ibv_mr*> mrs_;
  std::vector<ibv_cq*> cqs_;
  std::vector<ibv_qp*> qps_;
};

}  // namespace mprdma::provider_test
