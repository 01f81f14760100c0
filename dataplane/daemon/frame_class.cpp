#include "dataplane/daemon/frame_class.hpp"

#include "wire/bth.hpp"
#include "wire/ipv4.hpp"
#include "wire/ipv6.hpp"
#include "wire/neighbour.hpp"
#include "wire/udp.hpp"

namespace mprdma::dataplane::mprdmad {

namespace {

constexpr uint8_t kIpProtocolIcmp = 1;
constexpr unsigned char kIcmpEchoRequest = 8;
constexpr uint32_t kIcmpHeaderBytes = 8;
constexpr uint32_t kIpOffset = FrameClass::kIpOffset;
constexpr uint32_t kIpv6FragmentBytes = 8;  // RFC 8200, 4.5

// What lies `offset` into the frame, `bytes` long, carries UDP to the port of RoCEv2?
void classify_udp(const HeaderCopy& copy, uint32_t offset, uint32_t bytes, FrameClass* out) {
  constexpr uint32_t kLeast = wire::Udp::kBytes + wire::Bth::kBytes + wire::kIcrcBytes;
  if (bytes < wire::Udp::kBytes || copy.copied < offset + wire::Udp::kBytes) return;
  const wire::Udp udp = wire::Udp::load(copy.bytes.data() + offset);
  if (udp.dst_port != wire::kRoceUdpPort) {
    out->kind = FrameKind::kOther;
    return;
  }
  if (udp.length != bytes || bytes < kLeast) return;
  out->kind = FrameKind::kRoce;
  out->transport_offset = static_cast<uint16_t>(offset + wire::Udp::kBytes);
  out->transport_bytes = bytes - wire::Udp::kBytes - wire::kIcrcBytes;
}

void classify_ipv4(const HeaderCopy& copy, FrameClass* out) {
  constexpr uint32_t kPayload = kIpOffset + wire::Ipv4Header::kBytes;
  const unsigned char* const header = copy.bytes.data() + kIpOffset;
  if (copy.copied < kPayload || wire::Ipv4Header::version(header) != 4) return;
  const wire::Ipv4Header ip = wire::Ipv4Header::load(header);
  if (wire::Ipv4Header::header_length(header) != wire::Ipv4Header::kBytes) {
    out->kind = FrameKind::kOther;  // options: nobody who sends to us uses them
    out->src_ipv4 = ip.src;
    out->dst_ipv4 = ip.dst;
    return;
  }
  if (ip.total_length < wire::Ipv4Header::kBytes || kIpOffset + ip.total_length > copy.length ||
      !wire::Ipv4Header::checksum_ok(header)) {
    return;
  }
  out->src_ipv4 = ip.src;
  out->dst_ipv4 = ip.dst;
  if (ip.is_fragment()) {
    out->kind = FrameKind::kOther;
    return;
  }
  const uint32_t bytes = ip.total_length - static_cast<uint32_t>(wire::Ipv4Header::kBytes);
  if (ip.protocol == wire::kIpProtocolUdp) return classify_udp(copy, kPayload, bytes, out);
  out->kind = FrameKind::kOther;
  if (ip.protocol != kIpProtocolIcmp || bytes < kIcmpHeaderBytes ||
      copy.copied < kPayload + kIcmpHeaderBytes || copy.bytes[kPayload] != kIcmpEchoRequest) {
    return;
  }
  out->kind = FrameKind::kEcho;
  out->transport_offset = kPayload;
  out->transport_bytes = bytes;
}

void classify_ipv6(const HeaderCopy& copy, FrameClass* out) {
  constexpr uint32_t kPayload = kIpOffset + wire::Ipv6::kBytes;
  const unsigned char* const header = copy.bytes.data() + kIpOffset;
  out->is_ipv6 = true;
  if (copy.copied < kPayload || wire::Ipv6::version(header) != 6) return;
  const uint32_t bytes = load_be16(header + 4);
  if (kPayload + bytes > copy.length) return;
  if (header[6] == wire::kIpProtocolUdp) return classify_udp(copy, kPayload, bytes, out);
  out->kind = FrameKind::kOther;
  if (header[6] != wire::kIpProtocolIcmpv6 || bytes < kIcmpHeaderBytes ||
      copy.copied < kPayload + kIcmpHeaderBytes) {
    return;
  }
  switch (copy.bytes[kPayload]) {
    case wire::kIcmpv6EchoRequest:
      out->kind = FrameKind::kEcho;
      break;
    case wire::kIcmpv6Solicitation:
    case wire::kIcmpv6Advertisement:
      out->kind = FrameKind::kNeighbour;
      break;
    default:
      return;
  }
  out->transport_offset = kPayload;
  out->transport_bytes = bytes;
}

// UDP at `offset`, whose ports say so?
bool is_to_roce(const HeaderCopy& copy, uint64_t offset) {
  return offset + wire::Udp::kBytes <= copy.copied &&
         wire::Udp::load(copy.bytes.data() + offset).dst_port == wire::kRoceUdpPort;
}

bool is_roce_from_ipv6(const HeaderCopy& copy, const wire::IpAddress& ipv6) {
  uint32_t offset = kIpOffset + wire::Ipv6::kBytes;
  if (copy.copied < offset || source_ipv6(copy) != ipv6) return false;
  unsigned char next = copy.bytes[kIpOffset + 6];
  if (next == wire::kIpv6NextHeaderFragment && copy.copied >= offset + kIpv6FragmentBytes) {
    const bool first = (load_be16(copy.bytes.data() + offset + 2) & 0xfff8) == 0;
    if (!first) return false;
    next = copy.bytes[offset];
    offset += kIpv6FragmentBytes;
  }
  return next == wire::kIpProtocolUdp && is_to_roce(copy, offset);
}

}  // namespace

FrameClass classify(const HeaderCopy& copy) {
  FrameClass out;
  if (copy.copied < wire::Ethernet::kBytes) return out;
  const wire::Ethernet ethernet = wire::Ethernet::load(copy.bytes.data());
  out.group = wire::is_multicast(ethernet.dst);
  switch (ethernet.ether_type) {
    case wire::kEtherTypeIpv4:
      classify_ipv4(copy, &out);
      break;
    case wire::kEtherTypeIpv6:
      classify_ipv6(copy, &out);
      break;
    case wire::kEtherTypeArp:
      out.kind = FrameKind::kArp;
      break;
    default:
      out.kind = FrameKind::kOther;
  }
  return out;
}

bool is_roce_from(const HeaderCopy& copy, Ipv4 ipv4, const wire::IpAddress& ipv6) {
  const uint16_t type = load_be16(copy.bytes.data() + 12);
  if (type == wire::kEtherTypeIpv6) return is_roce_from_ipv6(copy, ipv6);
  if (type != wire::kEtherTypeIpv4 || copy.copied < kIpOffset + wire::Ipv4Header::kBytes)
    return false;
  const unsigned char* const header = copy.bytes.data() + kIpOffset;
  const wire::Ipv4Header ip = wire::Ipv4Header::load(header);
  return ip.src == ipv4 && ip.protocol == wire::kIpProtocolUdp && ip.fragment_offset == 0 &&
         is_to_roce(copy, kIpOffset + wire::Ipv4Header::header_length(header));
}

wire::IpAddress source_ipv6(const HeaderCopy& copy) {
  wire::IpAddress address;
  std::memcpy(address.data(), copy.bytes.data() + kIpOffset + 8, address.size());
  return address;
}

wire::IpAddress destination_ipv6(const HeaderCopy& copy) {
  wire::IpAddress address;
  std::memcpy(address.data(), copy.bytes.data() + kIpOffset + 24, address.size());
  return address;
}

}  // namespace mprdma::dataplane::mprdmad
