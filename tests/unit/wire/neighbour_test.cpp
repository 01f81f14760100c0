// Neighbour discovery: literal bytes and back, and every rule of RFC 4861, 7.1.
#include "wire/neighbour.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <vector>

namespace mprdma::wire {
namespace {

using Bytes = std::vector<unsigned char>;

constexpr MacAddress kOurMac = {2, 0x4d, 0x52, 0x49, 0, 1};
constexpr MacAddress kPeerMac = {2, 0x4d, 0x52, 0x49, 0, 2};
const IpAddress kOurs = link_local_of(kOurMac);
const IpAddress kPeer = link_local_of(kPeerMac);

// A solicitation for us; the checksum was computed elsewhere.
const Bytes kSolicitation = {
    0x33, 0x33, 0xff, 0x49, 0,   1,    2,    0x4d, 0x52, 0x49, 0,    2,    0x86, 0xdd,  //
    0x60, 0,    0,    0,    0,   32,   58,   255,                                       //
    0xfe, 0x80, 0,    0,    0,   0,    0,    0,    0,    0x4d, 0x52, 0xff, 0xfe, 0x49,
    0,    2,    0xff, 2,    0,   0,    0,    0,    0,    0,    0,    0,    0,    1,
    0xff, 0x49, 0,    1,    135, 0,    0x84, 0x8b, 0,    0,    0,    0,  //
    0xfe, 0x80, 0,    0,    0,   0,    0,    0,    0,    0x4d, 0x52, 0xff, 0xfe, 0x49,
    0,    1,    1,    1,    2,   0x4d, 0x52, 0x49, 0,    2};

struct Parts {
  Ipv6 ip;
  Bytes message;
};

Parts parts_of(const Bytes& frame) {
  return {Ipv6::load(frame.data() + Ethernet::kBytes), {frame.begin() + 54, frame.end()}};
}

bool parse(Parts parts, NeighbourMessage& out, bool mend_checksum = true) {
  if (mend_checksum && parts.message.size() >= 4) {
    store_be16(parts.message.data() + 2, 0);
    store_be16(parts.message.data() + 2,
               icmpv6_checksum(parts.ip.src, parts.ip.dst, parts.message));
  }
  return NeighbourMessage::parse(parts.ip, parts.message, out);
}

Parts advertisement() {
  Bytes frame(NeighbourMessage::kFrameBytes);
  encode_advertisement(kOurMac, kOurs, kPeerMac, kPeer, frame.data());
  return parts_of(frame);
}

TEST(Neighbour, BytesAndBack) {
  Bytes frame(200, 0xee);
  ASSERT_EQ(encode_solicitation(kPeerMac, kOurs, frame.data()), kSolicitation.size());
  frame.resize(kSolicitation.size());
  EXPECT_EQ(frame, kSolicitation);
  NeighbourMessage message;
  ASSERT_TRUE(parse(parts_of(kSolicitation), message, false));
  EXPECT_FALSE(message.advertisement);
  EXPECT_TRUE(message.has_mac);
  EXPECT_EQ(message.mac, kPeerMac);
  EXPECT_EQ(message.target, kOurs);

  const Parts answer = advertisement();
  EXPECT_EQ(load_be16(answer.message.data() + 2), 0xd0c2);
  ASSERT_TRUE(parse(answer, message, false));
  EXPECT_TRUE(message.advertisement && message.solicited && message.overrides && !message.router);
  EXPECT_EQ(message.mac, kOurMac);
  EXPECT_EQ(answer.ip.dst, kPeer);
}

TEST(Neighbour, AnAskerWithoutAnAddressIsAnsweredThroughAllNodes) {
  Bytes frame(NeighbourMessage::kFrameBytes);
  encode_advertisement(kOurMac, kOurs, kPeerMac, IpAddress{}, frame.data());
  NeighbourMessage message;
  const Parts parts = parts_of(frame);
  ASSERT_TRUE(parse(parts, message, false));
  EXPECT_FALSE(message.solicited);
  EXPECT_EQ(parts.ip.dst, (IpAddress{0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}));
  EXPECT_EQ(Ethernet::load(frame.data()).dst, (MacAddress{0x33, 0x33, 0, 0, 0, 1}));
}

TEST(Neighbour, WhatTheStandardDoesNotLetPassIsDropped) {
  NeighbourMessage out;
  for (const Parts& good : {parts_of(kSolicitation), advertisement()}) {
    const std::vector<std::function<void(Parts&)>> breakages = {
        [](Parts& p) { p.ip.hop_limit = 254; },
        [](Parts& p) { p.message[1] = 1; },
        [](Parts& p) { p.message[0] = 133; },
        [](Parts& p) { p.message[8] = 0xff; },     // a group as target
        [](Parts& p) { p.ip.src[0] = 0xff; },      // a group as source
        [](Parts& p) { p.message[25] = 0; },       // an option without length
        [](Parts& p) { p.message[25] = 2; },       // an option beyond the end
        [](Parts& p) { p.message.push_back(0); },  // bytes that are no option
        [](Parts& p) { p.message.resize(23); },
    };
    for (size_t i = 0; i < breakages.size(); ++i) {
      Parts broken = good;
      breakages[i](broken);
      EXPECT_FALSE(parse(broken, out)) << i;
    }
    Parts corrupt = good;
    corrupt.message[24 + 7] ^= 1;
    EXPECT_FALSE(parse(corrupt, out, false)) << "checksum";
    EXPECT_TRUE(parse(good, out));
  }
  Parts to_all = advertisement();
  to_all.ip.dst = solicited_node(kPeer);
  EXPECT_FALSE(parse(to_all, out)) << "solicited, and to a group";
}

TEST(Neighbour, ASolicitationWithoutASourceGoesToTheGroupOfItsTargetAndNamesNobody) {
  Parts probe = parts_of(kSolicitation);
  probe.ip.src = {};
  NeighbourMessage out;
  EXPECT_FALSE(parse(probe, out)) << "names its Ethernet address";
  probe.message.resize(NeighbourMessage::kBytes);
  EXPECT_TRUE(parse(probe, out));
  EXPECT_FALSE(out.has_mac);
  probe.ip.dst = kOurs;
  EXPECT_FALSE(parse(probe, out)) << "to one node";
}

TEST(Neighbour, OptionsThatNobodyKnowsAreSkipped) {
  Parts parts = parts_of(kSolicitation);
  const Bytes nonce = {14, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
  parts.message.insert(parts.message.begin() + 24, nonce.begin(), nonce.end());
  NeighbourMessage out;
  EXPECT_TRUE(parse(parts, out));
  EXPECT_EQ(out.mac, kPeerMac);
}

TEST(Neighbour, AddressesOfALink) {
  EXPECT_EQ(kOurs,
            (IpAddress{0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0x4d, 0x52, 0xff, 0xfe, 0x49, 0, 1}));
  MacAddress mac{};
  EXPECT_TRUE(mac_of_link_local(kOurs, &mac));
  EXPECT_EQ(mac, kOurMac);
  IpAddress other = kOurs;
  other[11] = 0;
  EXPECT_TRUE(is_link_local(other));
  EXPECT_FALSE(mac_of_link_local(other, &mac));
  EXPECT_EQ(mac_of_solicited_node(kOurs), (MacAddress{0x33, 0x33, 0xff, 0x49, 0, 1}));
}

}  // namespace
}  // namespace mprdma::wire
