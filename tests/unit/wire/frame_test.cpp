#include "wire/frame.hpp"

#include <gtest/gtest.h>

#include "tests/support/wire.hpp"
#include "wire/icrc.hpp"
#include "wire/ipv4.hpp"

namespace mprdma::wire {
namespace {

using Bytes = std::vector<unsigned char>;

// Offsets in a frame over IPv4.
constexpr size_t kIp = 14;
constexpr size_t kUdp = 34;

void fix_ip_checksum(Bytes& frame) {
  frame[kIp + 10] = 0;
  frame[kIp + 11] = 0;
  store_be16(frame.data() + kIp + 10, Ipv4Header::checksum(frame.data() + kIp));
}

Packet sample_write() {
  Packet packet;
  packet.opcode = Opcode::kMpWriteOnly;
  packet.vp = 50'000;
  packet.psn = Psn(17);
  packet.dest_qpn = Qpn(0x102);
  packet.payload_len = 13;
  packet.reth = {.va = 0x1000, .rkey = Key(9), .dma_len = 13};
  return packet;
}

TEST(Frame, HeadersEndAtThePayloadAndNothingElseIsTouched) {
  const FrameAddress address = test::ipv6_address();
  const Packet packet = sample_write();
  Bytes buffer(256, 0xa5);
  unsigned char* payload_start = buffer.data() + 128;
  const size_t header_len = encode_frame(address, packet, payload_start);
  EXPECT_EQ(header_len, frame_header_bytes(address, packet));
  EXPECT_EQ(header_len, 14U + 40 + 8 + 12 + 16 + 16);
  EXPECT_EQ(buffer[128 - header_len - 1], 0xa5);
  EXPECT_EQ(*payload_start, 0xa5);
  const size_t frame_len =
      finish_frame(payload_start - header_len, header_len, packet.payload_len, true);
  EXPECT_EQ(frame_len, header_len + 13 + 3 + 4);
  for (size_t i = 13; i < 16; ++i) EXPECT_EQ(payload_start[i], 0) << "pad";
  EXPECT_EQ(payload_start[13 + 3 + 4], 0xa5);
}

TEST(Frame, LongestHeadersFitTheAnnouncedRoom) {
  for (const Opcode opcode : test::valid_opcodes()) {
    Packet packet;
    packet.opcode = opcode;
    EXPECT_LE(frame_header_bytes(test::ipv6_address(), packet), kMaxFrameHeaderBytes);
  }
  EXPECT_LE(kMaxFrameHeaderBytes, 128U) << "the port seam leaves this much";
}

TEST(Frame, EveryOpcodeSurvivesOverBothIpVersions) {
  Prng prng(4);
  for (const FrameAddress& address : {test::ipv4_address(), test::ipv6_address()}) {
    for (const Opcode opcode : test::valid_opcodes()) {
      for (int round = 0; round < 10; ++round) {
        Packet packet = test::random_packet(opcode, prng, 300);
        packet.ipv4 = !address.is_ipv6;
        const Bytes frame = test::make_frame(address, packet);
        DecodedFrame decoded;
        ASSERT_EQ(decode_frame(frame, decoded, true), DropReason::kNone) << opcode_name(opcode);
        ASSERT_EQ(decoded.packet, packet);
        FrameAddress expected = address;
        if (packet.ce) expected.ecn = Ecn::kCe;
        ASSERT_EQ(decoded.address, expected);
        const auto payload = payload_of(frame, decoded);
        ASSERT_EQ(payload.size(), packet.payload_len);
        for (size_t i = 0; i < payload.size(); ++i) {
          ASSERT_EQ(payload[i], static_cast<unsigned char>(i));
        }
      }
    }
  }
}

TEST(Frame, MpPacketsAreEctAndUnfragmentable) {
  const Bytes frame = test::make_frame(test::ipv4_address(), sample_write());
  const Ipv4Header ip = Ipv4Header::load(frame.data() + kIp);
  EXPECT_EQ(ip.ecn, Ecn::kEct0);
  EXPECT_TRUE(ip.dont_fragment);
  EXPECT_EQ(ip.ttl, 64);
  EXPECT_TRUE(Ipv4Header::checksum_ok(frame.data() + kIp));
  const Udp udp = Udp::load(frame.data() + kUdp);
  EXPECT_EQ(udp.src_port, 50'000);
  EXPECT_EQ(udp.dst_port, 4791);
  EXPECT_EQ(udp.checksum, 0);
}

TEST(Frame, Ipv6FlowLabelFollowsTheVirtualPath) {
  const Bytes frame = test::make_frame(test::ipv6_address(), sample_write());
  EXPECT_EQ(Ipv6::load(frame.data() + 14).flow_label, 50'000U);
}

TEST(Frame, TruncationAnywhereIsADrop) {
  for (const FrameAddress& address : {test::ipv4_address(), test::ipv6_address()}) {
    const Bytes frame = test::make_frame(address, sample_write());
    for (size_t length = 0; length < frame.size(); ++length) {
      // The frame is a vector of its own, so that the address sanitizer sees a read beyond it.
      const Bytes cut(frame.begin(), frame.begin() + static_cast<long>(length));
      DecodedFrame decoded;
      const DropReason reason = decode_frame(cut, decoded, true);
      const size_t ip_end = address.is_ipv6 ? 54U : 34U;
      const DropReason expected = length < 14       ? DropReason::kTruncatedEthernet
                                  : length < ip_end ? DropReason::kTruncatedIp
                                                    : DropReason::kBadIpTotalLength;
      ASSERT_EQ(reason, expected) << length;
    }
  }
}

TEST(Frame, EthernetPaddingBehindThePacketIsIgnored) {
  Packet packet;
  packet.opcode = Opcode::kRcAck;
  Bytes frame = test::make_frame(test::ipv4_address(), packet);
  frame.resize(frame.size() + 11, 0xee);
  DecodedFrame decoded;
  ASSERT_EQ(decode_frame(frame, decoded, true), DropReason::kNone);
  EXPECT_EQ(decoded.packet.payload_len, 0U);
}

template <typename Spoil>
DropReason reason_after(const FrameAddress& address, const Spoil& spoil) {
  Bytes frame = test::make_frame(address, sample_write());
  spoil(frame);
  DecodedFrame decoded;
  return decode_frame(frame, decoded, true);
}

// Damages a frame over IPv4 and corrects the header checksum afterwards.
template <typename Spoil>
DropReason reason_after_ipv4(const Spoil& spoil) {
  return reason_after(test::ipv4_address(), [&](Bytes& frame) {
    spoil(frame);
    fix_ip_checksum(frame);
  });
}

TEST(Frame, Ipv4DropsHaveReasonsOfTheirOwn) {
  EXPECT_EQ(reason_after_ipv4([](Bytes&) {}), DropReason::kNone);
  EXPECT_EQ(reason_after_ipv4([](Bytes& f) { f[12] = 0x81; }), DropReason::kUnknownEtherType);
  EXPECT_EQ(reason_after_ipv4([](Bytes& f) { f[kIp] = 0x65; }), DropReason::kBadIpVersion);
  EXPECT_EQ(reason_after_ipv4([](Bytes& f) { f[kIp] = 0x46; }), DropReason::kBadIpHeaderLength);
  EXPECT_EQ(reason_after_ipv4([](Bytes& f) { f[kIp] = 0x44; }), DropReason::kBadIpHeaderLength);
  EXPECT_EQ(reason_after(test::ipv4_address(), [](Bytes& f) { f[kIp + 15] ^= 1; }),
            DropReason::kBadIpChecksum);
  EXPECT_EQ(reason_after_ipv4([](Bytes& f) { store_be16(&f[kIp + 2], 19); }),
            DropReason::kBadIpTotalLength);
  EXPECT_EQ(reason_after_ipv4([](Bytes& f) { f[kIp + 3]++; }), DropReason::kBadIpTotalLength);
  EXPECT_EQ(reason_after_ipv4([](Bytes& f) { f[kIp + 6] = 0x20; }), DropReason::kIpFragment);
  EXPECT_EQ(reason_after_ipv4([](Bytes& f) { f[kIp + 7] = 0x01; }), DropReason::kIpFragment);
  EXPECT_EQ(reason_after_ipv4([](Bytes& f) { f[kIp + 9] = 6; }), DropReason::kNotUdp);
}

TEST(Frame, UdpDropsHaveReasonsOfTheirOwn) {
  EXPECT_EQ(reason_after_ipv4([](Bytes& f) { store_be16(&f[kIp + 2], 27); }),
            DropReason::kTruncatedUdp);
  EXPECT_EQ(reason_after_ipv4([](Bytes& f) { f[kUdp + 3]++; }), DropReason::kWrongUdpPort);
  EXPECT_EQ(reason_after_ipv4([](Bytes& f) { f[kUdp + 5]++; }), DropReason::kBadUdpLength);
  EXPECT_EQ(reason_after_ipv4([](Bytes& f) { f[kUdp + 5]--; }), DropReason::kBadUdpLength);
  EXPECT_EQ(reason_after_ipv4([](Bytes& f) {
              store_be16(&f[kIp + 2], 20 + 8 + 15);
              store_be16(&f[kUdp + 4], 8 + 15);
            }),
            DropReason::kTruncatedBth);
  EXPECT_EQ(reason_after_ipv4([](Bytes& f) {
              store_be16(&f[kIp + 2], 20 + 8 + 16 + 16);
              store_be16(&f[kUdp + 4], 8 + 16 + 16);
            }),
            DropReason::kTruncatedExtension);
}

TEST(Frame, Ipv6DropsHaveReasonsOfTheirOwn) {
  const FrameAddress v6 = test::ipv6_address();
  EXPECT_EQ(reason_after(v6, [](Bytes&) {}), DropReason::kNone);
  EXPECT_EQ(reason_after(v6, [](Bytes& f) { f[14] = 0x45; }), DropReason::kBadIpVersion);
  EXPECT_EQ(reason_after(v6, [](Bytes& f) { f[19]++; }), DropReason::kBadIpTotalLength);
  EXPECT_EQ(reason_after(v6, [](Bytes& f) { f[20] = 44; }), DropReason::kIpFragment);
  EXPECT_EQ(reason_after(v6, [](Bytes& f) { f[20] = 0; }), DropReason::kNotUdp);
  EXPECT_EQ(reason_after(v6, [](Bytes& f) { store_be16(&f[18], 7); }), DropReason::kTruncatedUdp);
}

TEST(Frame, IcrcNoticesEveryByteItCovers) {
  const Bytes frame = test::make_frame(test::ipv4_address(), sample_write());
  // Only the ICRC protects payload, pad and ICRC.
  for (size_t at = frame.size() - 20; at < frame.size(); ++at) {
    Bytes spoilt = frame;
    spoilt[at] ^= 0x40;
    DecodedFrame decoded;
    EXPECT_EQ(decode_frame(spoilt, decoded, true), DropReason::kBadIcrc) << at;
    EXPECT_EQ(decode_frame(spoilt, decoded, false), DropReason::kNone) << at;
  }
}

TEST(Frame, CongestionMarkOnTheWayLeavesTheIcrcRight) {
  Bytes frame = test::make_frame(test::ipv4_address(), sample_write());
  frame[kIp + 1] |= 0x3;
  frame[kIp + 8]--;
  fix_ip_checksum(frame);
  DecodedFrame decoded;
  ASSERT_EQ(decode_frame(frame, decoded, true), DropReason::kNone);
  EXPECT_TRUE(decoded.packet.ce);
  EXPECT_EQ(decoded.address.ttl, 63);
}

TEST(Frame, WireThatCannotCorruptCarriesAnIcrcOfZero) {
  const Bytes frame = test::make_frame(test::ipv4_address(), sample_write(), false);
  EXPECT_EQ(load_icrc(frame.data() + frame.size() - 4), 0U);
  DecodedFrame decoded;
  EXPECT_EQ(decode_frame(frame, decoded, false), DropReason::kNone);
  EXPECT_EQ(decode_frame(frame, decoded, true), DropReason::kBadIcrc);
}

TEST(Frame, EveryDropReasonHasANameOfItsOwn) {
  for (size_t i = 0; i < kDropReasonNames.size(); ++i) {
    EXPECT_EQ(drop_reason_name(static_cast<DropReason>(i)), kDropReasonNames[i]);
    for (size_t j = 0; j < i; ++j) EXPECT_NE(kDropReasonNames[i], kDropReasonNames[j]);
  }
  EXPECT_EQ(drop_reason_name(DropReason::kBadIcrc), "bad_icrc");
  EXPECT_EQ(drop_reason_name(DropReason::kBadArp), "bad_arp");
  EXPECT_EQ(drop_reason_name(DropReason::kCount), "?");
}

}  // namespace
}  // namespace mprdma::wire
