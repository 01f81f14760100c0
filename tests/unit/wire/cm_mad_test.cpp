// Messages of communication management: every field in its bits and in no other, nothing of the
// buffer's former contents, and any bytes are read without harm.
#include "wire/cm_mad.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "base/ipv4.hpp"
#include "base/prng.hpp"
#include "wire/print.hpp"

namespace mprdma::wire {
namespace {

using Bytes = std::array<unsigned char, kMadBytes>;

Bytes encoded(const CmMad& mad) {
  constexpr unsigned char kJunk = 0xcc;
  std::array<unsigned char, 2 * kMadBytes> room;
  room.fill(kJunk);  // so that a byte that nobody wrote shows, and one behind the message
  encode_cm_mad(mad, std::span(room).first<kMadBytes>());
  for (size_t i = kMadBytes; i < room.size(); ++i) EXPECT_EQ(room[i], kJunk) << i;
  Bytes bytes;
  std::copy_n(room.begin(), kMadBytes, bytes.begin());
  return bytes;
}

Bytes encoded(const CmBody& body) {
  return encoded(CmMad{.body = body});
}

// A field's bits, counted from the end of the common header; bit 0 is the highest.
struct Bits {
  size_t byte;
  size_t first;
  size_t count;
};
std::vector<Bits> bytes_at(size_t byte, size_t count) {
  return {{byte, 0, count * 8}};
}

template <typename Message>
struct Field {
  const char* name;
  void (*fill)(Message&);  // the field to all ones
  std::vector<Bits> bits;
};

// A message whose fields are all zero.
template <typename Message>
Message blank() {
  return {};
}
template <>
CmReq blank() {
  CmReq req;
  req.remote_cm_response_timeout = req.local_cm_response_timeout = req.max_cm_retries = 0;
  req.retry_count = req.rnr_retry_count = req.path_mtu = req.hop_limit = 0;
  req.p_key = 0;
  return req;
}
template <>
CmRep blank() {
  CmRep rep;
  rep.rnr_retry_count = 0;
  return rep;
}
template <>
CmSidrReq blank() {
  CmSidrReq req;
  req.p_key = 0;
  return req;
}

template <typename Message>
void expect_fields(const std::vector<Field<Message>>& fields) {
  const Bytes zero = encoded(CmBody{blank<Message>()});
  for (const Field<Message>& field : fields) {
    Message message = blank<Message>();
    field.fill(message);
    const Bytes seen = encoded(CmBody{message});
    Bytes expected = zero;
    for (const Bits& bits : field.bits) {
      for (size_t bit = bits.first; bit < bits.first + bits.count; ++bit) {
        expected[MadHeader::kBytes + bits.byte + bit / 8] |=
            static_cast<unsigned char>(0x80 >> bit % 8);
      }
    }
    EXPECT_EQ(seen, expected) << field.name;
    CmMad back;
    ASSERT_EQ(decode_cm_mad(seen, back), MadDrop::kNone) << field.name;
    EXPECT_EQ(encoded(back), seen) << field.name << " is lost on its way back";
  }
}

template <typename Message>
void fill_private(Message& message) {
  message.private_data.bytes = CmPrivate::kBytesMax;  // more than any room: it must not overflow
  message.private_data.data.fill(0xff);
}

TEST(CmMad, TheHeaderIsThatOfTheClass) {
  const Bytes bytes =
      encoded(CmMad{.transaction = 0x0102030405060708, .modifier = 0x0a0b0c0d, .body = CmRtu{}});
  const std::vector<unsigned char> expected = {0x01, 0x07, 0x02, 0x03, 0x00, 0x00, 0x00, 0x00,
                                               0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08,
                                               0x00, 0x14, 0x00, 0x00, 0x0a, 0x0b, 0x0c, 0x0d};
  EXPECT_EQ(std::vector<unsigned char>(bytes.begin(), bytes.begin() + 24), expected);
  for (size_t i = 24; i < bytes.size(); ++i) EXPECT_EQ(bytes[i], 0) << i;
}

TEST(CmMad, EachMessageHasItsAttribute) {
  const std::array<std::pair<CmBody, unsigned char>, 9> attributes = {{{CmReq{}, 0x10},
                                                                       {CmMra{}, 0x11},
                                                                       {CmRej{}, 0x12},
                                                                       {CmRep{}, 0x13},
                                                                       {CmRtu{}, 0x14},
                                                                       {CmDreq{}, 0x15},
                                                                       {CmDrep{}, 0x16},
                                                                       {CmSidrReq{}, 0x17},
                                                                       {CmSidrRep{}, 0x18}}};
  for (const auto& [body, attribute] : attributes) {
    const Bytes bytes = encoded(body);
    EXPECT_EQ(bytes[16], 0);
    EXPECT_EQ(bytes[17], attribute);
    CmMad back;
    ASSERT_EQ(decode_cm_mad(bytes, back), MadDrop::kNone);
    EXPECT_EQ(back.body.index(), body.index());
  }
}

TEST(CmMad, ReqFields) {
  expect_fields<CmReq>({
      {"local_comm_id", [](CmReq& r) { r.local_comm_id = 0xffffffff; }, bytes_at(0, 4)},
      {"ece_vendor", [](CmReq& r) { r.ece_vendor = 0xffffff; }, bytes_at(5, 3)},
      {"service_id", [](CmReq& r) { r.service_id = ~uint64_t{0}; }, bytes_at(8, 8)},
      {"ca_guid", [](CmReq& r) { r.ca_guid = ~uint64_t{0}; }, bytes_at(16, 8)},
      {"qpn", [](CmReq& r) { r.qpn = Qpn(0xffffff); }, bytes_at(32, 3)},
      {"responder_resources", [](CmReq& r) { r.responder_resources = 0xff; }, bytes_at(35, 1)},
      {"initiator_depth", [](CmReq& r) { r.initiator_depth = 0xff; }, bytes_at(39, 1)},
      {"remote timeout", [](CmReq& r) { r.remote_cm_response_timeout = 0xff; }, {{43, 0, 5}}},
      {"UC", [](CmReq& r) { r.service = CmService::kUc; }, {{43, 6, 1}}},
      {"RD", [](CmReq& r) { r.service = CmService::kCount; }, {{43, 5, 1}}},
      {"XRC", [](CmReq& r) { r.service = CmService::kXrc; }, {{43, 5, 2}, {51, 7, 1}}},
      {"flow_control", [](CmReq& r) { r.flow_control = true; }, {{43, 7, 1}}},
      {"starting_psn", [](CmReq& r) { r.starting_psn = 0xffffff; }, bytes_at(44, 3)},
      {"local timeout", [](CmReq& r) { r.local_cm_response_timeout = 0xff; }, {{47, 0, 5}}},
      {"retry_count", [](CmReq& r) { r.retry_count = 0xff; }, {{47, 5, 3}}},
      {"p_key", [](CmReq& r) { r.p_key = 0xffff; }, bytes_at(48, 2)},
      {"path_mtu", [](CmReq& r) { r.path_mtu = 0xff; }, {{50, 0, 4}}},
      {"rnr_retry_count", [](CmReq& r) { r.rnr_retry_count = 0xff; }, {{50, 5, 3}}},
      {"max_cm_retries", [](CmReq& r) { r.max_cm_retries = 0xff; }, {{51, 0, 4}}},
      {"srq", [](CmReq& r) { r.srq = true; }, {{51, 4, 1}}},
      {"local_gid", [](CmReq& r) { r.local_gid.fill(0xff); }, bytes_at(56, 16)},
      {"remote_gid", [](CmReq& r) { r.remote_gid.fill(0xff); }, bytes_at(72, 16)},
      {"flow_label", [](CmReq& r) { r.flow_label = 0xffffffff; }, {{88, 0, 20}}},
      {"traffic_class", [](CmReq& r) { r.traffic_class = 0xff; }, bytes_at(92, 1)},
      {"hop_limit", [](CmReq& r) { r.hop_limit = 0xff; }, bytes_at(93, 1)},
      {"ack_timeout", [](CmReq& r) { r.ack_timeout = 0xff; }, {{95, 0, 5}}},
      {"private_data", [](CmReq& r) { fill_private(r); }, bytes_at(140, 92)},
  });
}

// Fields that Linux fills for RoCEv2 and no application chooses: the permissive LID twice, the path
// leaves the subnet, and no alternate path.
TEST(CmMad, ReqOfAnEthernetPath) {
  const Bytes bytes = encoded(CmBody{blank<CmReq>()});
  for (size_t i = 24; i < bytes.size(); ++i) {
    const bool lid = i >= 24 + 52 && i < 24 + 56;
    EXPECT_EQ(bytes[i], lid ? 0xff : 0) << i;
  }
}

TEST(CmMad, MraFields) {
  expect_fields<CmMra>({
      {"local_comm_id", [](CmMra& r) { r.local_comm_id = 0xffffffff; }, bytes_at(0, 4)},
      {"remote_comm_id", [](CmMra& r) { r.remote_comm_id = 0xffffffff; }, bytes_at(4, 4)},
      {"message", [](CmMra& r) { r.message = 0xff; }, {{8, 0, 2}}},
      {"service_timeout", [](CmMra& r) { r.service_timeout = 0xff; }, {{9, 0, 5}}},
  });
}

TEST(CmMad, RejFields) {
  expect_fields<CmRej>({
      {"local_comm_id", [](CmRej& r) { r.local_comm_id = 0xffffffff; }, bytes_at(0, 4)},
      {"remote_comm_id", [](CmRej& r) { r.remote_comm_id = 0xffffffff; }, bytes_at(4, 4)},
      {"message", [](CmRej& r) { r.message = 0xff; }, {{8, 0, 2}}},
      {"reason", [](CmRej& r) { r.reason = 0xffff; }, bytes_at(10, 2)},
      {"info",
       [](CmRej& r) {
         r.info_bytes = 8;
         r.info.fill(0xff);
       },
       {{9, 3, 1}, {12, 0, 64}}},
      {"private_data", [](CmRej& r) { fill_private(r); }, bytes_at(84, 148)},
  });
  CmRej rej;
  rej.info_bytes = 0xff;
  rej.info.fill(0xff);
  const Bytes bytes = encoded(CmBody{rej});
  EXPECT_EQ(bytes[24 + 9], 72 << 1) << "more than there is room for";
  EXPECT_EQ(bytes[24 + 83], 0xff);
  EXPECT_EQ(bytes[24 + 84], 0);
}

TEST(CmMad, ARejectionHasNoMoreInformationThanItHasRoomFor) {
  Bytes bytes = encoded(CmBody{CmRej{}});
  bytes[24 + 9] = 127 << 1;
  CmMad back;
  ASSERT_EQ(decode_cm_mad(bytes, back), MadDrop::kNone);
  EXPECT_EQ(std::get<CmRej>(back.body).info_bytes, 72);
}

TEST(CmMad, RepFields) {
  expect_fields<CmRep>({
      {"local_comm_id", [](CmRep& r) { r.local_comm_id = 0xffffffff; }, bytes_at(0, 4)},
      {"remote_comm_id", [](CmRep& r) { r.remote_comm_id = 0xffffffff; }, bytes_at(4, 4)},
      {"qpn", [](CmRep& r) { r.qpn = Qpn(0xffffff); }, bytes_at(12, 3)},
      {"ee_context", [](CmRep& r) { r.ee_context = Qpn(0xffffff); }, bytes_at(16, 3)},
      {"starting_psn", [](CmRep& r) { r.starting_psn = 0xffffff; }, bytes_at(20, 3)},
      {"ece high", [](CmRep& r) { r.ece_vendor = 0xff0000; }, bytes_at(15, 1)},
      {"ece middle", [](CmRep& r) { r.ece_vendor = 0x00ff00; }, bytes_at(19, 1)},
      {"ece low", [](CmRep& r) { r.ece_vendor = 0x0000ff; }, bytes_at(23, 1)},
      {"responder_resources", [](CmRep& r) { r.responder_resources = 0xff; }, bytes_at(24, 1)},
      {"initiator_depth", [](CmRep& r) { r.initiator_depth = 0xff; }, bytes_at(25, 1)},
      {"target_ack_delay", [](CmRep& r) { r.target_ack_delay = 0xff; }, {{26, 0, 5}}},
      {"failover_accepted", [](CmRep& r) { r.failover_accepted = 0xff; }, {{26, 5, 2}}},
      {"flow_control", [](CmRep& r) { r.flow_control = true; }, {{26, 7, 1}}},
      {"rnr_retry_count", [](CmRep& r) { r.rnr_retry_count = 0xff; }, {{27, 0, 3}}},
      {"srq", [](CmRep& r) { r.srq = true; }, {{27, 3, 1}}},
      {"ca_guid", [](CmRep& r) { r.ca_guid = ~uint64_t{0}; }, bytes_at(28, 8)},
      {"private_data", [](CmRep& r) { fill_private(r); }, bytes_at(36, 196)},
  });
}

TEST(CmMad, RtuDreqAndDrepFields) {
  expect_fields<CmRtu>({
      {"local_comm_id", [](CmRtu& r) { r.local_comm_id = 0xffffffff; }, bytes_at(0, 4)},
      {"remote_comm_id", [](CmRtu& r) { r.remote_comm_id = 0xffffffff; }, bytes_at(4, 4)},
      {"private_data", [](CmRtu& r) { fill_private(r); }, bytes_at(8, 224)},
  });
  expect_fields<CmDreq>({
      {"local_comm_id", [](CmDreq& r) { r.local_comm_id = 0xffffffff; }, bytes_at(0, 4)},
      {"remote_comm_id", [](CmDreq& r) { r.remote_comm_id = 0xffffffff; }, bytes_at(4, 4)},
      {"remote_qpn", [](CmDreq& r) { r.remote_qpn = Qpn(0xffffff); }, bytes_at(8, 3)},
      {"private_data", [](CmDreq& r) { fill_private(r); }, bytes_at(12, 220)},
  });
  expect_fields<CmDrep>({
      {"local_comm_id", [](CmDrep& r) { r.local_comm_id = 0xffffffff; }, bytes_at(0, 4)},
      {"remote_comm_id", [](CmDrep& r) { r.remote_comm_id = 0xffffffff; }, bytes_at(4, 4)},
      {"private_data", [](CmDrep& r) { fill_private(r); }, bytes_at(8, 224)},
  });
}

TEST(CmMad, SidrFields) {
  expect_fields<CmSidrReq>({
      {"request_id", [](CmSidrReq& r) { r.request_id = 0xffffffff; }, bytes_at(0, 4)},
      {"p_key", [](CmSidrReq& r) { r.p_key = 0xffff; }, bytes_at(4, 2)},
      {"service_id", [](CmSidrReq& r) { r.service_id = ~uint64_t{0}; }, bytes_at(8, 8)},
      {"private_data", [](CmSidrReq& r) { fill_private(r); }, bytes_at(16, 216)},
  });
  expect_fields<CmSidrRep>({
      {"request_id", [](CmSidrRep& r) { r.request_id = 0xffffffff; }, bytes_at(0, 4)},
      {"status", [](CmSidrRep& r) { r.status = 0xff; }, bytes_at(4, 1)},
      {"ece high", [](CmSidrRep& r) { r.ece_vendor = 0xffff00; }, bytes_at(6, 2)},
      {"ece low", [](CmSidrRep& r) { r.ece_vendor = 0x0000ff; }, bytes_at(11, 1)},
      {"qpn", [](CmSidrRep& r) { r.qpn = Qpn(0xffffff); }, bytes_at(8, 3)},
      {"service_id", [](CmSidrRep& r) { r.service_id = ~uint64_t{0}; }, bytes_at(12, 8)},
      {"qkey", [](CmSidrRep& r) { r.qkey = 0xffffffff; }, bytes_at(20, 4)},
      {"private_data", [](CmSidrRep& r) { fill_private(r); }, bytes_at(96, 136)},
  });
}

TEST(CmMad, AMessageComesBackAsItWas) {
  CmReq req;
  req.local_comm_id = 0x01020304;
  req.service_id = cm_service_id(0x0106, 7174);
  req.ca_guid = 0x020000fffe0a0001;
  req.qpn = Qpn(0x000102);
  req.starting_psn = 0xfedcba;
  req.service = CmService::kUc;
  req.local_gid = map_ipv4(Ipv4(0x0a010001));
  req.remote_gid = map_ipv4(Ipv4(0x0a010002));
  req.ece_vendor = 0x024d52;
  req.private_data.bytes = CmReq::kPrivateBytes;
  std::iota(req.private_data.data.begin(), req.private_data.data.begin() + req.private_data.bytes,
            static_cast<unsigned char>(1));
  const CmMad mad{.transaction = 99, .modifier = 7, .body = req};
  CmMad back;
  ASSERT_EQ(decode_cm_mad(encoded(mad), back), MadDrop::kNone);
  EXPECT_EQ(back, mad);
}

TEST(CmMad, AnotherServiceThanWeHaveIsToldApart) {
  CmMad back;
  Bytes bytes = encoded(CmBody{CmReq{}});
  const auto with = [&](unsigned service, unsigned extended) {
    bytes[24 + 43] = static_cast<unsigned char>(service << 1);
    bytes[24 + 51] = static_cast<unsigned char>(extended);
    EXPECT_EQ(decode_cm_mad(bytes, back), MadDrop::kNone);
    return std::get<CmReq>(back.body).service;
  };
  EXPECT_EQ(with(0, 0), CmService::kRc);
  EXPECT_EQ(with(1, 0), CmService::kUc);
  EXPECT_EQ(with(2, 0), CmService::kCount);
  EXPECT_EQ(with(3, 0), CmService::kCount);
  EXPECT_EQ(with(3, 1), CmService::kXrc);
  EXPECT_EQ(with(3, 2), CmService::kCount);
}

TEST(CmMad, WhatIsWrongHasAName) {
  CmMad back;
  const Bytes good = encoded(CmBody{CmRtu{}});
  const auto with = [&](size_t at, unsigned char value) {
    Bytes bytes = good;
    bytes[at] = value;
    return decode_cm_mad(bytes, back);
  };
  for (size_t bytes = 0; bytes < good.size(); ++bytes) {
    EXPECT_EQ(decode_cm_mad({good.data(), bytes}, back), MadDrop::kBadLength) << bytes;
  }
  EXPECT_EQ(with(0, 2), MadDrop::kBadVersion);
  EXPECT_EQ(with(1, 0x4d), MadDrop::kForeignClass);
  EXPECT_EQ(with(2, 1), MadDrop::kForeignClass);
  EXPECT_EQ(with(3, 0x81), MadDrop::kBadMethod);
  EXPECT_EQ(with(17, 0x0f), MadDrop::kBadMethod);
  EXPECT_EQ(with(17, 0x19), MadDrop::kBadMethod) << "LAP: there are no alternate paths";
  EXPECT_EQ(with(16, 0x01), MadDrop::kBadMethod);
}

TEST(CmMad, PrintsOneLine) {
  std::array<char, kTextBytes> text;
  EXPECT_EQ(to_string(CmMad{.transaction = 5,
                            .body = CmRej{.local_comm_id = 1, .remote_comm_id = 2, .reason = 28}},
                      text),
            "CM_REJ local=0x00000001 remote=0x00000002 message=0 reason=28 tid=0x0000000000000005");
}

using IpHeaderBytes = std::array<unsigned char, CmIpHeader::kBytes>;

TEST(CmIpHeader, HasTheBytesOfTheAnnex) {
  IpHeaderBytes bytes;
  bytes.fill(0xcc);
  const CmIpHeader four{.source_port = 0x1c06,
                        .source = map_ipv4(Ipv4(0x0a010001)),
                        .destination = map_ipv4(Ipv4(0x0a010002))};
  encode_cm_ip_header(four, bytes);
  const IpHeaderBytes expected = {0, 0x40, 0x1c, 0x06, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,  0, 10, 1,
                                  0, 1,    0,    0,    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 10, 1, 0,  2};
  EXPECT_EQ(bytes, expected);
  CmIpHeader back;
  ASSERT_TRUE(decode_cm_ip_header(bytes, back));
  EXPECT_EQ(back, four);

  CmIpHeader six{.ip_version = 6, .source_port = 1};
  six.source.fill(0xfe);
  six.destination.fill(0x80);
  encode_cm_ip_header(six, bytes);
  EXPECT_EQ(bytes[1], 0x60);
  EXPECT_EQ(bytes[4], 0xfe);
  EXPECT_EQ(bytes[19], 0xfe);
  EXPECT_EQ(bytes[20], 0x80);
  EXPECT_EQ(bytes[35], 0x80);
  ASSERT_TRUE(decode_cm_ip_header(bytes, back));
  EXPECT_EQ(back, six);
}

TEST(CmIpHeader, AnotherVersionIsRefused) {
  IpHeaderBytes bytes{};
  CmIpHeader back;
  for (const auto& [version, ip_version, good] :
       std::vector<std::tuple<int, int, bool>>{{0, 0x40, true},
                                               {0, 0x60, true},
                                               {0, 0x4f, true},  // reserved bits are ignored
                                               {0, 0x00, false},
                                               {0, 0x50, false},
                                               {0x10, 0x40, false},
                                               {0x01, 0x40, false}}) {
    bytes[0] = static_cast<unsigned char>(version);
    bytes[1] = static_cast<unsigned char>(ip_version);
    EXPECT_EQ(decode_cm_ip_header(bytes, back), good) << version << " " << ip_version;
  }
}

TEST(CmServiceId, IsRdmaCms) {
  EXPECT_EQ(cm_service_id(0x0106, 0x1234), 0x0000000001061234u);
}

}  // namespace
}  // namespace mprdma::wire
