// ARP and neighbour discovery, frame by frame.
#include "dataplane/mgmt/neighbours.hpp"

#include <gtest/gtest.h>

#include "base/ipv4.hpp"
#include "tests/support/print.hpp"
#include "tests/unit/dataplane/mgmt/fake_nic_host.hpp"
#include "wire/arp.hpp"

namespace mprdma::dataplane {
namespace {

using testing::Bytes;
using testing::FakeNicHost;
using wire::ArpOperation;

constexpr Ipv4 kOurIp{0x0a490001};
constexpr Ipv4 kPeerIp{0x0a490002};
constexpr wire::MacAddress kOurMac = {2, 0x4d, 0x52, 0x49, 0, 1};
constexpr wire::MacAddress kPeerMac = {2, 0x4d, 0x52, 0x49, 0, 2};
// An address that does not contain an Ethernet address.
constexpr wire::IpAddress kFreeIp = {0xfe, 0x80, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8};

Bytes arp_frame(ArpOperation operation, const wire::MacAddress& mac, Ipv4 sender_ip,
                Ipv4 target_ip) {
  Bytes frame(wire::kMinFrameBytes);
  const wire::Arp arp{.operation = operation,
                      .sender_mac = mac,
                      .sender_ip = sender_ip,
                      .target_mac = {},
                      .target_ip = target_ip};
  wire::encode_arp_frame(wire::kBroadcastMac, mac, arp, frame.data());
  return frame;
}

Bytes solicitation(const wire::MacAddress& mac, const wire::IpAddress& target) {
  Bytes frame(wire::NeighbourMessage::kFrameBytes);
  wire::encode_solicitation(mac, target, frame.data());
  return frame;
}

// `src` names `target` as its neighbour at `mac`, or asks for it.
Bytes message_from(const wire::IpAddress& src, const wire::MacAddress& mac,
                   const wire::IpAddress& target, bool advertisement) {
  Bytes frame(wire::NeighbourMessage::kFrameBytes);
  wire::NeighbourMessage message;
  message.advertisement = message.overrides = advertisement;
  message.has_mac = true;
  message.mac = mac;
  message.target = target;
  wire::encode_neighbour_frame({.dst = kOurMac, .src = mac, .ether_type = wire::kEtherTypeIpv6},
                               src, wire::link_local_of(kOurMac), message, frame.data());
  return frame;
}

Bytes advertisement(const wire::IpAddress& target, const wire::MacAddress& mac) {
  return message_from(target, mac, target, true);
}

class NeighboursTest : public ::testing::Test {
 protected:
  wire::Arp only_arp() {
    wire::Arp arp;
    const std::vector<Bytes> frames = host_.take();
    EXPECT_EQ(frames.size(), 1u);
    if (frames.size() != 1) return arp;
    EXPECT_EQ(wire::Arp::parse(std::span(frames[0]).subspan(wire::Ethernet::kBytes), arp),
              wire::DropReason::kNone);
    return arp;
  }

  const wire::IpAddress peer_ = wire::map_ipv4(kPeerIp);
  FakeNicHost host_;
  Neighbours neighbours_{kOurMac, kOurIp, 77};
};

TEST_F(NeighboursTest, AnswersARequestForItsAddressAndLearnsWhoAsked) {
  EXPECT_TRUE(
      neighbours_.on_arp(arp_frame(ArpOperation::kRequest, kPeerMac, kPeerIp, kOurIp), host_));
  const wire::Arp answer = only_arp();
  EXPECT_EQ(answer.operation, ArpOperation::kReply);
  EXPECT_EQ(answer.sender_mac, kOurMac);
  EXPECT_EQ(answer.sender_ip, kOurIp);
  EXPECT_EQ(answer.target_mac, kPeerMac);
  EXPECT_EQ(answer.target_ip, kPeerIp);
  EXPECT_EQ(host_.neighbours.at(peer_), kPeerMac);
  EXPECT_EQ(host_.counts[NicCount::kArpRepliesSent], 1);
}

TEST_F(NeighboursTest, RequestsForOthersAreForOthers) {
  EXPECT_FALSE(neighbours_.on_arp(
      arp_frame(ArpOperation::kRequest, kPeerMac, kPeerIp, Ipv4(0x0a490003)), host_));
  EXPECT_FALSE(neighbours_.on_discovery(solicitation(kPeerMac, kFreeIp), host_));
  EXPECT_TRUE(host_.frames.empty());
  EXPECT_TRUE(host_.neighbours.empty()) << "who did not ask us is no neighbour";
  EXPECT_EQ(host_.counts[NicCount::kArpNotForUs], 1);
}

TEST_F(NeighboursTest, WhoClaimsOurAddressIsAConflictAndIsNotBelieved) {
  neighbours_.on_arp(arp_frame(ArpOperation::kRequest, kPeerMac, kOurIp, kOurIp), host_);
  const wire::IpAddress& ours = neighbours_.link_local();
  neighbours_.on_discovery(message_from(kFreeIp, kPeerMac, ours, true), host_);
  neighbours_.on_discovery(message_from(ours, kPeerMac, ours, false), host_);
  EXPECT_EQ(host_.counts[NicCount::kAddressConflicts], 3);
  // Our own frames that the network brings back are none.
  neighbours_.on_arp(arp_frame(ArpOperation::kRequest, kOurMac, kOurIp, kOurIp), host_);
  neighbours_.on_discovery(advertisement(ours, kOurMac), host_);
  EXPECT_EQ(host_.counts[NicCount::kAddressConflicts], 3);
  EXPECT_TRUE(host_.frames.empty());
  EXPECT_TRUE(host_.neighbours.empty());
}

TEST_F(NeighboursTest, AsksUntilTheAnswerComes) {
  const Time start = Time::from_ns(5'000'000'000);
  neighbours_.table().resolve(peer_, start);
  neighbours_.table().resolve(kFreeIp, start);
  ASSERT_TRUE(neighbours_.on_deadline(start, host_));
  const std::vector<Bytes> asked = host_.take();
  ASSERT_EQ(asked.size(), 2u);
  EXPECT_EQ(asked[0], arp_frame(ArpOperation::kRequest, kOurMac, kOurIp, kPeerIp));
  EXPECT_EQ(asked[1], solicitation(kOurMac, kFreeIp));
  neighbours_.on_arp(arp_frame(ArpOperation::kReply, kPeerMac, kPeerIp, kOurIp), host_);
  neighbours_.on_discovery(advertisement(kFreeIp, kPeerMac), host_);
  EXPECT_EQ(host_.neighbours.at(peer_), kPeerMac);
  EXPECT_EQ(host_.neighbours.at(kFreeIp), kPeerMac);
  EXPECT_FALSE(neighbours_.on_deadline(start + Duration::s(1), host_));
  EXPECT_TRUE(host_.frames.empty());
}

TEST_F(NeighboursTest, ANeighbourThatDoesNotAnswerIsLost) {
  Time now = Time::from_ns(5'000'000'000);
  neighbours_.table().resolve(peer_, now);
  host_.full = true;
  for (int i = 0; i < 30; ++i, now += Duration::ms(100)) neighbours_.on_deadline(now, host_);
  EXPECT_EQ(host_.neighbours.at(peer_), wire::MacAddress{});
  EXPECT_EQ(host_.counts[NicCount::kArpRequestsSent], 0) << "nothing found room on the wire";
}

TEST_F(NeighboursTest, BrokenFramesTeachNothing) {
  Bytes arp = arp_frame(ArpOperation::kRequest, kPeerMac, kPeerIp, kOurIp);
  arp[17] = 1;  // hardware type
  EXPECT_TRUE(neighbours_.on_arp(arp, host_));
  arp.resize(30);
  EXPECT_TRUE(neighbours_.on_arp(arp, host_));
  Bytes routed = solicitation(kPeerMac, neighbours_.link_local());
  routed[21] = 254;  // hop limit
  EXPECT_TRUE(neighbours_.on_discovery(routed, host_));
  routed[21] = 255;
  for (size_t bytes = wire::Ethernet::kBytes; bytes < routed.size(); ++bytes) {
    EXPECT_TRUE(neighbours_.on_discovery(std::span(routed).first(bytes), host_));
  }
  EXPECT_EQ(host_.counts[NicCount::kArpBad], 1);
  EXPECT_EQ(host_.counts[NicCount::kArpTruncated], 1);
  EXPECT_EQ(host_.counts[NicCount::kNeighbourMessagesReceived], 0);
  EXPECT_TRUE(host_.frames.empty());
  EXPECT_TRUE(host_.neighbours.empty());
}

// An answer to such a sender would go to everyone, on every network that carries the question.
TEST_F(NeighboursTest, AMulticastSenderGetsNoAnswer) {
  const wire::MacAddress everyone = wire::kBroadcastMac;
  EXPECT_TRUE(
      neighbours_.on_arp(arp_frame(ArpOperation::kRequest, everyone, kPeerIp, kOurIp), host_));
  EXPECT_TRUE(neighbours_.on_discovery(solicitation(everyone, neighbours_.link_local()), host_));
  EXPECT_EQ(host_.counts[NicCount::kArpBad], 1);
  EXPECT_TRUE(host_.frames.empty());
  EXPECT_TRUE(host_.neighbours.empty());
}

}  // namespace
}  // namespace mprdma::dataplane
