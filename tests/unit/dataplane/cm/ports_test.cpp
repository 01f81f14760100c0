// Ports and addresses of rdma_cm, as bind(2), listen(2) and Linux's rdma_cm have them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "base/ipv4.hpp"
#include "tests/unit/dataplane/cm/cm_host.hpp"

namespace mprdma::dataplane::test {
namespace {

using CmPorts = CmPair;

constexpr wire::IpAddress kAnyIpv6{};
constexpr wire::IpAddress kAnyIpv4 = wire::map_ipv4(Ipv4{});

TEST_F(CmPorts, APortBelongsToOneUntilItIsDestroyed) {
  const uint32_t first = a.create();
  const uint32_t second = a.create();
  ASSERT_EQ(a.bind(first, kAnyIpv4, 80), 0) << "privileged ports are not special";
  EXPECT_EQ(a.bind(second, a.address, 80), EADDRNOTAVAIL) << "the other one has every address";
  EXPECT_EQ(a.bind(a.create(kUdp), kAnyIpv4, 80), 0) << "another space";
  EXPECT_EQ(a.bind(first, kAnyIpv4, 81), EINVAL);
  ASSERT_EQ(a.destroy(first), 0);
  EXPECT_EQ(a.bind(second, a.address, 80), 0);
  EXPECT_EQ(a.bind(a.create(), b.address, 81), EADDRNOTAVAIL) << "not ours";
}

TEST_F(CmPorts, ALoopbackAddressIsTheDevices) {
  const uint32_t id = a.create();
  ASSERT_EQ(a.bind(id, wire::map_ipv4(Ipv4(0x7f000101)), 80), 0);
  EXPECT_TRUE(std::ranges::equal(a.result.local.ip, a.address));
  EXPECT_EQ(a.bind(a.create(), a.address, 80), EADDRINUSE);
}

TEST_F(CmPorts, PortsAreTheDevicesWhateverClientBindsThem) {
  a.server(kPort);
  a.client = kClient + 1;
  EXPECT_EQ(a.bind(a.create(), kAnyIpv4, kPort), EADDRNOTAVAIL);
}

TEST_F(CmPorts, PortZeroGivesAFreeOneOfTheRangeUntilThereIsNone) {
  CmConfig config;
  config.port_min = 40000;
  config.port_max = 40009;
  a = CmHost(kA, 3, config);
  ASSERT_EQ(a.bind(a.create(), kAnyIpv4, 40003), 0);
  std::set<uint16_t> given;
  for (int i = 0; i < 9; ++i) {
    ASSERT_EQ(a.bind(a.create(), kAnyIpv4, 0), 0);
    given.insert(a.result.local.port);
  }
  EXPECT_EQ(given.size(), 9u);
  EXPECT_FALSE(given.contains(40003));
  EXPECT_EQ(a.bind(a.create(), kAnyIpv4, 0), EADDRNOTAVAIL);
}

TEST_F(CmPorts, ReuseNeedsBothAndNobodyWhoListens) {
  const uint32_t first = a.create();
  const uint32_t second = a.create();
  const uint32_t third = a.create();
  ASSERT_EQ(a.option(first, MPRDMA_ABI_CM_OPTION_REUSEADDR, 1), 0);
  ASSERT_EQ(a.bind(first, kAnyIpv4, kPort), 0);
  EXPECT_EQ(a.bind(second, kAnyIpv4, kPort), EADDRNOTAVAIL);
  ASSERT_EQ(a.option(second, MPRDMA_ABI_CM_OPTION_REUSEADDR, 1), 0);
  ASSERT_EQ(a.bind(second, kAnyIpv4, kPort), 0);
  EXPECT_EQ(a.listen(first), EADDRNOTAVAIL) << "it is shared";
  ASSERT_EQ(a.destroy(second), 0);
  ASSERT_EQ(a.listen(first), 0);
  ASSERT_EQ(a.option(third, MPRDMA_ABI_CM_OPTION_REUSEADDR, 1), 0);
  EXPECT_EQ(a.bind(third, kAnyIpv4, kPort), EADDRNOTAVAIL) << "somebody listens";
}

TEST_F(CmPorts, BothFamiliesShareAPortIfEachKeepsToItself) {
  const uint32_t four = b.create();
  const uint32_t six = b.create();
  ASSERT_EQ(b.option(six, MPRDMA_ABI_CM_OPTION_AFONLY, 1), 0);
  ASSERT_EQ(b.option(four, MPRDMA_ABI_CM_OPTION_AFONLY, 1), 0);
  ASSERT_EQ(b.bind(six, kAnyIpv6, kPort), 0);
  ASSERT_EQ(b.bind(four, kAnyIpv4, kPort), 0);
  ASSERT_EQ(b.listen(six), 0);
  ask(17);
  deliver();
  EXPECT_EQ(a.expect(MPRDMA_ABI_CM_EVENT_REJECTED).status, 8) << "IPv6 only";
  ASSERT_EQ(b.listen(four), 0);
  ask(18);
  deliver();
  EXPECT_EQ(b.expect(MPRDMA_ABI_CM_EVENT_REQUEST).listener, four);
}

// Linux, rdma_bind_addr_dst(): an IPv4 address is for IPv4 alone unless the option was given, an
// IPv6 one for both. Servers such as redis bind 0.0.0.0 and, with AFONLY, [::] at one port.
TEST_F(CmPorts, AnIpv4AddressIsForIpv4AloneUnlessTheOptionSaysOtherwise) {
  const uint32_t four = b.create();
  const uint32_t six = b.create();
  ASSERT_EQ(b.bind(four, kAnyIpv4, kPort), 0);
  EXPECT_EQ(b.bind(six, kAnyIpv6, kPort), EADDRNOTAVAIL) << "IPv6's takes IPv4 as well";
  ASSERT_EQ(b.option(six, MPRDMA_ABI_CM_OPTION_AFONLY, 1), 0);
  EXPECT_EQ(b.bind(six, kAnyIpv6, kPort), 0);
  EXPECT_EQ(b.listen(four), 0);
  EXPECT_EQ(b.listen(six), 0);
  const uint32_t open = b.create();
  ASSERT_EQ(b.option(open, MPRDMA_ABI_CM_OPTION_AFONLY, 0), 0);
  ASSERT_EQ(b.bind(open, kAnyIpv4, kPort + 1), 0);
  const uint32_t other = b.create();
  ASSERT_EQ(b.option(other, MPRDMA_ABI_CM_OPTION_AFONLY, 1), 0);
  EXPECT_EQ(b.bind(other, kAnyIpv6, kPort + 1), EADDRNOTAVAIL) << "it was told to take both";
}

TEST_F(CmPorts, AListenerAtAnyOrOurAddressIsFound) {
  for (const wire::IpAddress& address : {kAnyIpv6, kAnyIpv4, b.address}) {
    listener = b.create();
    ASSERT_EQ(b.bind(listener, address, kPort), 0);
    ASSERT_EQ(b.listen(listener), 0);
    id_a = ask(17);
    id_b = requested();
    ASSERT_EQ(b.destroy(id_b), 0);
    ASSERT_EQ(b.destroy(listener), 0);
    deliver();
    a.events();
  }
}

TEST_F(CmPorts, ResolvingChoosesAnAddressAndAPort) {
  const uint32_t id = a.create();
  EXPECT_EQ(a.resolve(id, wire::IpAddress{0x20, 0x01}, 1), ENETUNREACH) << "another family";
  ASSERT_EQ(a.resolve(id, b.address, 1), 0);
  EXPECT_TRUE(std::ranges::equal(a.result.local.ip, a.address));
  EXPECT_GE(a.result.local.port, 32768);
  EXPECT_EQ(a.resolve(id, b.address, 1), EINVAL) << "under way";
  const uint32_t bound = a.create();
  ASSERT_EQ(a.bind(bound, kAnyIpv4, 5000), 0);
  ASSERT_EQ(a.resolve(bound, b.address, 1), 0);
  EXPECT_EQ(a.result.local.port, 5000);
}

TEST_F(CmPorts, AnAddressIsAskedForOnceAndTheAnswerIsForAllWhoWait) {
  const uint32_t first = a.create();
  const uint32_t second = a.create();
  const uint32_t third = a.create();
  for (const uint32_t id : {first, second, third}) {
    ASSERT_EQ(a.resolve(id, b.address, 1, id == third ? 10 : 2000), 0);
  }
  wire::IpAddress asked;
  ASSERT_TRUE(a.agent->poll_resolve(&asked));
  EXPECT_EQ(asked, b.address);
  EXPECT_FALSE(a.agent->poll_resolve(&asked));
  pass(Duration::ms(20), false);
  const auto late = a.expect(MPRDMA_ABI_CM_EVENT_ADDRESS_ERROR);
  EXPECT_EQ(late.id, third);
  EXPECT_EQ(late.status, -ETIMEDOUT);
  a.agent->on_resolved(b.address, nullptr, a.now);
  const auto all = a.events();
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].status, -EHOSTUNREACH);
  ASSERT_EQ(a.resolve(third, b.address, 1), 0) << "once more";
  ASSERT_TRUE(a.agent->poll_resolve(&asked));
  ASSERT_EQ(a.destroy(third), 0);
  const wire::MacAddress mac{};
  a.agent->on_resolved(b.address, &mac, a.now);
  EXPECT_TRUE(a.events().empty()) << "nobody is there any more";
}

TEST_F(CmPorts, ANewAddressIsToldToWhoeverHasTheOldOne) {
  connect_both();
  CmConfig config;
  config.address = wire::map_ipv4(Ipv4(0x0a000055));
  b.agent->set_address(config, b.now);
  const auto changed = b.expect(MPRDMA_ABI_CM_EVENT_ADDRESS_CHANGE);
  EXPECT_EQ(changed.id, id_b) << "the listener has no address of its own";
}

TEST_F(CmPorts, TooManyIdsAreRefusedAndOldConnectionsGiveWay) {
  CmConfig config;
  config.ids_max = 3;
  a = CmHost(kA, 3, config);
  connect_both();
  a.create();
  a.client = kClient + 1;
  a.create();
  EXPECT_EQ(a.create(), kNobody);
  a.client = kClient;
  EXPECT_EQ(a.create(), kNobody);
  ASSERT_EQ(a.destroy(id_a), 0);
  EXPECT_EQ(a.agent->ids_in_use(), 3u) << "its DREQ is under way";
  EXPECT_NE(a.create(), kNobody);
  EXPECT_EQ(a.agent->ids_in_use(), 3u);
}

TEST_F(CmPorts, AClientThatWantsAllIdsLeavesSomeToEachOther) {
  CmConfig config;
  config.ids_max = 1024;
  a = CmHost(kA, 3, config);
  std::vector<uint32_t> got;
  for (a.client = 1; a.client <= 5; ++a.client) {
    uint32_t count = 0;
    while (a.create() != kNobody) ++count;
    got.push_back(count);
  }
  // Each client may have half of the ids that are left.
  EXPECT_THAT(got, ::testing::ElementsAre(513, 256, 128, 64, 32));
}

}  // namespace
}  // namespace mprdma::dataplane::test
