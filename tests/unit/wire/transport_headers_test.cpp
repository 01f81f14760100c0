// BTH and its extension headers: literal bytes to values and back.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/support/wire.hpp"
#include "wire/aeth.hpp"
#include "wire/atomic_ack_eth.hpp"
#include "wire/atomic_eth.hpp"
#include "wire/bth.hpp"
#include "wire/deth.hpp"
#include "wire/ieth.hpp"
#include "wire/immdt.hpp"
#include "wire/mp_ack_ext.hpp"
#include "wire/mp_data_ext.hpp"
#include "wire/reth.hpp"
#include "wire/rnr_timer.hpp"
#include "wire/xrceth.hpp"

namespace mprdma::wire {
namespace {

using test::stored;
using Bytes = std::vector<unsigned char>;

TEST(Bth, BytesAndBack) {
  const Bytes bytes = {0xca, 0xe0, 0x12, 0x34, 0x80, 0xab, 0xcd, 0xef, 0x80, 0x01, 0x02, 0x03};
  const Bth bth{.opcode = Opcode::kMpWriteOnly,
                .solicited_event = true,
                .mig_req = true,
                .pad_count = 2,
                .p_key = 0x1234,
                .fecn = true,
                .dest_qpn = Qpn(0xabcdef),
                .ack_req = true,
                .psn = Psn(0x010203)};
  EXPECT_EQ(Bth::load(bytes.data()), bth);
  EXPECT_EQ(stored(bth), bytes);
}

TEST(Bth, EachFlagHasItsBit) {
  EXPECT_EQ(stored(Bth{.solicited_event = true, .mig_req = false})[1], 0x80);
  EXPECT_EQ(stored(Bth{})[1], 0x40);
  EXPECT_EQ(stored(Bth{.mig_req = false, .pad_count = 3})[1], 0x30);
  EXPECT_EQ(stored(Bth{.mig_req = false, .transport_version = 5})[1], 0x05);
  EXPECT_EQ(stored(Bth{.fecn = true})[4], 0x80);
  EXPECT_EQ(stored(Bth{.becn = true})[4], 0x40);
  EXPECT_EQ(stored(Bth{.ack_req = true})[8], 0x80);
  EXPECT_EQ(stored(Bth{.irn = true})[8], 0x40);
}

TEST(Bth, ReservedBitsAreSentAsZeroAndIgnored) {
  Bytes bytes = stored(Bth{});
  const Bth clean = Bth::load(bytes.data());
  bytes[4] |= 0x3f;
  bytes[8] |= 0x3f;
  EXPECT_EQ(Bth::load(bytes.data()), clean);
}

TEST(Reth, BytesAndBack) {
  const Bytes bytes = {0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08,
                       0x11, 0x12, 0x13, 0x14, 0x21, 0x22, 0x23, 0x24};
  const Reth reth{.va = 0x0102030405060708, .rkey = Key(0x11121314), .dma_len = 0x21222324};
  EXPECT_EQ(Reth::load(bytes.data()), reth);
  EXPECT_EQ(stored(reth), bytes);
}

TEST(Deth, BytesAndBack) {
  const Bytes bytes = {0x80, 0x01, 0x00, 0x00, 0x00, 0xab, 0xcd, 0xef};
  const Deth deth{.q_key = kGeneralServicesQKey, .src_qpn = Qpn(0xabcdef)};
  EXPECT_EQ(Deth::load(bytes.data()), deth);
  EXPECT_EQ(stored(deth), bytes);
}

TEST(Xrceth, BytesAndBack) {
  const Bytes bytes = {0x00, 0xab, 0xcd, 0xef};
  EXPECT_EQ(Xrceth::load(bytes.data()), Xrceth{.srqn = 0xabcdef});
  EXPECT_EQ(stored(Xrceth{.srqn = 0xabcdef}), bytes);
}

TEST(AtomicEth, BytesAndBack) {
  const Bytes bytes = {0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08, 0x11, 0x12,
                       0x13, 0x14, 0x21, 0x22, 0x23, 0x24, 0x25, 0x26, 0x27, 0x28,
                       0x31, 0x32, 0x33, 0x34, 0x35, 0x36, 0x37, 0x38};
  const AtomicEth atomic{.va = 0x0102030405060708,
                         .rkey = Key(0x11121314),
                         .swap_add = 0x2122232425262728,
                         .compare = 0x3132333435363738};
  EXPECT_EQ(AtomicEth::load(bytes.data()), atomic);
  EXPECT_EQ(stored(atomic), bytes);
}

TEST(AtomicAckEth, BytesAndBack) {
  const Bytes bytes = {0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08};
  EXPECT_EQ(AtomicAckEth::load(bytes.data()), AtomicAckEth{.original = 0x0102030405060708});
  EXPECT_EQ(stored(AtomicAckEth{.original = 0x0102030405060708}), bytes);
}

TEST(ImmDt, BytesKeepTheirOrderInMemory) {
  const Bytes bytes = {0xde, 0xad, 0xbe, 0xef};
  const ImmDt immdt = ImmDt::load(bytes.data());
  EXPECT_EQ(std::memcmp(&immdt.data_be, bytes.data(), 4), 0);
  EXPECT_EQ(stored(immdt), bytes);
}

TEST(Ieth, BytesAndBack) {
  const Bytes bytes = {0x11, 0x12, 0x13, 0x14};
  EXPECT_EQ(Ieth::load(bytes.data()), Ieth{.rkey = Key(0x11121314)});
  EXPECT_EQ(stored(Ieth{.rkey = Key(0x11121314)}), bytes);
}

TEST(Aeth, BytesAndBack) {
  const Bytes bytes = {0x2c, 0x01, 0x02, 0x03};
  const Aeth aeth{.syndrome = 0x2c, .msn = 0x010203};
  EXPECT_EQ(Aeth::load(bytes.data()), aeth);
  EXPECT_EQ(stored(aeth), bytes);
}

TEST(Aeth, SyndromesOfTheStandard) {
  EXPECT_EQ(kAckSyndrome, 0x1f);
  EXPECT_EQ(rnr_nak_syndrome(12), 0x2c);
  EXPECT_EQ(nak_syndrome(NakCode::kPsnSequenceError), 0x60);
  EXPECT_EQ(nak_syndrome(NakCode::kInvalidRequest), 0x61);
  EXPECT_EQ(nak_syndrome(NakCode::kRemoteAccessError), 0x62);
  EXPECT_EQ(nak_syndrome(NakCode::kRemoteOperationalError), 0x63);
  EXPECT_EQ(aeth_kind(0x1f), AethKind::kAck);
  EXPECT_EQ(aeth_kind(0x2c), AethKind::kRnrNak);
  EXPECT_EQ(aeth_value(0x2c), 12);
  EXPECT_EQ(aeth_kind(0x62), AethKind::kNak);
  EXPECT_EQ(aeth_value(0x62), 2);
  EXPECT_EQ(aeth_kind(0x40), AethKind::kReserved);
  EXPECT_EQ(aeth_kind(0x9f), AethKind::kReserved) << "bit 7 is not part of any kind";
}

TEST(RnrTimer, DurationsOfTheStandard) {
  EXPECT_EQ(rnr_timer(0), Duration::us(655'360));
  EXPECT_EQ(rnr_timer(1), Duration::us(10));
  EXPECT_EQ(rnr_timer(12), Duration::us(640));
  EXPECT_EQ(rnr_timer(14), Duration::us(1'280));
  EXPECT_EQ(rnr_timer(31), Duration::us(491'520));
  EXPECT_EQ(rnr_timer(0xff), rnr_timer(31)) << "five bits count";
  // From code 4 on, the time doubles with every second code.
  for (uint8_t code = 4; code + 2 < 32; ++code) {
    EXPECT_EQ(rnr_timer(static_cast<uint8_t>(code + 2)), rnr_timer(code) * 2) << int{code};
  }
}

TEST(MpDataExt, BytesAndBack) {
  const Bytes bytes = {0x10, 0x05, 0x00, 0x00, 0x11, 0x12, 0x13, 0x14,
                       0xab, 0xcd, 0xef, 0x00, 0x21, 0x22, 0x23, 0x24};
  const MpDataExt ext{.flags = kMpDataReTx | kMpDataTailProbe,
                      .timestamp = 0x11121314,
                      .message_number = 0xabcdef,
                      .offset = 0x21222324};
  EXPECT_EQ(MpDataExt::version(bytes.data()), kMpVersion);
  EXPECT_EQ(MpDataExt::load(bytes.data()), ext);
  EXPECT_EQ(stored(ext), bytes);
}

TEST(MpDataExt, ReservedBitsAreSentAsZeroAndIgnored) {
  Bytes bytes = stored(MpDataExt{.flags = 0xff});
  EXPECT_EQ(bytes[1], kMpDataFlagsMask);
  const MpDataExt clean = MpDataExt::load(bytes.data());
  for (const size_t byte : {1U, 2U, 3U, 11U}) bytes[byte] = 0xff;
  bytes[0] |= 0x0f;
  EXPECT_EQ(MpDataExt::load(bytes.data()), clean);
  EXPECT_EQ(MpDataExt::version(bytes.data()), kMpVersion);
}

TEST(MpAckExt, BytesAndBack) {
  const Bytes bytes = {0x10, 0x39, 0x04, 0x0c, 0x11, 0x12, 0x13, 0x14,
                       0xff, 0xff, 0xfe, 0x1f, 0x00, 0x00, 0x07, 0xc8};
  const MpAckExt ext{
      .flags = kMpAckResponseStream | kMpAckOrderedPlacement | kMpAckSackValid | kMpAckHeld,
      .nack = NackCode::kRnr,
      .detail = 12,
      .run = 31,
      .echoed_timestamp = 0x11121314,
      .sack = Psn(0xfffffe),
      .msn = 7,
      .delay_us = 200};
  EXPECT_EQ(MpAckExt::version(bytes.data()), kMpVersion);
  EXPECT_EQ(MpAckExt::load(bytes.data()), ext);
  EXPECT_EQ(stored(ext), bytes);
}

// The fields of three bytes share words with those of one.
TEST(MpAckExt, EachFieldHasItsBytes) {
  const auto expect_only = [](const MpAckExt& ext, size_t first, size_t count) {
    Bytes expected = stored(MpAckExt{});
    std::fill_n(expected.begin() + static_cast<long>(first), count, 0xff);
    EXPECT_EQ(stored(ext), expected) << first;
    EXPECT_EQ(MpAckExt::load(expected.data()), ext) << first;
  };
  expect_only({.detail = 0xff}, 3, 1);
  expect_only({.echoed_timestamp = 0xffffffff}, 4, 4);
  expect_only({.sack = Psn(0xffffff)}, 8, 3);
  expect_only({.run = 0xff}, 11, 1);
  expect_only({.msn = 0xffffff}, 12, 3);
  expect_only({.delay_us = kMpAckDelayMax}, 15, 1);
}

TEST(MpAckExt, EachFlagHasItsBit) {
  EXPECT_EQ(kMpAckResponseStream, 0x01);
  EXPECT_EQ(kMpAckEce, 0x02);
  EXPECT_EQ(kMpAckReTx, 0x04);
  EXPECT_EQ(kMpAckOrderedPlacement, 0x08);
  EXPECT_EQ(kMpAckSackValid, 0x10);
  EXPECT_EQ(kMpAckHeld, 0x20);
}

TEST(MpAckExt, ReservedBitsAreSentAsZeroAndIgnored) {
  Bytes bytes = stored(MpAckExt{.flags = 0xff});
  EXPECT_EQ(bytes[1], kMpAckFlagsMask);
  const MpAckExt clean = MpAckExt::load(bytes.data());
  bytes[1] = 0xff;
  bytes[0] |= 0x0f;
  EXPECT_EQ(MpAckExt::load(bytes.data()), clean);
}

}  // namespace
}  // namespace mprdma::wire
