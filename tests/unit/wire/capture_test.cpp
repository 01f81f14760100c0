// The reference capture of two Linux Soft-RoCE peers. Their packets have to decode, and encode
// again to the same bytes.
#include <gtest/gtest.h>

#include <array>
#include <map>

#include "base/ipv4.hpp"
#include "tests/support/pcap.hpp"
#include "tests/support/wire.hpp"
#include "wire/udp.hpp"

namespace mprdma::wire {
namespace {

using Bytes = std::vector<unsigned char>;

struct Captured {
  Bytes bytes;
  DecodedFrame frame;
};

class Capture : public ::testing::Test {
 protected:
  void SetUp() override {
    for (Bytes& bytes : test::read_pcap(MPRDMA_TEST_DATA "/rxe-reference.pcap")) {
      Captured captured;
      const DropReason reason = decode_frame(bytes, captured.frame, /*check_icrc=*/true);
      ASSERT_EQ(reason, DropReason::kNone) << "frame " << frames_.size() + 1;
      captured.bytes = std::move(bytes);
      frames_.push_back(std::move(captured));
    }
    ASSERT_EQ(frames_.size(), 330U);
  }

  // Finds a frame by the number that packet analysers show, which begins at 1.
  const Packet& packet(size_t number) const { return frames_.at(number - 1).frame.packet; }

  std::vector<Captured> frames_;
};

TEST_F(Capture, EncodesToTheSameBytes) {
  for (size_t i = 0; i < frames_.size(); ++i) {
    const auto& [bytes, decoded] = frames_[i];
    const auto payload = payload_of(bytes, decoded);
    const Bytes again = test::make_frame(decoded.address, decoded.packet, true, payload);
    ASSERT_EQ(again, bytes) << "frame " << i + 1;
  }
}

TEST_F(Capture, OuterHeadersAreSane) {
  constexpr Ipv4 kOne{0x0a010001};
  constexpr Ipv4 kOther{0x0a010002};
  std::map<uint16_t, int> source_ports;
  for (const auto& [bytes, decoded] : frames_) {
    const FrameAddress& address = decoded.address;
    EXPECT_FALSE(address.is_ipv6);
    EXPECT_TRUE(is_mapped_ipv4(address.src_ip));
    const Ipv4 src = unmap_ipv4(address.src_ip);
    const Ipv4 dst = unmap_ipv4(address.dst_ip);
    EXPECT_TRUE((src == kOne && dst == kOther) || (src == kOther && dst == kOne));
    EXPECT_EQ(address.ttl, 64);
    EXPECT_TRUE(address.dscp == 0 || address.dscp == 26);
    EXPECT_EQ(address.ecn, Ecn::kNotEct);
    EXPECT_FALSE(decoded.packet.ce);
    EXPECT_EQ(decoded.packet.p_key, 0xffff);
    EXPECT_FALSE(decoded.packet.mig_req);
    EXPECT_FALSE(decoded.packet.fecn);
    EXPECT_FALSE(decoded.packet.becn);
    EXPECT_EQ(Udp::load(bytes.data() + 34).checksum, 0);
    EXPECT_EQ(bytes.size(), size_t{decoded.payload_offset} + decoded.packet.payload_len +
                                pad_bytes(decoded.packet.payload_len) + kIcrcBytes);
    source_ports[decoded.packet.vp]++;
  }
  EXPECT_EQ(source_ports.size(), 15U);
  for (const auto& [port, count] : source_ports) EXPECT_GE(port, kVirtualPathMin);
}

TEST_F(Capture, OpcodeHistogram) {
  std::map<uint8_t, int> seen;
  for (const Captured& captured : frames_) {
    seen[static_cast<uint8_t>(captured.frame.packet.opcode)]++;
  }
  const std::map<uint8_t, int> expected = {
      {0x00, 16}, {0x01, 16}, {0x02, 15}, {0x03, 1},  {0x04, 27}, {0x05, 1},  {0x06, 15},
      {0x07, 24}, {0x08, 13}, {0x09, 1},  {0x0a, 7},  {0x0b, 1},  {0x0c, 19}, {0x0d, 14},
      {0x0e, 21}, {0x0f, 14}, {0x10, 4},  {0x11, 71}, {0x12, 12}, {0x13, 6},  {0x14, 6},
      {0x17, 1},  {0x26, 5},  {0x27, 5},  {0x28, 5},  {0x64, 10}};
  EXPECT_EQ(seen, expected);
}

TEST_F(Capture, SyndromeHistogram) {
  std::map<uint8_t, int> seen;
  for (const Captured& captured : frames_) {
    if (captured.frame.packet.info().has_aeth) seen[captured.frame.packet.aeth.syndrome]++;
  }
  const std::map<uint8_t, int> expected = {{0x1f, 108}, {0x2c, 2}, {0x60, 3}, {0x62, 2}};
  EXPECT_EQ(seen, expected);
}

TEST_F(Capture, ManagementDatagram) {
  const Packet& request = packet(1);
  EXPECT_EQ(request.opcode, Opcode::kUdSendOnly);
  EXPECT_EQ(request.dest_qpn, kGeneralServicesQpn);
  EXPECT_EQ(request.deth, (Deth{.q_key = kGeneralServicesQKey, .src_qpn = Qpn(1)}));
  EXPECT_EQ(request.payload_len, 256U);
  EXPECT_EQ(request.vp, 55410);
  EXPECT_EQ(frames_[0].frame.address.ip_identification, 0xd408);
}

TEST_F(Capture, PsnWraps) {
  EXPECT_EQ(packet(202).psn, Psn(0xfffffc));
  EXPECT_EQ(packet(204).psn, Psn(0xfffffd));
  EXPECT_EQ(packet(205).psn, Psn(0xfffffe));
  EXPECT_EQ(packet(206).psn, Psn(0xffffff));
  EXPECT_EQ(packet(207).psn, Psn(0xffffff));
  EXPECT_EQ(packet(208).psn, Psn(0));
  EXPECT_TRUE(packet(206).psn.before(packet(208).psn));
}

TEST_F(Capture, SendForms) {
  const Packet& with_imm = packet(202);
  EXPECT_EQ(with_imm.opcode, Opcode::kRcSendOnlyImm);
  EXPECT_EQ(with_imm.dest_qpn, Qpn(0x1b));
  const unsigned char imm_bytes[4] = {0xef, 0xbe, 0xad, 0xde};
  EXPECT_EQ(std::memcmp(&with_imm.immdt, imm_bytes, 4), 0) << "wire order is memory order";
  EXPECT_EQ(with_imm.payload_len, 5U);

  EXPECT_EQ(packet(208).opcode, Opcode::kRcSendOnly);
  EXPECT_EQ(packet(208).payload_len, 0U);

  const Packet& invalidate = packet(239);
  EXPECT_EQ(invalidate.opcode, Opcode::kRcSendOnlyInvalidate);
  EXPECT_EQ(invalidate.ieth_rkey, Key(0x08000182U));
  EXPECT_EQ(invalidate.payload_len, 64U);
}

TEST_F(Capture, WriteAndRead) {
  const Packet& write = packet(212);
  EXPECT_EQ(write.opcode, Opcode::kRcWriteOnly);
  EXPECT_EQ(write.reth, (Reth{.va = 0x562d6126a003, .rkey = Key(0xe9b), .dma_len = 17}));
  EXPECT_EQ(write.payload_len, 17U);

  const Packet& write_imm = packet(216);
  EXPECT_EQ(write_imm.opcode, Opcode::kRcWriteOnlyImm);
  EXPECT_EQ(write_imm.reth.dma_len, 100U);
  EXPECT_EQ(write_imm.payload_len, 100U);

  const Packet& read = packet(102);
  EXPECT_EQ(read.opcode, Opcode::kRcReadRequest);
  EXPECT_EQ(read.reth, (Reth{.va = 0x55eba7a68000, .rkey = Key(0x85c), .dma_len = 3000}));
  EXPECT_EQ(read.payload_len, 0U);
  const Packet& first = packet(103);
  const Packet& middle = packet(104);
  const Packet& last = packet(105);
  EXPECT_EQ(first.opcode, Opcode::kRcReadResponseFirst);
  EXPECT_EQ(middle.opcode, Opcode::kRcReadResponseMiddle);
  EXPECT_EQ(last.opcode, Opcode::kRcReadResponseLast);
  EXPECT_EQ(first.payload_len + middle.payload_len + last.payload_len, 3000U);
  EXPECT_EQ(first.psn, read.psn);
  EXPECT_EQ(last.psn, read.psn + 2);
}

TEST_F(Capture, Atomics) {
  const Packet& compare_swap = packet(227);
  EXPECT_EQ(compare_swap.opcode, Opcode::kRcCompareSwap);
  EXPECT_EQ(compare_swap.reth, (Reth{.va = 0x562d6126a000, .rkey = Key(0xe9b), .dma_len = 8}));
  EXPECT_EQ(compare_swap.atomic_swap_add, 11072869122414935808U);
  EXPECT_EQ(compare_swap.atomic_compare, 1234605616436508552U);
  const Packet& result = packet(228);
  EXPECT_EQ(result.opcode, Opcode::kRcAtomicAck);
  EXPECT_EQ(result.atomic_original, compare_swap.atomic_compare);
  EXPECT_EQ(result.aeth, (Aeth{.syndrome = 0x1f, .msn = 11}));
  EXPECT_EQ(packet(229).opcode, Opcode::kRcFetchAdd);
  EXPECT_EQ(packet(230).atomic_original, compare_swap.atomic_swap_add);
}

TEST_F(Capture, AccessErrorIsAnsweredAtThePsnOfTheRequest) {
  EXPECT_EQ(packet(243).opcode, Opcode::kRcReadRequest);
  const Packet& nak = packet(244);
  EXPECT_EQ(nak.opcode, Opcode::kRcAck);
  EXPECT_EQ(nak.psn, packet(243).psn);
  EXPECT_EQ(nak.aeth.kind(), AethKind::kNak);
  EXPECT_EQ(nak.aeth.value(), static_cast<uint8_t>(NakCode::kRemoteAccessError));
  EXPECT_EQ(nak.aeth.msn, 0U);
}

}  // namespace
}  // namespace mprdma::wire
