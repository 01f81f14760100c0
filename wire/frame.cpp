#include "wire/frame.hpp"

#include <algorithm>
#include <cstring>

#include "base/check.hpp"
#include "wire/icrc.hpp"
#include "wire/ipv4.hpp"

namespace mprdma::wire {

namespace {

// Where the layers of a received frame lie, as far as they are known.
struct Layout {
  size_t udp_offset = 0;
  size_t udp_bytes = 0;  // UDP header to ICRC, as IP claims and the frame confirms
  Ecn ecn = Ecn::kNotEct;
};

// Each of the functions below checks one layer. `headers` is the private copy of the first bytes of
// the frame, `frame_bytes` the length of the whole frame.

DropReason decode_ipv4(const unsigned char* headers, size_t frame_bytes, FrameAddress& address,
                       Layout& layout) {
  const size_t ip_bytes = frame_bytes - Ethernet::kBytes;
  if (ip_bytes < Ipv4Header::kBytes) return DropReason::kTruncatedIp;
  const unsigned char* in = headers + Ethernet::kBytes;
  if (Ipv4Header::version(in) != 4) return DropReason::kBadIpVersion;
  if (Ipv4Header::header_length(in) != Ipv4Header::kBytes) return DropReason::kBadIpHeaderLength;
  if (!Ipv4Header::checksum_ok(in)) return DropReason::kBadIpChecksum;
  const Ipv4Header ip = Ipv4Header::load(in);
  // A frame may be longer than its packet: Ethernet pads short ones.
  if (ip.total_length < Ipv4Header::kBytes || ip.total_length > ip_bytes) {
    return DropReason::kBadIpTotalLength;
  }
  if (ip.is_fragment()) return DropReason::kIpFragment;
  if (ip.protocol != kIpProtocolUdp) return DropReason::kNotUdp;
  address.is_ipv6 = false;
  address.src_ip = map_ipv4(ip.src);
  address.dst_ip = map_ipv4(ip.dst);
  address.dscp = ip.dscp;
  address.ecn = ip.ecn;
  address.ttl = ip.ttl;
  address.ip_identification = ip.identification;
  layout.udp_offset = Ethernet::kBytes + Ipv4Header::kBytes;
  layout.udp_bytes = ip.total_length - Ipv4Header::kBytes;
  return DropReason::kNone;
}

DropReason decode_ipv6(const unsigned char* headers, size_t frame_bytes, FrameAddress& address,
                       Layout& layout) {
  const size_t ip_bytes = frame_bytes - Ethernet::kBytes;
  if (ip_bytes < Ipv6::kBytes) return DropReason::kTruncatedIp;
  const unsigned char* in = headers + Ethernet::kBytes;
  if (Ipv6::version(in) != 6) return DropReason::kBadIpVersion;
  const Ipv6 ip = Ipv6::load(in);
  if (ip.payload_length > ip_bytes - Ipv6::kBytes) return DropReason::kBadIpTotalLength;
  if (ip.next_header == kIpv6NextHeaderFragment) return DropReason::kIpFragment;
  if (ip.next_header != kIpProtocolUdp) return DropReason::kNotUdp;
  address.is_ipv6 = true;
  address.src_ip = ip.src;
  address.dst_ip = ip.dst;
  address.dscp = ip.dscp;
  address.ecn = ip.ecn;
  address.ttl = ip.hop_limit;
  address.ip_identification = 0;
  layout.udp_offset = Ethernet::kBytes + Ipv6::kBytes;
  layout.udp_bytes = ip.payload_length;
  return DropReason::kNone;
}

DropReason decode_network(const unsigned char* headers, size_t frame_bytes, FrameAddress& address,
                          Layout& layout) {
  if (frame_bytes < Ethernet::kBytes) return DropReason::kTruncatedEthernet;
  const Ethernet ethernet = Ethernet::load(headers);
  address.dst_mac = ethernet.dst;
  address.src_mac = ethernet.src;
  if (ethernet.ether_type == kEtherTypeIpv4) {
    return decode_ipv4(headers, frame_bytes, address, layout);
  }
  if (ethernet.ether_type == kEtherTypeIpv6) {
    return decode_ipv6(headers, frame_bytes, address, layout);
  }
  return DropReason::kUnknownEtherType;
}

DropReason check_udp(const unsigned char* headers, const Layout& layout, uint16_t& src_port) {
  if (layout.udp_bytes < Udp::kBytes) return DropReason::kTruncatedUdp;
  const Udp udp = Udp::load(headers + layout.udp_offset);
  if (udp.dst_port != kRoceUdpPort) return DropReason::kWrongUdpPort;
  if (udp.length != layout.udp_bytes) return DropReason::kBadUdpLength;
  if (udp.length < Udp::kBytes + Bth::kBytes + kIcrcBytes) return DropReason::kTruncatedBth;
  src_port = udp.src_port;
  return DropReason::kNone;
}

// Masks `headers`, a private copy of everything up to the payload, and runs the CRC over it and the
// `body` that follows (payload and pad).
uint32_t compute_icrc(unsigned char* headers, size_t header_len, bool is_ipv6,
                      std::span<const unsigned char> body) {
  icrc_mask(headers + Ethernet::kBytes, is_ipv6);
  uint32_t crc = icrc_init();
  crc = icrc_update(crc, {headers + Ethernet::kBytes, header_len - Ethernet::kBytes});
  crc = icrc_update(crc, body);
  return icrc_final(crc);
}

}  // namespace

size_t encode_frame(const FrameAddress& address, const Packet& packet,
                    unsigned char* payload_start) {
  const size_t header_len = frame_header_bytes(address, packet);
  const size_t udp_bytes = Udp::kBytes + header_bytes(packet) + packet.payload_len +
                           pad_bytes(packet.payload_len) + kIcrcBytes;
  DCHECK(packet.info().valid);
  DCHECK(udp_bytes + Ipv4Header::kBytes <= UINT16_MAX);

  unsigned char* cursor = payload_start - header_len;
  Ethernet{.dst = address.dst_mac,
           .src = address.src_mac,
           .ether_type = address.is_ipv6 ? kEtherTypeIpv6 : kEtherTypeIpv4}
      .store(cursor);
  cursor += Ethernet::kBytes;

  const Ecn ecn = packet.ce ? Ecn::kCe : address.ecn;
  if (address.is_ipv6) {
    // Switches that hash the flow label instead of the ports shall see the virtual path as well.
    Ipv6{.dscp = address.dscp,
         .ecn = ecn,
         .flow_label = packet.vp,
         .payload_length = static_cast<uint16_t>(udp_bytes),
         .hop_limit = address.ttl,
         .src = address.src_ip,
         .dst = address.dst_ip}
        .store(cursor);
    cursor += Ipv6::kBytes;
  } else {
    Ipv4Header{.dscp = address.dscp,
               .ecn = ecn,
               .total_length = static_cast<uint16_t>(Ipv4Header::kBytes + udp_bytes),
               .identification = address.ip_identification,
               .ttl = address.ttl,
               .src = unmap_ipv4(address.src_ip),
               .dst = unmap_ipv4(address.dst_ip)}
        .store(cursor);
    cursor += Ipv4Header::kBytes;
  }

  Udp{.src_port = packet.vp, .length = static_cast<uint16_t>(udp_bytes)}.store(cursor);
  encode_transport(packet, cursor + Udp::kBytes);
  return header_len;
}

size_t finish_frame(unsigned char* frame, size_t header_len, size_t payload_len, bool with_icrc) {
  CHECK(header_len <= kMaxFrameHeaderBytes);
  const size_t pad = pad_bytes(static_cast<uint32_t>(payload_len));
  unsigned char* end = frame + header_len + payload_len;
  std::memset(end, 0, pad);
  end += pad;

  uint32_t icrc = 0;
  if (with_icrc) {
    unsigned char headers[kMaxFrameHeaderBytes];
    std::memcpy(headers, frame, header_len);
    const bool is_ipv6 = Ethernet::load(headers).ether_type == kEtherTypeIpv6;
    icrc = compute_icrc(headers, header_len, is_ipv6, {frame + header_len, payload_len + pad});
  }
  store_icrc(end, icrc);
  return static_cast<size_t>(end + kIcrcBytes - frame);
}

DropReason decode_frame(std::span<const unsigned char> frame, DecodedFrame& out, bool check_icrc) {
  unsigned char headers[kMaxFrameHeaderBytes];
  const size_t copied = std::min(frame.size(), sizeof(headers));
  if (copied > 0) std::memcpy(headers, frame.data(), copied);

  Layout layout;
  DropReason reason = decode_network(headers, frame.size(), out.address, layout);
  if (reason != DropReason::kNone) return reason;
  uint16_t src_port = 0;
  reason = check_udp(headers, layout, src_port);
  if (reason != DropReason::kNone) return reason;

  const size_t transport_offset = layout.udp_offset + Udp::kBytes;
  const size_t transport_len = layout.udp_bytes - Udp::kBytes - kIcrcBytes;
  const std::span<const unsigned char> transport{headers + transport_offset,
                                                 copied - transport_offset};
  reason = decode_transport(transport, transport_len, out.packet);
  if (reason != DropReason::kNone) return reason;

  const size_t payload_offset = transport_offset + header_bytes(out.packet);
  if (check_icrc) {
    const size_t body_bytes = transport_len - header_bytes(out.packet);
    const auto body = frame.subspan(payload_offset, body_bytes);
    const uint32_t icrc = compute_icrc(headers, payload_offset, out.address.is_ipv6, body);
    if (icrc != load_icrc(frame.data() + payload_offset + body_bytes)) return DropReason::kBadIcrc;
  }
  out.packet.vp = src_port;
  out.packet.ce = out.address.ecn == Ecn::kCe;
  out.packet.ipv4 = !out.address.is_ipv6;
  out.payload_offset = static_cast<uint16_t>(payload_offset);
  return DropReason::kNone;
}

}  // namespace mprdma::wire
