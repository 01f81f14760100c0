#include "wire/cm_mad.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/ipv4.hpp"

namespace mprdma::wire {

namespace {

// Offsets below count from the end of the common header, as the standard's tables do.
constexpr size_t kBodyOffset = MadHeader::kBytes;

// What Linux writes for RoCEv2: the LID of nobody in particular, a path that leaves the subnet, and
// a rate that does not limit the peer.
constexpr uint16_t kPermissiveLid = 0xffff;
constexpr uint8_t kSubnetLocal = 0;
constexpr uint8_t kServiceLevel = 0;
constexpr uint32_t kPacketRate = 0;
constexpr uint8_t kServiceRd = 2;
constexpr uint8_t kExtendedXrc = 1;

// Where the private data of a message stand, and how many bytes there are.
struct Room {
  size_t offset;
  size_t bytes;
};
constexpr Room kReqRoom{140, CmReq::kPrivateBytes};
constexpr Room kRejRoom{84, 148};
constexpr Room kRejInfoRoom{12, 72};
constexpr Room kRepRoom{36, 196};
constexpr Room kRtuRoom{8, 224};
constexpr Room kDreqRoom{12, 220};
constexpr Room kSidrReqRoom{16, 216};
constexpr Room kSidrRepRoom{96, 136};

constexpr bool fills_the_message(Room room) {
  return kBodyOffset + room.offset + room.bytes == kMadBytes;
}
static_assert(fills_the_message(kReqRoom) && fills_the_message(kRejRoom));
static_assert(fills_the_message(kRepRoom) && fills_the_message(kRtuRoom));
static_assert(fills_the_message(kDreqRoom) && fills_the_message(kSidrReqRoom));
static_assert(fills_the_message(kSidrRepRoom));

void store_private(const CmPrivate& data, Room room, unsigned char* body) {
  std::memcpy(body + room.offset, data.data.data(), std::min<size_t>(data.bytes, room.bytes));
}

CmPrivate load_private(const unsigned char* body, Room room) {
  CmPrivate data;
  data.bytes = static_cast<uint8_t>(room.bytes);
  std::memcpy(data.data.data(), body + room.offset, room.bytes);
  return data;
}

// A field of `width` bits whose lowest one is bit `shift` of a byte.
constexpr unsigned put(unsigned value, unsigned width, unsigned shift) {
  return (value & ((1U << width) - 1)) << shift;
}
constexpr uint8_t get(unsigned byte, unsigned width, unsigned shift) {
  return static_cast<uint8_t>(byte >> shift & ((1U << width) - 1));
}

// ---- REQ (12.6.5)

void store_primary_path(const CmReq& req, unsigned char* body) {
  store_be16(body + 52, kPermissiveLid);
  store_be16(body + 54, kPermissiveLid);
  std::memcpy(body + 56, req.local_gid.data(), req.local_gid.size());
  std::memcpy(body + 72, req.remote_gid.data(), req.remote_gid.size());
  store_be32(body + 88, put(req.flow_label, 20, 12) | put(kPacketRate, 6, 0));
  body[92] = req.traffic_class;
  body[93] = req.hop_limit;
  body[94] = static_cast<uint8_t>(put(kServiceLevel, 4, 4) | put(kSubnetLocal, 1, 3));
  body[95] = static_cast<uint8_t>(put(req.ack_timeout, 5, 3));
}

void store_body(const CmReq& req, unsigned char* body) {
  const bool named = req.service < CmService::kCount;
  const unsigned service = named ? static_cast<unsigned>(req.service) : kServiceRd;
  const unsigned extended = req.service == CmService::kXrc ? kExtendedXrc : 0;
  store_be32(body + 0, req.local_comm_id);
  store_be24(body + 5, req.ece_vendor);
  store_be64(body + 8, req.service_id);
  store_be64(body + 16, req.ca_guid);
  store_be24(body + 32, req.qpn.value());
  body[35] = req.responder_resources;
  body[39] = req.initiator_depth;
  body[43] = static_cast<uint8_t>(put(req.remote_cm_response_timeout, 5, 3) | put(service, 2, 1) |
                                  put(req.flow_control, 1, 0));
  store_be24(body + 44, req.starting_psn);
  body[47] =
      static_cast<uint8_t>(put(req.local_cm_response_timeout, 5, 3) | put(req.retry_count, 3, 0));
  store_be16(body + 48, req.p_key);
  body[50] = static_cast<uint8_t>(put(req.path_mtu, 4, 4) | put(req.rnr_retry_count, 3, 0));
  body[51] = static_cast<uint8_t>(put(req.max_cm_retries, 4, 4) | put(req.srq, 1, 3) |
                                  put(extended, 3, 0));
  store_primary_path(req, body);
  store_private(req.private_data, kReqRoom, body);
}

CmService load_service(const unsigned char* body) {
  const uint8_t service = get(body[43], 2, 1);
  const uint8_t extended = get(body[51], 3, 0);
  if (service == static_cast<uint8_t>(CmService::kXrc)) {
    return extended == kExtendedXrc ? CmService::kXrc : CmService::kCount;
  }
  return service == kServiceRd ? CmService::kCount : static_cast<CmService>(service);
}

void load_body(const unsigned char* body, CmReq& req) {
  req.local_comm_id = load_be32(body + 0);
  req.ece_vendor = load_be24(body + 5);
  req.service_id = load_be64(body + 8);
  req.ca_guid = load_be64(body + 16);
  req.qpn = Qpn(load_be24(body + 32));
  req.responder_resources = body[35];
  req.initiator_depth = body[39];
  req.remote_cm_response_timeout = get(body[43], 5, 3);
  req.service = load_service(body);
  req.flow_control = get(body[43], 1, 0) != 0;
  req.starting_psn = load_be24(body + 44);
  req.local_cm_response_timeout = get(body[47], 5, 3);
  req.retry_count = get(body[47], 3, 0);
  req.p_key = load_be16(body + 48);
  req.path_mtu = get(body[50], 4, 4);
  req.rnr_retry_count = get(body[50], 3, 0);
  req.max_cm_retries = get(body[51], 4, 4);
  req.srq = get(body[51], 1, 3) != 0;
  std::memcpy(req.local_gid.data(), body + 56, req.local_gid.size());
  std::memcpy(req.remote_gid.data(), body + 72, req.remote_gid.size());
  req.flow_label = load_be32(body + 88) >> 12;
  req.traffic_class = body[92];
  req.hop_limit = body[93];
  req.ack_timeout = get(body[95], 5, 3);
  req.private_data = load_private(body, kReqRoom);
}

// ---- MRA (12.6.6)

void store_body(const CmMra& mra, unsigned char* body) {
  store_be32(body + 0, mra.local_comm_id);
  store_be32(body + 4, mra.remote_comm_id);
  body[8] = static_cast<uint8_t>(put(mra.message, 2, 6));
  body[9] = static_cast<uint8_t>(put(mra.service_timeout, 5, 3));
}

void load_body(const unsigned char* body, CmMra& mra) {
  mra.local_comm_id = load_be32(body + 0);
  mra.remote_comm_id = load_be32(body + 4);
  mra.message = get(body[8], 2, 6);
  mra.service_timeout = get(body[9], 5, 3);
}

// ---- REJ (12.6.7)

void store_body(const CmRej& rej, unsigned char* body) {
  const size_t info_bytes = std::min<size_t>(rej.info_bytes, kRejInfoRoom.bytes);
  store_be32(body + 0, rej.local_comm_id);
  store_be32(body + 4, rej.remote_comm_id);
  body[8] = static_cast<uint8_t>(put(rej.message, 2, 6));
  body[9] = static_cast<uint8_t>(put(static_cast<unsigned>(info_bytes), 7, 1));
  store_be16(body + 10, rej.reason);
  std::memcpy(body + kRejInfoRoom.offset, rej.info.data(), info_bytes);
  store_private(rej.private_data, kRejRoom, body);
}

void load_body(const unsigned char* body, CmRej& rej) {
  rej.local_comm_id = load_be32(body + 0);
  rej.remote_comm_id = load_be32(body + 4);
  rej.message = get(body[8], 2, 6);
  rej.info_bytes = std::min(get(body[9], 7, 1), static_cast<uint8_t>(kRejInfoRoom.bytes));
  rej.reason = load_be16(body + 10);
  std::memcpy(rej.info.data(), body + kRejInfoRoom.offset, rej.info_bytes);
  rej.private_data = load_private(body, kRejRoom);
}

// ---- REP (12.6.8)

void store_body(const CmRep& rep, unsigned char* body) {
  store_be32(body + 0, rep.local_comm_id);
  store_be32(body + 4, rep.remote_comm_id);
  store_be24(body + 12, rep.qpn.value());
  body[15] = static_cast<uint8_t>(rep.ece_vendor >> 16);
  store_be24(body + 16, rep.ee_context.value());
  body[19] = static_cast<uint8_t>(rep.ece_vendor >> 8);
  store_be24(body + 20, rep.starting_psn);
  body[23] = static_cast<uint8_t>(rep.ece_vendor);
  body[24] = rep.responder_resources;
  body[25] = rep.initiator_depth;
  body[26] = static_cast<uint8_t>(put(rep.target_ack_delay, 5, 3) |
                                  put(rep.failover_accepted, 2, 1) | put(rep.flow_control, 1, 0));
  body[27] = static_cast<uint8_t>(put(rep.rnr_retry_count, 3, 5) | put(rep.srq, 1, 4));
  store_be64(body + 28, rep.ca_guid);
  store_private(rep.private_data, kRepRoom, body);
}

void load_body(const unsigned char* body, CmRep& rep) {
  rep.local_comm_id = load_be32(body + 0);
  rep.remote_comm_id = load_be32(body + 4);
  rep.qpn = Qpn(load_be24(body + 12));
  rep.ee_context = Qpn(load_be24(body + 16));
  rep.ece_vendor = uint32_t{body[15]} << 16 | uint32_t{body[19]} << 8 | body[23];
  rep.starting_psn = load_be24(body + 20);
  rep.responder_resources = body[24];
  rep.initiator_depth = body[25];
  rep.target_ack_delay = get(body[26], 5, 3);
  rep.failover_accepted = get(body[26], 2, 1);
  rep.flow_control = get(body[26], 1, 0) != 0;
  rep.rnr_retry_count = get(body[27], 3, 5);
  rep.srq = get(body[27], 1, 4) != 0;
  rep.ca_guid = load_be64(body + 28);
  rep.private_data = load_private(body, kRepRoom);
}

// ---- RTU (12.6.9), DREQ (12.6.10), DREP (12.6.11)

void store_body(const CmRtu& rtu, unsigned char* body) {
  store_be32(body + 0, rtu.local_comm_id);
  store_be32(body + 4, rtu.remote_comm_id);
  store_private(rtu.private_data, kRtuRoom, body);
}

void load_body(const unsigned char* body, CmRtu& rtu) {
  rtu.local_comm_id = load_be32(body + 0);
  rtu.remote_comm_id = load_be32(body + 4);
  rtu.private_data = load_private(body, kRtuRoom);
}

void store_body(const CmDreq& dreq, unsigned char* body) {
  store_be32(body + 0, dreq.local_comm_id);
  store_be32(body + 4, dreq.remote_comm_id);
  store_be24(body + 8, dreq.remote_qpn.value());
  store_private(dreq.private_data, kDreqRoom, body);
}

void load_body(const unsigned char* body, CmDreq& dreq) {
  dreq.local_comm_id = load_be32(body + 0);
  dreq.remote_comm_id = load_be32(body + 4);
  dreq.remote_qpn = Qpn(load_be24(body + 8));
  dreq.private_data = load_private(body, kDreqRoom);
}

void store_body(const CmDrep& drep, unsigned char* body) {
  store_be32(body + 0, drep.local_comm_id);
  store_be32(body + 4, drep.remote_comm_id);
  store_private(drep.private_data, kRtuRoom, body);
}

void load_body(const unsigned char* body, CmDrep& drep) {
  drep.local_comm_id = load_be32(body + 0);
  drep.remote_comm_id = load_be32(body + 4);
  drep.private_data = load_private(body, kRtuRoom);
}

// ---- SIDR_REQ (12.11.1), SIDR_REP (12.11.2)

void store_body(const CmSidrReq& req, unsigned char* body) {
  store_be32(body + 0, req.request_id);
  store_be16(body + 4, req.p_key);
  store_be64(body + 8, req.service_id);
  store_private(req.private_data, kSidrReqRoom, body);
}

void load_body(const unsigned char* body, CmSidrReq& req) {
  req.request_id = load_be32(body + 0);
  req.p_key = load_be16(body + 4);
  req.service_id = load_be64(body + 8);
  req.private_data = load_private(body, kSidrReqRoom);
}

void store_body(const CmSidrRep& rep, unsigned char* body) {
  store_be32(body + 0, rep.request_id);
  body[4] = rep.status;
  store_be16(body + 6, static_cast<uint16_t>(rep.ece_vendor >> 8));
  store_be24(body + 8, rep.qpn.value());
  body[11] = static_cast<uint8_t>(rep.ece_vendor);
  store_be64(body + 12, rep.service_id);
  store_be32(body + 20, rep.qkey);
  store_private(rep.private_data, kSidrRepRoom, body);
}

void load_body(const unsigned char* body, CmSidrRep& rep) {
  rep.request_id = load_be32(body + 0);
  rep.status = body[4];
  rep.ece_vendor = uint32_t{load_be16(body + 6)} << 8 | body[11];
  rep.qpn = Qpn(load_be24(body + 8));
  rep.service_id = load_be64(body + 12);
  rep.qkey = load_be32(body + 20);
  rep.private_data = load_private(body, kSidrRepRoom);
}

constexpr CmAttribute kFirstAttribute = CmAttribute::kReq;

// The alternatives of a body stand in the order of the attributes.
CmAttribute attribute_of(const CmBody& body) {
  return static_cast<CmAttribute>(static_cast<size_t>(kFirstAttribute) + body.index());
}
static_assert(std::variant_size_v<CmBody> == static_cast<size_t>(CmAttribute::kSidrRep) -
                                                 static_cast<size_t>(kFirstAttribute) + 1);

template <size_t... kIndex>
bool load_alternative(size_t index, const unsigned char* body, CmBody& out,
                      std::index_sequence<kIndex...>) {
  return ((index == kIndex && (load_body(body, out.emplace<kIndex>()), true)) || ...);
}

bool load_attribute(uint16_t attribute, const unsigned char* body, CmBody& out) {
  const size_t index = size_t{attribute} - static_cast<size_t>(kFirstAttribute);
  return load_alternative(index, body, out,
                          std::make_index_sequence<std::variant_size_v<CmBody>>());
}

}  // namespace

void encode_cm_mad(const CmMad& mad, std::span<unsigned char, kMadBytes> out) {
  std::memset(out.data(), 0, out.size());
  MadHeader{.management_class = kCmClass,
            .class_version = kCmClassVersion,
            .method = kMadMethodSend,
            .transaction = mad.transaction,
            .attribute = static_cast<uint16_t>(attribute_of(mad.body)),
            .modifier = mad.modifier}
      .store(out.data());
  std::visit([&](const auto& message) { store_body(message, out.data() + kBodyOffset); }, mad.body);
}

MadDrop decode_cm_mad(std::span<const unsigned char> in, CmMad& out) {
  if (in.size() != kMadBytes) return MadDrop::kBadLength;
  const MadHeader header = MadHeader::load(in.data());
  if (header.base_version != kMadBaseVersion) return MadDrop::kBadVersion;
  if (header.management_class != kCmClass || header.class_version != kCmClassVersion) {
    return MadDrop::kForeignClass;
  }
  if (header.method != kMadMethodSend) return MadDrop::kBadMethod;
  out.transaction = header.transaction;
  out.modifier = header.modifier;
  const bool known = load_attribute(header.attribute, in.data() + kBodyOffset, out.body);
  return known ? MadDrop::kNone : MadDrop::kBadMethod;
}

// ---- rdma_cm's header (Annex A11)

namespace {

constexpr uint8_t kIpHeaderVersion = 0;  // major and minor

// IPv4 stands in the last four of sixteen bytes, after zeros.
void store_ip(const IpAddress& address, uint8_t ip_version, unsigned char* out) {
  std::memcpy(out, address.data(), address.size());
  if (ip_version == 4) std::memset(out, 0, 12);
}

IpAddress load_ip(const unsigned char* in, uint8_t ip_version) {
  if (ip_version == 4) return map_ipv4(Ipv4(load_be32(in + 12)));
  IpAddress address;
  std::memcpy(address.data(), in, address.size());
  return address;
}

}  // namespace

void encode_cm_ip_header(const CmIpHeader& header,
                         std::span<unsigned char, CmIpHeader::kBytes> out) {
  out[0] = kIpHeaderVersion;
  out[1] = static_cast<uint8_t>(put(header.ip_version, 4, 4));
  store_be16(out.data() + 2, header.source_port);
  store_ip(header.source, header.ip_version, out.data() + 4);
  store_ip(header.destination, header.ip_version, out.data() + 20);
}

bool decode_cm_ip_header(std::span<const unsigned char, CmIpHeader::kBytes> in, CmIpHeader& out) {
  const uint8_t ip_version = get(in[1], 4, 4);
  if (in[0] != kIpHeaderVersion || (ip_version != 4 && ip_version != 6)) return false;
  out.ip_version = ip_version;
  out.source_port = load_be16(in.data() + 2);
  out.source = load_ip(in.data() + 4, ip_version);
  out.destination = load_ip(in.data() + 20, ip_version);
  return true;
}

}  // namespace mprdma::wire
