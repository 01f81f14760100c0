#include "dataplane/nic/frame_class.hpp"

#include "wire/bth.hpp"
#include "wire/ipv4.hpp"
#include "wire/ipv6.hpp"
#include "wire/udp.hpp"

namespace mprdma::dataplane::nic {

namespace {

constexpr uint8_t kIpProtocolIcmp = 1;
constexpr unsigned char kIcmpEchoRequest = 8;
constexpr uint32_t kIcmpHeaderBytes = 8;
constexpr uint32_t kIpOffset = FrameClass::kIpOffset;

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
  constexpr uint32_t kPayload = kIpOffset + wire::Ipv4::kBytes;
  const unsigned char* const header = copy.bytes.data() + kIpOffset;
  if (copy.copied < kPayload || wire::Ipv4::version(header) != 4) return;
  if (wire::Ipv4::header_length(header) != wire::Ipv4::kBytes) {
    out->kind = FrameKind::kOther;  // options: nobody who sends to us uses them
    return;
  }
  const wire::Ipv4 ip = wire::Ipv4::load(header);
  if (ip.total_length < wire::Ipv4::kBytes || kIpOffset + ip.total_length > copy.length ||
      !wire::Ipv4::checksum_ok(header)) {
    return;
  }
  out->src_ipv4 = ip.src;
  out->dst_ipv4 = ip.dst;
  if (ip.is_fragment()) {
    out->kind = FrameKind::kOther;
    return;
  }
  const uint32_t bytes = ip.total_length - static_cast<uint32_t>(wire::Ipv4::kBytes);
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
}

}  // namespace

FrameClass classify(const HeaderCopy& copy) {
  FrameClass out;
  if (copy.copied < wire::Ethernet::kBytes) return out;
  out.group = (copy.bytes[0] & 1) != 0;
  switch (load_be16(copy.bytes.data() + 12)) {
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

}  // namespace mprdma::dataplane::nic
