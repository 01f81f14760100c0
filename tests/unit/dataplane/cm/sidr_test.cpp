// Service id resolution (IBTA 12.11).
#include <gtest/gtest.h>

#include "base/ipv4.hpp"
#include "tests/unit/dataplane/cm/cm_host.hpp"

namespace mprdma::dataplane::test {
namespace {

using wire::CmMad;
using wire::CmSidrRep;

class CmSidr : public CmPair {
 protected:
  uint32_t ask_service(std::string_view data = {}) { return ask(0, data, kUdp); }
};

TEST_F(CmSidr, GivesTheQueuePairAndItsKey) {
  b.server(kPort, kUdp);
  id_a = ask_service("who");
  deliver();
  const auto request = b.expect(MPRDMA_ABI_CM_EVENT_REQUEST);
  EXPECT_EQ(request.params.qp_type, 4);
  EXPECT_EQ(request.params.private_bytes, 180);
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(request.params.private_data)), "who");
  mprdma_abi_cm_params in = params(33, "me");
  in.qkey = 0x1234567;
  ASSERT_EQ(b.accept(request.id, in), 0);
  deliver();
  const auto answer = a.expect(MPRDMA_ABI_CM_EVENT_ESTABLISHED);
  EXPECT_EQ(answer.params.qpn, 33u);
  EXPECT_EQ(answer.params.qkey, 0x1234567u);
  EXPECT_EQ(answer.params.private_bytes, 136);
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(answer.params.private_data)), "me");
  a.agent->forget_client(kClient, a.now);
  b.agent->forget_client(kClient, b.now);
  expect_nothing_left();
}

TEST_F(CmSidr, ARepeatedRequestGetsTheAnswerAgain) {
  b.server(kPort, kUdp);
  id_a = ask_service();
  const CmMad req = a.take()[0];
  b.give(req, a.address);
  id_b = b.expect(MPRDMA_ABI_CM_EVENT_REQUEST).id;
  b.give(req, a.address);
  EXPECT_TRUE(b.take().empty());
  ASSERT_EQ(b.accept(id_b, params(33)), 0);
  const CmSidrRep rep = b.take_one<CmSidrRep>();
  b.give(req, a.address);
  EXPECT_EQ(b.take_one<CmSidrRep>(), rep);
  EXPECT_TRUE(b.events().empty());
}

TEST_F(CmSidr, RefusalsHaveTheirStatus) {
  id_a = ask_service();
  deliver();
  EXPECT_EQ(a.expect(MPRDMA_ABI_CM_EVENT_UNREACHABLE).status, 1) << "nobody listens";
  listener = b.server(kPort, kUdp, 1);
  id_a = ask_service();
  deliver();
  id_b = b.expect(MPRDMA_ABI_CM_EVENT_REQUEST).id;
  ask_service();
  deliver();
  EXPECT_EQ(a.expect(MPRDMA_ABI_CM_EVENT_UNREACHABLE).status, 5) << "the backlog is full";
  ASSERT_EQ(b.reject(id_b), 0);
  deliver();
  EXPECT_EQ(a.expect(MPRDMA_ABI_CM_EVENT_UNREACHABLE).status, 2);
  ask_service();
  deliver();
  id_b = b.expect(MPRDMA_ABI_CM_EVENT_REQUEST).id;
  ASSERT_EQ(b.destroy(id_b), 0);
  deliver();
  EXPECT_EQ(a.expect(MPRDMA_ABI_CM_EVENT_UNREACHABLE).status, 2);
}

TEST_F(CmSidr, NoAnswerIsUnreachable) {
  id_a = ask_service();
  pass(Duration::s(100), false);
  EXPECT_EQ(a.expect(MPRDMA_ABI_CM_EVENT_UNREACHABLE).status, -ETIMEDOUT);
  EXPECT_EQ(a.take().size(), 16u);
}

TEST_F(CmSidr, OnlyTheOneWhoWasAskedAnswers) {
  b.server(kPort, kUdp);
  id_a = ask_service();
  id_b = requested();
  ASSERT_EQ(b.accept(id_b, params(33)), 0);
  const CmMad rep = b.take()[0];
  a.give(rep, wire::map_ipv4(Ipv4(0x0a000009)));
  EXPECT_TRUE(a.events().empty());
  a.give(rep, b.address);
  a.expect(MPRDMA_ABI_CM_EVENT_ESTABLISHED);
  a.give(rep, b.address);
  EXPECT_TRUE(a.events().empty());
}

TEST_F(CmSidr, AnAnsweredIdMayBeUsedForSomethingElse) {
  b.server(kPort, kUdp);
  id_a = ask_service();
  id_b = requested();
  ASSERT_EQ(b.accept(id_b, params(33)), 0);
  deliver();
  a.events();
  ASSERT_EQ(b.resolve(id_b, a.address, 1), 0);
  deliver();
  b.events();
  ASSERT_EQ(b.destroy(id_b), 0);
  ask_service();
  requested();
}

TEST_F(CmSidr, AGroupIsResolvedWithoutAskingAnybody) {
  id_a = a.create(kUdp);
  ASSERT_EQ(a.resolve(id_a, wire::map_ipv4(Ipv4(0xefc10203)), 0), 0);
  const auto resolved = a.expect(MPRDMA_ABI_CM_EVENT_ADDRESS_RESOLVED);
  const std::array<uint8_t, 6> mac = {0x01, 0x00, 0x5e, 0x41, 0x02, 0x03};
  EXPECT_TRUE(std::ranges::equal(mac, resolved.remote_mac));
}

}  // namespace
}  // namespace mprdma::dataplane::test
