// The receive window that two engines agree on follows the rates of their links (D16).
#include <gtest/gtest.h>

#include "dataplane/worker/qp_params.hpp"
#include "tests/unit/dataplane/mgmt/negotiation_support.hpp"

namespace mprdma::dataplane {
namespace {

using testing::Node;
using testing::WorkerNegotiationTest;
using transport::Params;

class WorkerFollowsNetworkTest : public WorkerNegotiationTest {
 protected:
  static uint32_t slots(Node& node) {
    return node.host.worker->qps().find(Qpn(node.qp->qpn))->qp.params().window_slots;
  }
  void write() {
    connect_a();
    connect_b();
    a->write(*b);
    run(Duration::us(400));
    ASSERT_TRUE(completed(*a));
    ASSERT_TRUE(arrived());
  }
};

TEST_F(WorkerFollowsNetworkTest, TheWindowIsThatOfTheSlowerLink) {
  wire->link_mbps = 100'000;
  make(nullptr, [](WorkerConfig& config) { config.params.link_mbps = 40'000; });
  write();
  EXPECT_EQ(slots(*a), 512U);
  EXPECT_EQ(slots(*b), 512U);
}

TEST_F(WorkerFollowsNetworkTest, ALinkOfUnknownRateHasTheConfiguredOne) {
  make();
  write();
  EXPECT_EQ(slots(*a), Params().window_slots);
  EXPECT_EQ(a->host.worker->config().params.window_rtt, Duration::zero());
}

mprdma_abi_qp_transport wanted(uint32_t mode, uint32_t initial_window = 0,
                               uint32_t window_max = 0) {
  mprdma_abi_qp_transport out{};
  out.mode = mode;
  out.initial_window = initial_window;
  out.window_max = window_max;
  return out;
}

TEST(ChooseParams, AModeThatIsAskedForFollowsTheNetworkAsTheDeviceDoes) {
  Params configured;
  settle_link({.link_mbps = 100'000}, &configured);
  Params chosen;
  ASSERT_EQ(choose_params(wanted(MPRDMA_ABI_MODE_MP_SINGLE), configured, &chosen), 0);
  EXPECT_EQ(chosen.window_slots, 2048U);
  ASSERT_EQ(choose_params(wanted(MPRDMA_ABI_MODE_MP_PAPER), configured, &chosen), 0);
  EXPECT_EQ(chosen.window_slots, 64U);
  ASSERT_EQ(choose_params(wanted(MPRDMA_ABI_MODE_DEFAULT, 2, 4), configured, &chosen), 0);
  EXPECT_EQ(chosen.window_rtt, Duration::zero()) << "a window that is named stays";
  Params unknown;
  settle_link({}, &unknown);
  ASSERT_EQ(choose_params(wanted(MPRDMA_ABI_MODE_MP_SINGLE), unknown, &chosen), 0);
  EXPECT_EQ(chosen.window_slots, 256U);
  EXPECT_EQ(chosen.window_rtt, Duration::zero());
}

TEST(SettleLink, WithADeltaOfLNoPathIsSlow) {
  Params params;
  params.reorder_delta = params.window_slots;
  settle_link({.link_mbps = 100'000}, &params);
  EXPECT_EQ(params.reorder_delta, 2048U);
}

TEST(SettleLink, APeerMayHaveMoreThanItsLinkAsksFor) {
  Params params;
  params.window_slots = 1024;
  settle_link({.link_mbps = 40'000}, &params);
  EXPECT_EQ(params.window_slots, 1024U);
  EXPECT_EQ(params.link_mbps, 40'000U);
}

}  // namespace
}  // namespace mprdma::dataplane
