// Bare packets: bytes in their places, which packets have such a form, and what is refused.
#include "wire/bare_packet.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <memory>
#include <vector>

#include "tests/support/wire.hpp"

namespace mprdma::wire {
namespace {

using Bytes = std::vector<unsigned char>;

constexpr size_t kHeader = BarePacket::kBytes;

// The numbers one after the other, in the host's byte order and without gaps.
template <typename... Numbers>
Bytes bytes_of(Numbers... numbers) {
  Bytes bytes;
  const auto append = [&bytes](auto number) {
    std::array<unsigned char, sizeof(number)> raw;
    std::memcpy(raw.data(), &number, raw.size());
    bytes.insert(bytes.end(), raw.begin(), raw.end());
  };
  (append(numbers), ...);
  return bytes;
}

Bytes stored(const Packet& packet) {
  constexpr unsigned char kJunk = 0xa5;
  Bytes bytes(kHeader + 2, kJunk);
  BarePacket::store(packet, bytes.data() + 1);
  EXPECT_EQ(bytes.front(), kJunk);
  EXPECT_EQ(bytes.back(), kJunk);
  return {bytes.begin() + 1, bytes.end() - 1};
}

// The header is a heap block of its own, so that the address sanitizer sees a read beyond it.
bool load(const Bytes& header, size_t bytes, Packet& out) {
  const auto bare = std::make_unique<BarePacket>();
  std::memcpy(bare.get(), header.data(), kHeader);
  return bare->load(bytes, out);
}

// A packet that differs from a blank one everywhere, for what load() has to overwrite.
Packet used_packet() {
  Prng prng(20);
  Packet packet = test::random_packet(Opcode::kXrcSendOnlyInvalidate, prng, 100);
  packet.mp_data = test::random_packet(Opcode::kMpSendOnly, prng, 0).mp_data;
  packet.mp_ack = test::random_packet(Opcode::kMpAck, prng, 0).mp_ack;
  packet.reth = {.va = 1, .rkey = Key(2), .dma_len = 3};
  packet.atomic_swap_add = packet.atomic_compare = packet.atomic_original = 4;
  packet.aeth = {.syndrome = 5, .msn = 6};
  packet.deth = {.q_key = 7, .src_qpn = Qpn(8)};
  packet.immdt = 9;
  packet.ipv4 = true;
  return packet;
}

void expect_both_ways(const Packet& packet, const Bytes& header) {
  EXPECT_TRUE(BarePacket::carries(packet));
  EXPECT_EQ(stored(packet), header);
  Packet back = used_packet();
  ASSERT_TRUE(load(header, kHeader + packet.payload_len, back));
  EXPECT_EQ(back, packet);
}

TEST(BarePacket, MpWriteBytesAndBack) {
  Packet packet;
  packet.opcode = Opcode::kMpWriteOnlyImm;
  packet.solicited_event = packet.ce = true;
  packet.vp = 0xc123;
  packet.psn = Psn(0xfedcba);
  packet.dest_qpn = Qpn(0xabcdef);
  packet.payload_len = 0x4000;
  packet.mp_data = {.flags = kMpDataReTx | kMpDataTailProbe,
                    .timestamp = 0x11121314,
                    .message_number = 0x212223,
                    .offset = 0x31323334};
  packet.reth = {.va = 0x5152535455565758, .rkey = Key(0x61626364), .dma_len = 0x71727374};
  packet.immdt = 0x41424344;
  expect_both_ways(
      packet, bytes_of(uint8_t{0xcb}, uint8_t{0x11}, uint16_t{0xc123}, 0x00fedcbaU, 0x00abcdefU,
                       0x00004000U, 0x11121314U, 0x05212223U, 0x31323334U, 0x41424344U,
                       uint64_t{0x5152535455565758}, 0x61626364U, 0x71727374U));
}

TEST(BarePacket, MpAckBytesAndBack) {
  Packet packet;
  packet.opcode = Opcode::kMpAck;
  packet.vp = 0xc123;
  packet.psn = Psn(0xfffffe);
  packet.dest_qpn = Qpn(0x000001);
  packet.mp_ack = {.flags = kMpAckResponseStream | kMpAckHeld,
                   .nack = NackCode::kRnr,
                   .detail = 0x1f,
                   .run = 0xfe,
                   .echoed_timestamp = 0x11121314,
                   .sack = Psn(0x212223),
                   .msn = 0x313233,
                   .delay_us = 0xfd};
  expect_both_ways(
      packet, bytes_of(uint8_t{0xd1}, uint8_t{0x00}, uint16_t{0xc123}, 0x00fffffeU, 0x00000001U, 0U,
                       0x11121314U, 0xfe212223U, 0xfd313233U, 0x001f0421U, uint64_t{0}, 0U, 0U));
}

TEST(BarePacket, BytesOfTheStandardsOpcodesAndBack) {
  Packet packet;
  packet.opcode = Opcode::kRcReadResponseLast;
  packet.ack_req = packet.fecn = packet.becn = true;
  packet.psn = Psn(0x010203);
  packet.dest_qpn = Qpn(0x040506);
  packet.payload_len = 3;
  packet.aeth = {.syndrome = 0x9a, .msn = 0x111213};
  expect_both_ways(packet, bytes_of(uint8_t{0x0f}, uint8_t{0x0e}, uint16_t{0xc000}, 0x00010203U,
                                    0x00040506U, 3U, 0U, 0U, 0U, 0x9a111213U, uint64_t{0}, 0U, 0U));
  packet.opcode = Opcode::kRcSendLastInvalidate;
  packet.becn = packet.fecn = false;
  packet.aeth = {};
  packet.ieth_rkey = Key(0xa1a2a3a4);
  expect_both_ways(packet, bytes_of(uint8_t{0x16}, uint8_t{0x02}, uint16_t{0xc000}, 0x00010203U,
                                    0x00040506U, 3U, 0U, 0U, 0U, 0xa1a2a3a4U, uint64_t{0}, 0U, 0U));
}

// Section 11 of the page says which packets go as frames.
bool has_bare_form(Opcode opcode) {
  const OpcodeInfo& info = opcode_info(opcode);
  const bool service = info.transport == TransportService::kRc ||
                       info.transport == TransportService::kUc ||
                       info.transport == TransportService::kMp;
  const bool atomic =
      info.operation == Operation::kCompareSwap || info.operation == Operation::kFetchAdd;
  return service && !atomic && info.operation != Operation::kAtomicAck &&
         info.operation != Operation::kResponseError && !info.has_mp_ack_map;
}

TEST(BarePacket, CarriesWhatThePageLists) {
  for (unsigned i = 0; i < 256; ++i) {
    Packet packet;
    packet.opcode = static_cast<Opcode>(i);
    EXPECT_EQ(BarePacket::carries(packet), has_bare_form(packet.opcode))
        << opcode_name(packet.opcode);
    Packet loaded;
    Bytes header(kHeader, 0);
    header[0] = static_cast<unsigned char>(i);
    const bool good = load(header, kHeader, loaded);
    EXPECT_EQ(good, has_bare_form(packet.opcode)) << opcode_name(packet.opcode);
  }
  Packet packet;
  packet.mig_req = false;
  EXPECT_FALSE(BarePacket::carries(packet));
  packet = {};
  packet.p_key = 0x7fff;
  EXPECT_FALSE(BarePacket::carries(packet));
}

// No bare packet asks for a map.
void drop_maps(Packet& packet) {
  packet.mp_data.flags &= static_cast<uint8_t>(~kMpDataTakesMaps);
}

TEST(BarePacket, EveryPacketThatItCarriesSurvives) {
  Prng prng(21);
  for (const Opcode opcode : test::valid_opcodes()) {
    for (int round = 0; round < 200; ++round) {
      Packet packet = test::random_packet(opcode, prng, 2 * kMaxSegment);
      packet.mig_req = true;
      packet.p_key = kDefaultPKey;
      if (!BarePacket::carries(packet)) continue;
      drop_maps(packet);
      // In mp these three are 0.
      if (packet.info().transport == TransportService::kMp) {
        packet.ack_req = packet.fecn = packet.becn = false;
      }
      Packet back = used_packet();
      ASSERT_TRUE(load(stored(packet), kHeader + packet.payload_len, back)) << opcode_name(opcode);
      ASSERT_EQ(back, packet) << "nothing of the packet loaded before may remain";
    }
  }
}

// Random headers. Whatever they hold, what load() accepts is a packet that a frame can bring.
TEST(BarePacket, WhatItAcceptsIsAPacketAsAFrameBringsIt) {
  Prng prng(22);
  size_t accepted = 0;
  for (int i = 0; i < 50'000; ++i) {
    Bytes header(kHeader);
    for (unsigned char& byte : header) byte = static_cast<unsigned char>(prng.next_u64());
    const uint32_t payload_len = prng.chance(1, 2) ? 0 : static_cast<uint32_t>(prng.below(9000));
    std::memcpy(&header[12], &payload_len, sizeof(payload_len));
    Packet packet = used_packet();
    if (!load(header, kHeader + payload_len, packet)) continue;
    ++accepted;
    ASSERT_TRUE(BarePacket::carries(packet));
    std::array<unsigned char, kMaxTransportHeaderBytes> transport;
    const size_t headers = encode_transport(packet, transport.data());
    Packet framed;
    ASSERT_EQ(decode_transport(transport, headers + payload_len + pad_bytes(payload_len), framed),
              DropReason::kNone);
    // These travel in IP and UDP.
    framed.vp = packet.vp;
    framed.ce = packet.ce;
    ASSERT_EQ(framed, packet);
  }
  EXPECT_GT(accepted, 1000U) << "too few to mean anything";
}

Bytes header_of(Opcode opcode, uint32_t payload_len) {
  Packet packet;
  packet.opcode = opcode;
  packet.payload_len = payload_len;
  return stored(packet);
}

TEST(BarePacket, ADifferentLengthThanTheFieldSaysIsRefused) {
  Packet out;
  for (const uint32_t payload_len : {0U, 1U, 4096U}) {
    const Bytes header = header_of(Opcode::kMpSendOnly, payload_len);
    for (size_t bytes = 0; bytes < 2 * 4096; ++bytes) {
      ASSERT_EQ(load(header, bytes, out), bytes == kHeader + payload_len) << bytes;
    }
  }
  // The sum of header and payload must not wrap around.
  for (uint32_t bytes = 0; bytes < kHeader; ++bytes) {
    const uint32_t payload_len = bytes - static_cast<uint32_t>(kHeader);
    EXPECT_FALSE(load(header_of(Opcode::kMpSendOnly, payload_len), bytes, out)) << bytes;
  }
}

TEST(BarePacket, PayloadUnderAnOpcodeWithoutAnyIsRefused) {
  for (const Opcode opcode : test::valid_opcodes()) {
    if (!has_bare_form(opcode)) continue;
    Packet out;
    EXPECT_EQ(load(header_of(opcode, 4), kHeader + 4, out), opcode_info(opcode).has_payload)
        << opcode_name(opcode);
  }
}

// Puts the bytes `bits` into the header at `at`, beside the bits that are set there.
void set_bits(Bytes& header, size_t at, const Bytes& bits) {
  for (size_t i = 0; i < bits.size(); ++i) header[at + i] |= bits[i];
}

TEST(BarePacket, AnUnknownNackCodeIsRefused) {
  for (uint32_t code = 0; code < 256; ++code) {
    Bytes header = header_of(Opcode::kMpAck, 0);
    set_bits(header, 28, bytes_of(code << 8));
    Packet out;
    ASSERT_EQ(load(header, kHeader, out), code <= 8) << code;
  }
}

void expect_ignored(Opcode opcode, size_t at, const Bytes& bits) {
  Prng prng(23);
  Packet packet = test::random_packet(opcode, prng, 0);
  packet.mig_req = true;
  packet.p_key = kDefaultPKey;
  packet.ack_req = packet.fecn = packet.becn = false;
  drop_maps(packet);
  Bytes header = stored(packet);
  set_bits(header, at, bits);
  Packet back;
  ASSERT_TRUE(load(header, kHeader, back)) << opcode_name(opcode) << " " << at;
  EXPECT_EQ(back, packet) << opcode_name(opcode) << " " << at;
}

TEST(BarePacket, ReservedBitsAndFieldsOfOtherOpcodesAreIgnored) {
  const Bytes reth(16, 0xff);
  for (const Opcode opcode : {Opcode::kMpSendOnly, Opcode::kMpAck, Opcode::kRcSendOnly}) {
    expect_ignored(opcode, 1, {0xc0});
    expect_ignored(opcode, 4, bytes_of(0xff000000U));
    expect_ignored(opcode, 8, bytes_of(0xff000000U));
    expect_ignored(opcode, 32, reth);
  }
  expect_ignored(Opcode::kMpSendOnly, 20, bytes_of(0xf8000000U));
  expect_ignored(Opcode::kMpSendOnly, 28, bytes_of(0xffffffffU));
  expect_ignored(Opcode::kMpAck, 28, bytes_of(0xff000080U));
  expect_ignored(Opcode::kRcSendOnly, 16, Bytes(16, 0xff));
}

// The mode has these flags at 0 (section 2 of the page).
TEST(BarePacket, AcknowledgementRequestAndNotificationsAreIgnoredInMp) {
  for (const Opcode opcode : {Opcode::kMpSendOnly, Opcode::kMpAck}) {
    expect_ignored(opcode, 1, {0x2e});
  }
}

}  // namespace
}  // namespace mprdma::wire
