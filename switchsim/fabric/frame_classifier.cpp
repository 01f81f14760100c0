#include "switchsim/fabric/frame_classifier.hpp"

#include <array>
#include <cstring>

#include "wire/bth.hpp"
#include "wire/icrc.hpp"
#include "wire/ipv4.hpp"
#include "wire/ipv6.hpp"
#include "wire/udp.hpp"

namespace mprdma::switchsim {

namespace {

using wire::Ethernet;
using wire::Ipv4Header;
using wire::Ipv6;
using wire::Udp;

FrameClass bad(FrameFault fault) {
  FrameClass result;
  result.fault = fault;
  return result;
}

void read_ports(std::span<const unsigned char> after_ip, FrameClass* out) {
  if (out->protocol != wire::kIpProtocolUdp || after_ip.size() < Udp::kBytes) return;
  const Udp udp = Udp::load(after_ip.data());
  out->src_port = udp.src_port;
  out->dst_port = udp.dst_port;
  out->is_roce = udp.dst_port == wire::kRoceUdpPort && udp.length == after_ip.size() &&
                 after_ip.size() >= Udp::kBytes + wire::Bth::kBytes + wire::kIcrcBytes;
}

FrameClass classify_ipv4(std::span<const unsigned char> ip, FrameClass out) {
  if (ip.size() < Ipv4Header::kBytes) return bad(FrameFault::kShort);
  const size_t header_bytes = Ipv4Header::header_length(ip.data());
  if (Ipv4Header::version(ip.data()) != 4 || header_bytes < Ipv4Header::kBytes) {
    return bad(FrameFault::kHeader);
  }
  const Ipv4Header header = Ipv4Header::load(ip.data());
  if (header.total_length > ip.size()) return bad(FrameFault::kShort);
  if (header.total_length < header_bytes) return bad(FrameFault::kHeader);
  // The codec knows headers without options only. The receiver refuses options anyway.
  if (header_bytes == Ipv4Header::kBytes && !Ipv4Header::checksum_ok(ip.data())) {
    return bad(FrameFault::kHeader);
  }
  out.kind = FrameKind::kFlow;
  out.ecn = header.ecn;
  out.dscp = header.dscp;
  out.protocol = header.protocol;
  out.src_ip = wire::map_ipv4(header.src);
  out.dst_ip = wire::map_ipv4(header.dst);
  if (!header.is_fragment()) {
    read_ports(ip.subspan(header_bytes, header.total_length - header_bytes), &out);
    out.is_roce = out.is_roce && header_bytes == Ipv4Header::kBytes;
  }
  return out;
}

FrameClass classify_ipv6(std::span<const unsigned char> ip, FrameClass out) {
  if (ip.size() < Ipv6::kBytes) return bad(FrameFault::kShort);
  if (Ipv6::version(ip.data()) != 6) return bad(FrameFault::kHeader);
  const Ipv6 header = Ipv6::load(ip.data());
  if (Ipv6::kBytes + header.payload_length > ip.size()) return bad(FrameFault::kShort);
  out.kind = FrameKind::kFlow;
  out.is_ipv6 = true;
  out.ecn = header.ecn;
  out.dscp = header.dscp;
  out.protocol = header.next_header;
  out.src_ip = header.src;
  out.dst_ip = header.dst;
  read_ports(ip.subspan(Ipv6::kBytes, header.payload_length), &out);
  return out;
}

}  // namespace

FrameClass classify(std::span<const unsigned char> frame) {
  if (frame.size() < Ethernet::kBytes) return bad(FrameFault::kShort);
  const Ethernet ethernet = Ethernet::load(frame.data());
  const std::span<const unsigned char> rest = frame.subspan(Ethernet::kBytes);
  FrameClass out;
  out.dst_mac = ethernet.dst;
  switch (ethernet.ether_type) {
    case wire::kEtherTypeIpv4:
      out = classify_ipv4(rest, out);
      break;
    case wire::kEtherTypeIpv6:
      out = classify_ipv6(rest, out);
      break;
    case wire::kEtherTypeArp:
      out.kind = FrameKind::kControl;
      break;
    default:
      return bad(FrameFault::kEtherType);
  }
  const bool to_group = wire::is_multicast(ethernet.dst);
  if (out.kind == FrameKind::kFlow && to_group) out.kind = FrameKind::kControl;
  return out;
}

void mark_congestion(std::span<unsigned char> frame, bool is_ipv6) {
  unsigned char* ip = frame.data() + Ethernet::kBytes;
  if (is_ipv6) {
    ip[1] |= static_cast<uint8_t>(wire::Ecn::kCe) << 4;
    return;
  }
  // Updates the header checksum by RFC 1624, equation 3: HC' = ~(~HC + ~m + m').
  const uint16_t before = load_be16(ip);
  ip[1] |= static_cast<uint8_t>(wire::Ecn::kCe);
  uint32_t sum = static_cast<uint16_t>(~load_be16(ip + 10));
  sum += static_cast<uint16_t>(~before);
  sum += load_be16(ip);
  sum = (sum & 0xffff) + (sum >> 16);
  sum = (sum & 0xffff) + (sum >> 16);
  store_be16(ip + 10, static_cast<uint16_t>(~sum));
}

void fill_icrc(std::span<unsigned char> frame, bool is_ipv6) {
  const size_t ip_bytes = is_ipv6 ? Ipv6::kBytes : Ipv4Header::kBytes;
  const size_t headers = ip_bytes + Udp::kBytes + wire::Bth::kBytes;
  std::span<unsigned char> ip = frame.subspan(Ethernet::kBytes);
  // Ethernet pads short frames; the datagram ends where IP says.
  const size_t end = is_ipv6 ? Ipv6::kBytes + load_be16(ip.data() + 4) : load_be16(ip.data() + 2);
  if (end > ip.size() || end < headers + wire::kIcrcBytes) return;
  std::array<unsigned char, Ipv6::kBytes + Udp::kBytes + wire::Bth::kBytes> masked;
  std::memcpy(masked.data(), ip.data(), headers);
  wire::icrc_mask(masked.data(), is_ipv6);
  uint32_t crc = wire::icrc_update(wire::icrc_init(), {masked.data(), headers});
  crc = wire::icrc_update(crc, ip.subspan(headers, end - headers - wire::kIcrcBytes));
  wire::store_icrc(ip.data() + end - wire::kIcrcBytes, wire::icrc_final(crc));
}

}  // namespace mprdma::switchsim
