#include "wire/packet.hpp"

#include <gtest/gtest.h>

#include "tests/support/wire.hpp"

namespace mprdma::wire {
namespace {

using Bytes = std::vector<unsigned char>;

constexpr unsigned char kJunk = 0xa5;

// Writes BTH and extensions into a buffer full of junk, then payload (with pad) as zeros.
Bytes encoded(const Packet& packet) {
  Bytes bytes(header_bytes(packet) + 4, kJunk);
  EXPECT_EQ(encode_transport(packet, bytes.data()), header_bytes(packet));
  for (size_t i = header_bytes(packet); i < bytes.size(); ++i) EXPECT_EQ(bytes[i], kJunk);
  bytes.resize(header_bytes(packet));
  bytes.resize(header_bytes(packet) + packet.payload_len + pad_bytes(packet.payload_len), 0);
  return bytes;
}

TEST(Packet, EveryOpcodeSurvivesEncodingAndDecoding) {
  Prng prng(1);
  for (const Opcode opcode : test::valid_opcodes()) {
    for (int round = 0; round < 20; ++round) {
      Packet packet = test::random_packet(opcode, prng, 64);
      const Bytes bytes = encoded(packet);
      Packet decoded = test::random_packet(Opcode::kMpCompareSwap, prng, 64);
      ASSERT_EQ(decode_transport(bytes, decoded), DropReason::kNone) << opcode_name(opcode);
      // VP and congestion mark travel in IP and UDP.
      packet.ce = false;
      packet.vp = kVirtualPathMin;
      ASSERT_EQ(decoded, packet) << "nothing of the packet decoded before may remain";
    }
  }
}

TEST(Packet, TruncationAnywhereIsNamed) {
  Prng prng(2);
  for (const Opcode opcode : test::valid_opcodes()) {
    const Packet packet = test::random_packet(opcode, prng, 0);
    const Bytes bytes = encoded(packet);
    for (size_t length = 0; length < bytes.size(); ++length) {
      Packet decoded;
      const Bytes cut(bytes.begin(), bytes.begin() + static_cast<long>(length));
      ASSERT_EQ(decode_transport(cut, decoded),
                length < 12 ? DropReason::kTruncatedBth : DropReason::kTruncatedExtension)
          << opcode_name(opcode) << " at " << length;
    }
  }
}

TEST(Packet, PadFollowsFromTheLength) {
  EXPECT_EQ(pad_bytes(0), 0U);
  EXPECT_EQ(pad_bytes(1), 3U);
  EXPECT_EQ(pad_bytes(3), 1U);
  EXPECT_EQ(pad_bytes(4), 0U);
  EXPECT_EQ(pad_bytes(4095), 1U);
  for (uint32_t length = 0; length < 9; ++length) {
    Packet packet;
    packet.payload_len = length;
    Packet decoded;
    ASSERT_EQ(decode_transport(encoded(packet), decoded), DropReason::kNone);
    EXPECT_EQ(decoded.payload_len, length);
  }
}

// Decodes a SEND with eight bytes of payload after `spoil`; returns the drop reason.
template <typename Spoil>
DropReason reason_after(const Spoil& spoil, Opcode opcode = Opcode::kMpSendOnly) {
  Packet packet;
  packet.opcode = opcode;
  packet.payload_len = packet.info().has_payload ? 8 : 0;
  Bytes bytes = encoded(packet);
  spoil(bytes);
  Packet decoded;
  return decode_transport(bytes, decoded);
}

TEST(Packet, BadFieldsHaveReasonsOfTheirOwn) {
  EXPECT_EQ(reason_after([](Bytes&) {}), DropReason::kNone);
  EXPECT_EQ(reason_after([](Bytes& b) { b[1] |= 0x01; }), DropReason::kBadTransportVersion);
  EXPECT_EQ(reason_after([](Bytes& b) { b[0] = 0xff; }), DropReason::kUnknownOpcode);
  EXPECT_EQ(reason_after([](Bytes& b) { b[0] = 0xd5; }), DropReason::kUnknownOpcode);
  EXPECT_EQ(reason_after([](Bytes& b) { b.resize(b.size() - 1); }), DropReason::kBadLength);
  EXPECT_EQ(reason_after([](Bytes& b) { b[12] = 0x20; }), DropReason::kBadExtensionVersion);
  EXPECT_EQ(reason_after([](Bytes& b) { b[12] = 0x00; }), DropReason::kBadExtensionVersion);
  EXPECT_EQ(reason_after([](Bytes& b) {
              b.resize(28);  // no payload, yet a pad of three
              b[1] |= 0x30;
            }),
            DropReason::kBadPad);
}

TEST(Packet, BadAcknowledgementsHaveReasonsOfTheirOwn) {
  const Opcode ack = Opcode::kMpAck;
  EXPECT_EQ(reason_after([](Bytes&) {}, ack), DropReason::kNone);
  EXPECT_EQ(reason_after([](Bytes& b) { b[12] = 0x20; }, ack), DropReason::kBadExtensionVersion);
  EXPECT_EQ(reason_after([](Bytes& b) { b[14] = 8; }, ack), DropReason::kNone);
  EXPECT_EQ(reason_after([](Bytes& b) { b[14] = 9; }, ack), DropReason::kUnknownNackCode);
  EXPECT_EQ(reason_after([](Bytes& b) { b.resize(b.size() + 4); }, ack),
            DropReason::kUnexpectedPayload);
}

TEST(Packet, PadOfAShortPayloadIsNotPayload) {
  const auto with_pad_only = [](Bytes& b) {
    b.resize(32);  // four bytes behind the headers
    b[1] |= 0x30;
  };
  Packet packet;
  Bytes bytes = encoded(packet);
  with_pad_only(bytes);
  Packet decoded;
  ASSERT_EQ(decode_transport(bytes, decoded), DropReason::kNone);
  EXPECT_EQ(decoded.payload_len, 1U);
}

TEST(Packet, AReservedByteOfANotificationIsZero) {
  Packet packet;
  packet.opcode = Opcode::kCnp;
  const Bytes bytes = encoded(packet);
  ASSERT_EQ(bytes.size(), 12U + 16U);
  for (size_t i = 12; i < bytes.size(); ++i) EXPECT_EQ(bytes[i], 0) << i;
}

TEST(Packet, AtomicsNameTheirRemoteMemoryLikeWritesDo) {
  Packet packet;
  packet.opcode = Opcode::kMpFetchAdd;
  packet.reth = {.va = 0x1000, .rkey = Key(7), .dma_len = 0};
  packet.atomic_swap_add = 3;
  Packet decoded;
  ASSERT_EQ(decode_transport(encoded(packet), decoded), DropReason::kNone);
  EXPECT_EQ(decoded.reth, (Reth{.va = 0x1000, .rkey = Key(7), .dma_len = 8}));
  EXPECT_EQ(decoded.atomic_swap_add, 3U);
}

TEST(Packet, HeadersBeyondThePrivateCopyAreNotRead) {
  Packet packet;
  packet.opcode = Opcode::kMpWriteOnly;
  packet.payload_len = 400;
  const Bytes bytes = encoded(packet);
  const std::span<const unsigned char> copy(bytes.data(), kMaxTransportHeaderBytes);
  Packet decoded;
  ASSERT_EQ(decode_transport(copy, bytes.size(), decoded), DropReason::kNone);
  EXPECT_EQ(decoded.payload_len, 400U);
  EXPECT_EQ(decode_transport(copy.first(20), bytes.size(), decoded),
            DropReason::kTruncatedExtension);
}

}  // namespace
}  // namespace mprdma::wire
