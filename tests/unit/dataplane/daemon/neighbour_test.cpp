// IPv6 neighbour discovery and ping of mprdmad.
#include <gtest/gtest.h>

#include "tests/unit/dataplane/daemon/switch_bed.hpp"
#include "wire/neighbour.hpp"

namespace mprdma::dataplane::mprdmad {
namespace {

const wire::IpAddress kOurs = wire::link_local_of(kOurMac);
const wire::IpAddress kPeers = wire::link_local_of(kPeerMac);
// An address that does not contain an Ethernet address.
constexpr wire::IpAddress kFreeIp = {0xfe, 0x80, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8};

Bytes solicitation(const wire::MacAddress& from, const wire::IpAddress& target) {
  Bytes frame(wire::NeighbourMessage::kFrameBytes);
  wire::encode_solicitation(from, target, frame.data());
  return frame;
}

Bytes advertisement(const wire::IpAddress& target, const wire::MacAddress& at) {
  Bytes frame(wire::NeighbourMessage::kFrameBytes);
  wire::encode_advertisement(at, target, kOurMac, kOurs, frame.data());
  return frame;
}

wire::NeighbourMessage message_of(const Bytes& frame) {
  wire::NeighbourMessage message;
  EXPECT_EQ(frame.size(), wire::NeighbourMessage::kFrameBytes);
  EXPECT_TRUE(wire::NeighbourMessage::parse(wire::Ipv6::load(frame.data() + 14),
                                            std::span(frame).subspan(54), message));
  return message;
}

TEST(SwitchNeighbourDiscovery, AnswersForTheLinkLocalAddressOnly) {
  SwitchBed bed;
  bed.wire_sends(solicitation(kPeerMac, kOurs));
  bed.wire_sends(solicitation(kPeerMac, kFreeIp));
  bed.run();
  const std::vector<Bytes> answers = bed.wire_gets();
  ASSERT_EQ(answers.size(), 1u);
  EXPECT_TRUE(message_of(answers[0]).advertisement);
  EXPECT_EQ(message_of(answers[0]).target, kOurs);
  EXPECT_EQ(message_of(answers[0]).mac, kOurMac);
  EXPECT_EQ(wire::Ethernet::load(answers[0].data()).dst, kPeerMac);
  EXPECT_EQ(wire::Ipv6::load(answers[0].data() + 14).dst, kPeers);

  Bytes routed = solicitation(kPeerMac, kOurs);
  routed[21] = 254;
  bed.wire_sends(routed);
  bed.run();
  EXPECT_TRUE(bed.wire_gets().empty());
  EXPECT_EQ(bed.sw.wire_counters().nic_drop_malformed, 1u);
}

TEST(SwitchNeighbourDiscovery, TheAgentsAddressIsAskedFor) {
  SwitchBed bed;
  bed.sw.resolve(kFreeIp, bed.now);
  bed.run();
  const std::vector<Bytes> asked = bed.wire_gets();
  ASSERT_EQ(asked.size(), 1u);
  EXPECT_EQ(message_of(asked[0]).target, kFreeIp);
  EXPECT_EQ(wire::Ethernet::load(asked[0].data()).dst,
            (wire::MacAddress{0x33, 0x33, 0xff, 6, 7, 8}));
  // An unsolicited neighbour is not learnt.
  bed.wire_sends(advertisement(kPeers, kPeerMac));
  bed.wire_sends(advertisement(kFreeIp, kPeerMac));
  bed.run();
  EXPECT_EQ(bed.management.resolved.size(), 1u);
  EXPECT_EQ(bed.management.resolved.at(kFreeIp), kPeerMac);
  bed.sw.resolve(kPeers, bed.now);
  bed.run();
  EXPECT_EQ(bed.wire_gets().size(), 1u) << "it was learnt";
  bed.sw.resolve(kOurs, bed.now);
  EXPECT_EQ(bed.management.resolved.at(kOurs), kOurMac);
}

TEST(SwitchNeighbourDiscovery, AClientsQuestionIsAskedOnTheWireAndAnswered) {
  SwitchBed bed;
  bed.add(1);
  bed.client_sends(1, solicitation(kOurMac, kFreeIp));
  bed.client_sends(1, solicitation(kPeerMac, kFreeIp));
  bed.client_sends(1, advertisement(kOurs, kOurMac));
  bed.run();
  EXPECT_EQ(bed.of(1).nic_drop_forged, 2u);
  EXPECT_EQ(bed.wire_gets().size(), 1u);
  bed.wire_sends(advertisement(kFreeIp, kPeerMac));
  bed.run();
  std::vector<Bytes> answers = bed.client_gets(1);
  ASSERT_FALSE(answers.empty());
  EXPECT_EQ(message_of(answers[0]).target, kFreeIp);
  EXPECT_EQ(message_of(answers[0]).mac, kPeerMac);
  // The neighbour moves, and the client is told.
  const wire::MacAddress other = {2, 9, 9, 9, 9, 9};
  bed.wire_sends(advertisement(kFreeIp, other));
  bed.run();
  answers = bed.client_gets(1);
  ASSERT_EQ(answers.size(), 1u);
  EXPECT_EQ(message_of(answers[0]).mac, other);
}

TEST(SwitchNeighbourDiscovery, SomebodyElseWithOurAddressIsCountedAndNotBelieved) {
  SwitchBed bed;
  bed.wire_sends(advertisement(kOurs, kPeerMac));
  bed.run();
  EXPECT_EQ(bed.sw.wire_counters().nic_arp_conflicts, 1u);
  EXPECT_TRUE(bed.wire_gets().empty());
}

TEST(SwitchNeighbourDiscovery, PingIsAnsweredWithTheSameContents) {
  SwitchBed bed;
  Bytes ping(14 + 40 + 64);
  wire::Ethernet{.dst = kOurMac, .src = kPeerMac, .ether_type = wire::kEtherTypeIpv6}.store(
      ping.data());
  wire::Ipv6 ip;
  ip.payload_length = 64;
  ip.next_header = wire::kIpProtocolIcmpv6;
  ip.src = kPeers;
  ip.dst = kOurs;
  ip.store(ping.data() + 14);
  for (size_t i = 58; i < ping.size(); ++i) ping[i] = static_cast<unsigned char>(i);
  ping[54] = wire::kIcmpv6EchoRequest;
  const std::span<unsigned char> message = std::span(ping).subspan(54);
  store_be16(ping.data() + 56, wire::icmpv6_checksum(kPeers, kOurs, message));
  bed.wire_sends(ping);
  bed.run();
  const std::vector<Bytes> answers = bed.wire_gets();
  ASSERT_EQ(answers.size(), 1u);
  const Bytes& answer = answers[0];
  EXPECT_EQ(answer[54], wire::kIcmpv6EchoReply);
  EXPECT_EQ(wire::Ipv6::load(answer.data() + 14).src, kOurs);
  EXPECT_EQ(wire::Ipv6::load(answer.data() + 14).dst, kPeers);
  EXPECT_EQ(wire::icmpv6_checksum(kOurs, kPeers, std::span(answer).subspan(54)), 0);
  EXPECT_TRUE(std::equal(ping.begin() + 58, ping.end(), answer.begin() + 58));
}

}  // namespace
}  // namespace mprdma::dataplane::mprdmad
