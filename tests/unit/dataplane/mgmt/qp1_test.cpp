// Queue pair 1: what it takes, what it answers, and what it sends.
#include "dataplane/mgmt/qp1.hpp"

#include <gtest/gtest.h>

#include <cstring>

#include "base/ipv4.hpp"
#include "tests/unit/dataplane/mgmt/fake_nic_host.hpp"
#include "wire/cm_mad.hpp"

namespace mprdma::dataplane {
namespace {

using testing::Bytes;
using testing::FakeNicHost;

struct Parsed {
  wire::DecodedFrame decoded;
  Bytes payload;
};

Parsed parse(const Bytes& frame) {
  Parsed out;
  EXPECT_EQ(wire::decode_frame(frame, out.decoded, true), wire::DropReason::kNone);
  const std::span<const unsigned char> payload = wire::payload_of(frame, out.decoded);
  out.payload.assign(payload.begin(), payload.end());
  return out;
}

Bytes cm_mad() {
  Bytes bytes(wire::kMadBytes);
  wire::encode_cm_mad({.transaction = 5, .body = wire::CmDreq{}},
                      std::span<unsigned char, wire::kMadBytes>(bytes));
  return bytes;
}

Bytes pair_mad() {
  Bytes bytes(wire::kMadBytes);
  wire::PairMad mad;
  mad.transaction = 6;
  mad.info.window_slots = 64;
  wire::encode_pair_mad(mad, std::span<unsigned char, wire::kMadBytes>(bytes));
  return bytes;
}

Bytes probe_mad(const wire::ProbeMad& mad) {
  Bytes bytes(mad.bytes);
  wire::encode_probe_mad(mad, bytes.data());
  return bytes;
}

class Qp1Test : public ::testing::Test {
 protected:
  Qp1Test() {
    from_.src_mac = {2, 0, 0, 0, 0, 2};
    from_.dst_mac = {2, 0, 0, 0, 0, 1};
    from_.src_ip = wire::map_ipv4(Ipv4(0x0a490002));
    from_.dst_ip = wire::map_ipv4(Ipv4(0x0a490001));
    to_ = way_back(from_, wire::Ecn::kNotEct);
  }

  // From the peer, with a header that `change` may spoil.
  template <class Change>
  void arrive(const Bytes& payload, Change&& change, bool from_loop = false) {
    wire::DecodedFrame decoded;
    decoded.address = from_;
    decoded.packet = management_packet(50'000, static_cast<uint16_t>(payload.size()), Psn{});
    change(decoded.packet);
    qp1_.on_datagram(decoded, payload.data(), from_loop, now_, host_);
  }
  void arrive(const Bytes& payload, bool from_loop = false) {
    arrive(
        payload, [](wire::Packet&) {}, from_loop);
  }

  Time now_ = Time::from_ns(1'000'000'000);
  wire::FrameAddress from_;  // as the peer's datagrams arrive
  wire::FrameAddress to_;
  FakeNicHost host_;
  PathProber prober_{7};
  Qp1 qp1_{&prober_};
};

TEST_F(Qp1Test, EachClassGoesToItsReceiver) {
  arrive(cm_mad());
  arrive(pair_mad());
  EXPECT_EQ(host_.cm_mads, std::vector<Bytes>{cm_mad()});
  ASSERT_EQ(host_.pair_mads.size(), 1u);
  EXPECT_EQ(host_.pair_mads[0].transaction, 6u);
  EXPECT_TRUE(host_.counts.empty());
  Bytes other = cm_mad();
  other[1] = 0x03;  // subnet administration
  arrive(other);
  EXPECT_EQ(host_.counts[NicCount::kMadsDropped], 1);
}

TEST_F(Qp1Test, OnlyConnectionManagementComesFromTheDeviceItself) {
  arrive(cm_mad(), true);
  arrive(pair_mad(), true);
  arrive(probe_mad({.seen = {}}), true);
  EXPECT_EQ(host_.cm_mads.size(), 1u);
  EXPECT_TRUE(host_.pair_mads.empty());
  EXPECT_TRUE(host_.frames.empty());
  EXPECT_EQ(host_.counts[NicCount::kMadsDropped], 2);
}

TEST_F(Qp1Test, WhatIsNoManagementDatagramIsDropped) {
  int dropped = 0;
  const auto spoil = [&](auto&& change) {
    arrive(cm_mad(), change);
    EXPECT_EQ(host_.counts[NicCount::kMadsDropped], ++dropped);
  };
  spoil([](wire::Packet& packet) { packet.opcode = wire::Opcode::kRcSendOnly; });
  spoil([](wire::Packet& packet) { packet.deth.q_key = 1; });
  spoil([](wire::Packet& packet) { packet.p_key = 0x1234; });
  spoil([](wire::Packet& packet) { packet.dest_qpn = Qpn(2); });
  spoil([](wire::Packet& packet) { packet.payload_len = wire::kMadBytes - 1; });
  spoil([](wire::Packet& packet) { packet.payload_len = wire::kMadBytes + 4; });
  EXPECT_TRUE(host_.cm_mads.empty());
}

TEST_F(Qp1Test, AProbeIsAnsweredTheWayItCameUpToTheRate) {
  from_.ecn = wire::Ecn::kCe;
  from_.ttl = 61;
  const wire::ProbeMad question{
      .transaction = 9, .sequence = 3, .bytes = 1024, .answer_bytes = 512, .seen = {}};
  for (int64_t i = 0; i < kProbeBurst + 5; ++i) arrive(probe_mad(question));
  EXPECT_EQ(host_.counts[NicCount::kProbesAnswered], kProbeBurst);
  EXPECT_EQ(host_.counts[NicCount::kProbesRefused], 5);
  const Parsed answer = parse(host_.frames.at(0));
  EXPECT_EQ(answer.decoded.address.src_ip, from_.dst_ip);
  EXPECT_EQ(answer.decoded.address.dst_ip, from_.src_ip);
  EXPECT_EQ(answer.decoded.address.dst_mac, from_.src_mac);
  EXPECT_EQ(answer.decoded.address.ecn, wire::Ecn::kEct0);
  EXPECT_EQ(answer.decoded.address.ttl, wire::kDefaultTtl);
  EXPECT_EQ(answer.decoded.packet.vp, 50'000);
  wire::ProbeMad mad;
  ASSERT_EQ(wire::decode_probe_mad(
                std::span<const unsigned char>(answer.payload).first<wire::kMadBytes>(),
                answer.payload.size(), mad),
            wire::MadDrop::kNone);
  EXPECT_TRUE(mad.response);
  EXPECT_EQ(mad.bytes, 512);
  const wire::ProbeSeen seen{
      .bytes = 1024, .source_port = 50'000, .hop_limit = 61, .ecn = wire::Ecn::kCe};
  EXPECT_EQ(mad.seen, seen);
  now_ += kProbeInterval;
  arrive(probe_mad(question));
  EXPECT_EQ(host_.counts[NicCount::kProbesAnswered], kProbeBurst + 1);
}

TEST_F(Qp1Test, AnAnswerEndsTheQuestionThatItAnswers) {
  const ProbeQuestion question{.serial = 4,
                               .peer = Ipv4(0x0a490002),
                               .sequence = 8,
                               .source_port = 51'000,
                               .bytes = 256,
                               .answer_bytes = 256};
  PathProber::Open* open = prober_.ask(1, question, now_);
  ASSERT_NE(open, nullptr);
  wire::ProbeMad answer = PathProber::send(*open, now_);
  answer.response = true;
  answer.seen = {.bytes = 256, .source_port = 51'000, .hop_limit = 60};
  now_ += Duration::us(30);
  arrive(probe_mad(answer));
  arrive(probe_mad(answer));  // nobody waits for the copy
  EXPECT_EQ(host_.counts[NicCount::kProbeAnswersReceived], 1);
  EXPECT_EQ(host_.counts[NicCount::kProbesDropped], 1);
  std::vector<PathProber::Result> results;
  prober_.drain_results([&](const PathProber::Result& result) { results.push_back(result); });
  ASSERT_EQ(results.size(), 1u);
  EXPECT_EQ(results[0].outcome.serial, 4u);
  EXPECT_EQ(results[0].outcome.rtt, Duration::us(30));
  EXPECT_EQ(results[0].outcome.there.hop_limit, 60);
  // A device that sends no probes expects no answers.
  Qp1 silent;
  wire::DecodedFrame decoded;
  decoded.address = from_;
  decoded.packet = management_packet(50'000, answer.bytes, Psn{});
  silent.on_datagram(decoded, probe_mad(answer).data(), false, now_, host_);
  EXPECT_EQ(host_.counts[NicCount::kProbesDropped], 2);
}

TEST_F(Qp1Test, DatagramsCountTheirPsnsUnlessTheyFindNoRoom) {
  std::array<unsigned char, wire::kMadBytes> mad;
  std::memcpy(mad.data(), cm_mad().data(), mad.size());
  EXPECT_TRUE(qp1_.send(to_, 50'000, mad, host_));
  host_.full = true;
  EXPECT_FALSE(qp1_.send(to_, 50'001, mad, host_));
  host_.full = false;
  EXPECT_TRUE(qp1_.send_pair(to_, 50'002, {.transaction = 1, .info = {}}, host_));
  EXPECT_TRUE(qp1_.send_probe(to_, 50'003, {.bytes = 4096, .seen = {}}, host_));
  ASSERT_EQ(host_.frames.size(), 3u);
  for (uint32_t i = 0; i < 3; ++i) {
    const Parsed sent = parse(host_.frames[i]);
    EXPECT_EQ(sent.decoded.packet.psn, Psn(i));
    EXPECT_EQ(sent.decoded.packet.dest_qpn, wire::kGeneralServicesQpn);
    EXPECT_EQ(sent.decoded.packet.deth.q_key, wire::kGeneralServicesQKey);
    EXPECT_EQ(sent.decoded.address.dst_ip, to_.dst_ip);
  }
  EXPECT_EQ(parse(host_.frames[0]).payload, cm_mad());
  EXPECT_EQ(parse(host_.frames[2]).payload.size(), 4096u);
}

}  // namespace
}  // namespace mprdma::dataplane
