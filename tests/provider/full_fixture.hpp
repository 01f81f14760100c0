// The fixture for what only an engine with every feature has: other types of queue pairs, shared
// receive queues, windows, address handles, XRC domains.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include "abi/mprdma_abi.h"
#include "tests/provider/verbs_fixture.hpp"

namespace mprdma::provider_test {

class Full : public Verbs {
 protected:
  static constexpr uint64_t kRcOnly = MPRDMA_ABI_FEATURE_RC;
  static constexpr uint64_t kEverything = 0xfffffu & ~MPRDMA_ABI_FEATURE_RELAXED_ALWAYS;

  void SetUp() override {
    fake_engine_features(kEverything);
    Verbs::SetUp();
    cq_ = make_cq();
    ASSERT_NE(cq_, nullptr);
  }
  void TearDown() override {
    for (ibv_qp* qp : qps_) EXPECT_EQ(ibv_destroy_qp(qp), 0);
    qps_.clear();
    for (ibv_srq* srq : srqs_) EXPECT_EQ(ibv_destroy_srq(srq), 0);
    Verbs::TearDown();
    fake_engine_features(MPRDMA_ABI_FEATURE_RC | MPRDMA_ABI_FEATURE_SYNCHRONISE |
                         MPRDMA_ABI_FEATURE_QP_TRANSPORT | MPRDMA_ABI_FEATURE_QP_STATS);
  }

  ibv_srq* make_srq(uint32_t wr = 8, uint32_t limit = 0) {
    ibv_srq_init_attr attr{};
    attr.attr = {wr, 2, limit};
    ibv_srq* srq = ibv_create_srq(pd_, &attr);
    if (srq != nullptr) srqs_.push_back(srq);
    return srq;
  }

  ibv_qp* make(ibv_qp_type type, ibv_srq* srq = nullptr) {
    ibv_qp_init_attr attr = init_attr(cq_);
    attr.qp_type = type;
    attr.srq = srq;
    ibv_qp* qp = ibv_create_qp(pd_, &attr);
    if (qp != nullptr) qps_.push_back(qp);
    return qp;
  }

  static int post_srq(ibv_srq* srq, uint64_t wr_id, const ibv_mr* mr, uint32_t bytes,
                      int num_sge = 1) {
    ibv_sge sge[4]{};
    sge[0] = {reinterpret_cast<uint64_t>(mr->addr), bytes, mr->lkey};
    ibv_recv_wr wr{};
    wr.wr_id = wr_id;
    wr.sg_list = sge;
    wr.num_sge = num_sge;
    ibv_recv_wr* bad = nullptr;
    return ibv_post_srq_recv(srq, &wr, &bad);
  }

  static int to_ud_rts(ibv_qp* qp, uint32_t qkey) {
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_INIT;
    attr.port_num = 1;
    attr.qkey = qkey;
    int error =
        ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY);
    attr.qp_state = IBV_QPS_RTR;
    if (error == 0) error = ibv_modify_qp(qp, &attr, IBV_QP_STATE);
    attr.qp_state = IBV_QPS_RTS;
    attr.sq_psn = 7;
    if (error == 0) error = ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN);
    return error;
  }

  // To RTS, over a real wire: the other queue pair is at 10.73.0.`last`.
  static void connect(ibv_qp* qp, uint32_t to, uint8_t last) {
    ASSERT_EQ(to_init(qp), 0);
    ibv_qp_attr more{};
    more.qp_access_flags = kAllAccess | IBV_ACCESS_REMOTE_ATOMIC;
    ASSERT_EQ(ibv_modify_qp(qp, &more, IBV_QP_ACCESS_FLAGS), 0);
    ibv_qp_attr attr = rtr_attr(to);
    attr.path_mtu = IBV_MTU_1024;
    attr.rq_psn = 0x654321;  // what to_rts() sends with
    attr.ah_attr.grh.dgid.raw[10] = attr.ah_attr.grh.dgid.raw[11] = 0xff;
    attr.ah_attr.grh.dgid.raw[12] = 10;
    attr.ah_attr.grh.dgid.raw[13] = 73;
    attr.ah_attr.grh.dgid.raw[15] = last;
    ASSERT_EQ(ibv_modify_qp(qp, &attr, kRtrMask), 0);
    ASSERT_EQ(to_rts(qp), 0);
  }

  static ibv_ah_attr address(uint8_t last) {
    ibv_ah_attr attr{};
    attr.is_global = 1;
    attr.port_num = 1;
    attr.grh.sgid_index = 1;
    attr.grh.dgid.raw[10] = attr.grh.dgid.raw[11] = 0xff;
    attr.grh.dgid.raw[12] = 10;
    attr.grh.dgid.raw[15] = last;
    return attr;
  }

  // The next asynchronous event, acknowledged; its type.
  ibv_event_type next_event(void** element = nullptr) {
    ibv_async_event event{};
    EXPECT_EQ(ibv_get_async_event(context_, &event), 0);
    if (element != nullptr) *element = event.element.qp;
    ibv_ack_async_event(&event);
    return event.event_type;
  }

  ibv_cq* cq_ = nullptr;
  std::vector<ibv_srq*> srqs_;
};

}  // namespace mprdma::provider_test
