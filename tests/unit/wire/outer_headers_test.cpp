// Ethernet, ARP, IPv4, IPv6 and UDP: literal bytes to values and back.
#include <gtest/gtest.h>

#include "base/ipv4.hpp"
#include "tests/support/wire.hpp"
#include "wire/arp.hpp"
#include "wire/ethernet.hpp"
#include "wire/ip_address.hpp"
#include "wire/ipv4.hpp"
#include "wire/ipv6.hpp"
#include "wire/udp.hpp"

namespace mprdma::wire {
namespace {

using test::stored;
using Bytes = std::vector<unsigned char>;

TEST(Ethernet, BytesAndBack) {
  const Bytes bytes = {0x02, 0x00, 0x00, 0x00, 0x00, 0x02, 0x02,
                       0x00, 0x00, 0x00, 0x00, 0x01, 0x86, 0xdd};
  const Ethernet ethernet{
      .dst = {2, 0, 0, 0, 0, 2}, .src = {2, 0, 0, 0, 0, 1}, .ether_type = 0x86dd};
  EXPECT_EQ(Ethernet::load(bytes.data()), ethernet);
  EXPECT_EQ(stored(ethernet), bytes);
}

TEST(Ethernet, TheLowestBitOfTheFirstByteMakesAGroup) {
  EXPECT_TRUE(is_multicast(kBroadcastMac));
  EXPECT_TRUE(is_multicast(MacAddress{0x33, 0x33, 0, 0, 0, 1}));
  EXPECT_FALSE(is_multicast(MacAddress{0x02, 0x01, 0x01, 0x01, 0x01, 0x01}));
}

TEST(IpAddress, GroupsAreOneSixteenthOfIpv4AndTheLastByteOfIpv6) {
  for (const Ipv4 group : {Ipv4(0xe0000000), Ipv4(0xefffffff)}) {
    EXPECT_TRUE(is_multicast(map_ipv4(group)));
    EXPECT_TRUE(is_multicast_ipv4(group));
  }
  // 240.0.0.0/4 is reserved, and the broadcast address is in it: neither is a group.
  for (const Ipv4 other : {Ipv4(0xdfffffff), Ipv4(0xf0000000), Ipv4(0xffffffff), Ipv4{}}) {
    EXPECT_FALSE(is_multicast(map_ipv4(other)));
    EXPECT_FALSE(is_multicast_ipv4(other));
  }
  EXPECT_TRUE(is_multicast(IpAddress{0xff, 0x02}));
  EXPECT_FALSE(is_multicast(IpAddress{0xfe, 0x80}));
}

// The checksum of this header is a worked example in wide use.
const Bytes kIpv4Bytes = {0x45, 0x02, 0x00, 0x73, 0x00, 0x00, 0x40, 0x00, 0x40, 0x11,
                          0xb8, 0x5f, 0xc0, 0xa8, 0x00, 0x01, 0xc0, 0xa8, 0x00, 0xc7};

TEST(Ipv4Header, BytesAndBack) {
  const Ipv4Header ip{.dscp = 0,
                      .ecn = Ecn::kEct0,
                      .total_length = 0x73,
                      .ttl = 64,
                      .src = Ipv4(0xc0a80001),
                      .dst = Ipv4(0xc0a800c7)};
  EXPECT_EQ(Ipv4Header::load(kIpv4Bytes.data()), ip);
  EXPECT_EQ(stored(ip), kIpv4Bytes);
}

TEST(Ipv4Header, ChecksumNoticesEveryBitFlip) {
  EXPECT_TRUE(Ipv4Header::checksum_ok(kIpv4Bytes.data()));
  for (size_t bit = 0; bit < kIpv4Bytes.size() * 8; ++bit) {
    Bytes bytes = kIpv4Bytes;
    bytes[bit / 8] ^= static_cast<unsigned char>(1 << bit % 8);
    EXPECT_FALSE(Ipv4Header::checksum_ok(bytes.data())) << "bit " << bit;
  }
}

TEST(Ipv4Header, ChecksumCarriesTwice) {
  // The words sum to 0x2fffe: adding the carry once makes another carry.
  Bytes bytes(Ipv4Header::kBytes, 0);
  for (size_t i = 0; i < 6; ++i) bytes[i] = 0xff;
  bytes[7] = 0x01;
  EXPECT_EQ(Ipv4Header::checksum(bytes.data()), 0xfffe);
}

TEST(Ipv4Header, FragmentFieldsAreApart) {
  Ipv4Header ip{.dont_fragment = false, .more_fragments = true, .fragment_offset = 0x1234};
  const Bytes bytes = stored(ip);
  EXPECT_EQ(bytes[6], 0x20 | 0x12);
  EXPECT_EQ(bytes[7], 0x34);
  EXPECT_EQ(Ipv4Header::load(bytes.data()), ip);
  EXPECT_TRUE(ip.is_fragment());
  EXPECT_FALSE(Ipv4Header{}.is_fragment());
}

TEST(Ipv6, BytesAndBack) {
  Bytes bytes = {0x6b, 0xbc, 0xab, 0xcd, 0x12, 0x34, 0x11, 0x3f};
  for (unsigned char i = 0; i < 32; ++i) bytes.push_back(i);
  Ipv6 ip{.dscp = 0x2e,
          .ecn = Ecn::kCe,
          .flow_label = 0xcabcd,
          .payload_length = 0x1234,
          .hop_limit = 63};
  for (uint8_t i = 0; i < 16; ++i) {
    ip.src[i] = i;
    ip.dst[i] = static_cast<uint8_t>(16 + i);
  }
  EXPECT_EQ(Ipv6::load(bytes.data()), ip);
  EXPECT_EQ(stored(ip), bytes);
}

TEST(Udp, BytesAndBack) {
  const Bytes bytes = {0xc0, 0x01, 0x12, 0xb7, 0x01, 0x02, 0x00, 0x00};
  const Udp udp{.src_port = 0xc001, .length = 0x102};
  EXPECT_EQ(Udp::load(bytes.data()), udp);
  EXPECT_EQ(stored(udp), bytes);
}

const Bytes kArpReply = {0x00, 0x01, 0x08, 0x00, 0x06, 0x04, 0x00, 0x02, 0x02, 0x00,
                         0x00, 0x00, 0x00, 0x01, 0x0a, 0x01, 0x00, 0x01, 0x02, 0x00,
                         0x00, 0x00, 0x00, 0x02, 0x0a, 0x01, 0x00, 0x02};

TEST(Arp, BytesAndBack) {
  const Arp reply{.operation = ArpOperation::kReply,
                  .sender_mac = {2, 0, 0, 0, 0, 1},
                  .sender_ip = Ipv4(0x0a010001),
                  .target_mac = {2, 0, 0, 0, 0, 2},
                  .target_ip = Ipv4(0x0a010002)};
  Arp parsed;
  ASSERT_EQ(Arp::parse(kArpReply, parsed), DropReason::kNone);
  EXPECT_EQ(parsed, reply);
  EXPECT_EQ(stored(reply), kArpReply);
}

TEST(Arp, ShortOrForeignIsDropped) {
  Arp parsed;
  for (size_t length = 0; length < kArpReply.size(); ++length) {
    EXPECT_EQ(Arp::parse({kArpReply.data(), length}, parsed), DropReason::kTruncatedArp);
  }
  for (const size_t byte : {0U, 1U, 2U, 3U, 4U, 5U, 6U, 7U}) {
    Bytes bytes = kArpReply;
    bytes[byte] ^= 0x10;
    EXPECT_EQ(Arp::parse(bytes, parsed), DropReason::kBadArp) << "byte " << byte;
  }
}

TEST(Arp, FrameHasTheEthernetMinimumAndNoJunk) {
  Bytes frame(kMinFrameBytes, 0xa5);
  const Arp request{.sender_mac = {2, 0, 0, 0, 0, 1}, .sender_ip = Ipv4(1), .target_ip = Ipv4(2)};
  ASSERT_EQ(encode_arp_frame(kBroadcastMac, request.sender_mac, request, frame.data()), 60U);
  EXPECT_EQ(Ethernet::load(frame.data()).ether_type, kEtherTypeArp);
  EXPECT_EQ(Ethernet::load(frame.data()).dst, kBroadcastMac);
  Arp parsed;
  ASSERT_EQ(Arp::parse(std::span(frame).subspan(Ethernet::kBytes), parsed), DropReason::kNone);
  EXPECT_EQ(parsed, request);
  for (size_t i = Ethernet::kBytes + Arp::kBytes; i < frame.size(); ++i) EXPECT_EQ(frame[i], 0);
}

TEST(IpAddress, Ipv4IsMappedAsInAGid) {
  const IpAddress address = map_ipv4(Ipv4(0x0a010002));
  EXPECT_TRUE(is_mapped_ipv4(address));
  EXPECT_EQ(unmap_ipv4(address), Ipv4(0x0a010002));
  const IpAddress expected = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 1, 0, 2};
  EXPECT_EQ(address, expected);
  for (size_t byte = 0; byte < 12; ++byte) {
    IpAddress other = address;
    other[byte] ^= 1;
    EXPECT_FALSE(is_mapped_ipv4(other)) << "byte " << byte;
  }
}

}  // namespace
}  // namespace mprdma::wire
