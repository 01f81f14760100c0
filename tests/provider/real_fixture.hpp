// The fixture for what an application sees over the real engine, which talks to itself.
#pragma once

#include <chrono>
#include <vector>

#include "tests/provider/full_fixture.hpp"
#include "tests/support/eventually.hpp"

namespace mprdma::provider_test {

inline constexpr auto kLimit = std::chrono::seconds(60);

class Real : public Full {
 protected:
  void SetUp() override {
    Full::SetUp();
    mr_ = reg(memory_, sizeof(memory_),
              kAllAccess | int{IBV_ACCESS_REMOTE_ATOMIC} | int{IBV_ACCESS_MW_BIND});
    ASSERT_NE(mr_, nullptr);
  }
  // Returns `count` completions or more, in order; fewer if they do not come within kLimit.
  static std::vector<ibv_wc> poll(ibv_cq* cq, size_t count) {
    std::vector<ibv_wc> all;
    eventually(
        [&] {
          for (const ibv_wc& wc : poll_all(cq)) all.push_back(wc);
          return all.size() >= count;
        },
        kLimit);
    return all;
  }
  static ibv_qp_state state_of(ibv_qp* qp) {
    ibv_qp_attr attr{};
    ibv_qp_init_attr init{};
    EXPECT_EQ(ibv_query_qp(qp, &attr, IBV_QP_STATE, &init), 0);
    return attr.qp_state;
  }
  int send_datagram(ibv_qp* qp, ibv_ah* ah, uint32_t qkey, uint32_t lkey) {
    ibv_sge sge{reinterpret_cast<uint64_t>(memory_), 64, lkey};
    ibv_send_wr wr{};
    wr.wr_id = 5;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.opcode = IBV_WR_SEND;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.wr.ud.ah = ah;
    wr.wr.ud.remote_qpn = qp->qp_num;
    wr.wr.ud.remote_qkey = qkey;
    ibv_send_wr* bad = nullptr;
    return ibv_post_send(qp, &wr, &bad);
  }
  // The device's own address, as GID 1.
  ibv_ah* make_ah() {
    ibv_ah_attr attr = address(1);
    attr.grh.dgid.raw[13] = 73;
    attr.grh.dgid.raw[14] = 0;
    return ibv_create_ah(pd_, &attr);
  }
  void connect_two(ibv_qp* one, ibv_qp* other) {
    connect(one, other->qp_num, 1);
    connect(other, one->qp_num, 1);
  }

  alignas(64) char memory_[8192] = {};
  ibv_mr* mr_ = nullptr;
};

}  // namespace mprdma::provider_test
