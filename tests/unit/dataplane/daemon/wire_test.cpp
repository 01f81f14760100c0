// Pauses of the link, neighbours, ping and management datagrams.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "base/ipv4.hpp"
#include "tests/unit/dataplane/daemon/switch_bed.hpp"
#include "wire/cm_mad.hpp"
#include "wire/pause_frame.hpp"

namespace mprdma::dataplane::mprdmad {
namespace {

using wire::ArpOperation;

wire::Arp arp_of(const Bytes& frame) {
  wire::Arp arp;
  EXPECT_EQ(load_be16(frame.data() + 12), wire::kEtherTypeArp);
  EXPECT_EQ(wire::Arp::parse(std::span(frame).subspan(14), arp), wire::DropReason::kNone);
  return arp;
}

Bytes question(Ipv4 ip) {
  return arp_frame(ArpOperation::kRequest, kOurMac, kOurIp, ip);
}

Bytes pause_bytes(const wire::PauseFrame& pause) {
  Bytes bytes(wire::kMinFrameBytes);
  pause.store(kPeerMac, bytes.data());
  return bytes;
}

TEST(SwitchPauses, EachClientIsToldWhatTheConfigurationObeys) {
  using wire::PauseFrame;
  PauseFrame three = PauseFrame::pfc(1 << 0 | 1 << 3, 7);
  three.quanta[3] = 9;
  const struct {
    SwitchConfig config;
    Bytes sent;
    std::vector<PauseFrame> told;
  } cases[] = {
      {{.pfc = false}, pause_bytes(three), {}},
      {{.pfc = true}, pause_bytes(three), {three}},
      {{.pfc = true}, pause_bytes(PauseFrame::of_link(0)), {PauseFrame::of_link(0)}},
      {{.pfc = true, .pfc_priority = 3}, pause_bytes(three), {PauseFrame::of_link(9)}},
      {{.pfc = true, .pfc_priority = 4}, pause_bytes(three), {}},
  };
  for (const auto& [change, sent, told] : cases) {
    SwitchBed bed;
    SwitchConfig config = change;
    config.ipv4 = kOurIp;
    config.prefix_bits = 24;
    bed.sw.configure(config, bed.now);
    bed.add(1);
    bed.add(5);
    bed.wire_gets();
    bed.wire_sends(sent);
    bed.run();
    for (const uint32_t block : {1U, 5U}) {
      std::vector<PauseFrame> heard;
      for (const Bytes& frame : bed.client_gets(block)) {
        ASSERT_EQ(PauseFrame::parse(frame, heard.emplace_back()), wire::PauseDrop::kNone);
      }
      EXPECT_EQ(heard, told);
    }
    const StationCounters counters = bed.sw.wire_counters();
    EXPECT_EQ(counters.nic_pauses, told.size());
    EXPECT_EQ(counters.nic_pauses_ignored, 1 - told.size());
    EXPECT_TRUE(bed.wire_gets().empty());
  }
}

// The end of a pause is said once.
TEST(SwitchPauses, AClientWithoutRoomIsToldLater) {
  using wire::PauseFrame;
  SwitchBed bed;
  bed.sw.configure({.ipv4 = kOurIp, .prefix_bits = 24, .pfc = true}, bed.now);
  bed.add(1);
  bed.clients[1]->room = 0;
  bed.wire_sends(pause_bytes(PauseFrame::pfc(1 << 2 | 1 << 3, 9)));
  bed.wire_sends(pause_bytes(PauseFrame::pfc(1 << 3, 0)));
  bed.run();
  EXPECT_TRUE(bed.client_gets(1).empty());
  bed.clients[1]->room = 100;
  bed.run();
  const std::vector<Bytes> told = bed.client_gets(1);
  ASSERT_EQ(told.size(), 1u);
  PauseFrame pause;
  ASSERT_EQ(PauseFrame::parse(told[0], pause), wire::PauseDrop::kNone);
  PauseFrame both = PauseFrame::pfc(1 << 2 | 1 << 3, 9);
  both.quanta[3] = 0;
  EXPECT_EQ(pause, both);
  bed.run();
  EXPECT_TRUE(bed.client_gets(1).empty()) << "once";
}

TEST(SwitchPauses, AClientCannotPauseAnybody) {
  SwitchBed bed;
  bed.sw.configure({.ipv4 = kOurIp, .prefix_bits = 24, .pfc = true}, bed.now);
  bed.add(1);
  bed.add(5);
  bed.wire_gets();
  bed.client_sends(1, pause_bytes(wire::PauseFrame::of_link(9)));
  Bytes cut = pause_bytes(wire::PauseFrame::pfc(0xff, 9));
  cut.resize(20);
  bed.wire_sends(cut);
  bed.run();
  EXPECT_TRUE(bed.client_gets(5).empty());
  EXPECT_TRUE(bed.wire_gets().empty());
  EXPECT_EQ(bed.sw.client_counters(1)->nic_drop_not_ours, 1u);
  EXPECT_EQ(bed.sw.wire_counters().nic_drop_malformed, 1u);
}

TEST(SwitchNeighbours, AClientsQuestionIsAskedOnTheWireAndAnswered) {
  SwitchBed bed;
  bed.add(1);
  bed.client_sends(1, question(kPeerIp));
  bed.run();
  std::vector<Bytes> asked = bed.wire_gets();
  ASSERT_EQ(asked.size(), 1u);
  EXPECT_EQ(arp_of(asked[0]).operation, ArpOperation::kRequest);
  EXPECT_EQ(arp_of(asked[0]).target_ip, kPeerIp);
  EXPECT_EQ(arp_of(asked[0]).sender_ip, kOurIp);
  EXPECT_TRUE(bed.client_gets(1).empty());

  bed.wire_sends(arp_frame(ArpOperation::kReply, kPeerMac, kPeerIp, kOurIp, kOurMac));
  bed.run();
  std::vector<Bytes> answers = bed.client_gets(1);
  ASSERT_FALSE(answers.empty());
  EXPECT_EQ(arp_of(answers[0]).sender_mac, kPeerMac);
  EXPECT_EQ(arp_of(answers[0]).sender_ip, kPeerIp);
  EXPECT_EQ(arp_of(answers[0]).target_ip, kOurIp);

  // The daemon answers from its table, without another question.
  bed.client_sends(1, question(kPeerIp));
  bed.run();
  EXPECT_EQ(bed.client_gets(1).size(), 1u);
  EXPECT_TRUE(bed.wire_gets().empty());

  // The peer has another Ethernet address now.
  const wire::MacAddress other = {2, 9, 9, 9, 9, 9};
  bed.wire_sends(arp_frame(ArpOperation::kRequest, other, kPeerIp, kPeerIp));
  bed.run();
  answers = bed.client_gets(1);
  ASSERT_EQ(answers.size(), 1u);
  EXPECT_EQ(arp_of(answers[0]).sender_mac, other);
}

TEST(SwitchNeighbours, WhatIsBeyondTheGatewayHasItsEthernetAddress) {
  SwitchBed bed(true, kGateway);
  bed.add(1);
  bed.client_sends(1, question(kFarIp));
  bed.run();
  const std::vector<Bytes> asked = bed.wire_gets();
  ASSERT_EQ(asked.size(), 1u);
  EXPECT_EQ(arp_of(asked[0]).target_ip, kGateway);
  bed.wire_sends(arp_frame(ArpOperation::kReply, kPeerMac, kGateway, kOurIp, kOurMac));
  bed.run();
  const std::vector<Bytes> answers = bed.client_gets(1);
  ASSERT_FALSE(answers.empty());
  EXPECT_EQ(arp_of(answers[0]).sender_ip, kFarIp);
  EXPECT_EQ(arp_of(answers[0]).sender_mac, kPeerMac);
}

// RFC 1122, 2.3.2.1: an entry for a neighbour ends when it is out of date.
TEST(SwitchNeighbours, AGatewayMayBecomeAnotherMachine) {
  const wire::MacAddress other = {2, 9, 9, 9, 9, 9};
  SwitchBed bed(true, kGateway);
  bed.add(1);
  const Bytes far = make_frame({.dst_ip = kFarIp});
  const Bytes near = make_frame({});
  bed.sw.service_wire(bed.now);  // the link is up, and says so
  bed.wire_gets();
  bed.client_sends(1, question(kFarIp));
  bed.run();
  bed.wire_sends(arp_frame(ArpOperation::kReply, kPeerMac, kGateway, kOurIp, kOurMac));
  bed.client_sends(1, far);
  bed.run();
  bed.wire_gets();

  // Frames of the gateway arrive, so it is not asked for.
  for (int i = 0; i < 10; ++i) {
    bed.client_sends(1, far);
    bed.wire_sends(make_frame(from_peer({.dest_qpn = qpn_in(1)})));
    bed.run();
    bed.now += NeighbourResolver::kGatewayCheckInterval;
    bed.sw.service_wire(bed.now);
    bed.run();
    EXPECT_EQ(bed.wire_gets(), std::vector<Bytes>{far});
  }
  // Nothing comes back from the gateway: it is asked for, and answers from another Ethernet
  // address.
  bed.client_sends(1, far);
  bed.run();
  bed.now += NeighbourResolver::kGatewayCheckInterval;
  bed.sw.service_wire(bed.now);
  bed.run();
  std::vector<Bytes> sent = bed.wire_gets();
  ASSERT_EQ(sent.size(), 2u);
  EXPECT_EQ(arp_of(sent[1]).target_ip, kGateway);
  bed.wire_sends(arp_frame(ArpOperation::kReply, other, kGateway, kOurIp, kOurMac));
  bed.run();

  // The client's Ethernet address for the gateway is ignored; for an address on the subnet it
  // counts.
  bed.client_sends(1, far);
  bed.client_sends(1, make_frame(management(pair_mad(qpn_in(1), Qpn(9)))));
  FrameSpec pair = management(pair_mad(qpn_in(1), Qpn(9)));
  pair.dst_ip = kFarIp;
  bed.client_sends(1, make_frame(pair));
  bed.client_sends(1, near);
  bed.run();
  sent = bed.wire_gets();
  ASSERT_EQ(sent.size(), 4u);
  for (const size_t i : {0u, 2u})
    EXPECT_TRUE(std::equal(other.begin(), other.end(), sent[i].begin()));
  for (const size_t i : {1u, 3u}) {
    EXPECT_TRUE(std::equal(kPeerMac.begin(), kPeerMac.end(), sent[i].begin()));
  }
}

TEST(SwitchNeighbours, OurOwnAddressIsAnsweredOnBothSides) {
  SwitchBed bed;
  bed.add(1);
  bed.client_sends(1, question(kOurIp));
  bed.wire_sends(arp_frame(ArpOperation::kRequest, kPeerMac, kPeerIp, kOurIp));
  bed.run();
  std::vector<Bytes> answers = bed.client_gets(1);
  ASSERT_FALSE(answers.empty());
  EXPECT_EQ(arp_of(answers.back()).sender_mac, kOurMac);
  answers = bed.wire_gets();
  ASSERT_EQ(answers.size(), 1u);
  EXPECT_EQ(arp_of(answers[0]).operation, ArpOperation::kReply);
  EXPECT_EQ(arp_of(answers[0]).sender_mac, kOurMac);
  EXPECT_EQ(arp_of(answers[0]).target_mac, kPeerMac);
}

TEST(SwitchNeighbours, AClientThatAsksWithoutEndOrInAnotherNameIsNotServed) {
  SwitchBed bed;
  bed.add(1);
  for (uint32_t i = 0; i < 1000; ++i) bed.client_sends(1, question(Ipv4(0x0a490100 + i)));
  bed.client_sends(1, arp_frame(ArpOperation::kRequest, kOurMac, kFarIp, kPeerIp));
  bed.client_sends(1, arp_frame(ArpOperation::kRequest, kPeerMac, kOurIp, kPeerIp));
  bed.client_sends(1, arp_frame(ArpOperation::kReply, kOurMac, kOurIp, kPeerIp));
  bed.run();
  EXPECT_EQ(bed.wire_gets().size(), Switch::kArpPerPeriod);
  EXPECT_EQ(bed.of(1).nic_drop_arp, 1000u - Switch::kArpPerPeriod);
  EXPECT_EQ(bed.of(1).nic_drop_forged, 3u);
  // A neighbour that does not answer is asked for no more after a while.
  for (int i = 0; i < 100; ++i) {
    bed.now += Duration::ms(50);
    bed.run();
    bed.wire_gets();
  }
  EXPECT_TRUE(bed.sw.next_deadline().is_never());
}

TEST(SwitchNeighbours, TheQuestionsOfTheGoneAreNotThoseOfTheNextWithTheirBlock) {
  SwitchBed bed;
  bed.add(1);
  for (uint32_t i = 0; i < NeighbourResolver::kQuestionsPerClient; ++i) {
    bed.client_sends(1, question(Ipv4(0x0a490100 + i)));
    if ((i + 1) % Switch::kArpPerPeriod != 0) continue;
    bed.run();
    bed.now += Switch::kArpPeriod;
  }
  bed.wire_gets();
  bed.sw.remove_client(1, bed.now);
  bed.add(1);
  bed.client_sends(1, question(kPeerIp));
  bed.run();
  // The daemon also repeats questions for older neighbours.
  const std::vector<Bytes> asked = bed.wire_gets();
  EXPECT_TRUE(std::any_of(asked.begin(), asked.end(),
                          [](const Bytes& frame) { return arp_of(frame).target_ip == kPeerIp; }));
}

TEST(SwitchNeighbours, SomebodyElseWithOurAddressIsCountedAndNotBelieved) {
  SwitchBed bed;
  bed.add(1);
  bed.wire_sends(arp_frame(ArpOperation::kRequest, kPeerMac, kOurIp, kOurIp));
  bed.run();
  EXPECT_EQ(bed.sw.wire_counters().nic_arp_conflicts, 1u);
  EXPECT_TRUE(bed.client_gets(1).empty());
}

uint16_t icmp_sum(const Bytes& frame) {
  uint32_t sum = 0;
  for (size_t i = 34; i + 1 < frame.size(); i += 2) sum += load_be16(frame.data() + i);
  while ((sum >> 16) != 0) sum = (sum & 0xffff) + (sum >> 16);
  return static_cast<uint16_t>(~sum);
}

TEST(SwitchPing, IsAnsweredWithTheSameContents) {
  SwitchBed bed;
  Bytes ping(14 + 20 + 64);
  wire::Ethernet{.dst = kOurMac, .src = kPeerMac, .ether_type = wire::kEtherTypeIpv4}.store(
      ping.data());
  wire::Ipv4Header{.total_length = 84, .ttl = 3, .protocol = 1, .src = kPeerIp, .dst = kOurIp}
      .store(ping.data() + 14);
  std::iota(ping.begin() + 38, ping.end(), static_cast<unsigned char>(1));
  ping[34] = 8;
  store_be16(ping.data() + 36, icmp_sum(ping));
  bed.wire_sends(ping);
  bed.run();
  const std::vector<Bytes> answers = bed.wire_gets();
  ASSERT_EQ(answers.size(), 1u);
  const Bytes& answer = answers[0];
  const wire::Ipv4Header ip = wire::Ipv4Header::load(answer.data() + 14);
  EXPECT_TRUE(wire::Ipv4Header::checksum_ok(answer.data() + 14));
  EXPECT_EQ(ip.src, kOurIp);
  EXPECT_EQ(ip.dst, kPeerIp);
  EXPECT_EQ(answer[34], 0);
  EXPECT_EQ(icmp_sum(answer), 0);
  EXPECT_TRUE(std::equal(ping.begin() + 38, ping.end(), answer.begin() + 38));
  EXPECT_TRUE(std::equal(kPeerMac.begin(), kPeerMac.end(), answer.begin()));
  EXPECT_EQ(bed.sw.wire_counters().nic_pings_answered, 1u);
}

TEST(SwitchManagement, OurClassGoesToTheQueuePairThatItNames) {
  SwitchBed bed;
  bed.add(1);
  bed.add(2);
  const Bytes ask = make_frame(from_peer(management(pair_mad(Qpn(9), qpn_in(2)))));
  const Bytes answer = make_frame(
      from_peer(management(pair_mad(Qpn(9), Qpn(0), true, 0xabcd000000 | qpn_in(1).value()))));
  bed.wire_sends(ask);
  bed.wire_sends(answer);
  // The datagram goes from one client of the host to another.
  FrameSpec near = management(pair_mad(qpn_in(1), qpn_in(2)));
  near.dst_ip = kOurIp;
  near.dst_mac = kOurMac;
  bed.client_sends(1, make_frame(near));
  bed.run();
  EXPECT_EQ(bed.client_gets(1), std::vector<Bytes>{answer});
  EXPECT_EQ(bed.client_gets(2), (std::vector<Bytes>{ask, make_frame(near)}));
}

Bytes cm_mad() {
  Bytes bytes(wire::kMadBytes);
  wire::encode_cm_mad({.transaction = 5, .modifier = 0, .body = wire::CmDreq{}},
                      std::span<unsigned char, wire::kMadBytes>(bytes));
  return bytes;
}

TEST(SwitchManagement, ConnectionManagementGoesToTheAgentWithItsIcrcChecked) {
  SwitchBed bed;
  bed.add(1);
  const Bytes frame = make_frame(from_peer(management(cm_mad())));
  bed.wire_sends(frame);
  Bytes corrupt = frame;
  corrupt.back() ^= 1;
  bed.wire_sends(corrupt);
  bed.run();
  EXPECT_EQ(bed.management.mads, std::vector<Bytes>{cm_mad()});
  EXPECT_EQ(bed.management.last_from, wire::map_ipv4(kPeerIp));
  EXPECT_EQ(bed.sw.wire_counters().nic_drop_malformed, 1u);
}

TEST(SwitchManagement, TheAgentsDatagramWaitsForTheNeighbour) {
  SwitchBed bed;
  CmAgent::OutgoingMad mad;
  mad.to = wire::map_ipv4(kPeerIp);
  const Bytes body = cm_mad();
  std::copy(body.begin(), body.end(), mad.bytes.begin());
  bed.sw.send_mad(mad, bed.now);
  bed.run();
  ASSERT_EQ(bed.wire_gets().size(), 1u);  // the question
  bed.wire_sends(arp_frame(ArpOperation::kReply, kPeerMac, kPeerIp, kOurIp, kOurMac));
  bed.run();
  const std::vector<Bytes> sent = bed.wire_gets();
  ASSERT_EQ(sent.size(), 1u);
  wire::DecodedFrame decoded;
  ASSERT_EQ(wire::decode_frame(sent[0], decoded, true), wire::DropReason::kNone);
  EXPECT_EQ(decoded.packet.dest_qpn, Qpn(1));
  EXPECT_EQ(decoded.packet.deth.src_qpn, Qpn(1));
  EXPECT_EQ(decoded.address.dst_mac, kPeerMac);
  const auto payload = wire::payload_of(sent[0], decoded);
  EXPECT_TRUE(std::equal(body.begin(), body.end(), payload.begin(), payload.end()));
  EXPECT_EQ(bed.management.resolved.at(mad.to), kPeerMac);

  // A datagram to the own address comes back.
  mad.to = wire::map_ipv4(kOurIp);
  bed.sw.send_mad(mad, bed.now);
  EXPECT_EQ(bed.management.mads.size(), 1u);
}

TEST(SwitchManagement, TheAgentHearsOfAnAddressThatDoesNotAnswer) {
  SwitchBed bed;
  const wire::IpAddress to = wire::map_ipv4(kPeerIp);
  bed.sw.resolve(to, bed.now);
  EXPECT_TRUE(bed.management.resolved.empty());
  for (int i = 0; i < 100 && bed.management.resolved.empty(); ++i) {
    bed.now += Duration::ms(50);
    bed.run();
  }
  ASSERT_EQ(bed.management.resolved.count(to), 1u);
  EXPECT_EQ(bed.management.resolved.at(to), wire::MacAddress{});
  bed.sw.resolve(wire::map_ipv4(kOurIp), bed.now);
  EXPECT_EQ(bed.management.resolved.at(wire::map_ipv4(kOurIp)), kOurMac);
}

}  // namespace
}  // namespace mprdma::dataplane::mprdmad
