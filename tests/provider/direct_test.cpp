// mprdmadv.h as a program meets it that links libmprdma.so: one instance with the plugin that
// libibverbs loads, the flag, the mode, the parameters, the statistics, and what is refused.
#include <dlfcn.h>
#include <infiniband/mprdmadv.h>

#include <cerrno>
#include <cstddef>

#include "abi/mprdma_abi.h"
#include "tests/provider/process.hpp"
#include "tests/provider/verbs_fixture.hpp"

namespace mprdma::provider_test {
namespace {

class Direct : public Verbs {
 protected:
  void SetUp() override {
    Verbs::SetUp();
    cq_ = make_cq();
  }

  ibv_qp* make(const mprdmadv_qp_init_attr* wanted, uint64_t send_ops = 0) {
    ibv_qp_init_attr_ex attr{};
    attr.send_cq = attr.recv_cq = cq_;
    attr.qp_type = IBV_QPT_RC;
    attr.cap = {16, 16, 2, 2, 64};
    attr.pd = pd_;
    attr.comp_mask = IBV_QP_INIT_ATTR_PD;
    if (send_ops != 0) attr.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    attr.send_ops_flags = send_ops;
    ibv_qp* qp = mprdmadv_create_qp(context_, &attr, wanted);
    if (qp != nullptr) qps_.push_back(qp);
    return qp;
  }
  static FakeQp asked(const ibv_qp* qp) {
    FakeQp out{};
    EXPECT_TRUE(fake_engine_qp(qp->qp_num, &out));
    return out;
  }

  ibv_cq* cq_ = nullptr;
};

TEST_F(Direct, ThePluginIsTheLibraryThatTheProgramLinked) {
  void* plugin = dlopen(MPRDMA_TEST_PROVIDER "-rdmav34.so", RTLD_NOW | RTLD_NOLOAD);
  ASSERT_NE(plugin, nullptr) << "libibverbs did not load it";
  EXPECT_EQ(dlsym(plugin, "mprdmadv_is_supported"),
            reinterpret_cast<void*>(&mprdmadv_is_supported));
  EXPECT_TRUE(mprdmadv_is_supported(context_->device));
  int count = 0;
  ibv_device** list = ibv_get_device_list(&count);
  EXPECT_EQ(count, 1) << "registered twice";
  ibv_free_device_list(list);
}

TEST_F(Direct, DeviceSaysWhatItsEngineCan) {
  mprdmadv_device_attr attr{};
  ASSERT_EQ(mprdmadv_query_device(context_, &attr, sizeof(attr)), 0);
  EXPECT_EQ(attr.abi_minor, MPRDMA_ABI_MINOR);
  EXPECT_EQ(attr.device_caps,
            uint32_t{MPRDMADV_DEVICE_ATTR_CAPS_SYNCHRONISE | MPRDMADV_DEVICE_ATTR_CAPS_QP_MODE |
                     MPRDMADV_DEVICE_ATTR_CAPS_QP_STATS});
  EXPECT_EQ(attr.modes, 1u << MPRDMADV_MODE_MP | 1u << MPRDMADV_MODE_DEFAULT);
  EXPECT_EQ(mprdmadv_query_device(context_, &attr, sizeof(attr) - 1), EINVAL);
}

TEST_F(Direct, ModeAndParametersReachTheEngineOnlyWithTheirBits) {
  mprdmadv_qp_init_attr wanted{};
  wanted.comp_mask = MPRDMADV_QP_INIT_ATTR_MODE | MPRDMADV_QP_INIT_ATTR_WINDOW_MAX;
  wanted.mode = MPRDMADV_MODE_MP_PAPER;
  wanted.initial_window = 12;
  wanted.window_max = 60;
  ibv_qp* qp = make(&wanted);
  ASSERT_NE(qp, nullptr);
  EXPECT_EQ(asked(qp).mode, uint32_t{MPRDMADV_MODE_MP_PAPER});
  EXPECT_EQ(asked(qp).initial_window, 0u);
  EXPECT_EQ(asked(qp).window_max, 60u);
  qp = make(nullptr);
  ASSERT_NE(qp, nullptr);
  EXPECT_EQ(asked(qp).mode, uint32_t{MPRDMADV_MODE_DEFAULT});
}

TEST_F(Direct, WhatIsWrongIsNamedByErrno) {
  mprdmadv_qp_init_attr wanted{};
  wanted.comp_mask = 1ull << 40;
  EXPECT_EQ(make(&wanted), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP) << "a bit of a later version";
  wanted.comp_mask = MPRDMADV_QP_INIT_ATTR_MODE;
  wanted.mode = kModeOfALaterEngine;
  EXPECT_EQ(make(&wanted), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP) << "the engine's own answer";
  wanted.comp_mask = 0;
  wanted.reserved = 1;
  EXPECT_EQ(make(&wanted), nullptr);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(mprdmadv_create_qp(context_, nullptr, nullptr), nullptr);
  EXPECT_EQ(errno, EINVAL);
}

TEST_F(Direct, StatisticsArriveInTheirPlacesAndNoFurtherThanAskedFor) {
  ibv_qp* qp = make(nullptr);
  ASSERT_NE(qp, nullptr);
  establish_loop(qp);
  struct {
    mprdmadv_qp_stats stats;
    uint64_t beyond;
  } out;
  std::memset(&out, 0xee, sizeof(out));
  ASSERT_EQ(mprdmadv_query_qp_stats(qp, &out.stats, sizeof(out.stats)), 0);
  EXPECT_EQ(out.stats.comp_mask, 0u);
  EXPECT_EQ(out.stats.time_ns, 11u);
  EXPECT_EQ(out.stats.qp_num, qp->qp_num);
  EXPECT_EQ(out.stats.dest_qp_num, qp->qp_num);
  EXPECT_EQ(out.stats.qp_state, uint32_t{IBV_QPS_RTS});
  EXPECT_EQ(out.stats.dgid.raw[15], 12);
  EXPECT_EQ(out.stats.bytes_sent, 13u);
  EXPECT_EQ(out.stats.requests.window_q16, 54u << 16);
  EXPECT_EQ(out.stats.requests.srtt_ns, 14u);
  EXPECT_EQ(out.stats.requests.retransmitted_probe, 15u);
  EXPECT_EQ(out.stats.responses.window_reductions, 16u);
  EXPECT_EQ(out.beyond, 0xeeeeeeeeeeeeeeeeull);
  ASSERT_EQ(mprdmadv_query_qp_stats(qp, &out.stats, sizeof(out)), 0) << "a later program's struct";
  EXPECT_EQ(out.beyond, 0u);
  EXPECT_EQ(mprdmadv_query_qp_stats(qp, &out.stats, MPRDMADV_QP_STATS_SIZE_1_0 - 1), EINVAL);
}

TEST_F(Direct, SynchroniseTravelsWithBothWaysOfPosting) {
  char memory[64] = {};
  const ibv_mr* mr = reg(memory, sizeof(memory));
  ibv_qp* qp = make(nullptr, IBV_QP_EX_WITH_RDMA_WRITE);
  ASSERT_NE(qp, nullptr);
  establish_loop(qp);
  ASSERT_EQ(post_send(qp, 1, IBV_WR_RDMA_WRITE, mr, 8, mr), 0);
  EXPECT_EQ(asked(qp).synchronised, 0u);
  ASSERT_EQ(
      post_send(qp, 2, IBV_WR_RDMA_WRITE, mr, 8, mr, IBV_SEND_SIGNALED | MPRDMADV_SEND_SYNCHRONISE),
      0);
  ibv_qp_ex* ex = ibv_qp_to_qp_ex(qp);
  ibv_wr_start(ex);
  ex->wr_id = 3;
  ex->wr_flags = IBV_SEND_SIGNALED | MPRDMADV_SEND_SYNCHRONISE;
  ibv_wr_rdma_write(ex, mr->rkey, reinterpret_cast<uint64_t>(memory));
  ibv_wr_set_sge(ex, mr->lkey, reinterpret_cast<uint64_t>(memory), 8);
  ASSERT_EQ(ibv_wr_complete(ex), 0);
  EXPECT_EQ(poll_all(cq_).size(), 3u);
  EXPECT_EQ(asked(qp).synchronised, 2u);
}

TEST_F(Direct, ExtendedQueuePairNeedsNoBuilder) {
  ibv_qp_init_attr_ex attr{};
  attr.send_cq = attr.recv_cq = cq_;
  attr.qp_type = IBV_QPT_RC;
  attr.cap = {4, 4, 1, 1, 0};
  attr.pd = pd_;
  attr.comp_mask = IBV_QP_INIT_ATTR_PD;
  ibv_qp* qp = ibv_create_qp_ex(context_, &attr);
  ASSERT_NE(qp, nullptr);
  EXPECT_EQ(ibv_qp_to_qp_ex(qp), nullptr);
  EXPECT_EQ(ibv_destroy_qp(qp), 0);
}

// A foreign device, as far as a provider can tell: its table of operations differs.
TEST_F(Direct, OtherDevicesAreNotSupported) {
  struct {
    ibv_device device;
    const void* ops;
    char rest[64];
  } other{};
  EXPECT_FALSE(mprdmadv_is_supported(&other.device));
  EXPECT_FALSE(mprdmadv_is_supported(nullptr));
  ibv_context context{};
  context.device = &other.device;
  mprdmadv_device_attr attr{};
  EXPECT_EQ(mprdmadv_query_device(&context, &attr, sizeof(attr)), EOPNOTSUPP);
  ibv_qp_init_attr_ex init{};
  EXPECT_EQ(mprdmadv_create_qp(&context, &init, nullptr), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
}

TEST(DirectNames, EveryModeHasOne) {
  EXPECT_STREQ(mprdmadv_mode_str(MPRDMADV_MODE_MP_PAPER), "mp-paper");
  EXPECT_STREQ(mprdmadv_mode_str(static_cast<mprdmadv_mode>(77)), "unknown");
}

// Engines that know less, or are configured for relaxed placement.
class OtherEngine : public Direct {
 protected:
  // The fixture's context connects with its first object, so the engine's limits are set before.
  void with_features(uint64_t features) { fake_engine_features(features); }
  void SetUp() override {}
  void begin(uint64_t features) {
    with_features(features);
    Direct::SetUp();
  }
  void TearDown() override {
    Direct::TearDown();
    with_features(MPRDMA_ABI_FEATURE_RC | MPRDMA_ABI_FEATURE_SYNCHRONISE |
                  MPRDMA_ABI_FEATURE_QP_TRANSPORT | MPRDMA_ABI_FEATURE_QP_STATS);
  }
};

TEST_F(OtherEngine, WithoutModesOfQueuePairsMakesPlainOnesOnly) {
  begin(MPRDMA_ABI_FEATURE_RC);
  ibv_qp* qp = make(nullptr, IBV_QP_EX_WITH_RDMA_WRITE);
  ASSERT_NE(qp, nullptr);
  EXPECT_EQ(asked(qp).create_bytes, sizeof(mprdma_abi_create_qp));
  mprdmadv_qp_init_attr wanted{};
  wanted.comp_mask = MPRDMADV_QP_INIT_ATTR_MODE;
  wanted.mode = MPRDMADV_MODE_MP;
  EXPECT_EQ(make(&wanted), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
  mprdmadv_qp_stats stats;
  EXPECT_EQ(mprdmadv_query_qp_stats(qp, &stats, sizeof(stats)), EOPNOTSUPP);
  char memory[8];
  const ibv_mr* mr = reg(memory, sizeof(memory));
  establish_loop(qp);
  EXPECT_EQ(post_send(qp, 1, IBV_WR_RDMA_WRITE, mr, 8, mr, MPRDMADV_SEND_SYNCHRONISE), EOPNOTSUPP);
  ibv_qp_ex* ex = ibv_qp_to_qp_ex(qp);
  ibv_wr_start(ex);
  ex->wr_flags = MPRDMADV_SEND_SYNCHRONISE;
  ibv_wr_rdma_write(ex, mr->rkey, reinterpret_cast<uint64_t>(memory));
  ibv_wr_set_sge(ex, mr->lkey, reinterpret_cast<uint64_t>(memory), 8);
  EXPECT_EQ(ibv_wr_complete(ex), EOPNOTSUPP);
}

TEST_F(OtherEngine, ThatPlacesAsPacketsArriveSaysThatDataIsNotInOrder) {
  begin(MPRDMA_ABI_FEATURE_RC | MPRDMA_ABI_FEATURE_RELAXED_ALWAYS);
  ibv_qp* qp = make(nullptr);
  ASSERT_NE(qp, nullptr);
  EXPECT_EQ(ibv_query_qp_data_in_order(qp, IBV_WR_RDMA_WRITE, 0), 0);
  EXPECT_EQ(ibv_query_qp_data_in_order(qp, IBV_WR_SEND, 0), 1);
}

}  // namespace
}  // namespace mprdma::provider_test
