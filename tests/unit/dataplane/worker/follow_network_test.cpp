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

TEST(SettleLink, APeerMayHaveMoreThanItsLinkAsksFor) {
  Params params;
  params.window_slots = 1024;
  settle_link({.link_mbps = 40'000}, &params);
  EXPECT_EQ(params.window_slots, 1024U);
  EXPECT_EQ(params.link_mbps, 40'000U);
}

}  // namespace
}  // namespace mprdma::dataplane
