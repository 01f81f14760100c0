// FrameReader remembers outer headers. Nobody may notice: for every sequence of frames it says what
// decode_frame() says of each.
#include "wire/frame_reader.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <span>
#include <vector>

#include "tests/support/wire.hpp"
#include "wire/ipv4.hpp"

namespace mprdma::wire {
namespace {

using Bytes = std::vector<unsigned char>;

// Offsets in a frame over IPv4.
constexpr size_t kIp = Ethernet::kBytes;
constexpr size_t kUdp = kIp + Ipv4Header::kBytes;

void fix_ip_checksum(Bytes& frame) {
  if (frame.size() < kUdp) return;
  store_be16(&frame[kIp + Ipv4Header::kChecksumOffset], 0);
  store_be16(&frame[kIp + Ipv4Header::kChecksumOffset], Ipv4Header::checksum(&frame[kIp]));
}

// A reader, and what it writes to, over a sequence of frames.
class Sequence {
 public:
  // Has the reader and decode_frame() decode the frame; returns the reason of both. A copy of its
  // own size lets the address sanitizer see a read beyond the frame.
  DropReason next(const Bytes& frame, bool check_icrc = true) {
    const Bytes exact(frame.begin(), frame.end());
    DecodedFrame expected;
    const DropReason reason = decode_frame(exact, expected, check_icrc);
    EXPECT_EQ(reader_.decode(exact, out_, check_icrc), reason);
    if (reason != DropReason::kNone) return reason;
    EXPECT_EQ(out_.packet, expected.packet);
    EXPECT_EQ(out_.address, expected.address);
    EXPECT_EQ(out_.payload_offset, expected.payload_offset);
    return reason;
  }

 private:
  FrameReader reader_;
  DecodedFrame out_;
};

// Senders of both IP versions, more than the reader remembers; many share its entry, because their
// addresses have the same last byte or differ in it by eight.
std::vector<FrameAddress> many_addresses() {
  std::vector<FrameAddress> addresses;
  for (uint32_t i = 0; i < 24; ++i) {
    FrameAddress address = i % 6 == 5 ? test::ipv6_address() : test::ipv4_address();
    address.src_mac[5] = static_cast<uint8_t>(i);
    if (address.is_ipv6) {
      address.src_ip[15] = static_cast<uint8_t>(i);
    } else {
      address.src_ip = map_ipv4(Ipv4(0x0a010000 + (i % 3 << 8) + i));
    }
    address.dscp = static_cast<uint8_t>(i);
    address.ecn = static_cast<Ecn>(i % 4);
    address.ttl = static_cast<uint8_t>(60 + i);
    if (!address.is_ipv6) address.ip_identification = static_cast<uint16_t>(i * 1000);
    addresses.push_back(address);
  }
  return addresses;
}

Bytes random_frame(const FrameAddress& address, Prng& prng) {
  static const std::vector<Opcode> opcodes = test::valid_opcodes();
  const Opcode opcode = opcodes[prng.below(opcodes.size())];
  return test::make_frame(address, test::random_packet(opcode, prng, prng.chance(1, 2) ? 0 : 150));
}

Bytes sample_frame(Opcode opcode = Opcode::kMpWriteOnly) {
  Prng prng(40);
  Packet packet = test::random_packet(opcode, prng, 40);
  packet.ce = false;
  return test::make_frame(test::ipv4_address(), packet);
}

TEST(FrameReader, ManySendersTakeTurns) {
  Prng prng(41);
  const std::vector<FrameAddress> addresses = many_addresses();
  Sequence sequence;
  for (int i = 0; i < 5000; ++i) {
    // Bursts of one sender, and changes to any other.
    const FrameAddress& address = addresses[prng.below(addresses.size())];
    for (uint64_t burst = prng.range(1, 3); burst > 0; --burst) {
      ASSERT_EQ(sequence.next(random_frame(address, prng)), DropReason::kNone);
    }
  }
}

TEST(FrameReader, OneByteOfAKnownSendersHeaderChanges) {
  for (const Opcode opcode : {Opcode::kMpWriteOnly, Opcode::kRcSendMiddle}) {
    const Bytes good = sample_frame(opcode);
    Sequence sequence;
    ASSERT_EQ(sequence.next(good), DropReason::kNone);
    for (size_t at = 0; at < kUdp + Udp::kBytes + Bth::kBytes; ++at) {
      for (unsigned value = 0; value < 256; ++value) {
        Bytes frame = good;
        frame[at] = static_cast<unsigned char>(value);
        sequence.next(frame);
        // With the checksum right the change meets the checks behind it.
        fix_ip_checksum(frame);
        sequence.next(frame, false);
        ASSERT_EQ(sequence.next(good), DropReason::kNone);
        ASSERT_FALSE(HasFailure()) << "byte " << at << " value " << value;
      }
    }
  }
}

TEST(FrameReader, LengthsThatContradictEachOtherOrTheFrame) {
  const Bytes good = sample_frame();
  Sequence sequence;
  ASSERT_EQ(sequence.next(good), DropReason::kNone);
  const auto ip_bytes = static_cast<int>(good.size() - kIp);
  for (int total = ip_bytes - 80; total < ip_bytes + 4; ++total) {
    for (const int less : {0, 16, 19, 20, 21, 24}) {
      Bytes frame = good;
      store_be16(&frame[kIp + Ipv4Header::kTotalLengthOffset], static_cast<uint16_t>(total));
      store_be16(&frame[kUdp + Udp::kLengthOffset], static_cast<uint16_t>(total - less));
      fix_ip_checksum(frame);
      sequence.next(frame, false);
      ASSERT_FALSE(HasFailure()) << total << " " << less;
    }
  }
}

TEST(FrameReader, AKnownSendersFrameIsCutOrPadded) {
  for (const bool fix_lengths : {false, true}) {
    Sequence sequence;
    const Bytes good = sample_frame();
    for (size_t bytes = 0; bytes < good.size() + 70; ++bytes) {
      ASSERT_EQ(sequence.next(good), DropReason::kNone);
      Bytes frame = good;
      frame.resize(bytes, 0x33);
      if (fix_lengths && bytes >= kUdp + Udp::kBytes) {
        const auto ip_bytes = static_cast<uint16_t>(bytes - kIp);
        store_be16(&frame[kIp + Ipv4Header::kTotalLengthOffset], ip_bytes);
        store_be16(&frame[kUdp + Udp::kLengthOffset],
                   static_cast<uint16_t>(ip_bytes - Ipv4Header::kBytes));
        fix_ip_checksum(frame);
      }
      sequence.next(frame, false);
      ASSERT_FALSE(HasFailure()) << bytes;
    }
  }
}

TEST(FrameReader, FramesOfManySendersAreDamaged) {
  Prng prng(42);
  const std::vector<FrameAddress> addresses = many_addresses();
  Sequence sequence;
  size_t good = 0;
  size_t bad = 0;
  for (int i = 0; i < 30'000; ++i) {
    Bytes frame = random_frame(addresses[prng.below(addresses.size())], prng);
    for (uint64_t changes = prng.below(4); changes > 0; --changes) {
      const size_t at = prng.below(std::min<size_t>(frame.size(), 80));
      frame[at] = static_cast<unsigned char>(prng.next_u64());
    }
    if (prng.chance(1, 10)) frame.resize(prng.below(frame.size() + 20));
    if (prng.chance(1, 2)) fix_ip_checksum(frame);
    const DropReason reason = sequence.next(frame, prng.chance(1, 2));
    ++(reason == DropReason::kNone ? good : bad);
    ASSERT_FALSE(HasFailure()) << i;
  }
  EXPECT_GT(good, 5000U);
  EXPECT_GT(bad, 5000U);
}

// A reader that has seen nothing must not take headers of zeros for ones that it knows.
TEST(FrameReader, ZerosAreNoSenderToAFreshReader) {
  for (size_t bytes = 0; bytes < 200; ++bytes) {
    Sequence sequence;
    EXPECT_NE(sequence.next(Bytes(bytes, 0), false), DropReason::kNone);
  }
  // Zeros in all that a reader remembers; lengths and checksum are right.
  Bytes frame = sample_frame();
  std::fill(frame.begin(), frame.begin() + kIp + Ipv4Header::kTotalLengthOffset, 0);
  std::fill(frame.begin() + kIp + 4, frame.begin() + kUdp, 0);
  store_be16(&frame[kUdp + 2], 0);
  fix_ip_checksum(frame);
  Sequence sequence;
  EXPECT_EQ(sequence.next(frame, false), DropReason::kUnknownEtherType);
}

// Too short to hold headers: what the frame before left on the stack must not stand in for them.
TEST(FrameReader, AShortFrameAfterAGoodOneIsTruncated) {
  const Bytes good = sample_frame();
  FrameReader reader;
  DecodedFrame out;
  for (size_t bytes = 0; bytes < kUdp; ++bytes) {
    const Bytes cut(good.begin(), good.begin() + static_cast<long>(bytes));
    const std::span<const unsigned char> before = good;
    const std::span<const unsigned char> frame = cut;
    // Nothing in between that would write over the stack.
    const DropReason first = reader.decode(before, out, false);
    const DropReason second = reader.decode(frame, out, false);
    ASSERT_EQ(first, DropReason::kNone);
    EXPECT_EQ(second,
              bytes < Ethernet::kBytes ? DropReason::kTruncatedEthernet : DropReason::kTruncatedIp)
        << bytes;
  }
}

// Lengths and checksum of IPv4 lie in the flow label and the addresses of IPv6.
TEST(FrameReader, Ipv6ThatWouldPassAsIpv4IsReadAsIpv6) {
  FrameAddress address = test::ipv6_address();
  Packet packet;
  packet.payload_len = 40;
  packet.vp = 60;  // the flow label, too: the total length
  address.dst_ip[0] = 0;
  address.dst_ip[1] = 40;  // the UDP length
  const Bytes unsummed = test::make_frame(address, packet);
  store_be16(&address.src_ip[2], Ipv4Header::checksum(&unsummed[kIp]));
  const Bytes frame = test::make_frame(address, packet);
  ASSERT_TRUE(Ipv4Header::checksum_ok(&frame[kIp]));
  Sequence sequence;
  for (int i = 0; i < 3; ++i) ASSERT_EQ(sequence.next(frame), DropReason::kNone);
}

// The reader leaves the address in its place while the sender stays. Whatever comes between two
// frames of one sender may have put another one there.
TEST(FrameReader, TheAddressIsRightAfterEveryKindOfFrame) {
  Prng prng(43);
  FrameAddress other = test::ipv4_address();
  other.src_ip = map_ipv4(Ipv4(0x0a010002));
  other.ttl = 7;
  Bytes bad_udp_port = test::make_frame(other, Packet());
  bad_udp_port[kUdp + 3]++;
  Bytes bad_opcode = test::make_frame(other, Packet());
  bad_opcode[kUdp + Udp::kBytes] = 0xff;
  const Bytes good = sample_frame();
  for (const Bytes& between :
       {test::make_frame(other, Packet()), random_frame(test::ipv6_address(), prng), bad_udp_port,
        bad_opcode, Bytes(), Bytes(60, 0xff)}) {
    Sequence sequence;
    for (int i = 0; i < 3; ++i) {
      ASSERT_EQ(sequence.next(good), DropReason::kNone);
      sequence.next(between);
    }
  }
}

}  // namespace
}  // namespace mprdma::wire
