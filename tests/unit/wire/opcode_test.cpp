#include "wire/opcode.hpp"

#include <gtest/gtest.h>

#include "tests/support/wire.hpp"

namespace mprdma::wire {
namespace {

TEST(Opcode, MpOpcodesAreTheRcOperationsUnderOurService) {
  for (unsigned code = 0; code < 0x18; ++code) {
    const OpcodeInfo& rc = opcode_info(static_cast<uint8_t>(code));
    const OpcodeInfo& mp = opcode_info(static_cast<uint8_t>(0xc0 | code));
    ASSERT_EQ(mp.valid, rc.valid) << code;
    if (!rc.valid) continue;
    EXPECT_EQ(mp.transport, TransportService::kMp);
    EXPECT_EQ(mp.operation, rc.operation) << code;
    EXPECT_EQ(mp.stream, rc.stream) << code;
    EXPECT_EQ(mp.first, rc.first) << code;
    EXPECT_EQ(mp.middle, rc.middle) << code;
    EXPECT_EQ(mp.last, rc.last) << code;
    EXPECT_EQ(mp.only, rc.only) << code;
    EXPECT_EQ(mp.has_payload, rc.has_payload) << code;
    EXPECT_EQ(mp.has_immdt, rc.has_immdt) << code;
    EXPECT_EQ(mp.has_ieth, rc.has_ieth) << code;
    EXPECT_EQ(mp.has_atomic_eth, rc.has_atomic_eth) << code;
    EXPECT_EQ(mp.has_atomic_ack_eth, rc.has_atomic_ack_eth) << code;
    EXPECT_FALSE(mp.has_aeth) << "the mp extensions stand in for it";
  }
}

TEST(Opcode, EveryMpPacketHasExactlyOneMpExtensionAndNoOtherPacketHasOne) {
  for (const Opcode opcode : test::valid_opcodes()) {
    const OpcodeInfo& info = opcode_info(opcode);
    const int extensions = int{info.has_mp_data} + int{info.has_mp_ack};
    EXPECT_EQ(extensions, info.transport == TransportService::kMp ? 1 : 0) << opcode_name(opcode);
    const bool ack = opcode == Opcode::kMpAck || opcode == Opcode::kMpAckMap;
    EXPECT_EQ(info.has_mp_ack, ack) << opcode_name(opcode);
    EXPECT_EQ(info.has_mp_ack_map, opcode == Opcode::kMpAckMap) << opcode_name(opcode);
  }
}

TEST(Opcode, EveryMpWritePacketCarriesTheRethButOnlyTheFirstOfRcDoes) {
  for (const Opcode opcode : test::valid_opcodes()) {
    const OpcodeInfo& info = opcode_info(opcode);
    if (info.operation != Operation::kWrite) continue;
    const bool expected = info.transport == TransportService::kMp || info.starts_message();
    EXPECT_EQ(info.has_reth, expected) << opcode_name(opcode);
  }
  EXPECT_TRUE(opcode_info(Opcode::kMpReadRequest).has_reth);
  EXPECT_TRUE(opcode_info(Opcode::kRcReadRequest).has_reth);
}

TEST(Opcode, ExactlyOnePlaceInTheMessage) {
  for (const Opcode opcode : test::valid_opcodes()) {
    const OpcodeInfo& info = opcode_info(opcode);
    EXPECT_EQ(int{info.first} + int{info.middle} + int{info.last} + int{info.only}, 1)
        << opcode_name(opcode);
  }
}

TEST(Opcode, HeaderLengthsOfTheStandard) {
  EXPECT_EQ(opcode_info(Opcode::kRcSendMiddle).header_bytes, 12);
  EXPECT_EQ(opcode_info(Opcode::kRcSendOnlyImm).header_bytes, 16);
  EXPECT_EQ(opcode_info(Opcode::kRcSendLastInvalidate).header_bytes, 16);
  EXPECT_EQ(opcode_info(Opcode::kRcWriteFirst).header_bytes, 28);
  EXPECT_EQ(opcode_info(Opcode::kRcWriteMiddle).header_bytes, 12);
  EXPECT_EQ(opcode_info(Opcode::kRcWriteOnlyImm).header_bytes, 32);
  EXPECT_EQ(opcode_info(Opcode::kRcReadResponseFirst).header_bytes, 16);
  EXPECT_EQ(opcode_info(Opcode::kRcReadResponseMiddle).header_bytes, 12);
  EXPECT_EQ(opcode_info(Opcode::kRcAck).header_bytes, 16);
  EXPECT_EQ(opcode_info(Opcode::kRcAtomicAck).header_bytes, 24);
  EXPECT_EQ(opcode_info(Opcode::kRcCompareSwap).header_bytes, 40);
  EXPECT_EQ(opcode_info(Opcode::kUdSendOnly).header_bytes, 20);
  EXPECT_EQ(opcode_info(Opcode::kUdSendOnlyImm).header_bytes, 24);
  EXPECT_EQ(opcode_info(Opcode::kXrcFetchAdd).header_bytes, 44);
  EXPECT_EQ(opcode_info(Opcode::kCnp).header_bytes, 28);
}

TEST(Opcode, HeaderLengthsOfMp) {
  EXPECT_EQ(opcode_info(Opcode::kMpSendFirst).header_bytes, 28);
  EXPECT_EQ(opcode_info(Opcode::kMpWriteMiddle).header_bytes, 44);
  EXPECT_EQ(opcode_info(Opcode::kMpWriteOnlyImm).header_bytes, 48);
  EXPECT_EQ(opcode_info(Opcode::kMpReadResponseOnly).header_bytes, 28);
  EXPECT_EQ(opcode_info(Opcode::kMpAck).header_bytes, 28);
  EXPECT_EQ(opcode_info(Opcode::kMpAckMap).header_bytes, 36);
  EXPECT_EQ(opcode_info(Opcode::kMpAtomicAck).header_bytes, 36);
  EXPECT_EQ(opcode_info(Opcode::kMpFetchAdd).header_bytes, 56);
  EXPECT_EQ(opcode_info(Opcode::kMpResponseError).header_bytes, 32);
  EXPECT_EQ(kMaxTransportHeaderBytes, 56);
}

TEST(Opcode, StreamsOfMp) {
  EXPECT_EQ(opcode_info(Opcode::kMpWriteLast).stream, PacketStream::kRequest);
  EXPECT_EQ(opcode_info(Opcode::kMpReadRequest).stream, PacketStream::kRequest);
  EXPECT_EQ(opcode_info(Opcode::kMpFetchAdd).stream, PacketStream::kRequest);
  EXPECT_EQ(opcode_info(Opcode::kMpReadResponseMiddle).stream, PacketStream::kResponse);
  EXPECT_EQ(opcode_info(Opcode::kMpAtomicAck).stream, PacketStream::kResponse);
  EXPECT_EQ(opcode_info(Opcode::kMpResponseError).stream, PacketStream::kResponse);
  EXPECT_EQ(opcode_info(Opcode::kMpAck).stream, PacketStream::kAck);
  EXPECT_EQ(opcode_info(Opcode::kMpAckMap).stream, PacketStream::kAck);
}

TEST(Opcode, UnassignedCodesAreInvalid) {
  for (const unsigned code : {0x15U, 0x18U, 0x1fU, 0x2cU, 0x40U, 0x5fU, 0x60U, 0x66U, 0x80U, 0x82U,
                              0xb5U, 0xb8U, 0xd5U, 0xdaU, 0xdfU, 0xe0U, 0xffU}) {
    EXPECT_FALSE(opcode_info(static_cast<uint8_t>(code)).valid) << std::hex << code;
    EXPECT_EQ(opcode_info(static_cast<uint8_t>(code)).header_bytes, 0) << std::hex << code;
  }
  EXPECT_EQ(test::valid_opcodes().size(), 23U + 12 + 2 + 1 + 23 + 25);
}

TEST(Opcode, Names) {
  EXPECT_EQ(opcode_name(Opcode::kMpSendOnlyImm), "MP_SEND_ONLY_IMM");
  EXPECT_EQ(opcode_name(Opcode::kRcAck), "RC_ACK");
  EXPECT_EQ(opcode_name(static_cast<Opcode>(0xff)), "UNKNOWN");
}

}  // namespace
}  // namespace mprdma::wire
