// The classification of any bytes by a switch.
#include "switchsim/fabric/frame_classifier.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "base/ipv4.hpp"
#include "base/prng.hpp"
#include "wire/arp.hpp"
#include "wire/frame.hpp"

namespace mprdma::switchsim {
namespace {

using Bytes = std::vector<unsigned char>;

wire::FrameAddress address(bool is_ipv6) {
  wire::FrameAddress out;
  out.dst_mac = {2, 0, 0, 0, 0, 2};
  out.src_mac = {2, 0, 0, 0, 0, 1};
  out.is_ipv6 = is_ipv6;
  out.src_ip = wire::map_ipv4(Ipv4(0x0a490001));
  out.dst_ip = wire::map_ipv4(Ipv4(0x0a490002));
  if (is_ipv6) out.src_ip[0] = out.dst_ip[0] = 0xfe;
  return out;
}

Bytes roce_frame(bool is_ipv6, bool with_icrc = true) {
  wire::Packet packet;
  packet.opcode = wire::Opcode::kMpSendOnly;
  packet.vp = 50000;
  packet.payload_len = 64;
  Bytes bytes(512, 0x5a);
  unsigned char* payload = bytes.data() + 200;
  const size_t headers = wire::encode_frame(address(is_ipv6), packet, payload);
  const size_t length =
      wire::finish_frame(payload - headers, headers, packet.payload_len, with_icrc);
  return {payload - headers, payload - headers + length};
}

wire::DropReason receiver_says(const Bytes& frame, wire::DecodedFrame* out) {
  return wire::decode_frame(frame, *out, true);
}

TEST(FrameClassifier, ARocePacketIsAFlowOfItsFiveTuple) {
  for (const bool is_ipv6 : {false, true}) {
    const FrameClass found = classify(roce_frame(is_ipv6));
    EXPECT_EQ(found.kind, FrameKind::kFlow);
    EXPECT_EQ(found.is_ipv6, is_ipv6);
    EXPECT_TRUE(found.is_roce);
    EXPECT_EQ(found.src_port, 50000);
    EXPECT_EQ(found.dst_port, wire::kRoceUdpPort);
    EXPECT_EQ(found.protocol, wire::kIpProtocolUdp);
    EXPECT_EQ(found.ecn, wire::Ecn::kEct0);
    EXPECT_EQ(found.dst_ip, address(is_ipv6).dst_ip);
  }
}

TEST(FrameClassifier, AMarkedFrameIsStillGoodForItsReceiver) {
  for (const bool is_ipv6 : {false, true}) {
    Bytes frame = roce_frame(is_ipv6);
    mark_congestion(frame, is_ipv6);
    wire::DecodedFrame decoded;
    ASSERT_EQ(receiver_says(frame, &decoded), wire::DropReason::kNone);
    EXPECT_TRUE(decoded.packet.ce);
    EXPECT_EQ(classify(frame).ecn, wire::Ecn::kCe);
  }
}

TEST(FrameClassifier, AMissingIcrcIsFilledIn) {
  for (const bool is_ipv6 : {false, true}) {
    Bytes frame = roce_frame(is_ipv6, false);
    wire::DecodedFrame decoded;
    ASSERT_EQ(receiver_says(frame, &decoded), wire::DropReason::kBadIcrc);
    fill_icrc(frame, is_ipv6);
    EXPECT_EQ(receiver_says(frame, &decoded), wire::DropReason::kNone);
    EXPECT_EQ(frame, roce_frame(is_ipv6, true));
  }
}

TEST(FrameClassifier, ArpAndGroupsPassBesideTheLinks) {
  Bytes arp(wire::kMinFrameBytes);
  wire::encode_arp_frame(wire::kBroadcastMac, {2, 0, 0, 0, 0, 1}, wire::Arp{}, arp.data());
  EXPECT_EQ(classify(arp).kind, FrameKind::kControl);
  Bytes group = roce_frame(true);
  group[0] = 0x33;
  EXPECT_EQ(classify(group).kind, FrameKind::kControl);
}

TEST(FrameClassifier, FragmentsAndOtherProtocolsHaveNoPorts) {
  Bytes frame = roce_frame(false);
  unsigned char* ip = frame.data() + wire::Ethernet::kBytes;
  wire::Ipv4Header header = wire::Ipv4Header::load(ip);
  header.fragment_offset = 8;
  header.store(ip);
  EXPECT_EQ(classify(frame).kind, FrameKind::kFlow);
  EXPECT_EQ(classify(frame).dst_port, 0);
  EXPECT_FALSE(classify(frame).is_roce);
  header.fragment_offset = 0;
  header.protocol = 6;
  header.store(ip);
  EXPECT_EQ(classify(frame).dst_port, 0);
}

TEST(FrameClassifier, EachLieHasItsCause) {
  const auto fault_of = [](size_t offset, unsigned char value) {
    Bytes frame = roce_frame(false);
    frame[offset] = value;
    EXPECT_EQ(classify(frame).kind, FrameKind::kBad);
    return classify(frame).fault;
  };
  EXPECT_EQ(fault_of(12, 0x81), FrameFault::kEtherType);
  EXPECT_EQ(fault_of(14, 0x65), FrameFault::kHeader);  // version 6 under IPv4's EtherType
  EXPECT_EQ(fault_of(14, 0x44), FrameFault::kHeader);  // 16 bytes of header
  EXPECT_EQ(fault_of(17, 0x10), FrameFault::kHeader);  // shorter than its own header
  EXPECT_EQ(fault_of(16, 0xff), FrameFault::kShort);   // longer than the frame
  EXPECT_EQ(fault_of(26, 0xff), FrameFault::kHeader);  // checksum
}

TEST(FrameClassifier, ATruncatedFrameIsNeverReadBeyondItsEnd) {
  for (const bool is_ipv6 : {false, true}) {
    const Bytes whole = roce_frame(is_ipv6);
    for (size_t length = 0; length < whole.size(); ++length) {
      // A heap block of exactly this size, so that a sanitizer sees the first byte too many.
      const Bytes cut(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(length));
      EXPECT_EQ(classify(cut).fault, FrameFault::kShort) << length;
    }
  }
}

// Random bytes and damaged frames may be of any class, but the consequences of the class must hold.
TEST(FrameClassifier, AnyBytesEndInAClass) {
  Prng prng(4711);
  for (int round = 0; round < 20'000; ++round) {
    Bytes frame = roce_frame((round & 1) != 0);
    const uint64_t hits = prng.next_u64() % 6;
    for (uint64_t i = 0; i < hits; ++i) {
      frame[prng.next_u64() % frame.size()] = static_cast<unsigned char>(prng.next_u64());
    }
    if (prng.next_u64() % 3 == 0) frame.resize(prng.next_u64() % (frame.size() + 1));
    const FrameClass found = classify(frame);
    if (found.kind != FrameKind::kFlow) continue;
    mark_congestion(frame, found.is_ipv6);
    if (found.is_roce) fill_icrc(frame, found.is_ipv6);
    EXPECT_EQ(classify(frame).kind, FrameKind::kFlow) << round;
  }
}

TEST(FrameClassifier, TheWireTakesMoreThanTheFrame) {
  EXPECT_EQ(wire_bytes(60), 84u);
  EXPECT_EQ(wire_bytes(20), 84u);
  EXPECT_EQ(wire_bytes(1000), 1024u);
}

}  // namespace
}  // namespace mprdma::switchsim
