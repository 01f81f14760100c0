// Path probes: those of peers are answered, those of clients are asked, and neither without a
// bound.
#include <gtest/gtest.h>

#include <cerrno>

#include "base/ipv4.hpp"
#include "tests/unit/dataplane/daemon/switch_bed.hpp"

namespace mprdma::dataplane::mprdmad {
namespace {

using wire::ArpOperation;
using wire::Ecn;

struct Way {
  Ecn ecn = Ecn::kEct0;
  uint8_t hop_limit = wire::kDefaultTtl;
  uint16_t source_port = 50'001;
};

Bytes frame_of(const wire::ProbeMad& mad, const Way& way, bool from_us = false) {
  Bytes buffer(256 + 4096 + 64);
  unsigned char* const payload = buffer.data() + 256;
  wire::encode_probe_mad(mad, payload);
  const wire::FrameAddress address{.dst_mac = from_us ? kPeerMac : kOurMac,
                                   .src_mac = from_us ? kOurMac : kPeerMac,
                                   .src_ip = wire::map_ipv4(from_us ? kOurIp : kPeerIp),
                                   .dst_ip = wire::map_ipv4(from_us ? kPeerIp : kOurIp),
                                   .ecn = way.ecn,
                                   .ttl = way.hop_limit};
  const size_t headers =
      wire::encode_frame(address, management_packet(way.source_port, mad.bytes, Psn{}), payload);
  const size_t length = wire::finish_frame(payload - headers, headers, mad.bytes, true);
  return {payload - headers, payload - headers + static_cast<long>(length)};
}

struct Taken {
  wire::DecodedFrame decoded;
  wire::ProbeMad mad;
};

Taken parse_probe(const Bytes& frame) {
  Taken taken;
  EXPECT_EQ(wire::decode_frame(frame, taken.decoded, true), wire::DropReason::kNone);
  const std::span<const unsigned char, wire::kMadBytes> head(
      frame.data() + taken.decoded.payload_offset, wire::kMadBytes);
  EXPECT_EQ(wire::decode_probe_mad(head, taken.decoded.packet.payload_len, taken.mad),
            wire::MadDrop::kNone);
  return taken;
}

wire::ProbeMad question(uint16_t bytes = 256, uint16_t answer_bytes = 256) {
  return {
      .transaction = 77, .sequence = 5, .bytes = bytes, .answer_bytes = answer_bytes, .seen = {}};
}

TEST(SwitchProbe, APeersProbeIsAnsweredWithoutAnyClient) {
  SwitchBed bed;
  for (const uint16_t bytes : {256, 260, 1024, 4096}) {
    const Bytes asked = frame_of(question(bytes, bytes), {Ecn::kCe, 61, 50'123});
    bed.wire_sends(asked);
    bed.run();
    const std::vector<Bytes> out = bed.wire_gets();
    ASSERT_EQ(out.size(), 1u) << bytes;
    EXPECT_LE(out[0].size(), asked.size()) << "no amplification";
    const Taken answer = parse_probe(out[0]);
    EXPECT_TRUE(answer.mad.response);
    EXPECT_EQ(answer.mad.transaction, 77u);
    EXPECT_EQ(answer.mad.sequence, 5u);
    const wire::ProbeSeen seen{
        .bytes = bytes, .source_port = 50'123, .hop_limit = 61, .ecn = Ecn::kCe};
    EXPECT_EQ(answer.mad.seen, seen);
    EXPECT_EQ(answer.decoded.address.dst_ip, wire::map_ipv4(kPeerIp));
    EXPECT_EQ(answer.decoded.address.dst_mac, kPeerMac);
    EXPECT_EQ(answer.decoded.address.src_mac, kOurMac);
    EXPECT_EQ(answer.decoded.address.ecn, Ecn::kEct0);
    EXPECT_EQ(answer.decoded.packet.vp, 50'123);
  }
  EXPECT_EQ(bed.sw.wire_counters().nic_probes_answered, 4u);
}

TEST(SwitchProbe, MoreThanTheRateAreRefused) {
  SwitchBed bed;
  constexpr uint64_t kSent = 500;
  for (uint64_t i = 0; i < kSent; ++i) bed.wire_sends(frame_of(question(), {}));
  bed.run();
  EXPECT_EQ(bed.wire_gets().size(), size_t{kProbeBurst});
  EXPECT_EQ(bed.sw.wire_counters().nic_probes_refused, kSent - kProbeBurst);
  bed.now += kProbeInterval * 10;
  for (uint64_t i = 0; i < kSent; ++i) bed.wire_sends(frame_of(question(), {}));
  bed.run();
  EXPECT_EQ(bed.wire_gets().size(), 10u);
}

TEST(SwitchProbe, WhatMakesNoSenseIsACountedDrop) {
  SwitchBed bed;
  wire::ProbeMad response = question();
  response.response = true;
  response.seen = {.bytes = 256, .source_port = 50'001};
  bed.wire_sends(frame_of(response, {}));  // an answer to nothing
  Bytes payload(1024);
  wire::ProbeMad wrong = question(1024);
  wire::encode_probe_mad(wrong, payload.data());
  payload[43] = 7;  // not as long as it says
  bed.wire_sends(make_frame(from_peer(management(payload))));
  bed.run();
  EXPECT_EQ(bed.sw.wire_counters().nic_drop_probe, 2u);
  wire::encode_probe_mad(wrong, payload.data());
  payload[1] = 0x07;  // a long datagram of another class
  bed.wire_sends(make_frame(from_peer(management(payload))));
  FrameSpec elsewhere = from_peer(management(Bytes(1024)));
  elsewhere.dst_ip = kFarIp;
  bed.wire_sends(make_frame(elsewhere));
  bed.run();
  EXPECT_EQ(bed.sw.wire_counters().nic_drop_management, 1u);
  EXPECT_EQ(bed.sw.wire_counters().nic_drop_not_ours, 1u);
  EXPECT_TRUE(bed.wire_gets().empty());
}

TEST(SwitchProbe, AClientSendsNoneItself) {
  SwitchBed bed;
  bed.add(1);
  bed.client_sends(1, frame_of(question(), {}, true));
  bed.client_sends(1, frame_of(question(1024), {}, true));
  bed.run();
  EXPECT_TRUE(bed.wire_gets().empty());
  EXPECT_EQ(bed.of(1).nic_drop_malformed, 2u);
}

// ---- Asking

ProbeQuestion wish(uint32_t serial, uint16_t bytes = 256) {
  ProbeQuestion probe;
  probe.serial = serial;
  probe.peer = kPeerIp;
  probe.sequence = serial + 100;
  probe.source_port = 49'500;
  probe.bytes = probe.answer_bytes = bytes;
  probe.ecn = static_cast<uint8_t>(Ecn::kEct0);
  return probe;
}

std::vector<ProbeOutcome> results(SwitchBed& bed) {
  std::vector<ProbeOutcome> out;
  bed.sw.prober().drain_results(
      [&](const PathProber::Result& result) { out.push_back(result.outcome); });
  return out;
}

void introduce_peer(SwitchBed& bed) {
  bed.wire_sends(arp_frame(ArpOperation::kRequest, kPeerMac, kPeerIp, kOurIp));
  bed.run();
  bed.wire_gets();
}

TEST(SwitchProbe, AsksTheNeighbourFirstThenThePeer) {
  SwitchBed bed;
  ASSERT_EQ(bed.sw.probe(9, wish(1, 1024), bed.now), 0);
  bed.run();
  ASSERT_EQ(bed.wire_gets().size(), 1u);  // ARP
  bed.wire_sends(arp_frame(ArpOperation::kReply, kPeerMac, kPeerIp, kOurIp, kOurMac));
  bed.run();
  const std::vector<Bytes> sent = bed.wire_gets();
  ASSERT_EQ(sent.size(), 1u);
  const Taken asked = parse_probe(sent[0]);
  EXPECT_EQ(asked.decoded.packet.vp, 49'500);
  EXPECT_EQ(asked.decoded.address.ecn, Ecn::kEct0);
  EXPECT_EQ(asked.mad.sequence, 101u);
  EXPECT_TRUE(results(bed).empty());

  bed.now += Duration::us(40);
  wire::ProbeMad answer = asked.mad;
  answer.response = true;
  answer.hop_limit = 255;
  answer.seen = {.bytes = 1024, .source_port = 40'000, .hop_limit = 60, .ecn = Ecn::kNotEct};
  wire::ProbeMad stray = answer;
  stray.transaction ^= 1;
  bed.wire_sends(frame_of(stray, {}));
  bed.wire_sends(frame_of(answer, {Ecn::kCe, 250, 49'500}));
  bed.wire_sends(frame_of(answer, {Ecn::kCe, 250, 49'500}));  // a copy of it
  bed.run();
  const std::vector<ProbeOutcome> got = results(bed);
  ASSERT_EQ(got.size(), 1u);
  EXPECT_EQ(got[0].serial, 1u);
  EXPECT_EQ(got[0].error, 0);
  EXPECT_EQ(got[0].rtt, Duration::us(40));
  EXPECT_EQ(got[0].there.source_port, 40'000);
  EXPECT_EQ(got[0].there.hop_limit, 60);
  EXPECT_EQ(got[0].there.ecn, 0);
  EXPECT_EQ(got[0].back.hop_limit_sent, 255);
  EXPECT_EQ(got[0].back.hop_limit, 250);
  EXPECT_EQ(got[0].back.ecn, static_cast<uint8_t>(Ecn::kCe));
  EXPECT_EQ(bed.sw.wire_counters().nic_drop_probe, 2u);
  EXPECT_TRUE(bed.sw.prober().next_deadline().is_never());
}

TEST(SwitchProbe, NoAnswerAndNobodyThereAreToldApart) {
  SwitchBed bed;
  ASSERT_EQ(bed.sw.probe(9, wish(1), bed.now), 0);
  std::vector<ProbeOutcome> got;
  for (int i = 0; i < 100 && got.empty(); ++i) {
    bed.now += Duration::ms(50);
    bed.run();
    got = results(bed);
  }
  ASSERT_EQ(got.size(), 1u);
  EXPECT_EQ(got[0].error, EHOSTUNREACH);
  introduce_peer(bed);
  ASSERT_EQ(bed.sw.probe(9, wish(2), bed.now), 0);
  EXPECT_EQ(bed.sw.prober().next_deadline(), bed.now + PathProber::kTimeout);
  bed.now += PathProber::kTimeout;
  bed.run();
  got = results(bed);
  ASSERT_EQ(got.size(), 1u);
  EXPECT_EQ(got[0].error, ETIMEDOUT);
  EXPECT_EQ(got[0].sequence, 102u);
}

TEST(SwitchProbe, WhoAsksTooMuchOrNonsenseIsRefused) {
  SwitchBed bed;
  introduce_peer(bed);
  size_t taken = 0;
  for (uint32_t i = 0; i < 100; ++i) taken += bed.sw.probe(1, wish(i), bed.now) == 0 ? 1 : 0;
  EXPECT_EQ(taken, PathProber::kOpenOfOne);
  for (uint32_t client = 2; client < 100; ++client) {
    for (uint32_t i = 0; i < 8; ++i) taken += bed.sw.probe(client, wish(i), bed.now) == 0 ? 1 : 0;
  }
  EXPECT_EQ(taken, size_t{kProbeBurst});
  bed.sw.prober().forget_client(1);
  bed.now += PathProber::kTimeout;
  bed.run();
  EXPECT_EQ(results(bed).size(), size_t{kProbeBurst} - PathProber::kOpenOfOne);

  const auto error_of = [&](auto&& change) {
    ProbeQuestion probe = wish(1);
    change(probe);
    return bed.sw.probe(1, probe, bed.now);
  };
  EXPECT_EQ(error_of([](ProbeQuestion& p) { p.bytes = 255; }), EINVAL);
  EXPECT_EQ(error_of([](ProbeQuestion& p) { p.bytes = 4097; }), EINVAL);
  EXPECT_EQ(error_of([](ProbeQuestion& p) { p.answer_bytes = 257; }), EINVAL);
  EXPECT_EQ(error_of([](ProbeQuestion& p) { p.source_port = 80; }), EINVAL);
  EXPECT_EQ(error_of([](ProbeQuestion& p) { p.ecn = 4; }), EINVAL);
  EXPECT_EQ(error_of([](ProbeQuestion& p) { p.peer = kOurIp; }), EINVAL);
  EXPECT_EQ(error_of([](ProbeQuestion& p) { p.peer = Ipv4(0xe0000001); }), EINVAL);
  SwitchBed alone(false);
  EXPECT_EQ(alone.sw.probe(1, wish(1), alone.now), ENETDOWN);
}

}  // namespace
}  // namespace mprdma::dataplane::mprdmad
