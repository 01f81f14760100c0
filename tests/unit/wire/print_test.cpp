#include "wire/print.hpp"

#include <gtest/gtest.h>

#include <array>
#include <string>

#include "base/ipv4.hpp"
#include "tests/support/wire.hpp"
#include "wire/arp.hpp"
#include "wire/bth.hpp"
#include "wire/ipv4.hpp"
#include "wire/ipv6.hpp"

namespace mprdma::wire {
namespace {

template <typename Value>
std::string text_of(const Value& value) {
  std::array<char, kTextBytes> buffer;
  return std::string(to_string(value, buffer));
}

TEST(Print, PacketOnOneLine) {
  Packet packet;
  packet.opcode = Opcode::kMpWriteOnlyImm;
  packet.psn = Psn(17);
  packet.dest_qpn = Qpn(0x102);
  packet.vp = 50'000;
  packet.payload_len = 64;
  packet.ce = true;
  packet.mp_data = {.flags = kMpDataReTx | kMpDataSync, .timestamp = 5, .message_number = 6};
  packet.reth = {.va = 0x1000, .rkey = Key(0xab), .dma_len = 64};
  EXPECT_EQ(text_of(packet),
            "MP_WRITE_ONLY_IMM psn=17 dest=0x000102 vp=50000 len=64 CE ts=5 msg=6 off=0 RETX SYNC "
            "va=0x1000 rkey=0x000000ab dmalen=64 imm=0x00000000");
}

TEST(Print, AcknowledgementNamesStreamCauseAndFlags) {
  EXPECT_EQ(text_of(MpAckExt{.flags = kMpAckResponseStream | kMpAckSackValid | kMpAckEce,
                             .nack = NackCode::kRnr,
                             .detail = 12,
                             .echoed_timestamp = 9,
                             .sack = Psn(3),
                             .msn = 4}),
            "stream=response sack=3 nack=RNR timer=12 msn=4 echo=9 ECE");
}

TEST(Print, AcknowledgementNamesRunAndDelayIfThereAreAny) {
  EXPECT_EQ(text_of(MpAckExt{.flags = kMpAckSackValid,
                             .run = 31,
                             .echoed_timestamp = 9,
                             .sack = Psn(40),
                             .delay_us = 255}),
            "stream=request sack=40 run=31 msn=0 echo=9 delay=255");
}

TEST(Print, Addresses) {
  EXPECT_EQ(text_of(map_ipv4(Ipv4(0x0a010002))), "10.1.0.2");
  EXPECT_EQ(text_of(test::ipv6_address().dst_ip),
            "fd:00:00:00:00:00:00:00:00:00:00:00:00:00:00:02");
  EXPECT_EQ(text_of(MacAddress{0x02, 0xab, 0, 0, 0, 1}), "02:ab:00:00:00:01");
}

TEST(Print, NeverWritesBeyondTheBuffer) {
  Prng prng(5);
  for (const Opcode opcode : test::valid_opcodes()) {
    const Packet packet = test::random_packet(opcode, prng, 4096);
    const std::string whole = text_of(packet);
    ASSERT_LT(whole.size(), kTextBytes);
    for (size_t size = 0; size <= whole.size(); ++size) {
      std::string buffer(size + 1, '#');
      const auto text = to_string(packet, std::span<char>(buffer.data(), size));
      ASSERT_EQ(text, whole.substr(0, size));
      ASSERT_EQ(buffer[size], '#');
    }
  }
}

}  // namespace
}  // namespace mprdma::wire
