// Sending: frames from packets. frame_decode.cpp has the other direction.
#include "wire/frame.hpp"

#include <cstring>

#include "base/check.hpp"
#include "wire/icrc.hpp"
#include "wire/ipv4.hpp"

namespace mprdma::wire {

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
    icrc = icrc_of_frame(headers, header_len, is_ipv6, {frame + header_len, payload_len + pad});
  }
  store_icrc(end, icrc);
  return static_cast<size_t>(end + kIcrcBytes - frame);
}

}  // namespace mprdma::wire
