#include "wire/frame_template.hpp"

#include <cstring>

#include "base/check.hpp"
#include "wire/ipv4.hpp"

namespace mprdma::wire {

void FrameTemplate::set(const FrameAddress& address) {
  address_ = address;
  if (address.is_ipv6) return;
  Ethernet{.dst = address.dst_mac, .src = address.src_mac, .ether_type = kEtherTypeIpv4}.store(
      headers_.data());
  unsigned char* ip = headers_.data() + Ethernet::kBytes;
  Ipv4Header{.dscp = address.dscp,
             .ecn = address.ecn,
             .identification = address.ip_identification,
             .ttl = address.ttl,
             .src = unmap_ipv4(address.src_ip),
             .dst = unmap_ipv4(address.dst_ip)}
      .store(ip);
  store_be16(ip + Ipv4Header::kChecksumOffset, 0);
  sum_ = Ipv4Header::sum(ip);
  Udp{}.store(ip + Ipv4Header::kBytes);
}

size_t FrameTemplate::encode(const Packet& packet, unsigned char* payload_start) const {
  if (address_.is_ipv6) [[unlikely]] {
    return encode_frame(address_, packet, payload_start);
  }
  const size_t transport_bytes = header_bytes(packet);
  const auto udp_bytes = static_cast<uint32_t>(Udp::kBytes + transport_bytes + packet.payload_len +
                                               pad_bytes(packet.payload_len) + kIcrcBytes);
  DCHECK(packet.info().valid);
  DCHECK(udp_bytes + Ipv4Header::kBytes <= UINT16_MAX);
  unsigned char* frame = payload_start - kHeaderBytes - transport_bytes;
  std::memcpy(frame, headers_.data(), kCopied);
  unsigned char* ip = frame + Ethernet::kBytes;
  unsigned char* udp = ip + Ipv4Header::kBytes;
  const uint32_t total_length = Ipv4Header::kBytes + udp_bytes;
  uint32_t sum = sum_ + total_length;
  if (packet.ce) [[unlikely]] {
    ip[Ipv4Header::kTosOffset] |= static_cast<uint8_t>(Ecn::kCe);
    sum += static_cast<uint32_t>(Ecn::kCe) - static_cast<uint32_t>(address_.ecn);
  }
  store_be16(ip + Ipv4Header::kTotalLengthOffset, static_cast<uint16_t>(total_length));
  store_be16(ip + Ipv4Header::kChecksumOffset, Ipv4Header::checksum_of_sum(sum));
  store_be16(udp, packet.vp);
  store_be16(udp + Udp::kLengthOffset, static_cast<uint16_t>(udp_bytes));
  encode_transport(packet, udp + Udp::kBytes);
  return kHeaderBytes + transport_bytes;
}

}  // namespace mprdma::wire
