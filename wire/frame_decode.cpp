// Receiving: packets from frames (frame.hpp, frame_reader.hpp).
#include <array>
#include <cstring>

#include "wire/frame.hpp"
#include "wire/frame_reader.hpp"
#include "wire/icrc.hpp"
#include "wire/ipv4.hpp"

namespace mprdma::wire {

namespace {

// Bytes of a frame that are copied before they are looked at.
constexpr size_t kHeadersCopied = 128;

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
  address.ecn = layout.ecn = ip.ecn;
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
  address.ecn = layout.ecn = ip.ecn;
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

DropReason check_udp(const unsigned char* headers, const Layout& layout) {
  if (layout.udp_bytes < Udp::kBytes) return DropReason::kTruncatedUdp;
  const Udp udp = Udp::load(headers + layout.udp_offset);
  if (udp.dst_port != kRoceUdpPort) return DropReason::kWrongUdpPort;
  if (udp.length != layout.udp_bytes) return DropReason::kBadUdpLength;
  if (udp.length < Udp::kBytes + Bth::kBytes + kIcrcBytes) return DropReason::kTruncatedBth;
  return DropReason::kNone;
}

// Everything behind the UDP header; `headers` holds the first `copied` bytes of the frame.
DropReason decode_rest(std::span<const unsigned char> frame, unsigned char* headers, size_t copied,
                       const Layout& layout, DecodedFrame& out, bool check_icrc) {
  const size_t transport_offset = layout.udp_offset + Udp::kBytes;
  const size_t transport_len = layout.udp_bytes - Udp::kBytes - kIcrcBytes;
  const std::span<const unsigned char> transport{headers + transport_offset,
                                                 copied - transport_offset};
  const DropReason reason = decode_transport(transport, transport_len, out.packet);
  if (reason != DropReason::kNone) return reason;

  const size_t payload_offset = transport_offset + header_bytes(out.packet);
  out.packet.vp = load_be16(headers + layout.udp_offset);
  out.packet.ce = layout.ecn == Ecn::kCe;
  out.packet.ipv4 = !out.address.is_ipv6;
  out.payload_offset = static_cast<uint16_t>(payload_offset);
  if (check_icrc) {
    const size_t body_bytes = transport_len - header_bytes(out.packet);
    const auto body = frame.subspan(payload_offset, body_bytes);
    const uint32_t icrc = icrc_of_frame(headers, payload_offset, out.address.is_ipv6, body);
    if (icrc != load_icrc(frame.data() + payload_offset + body_bytes)) return DropReason::kBadIcrc;
  }
  return DropReason::kNone;
}

// Copies the headers, once; whole words where the frame is long enough.
size_t copy_headers(std::span<const unsigned char> frame, unsigned char* headers) {
  static_assert(kMaxFrameHeaderBytes <= 128);
  constexpr size_t kHalf = 64;
  if (frame.size() >= 2 * kHalf) [[likely]] {
    std::memcpy(headers, frame.data(), 2 * kHalf);
    return 2 * kHalf;
  }
  if (frame.size() >= kHalf) {
    // The halves overlap.
    std::memcpy(headers, frame.data(), kHalf);
    std::memcpy(headers + frame.size() - kHalf, frame.data() + frame.size() - kHalf, kHalf);
  } else if (!frame.empty()) {
    std::memcpy(headers, frame.data(), frame.size());
  }
  return frame.size();
}

}  // namespace

DropReason decode_frame(std::span<const unsigned char> frame, DecodedFrame& out, bool check_icrc) {
  unsigned char headers[kHeadersCopied];
  const size_t copied = copy_headers(frame, headers);

  Layout layout;
  DropReason reason = decode_network(headers, frame.size(), out.address, layout);
  if (reason != DropReason::kNone) return reason;
  reason = check_udp(headers, layout);
  if (reason != DropReason::kNone) return reason;
  return decode_rest(frame, headers, copied, layout, out, check_icrc);
}

// ---- FrameReader -------------------------------------------------------------------------------

namespace {

// Offsets in a frame over IPv4.
constexpr size_t kIp = Ethernet::kBytes;
constexpr size_t kUdp = kIp + Ipv4Header::kBytes;
// Of the frame's first words of eight bytes, the bytes that differ from packet to packet: ECN
// (byte 15), total length (16, 17), checksum (24, 25), UDP source port (34, 35) and length (38,
// 39).
constexpr std::array<std::array<unsigned char, 8>, 5> kConstantBytes = {{
    {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff},
    {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xfc},
    {0x00, 0x00, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff},
    {0x00, 0x00, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff},
    {0xff, 0xff, 0x00, 0x00, 0xff, 0xff, 0x00, 0x00},
}};

uint64_t constant_word(const unsigned char* headers, size_t index) {
  uint64_t word = 0;
  uint64_t mask = 0;
  std::memcpy(&word, headers + 8 * index, sizeof(word));
  std::memcpy(&mask, kConstantBytes[index].data(), sizeof(mask));
  return word & mask;
}

}  // namespace

// By the last byte of the sender's IPv4 address, which has been seen by nobody yet.
size_t FrameReader::entry_of(const unsigned char* headers) {
  return headers[kIp + 15] % kEntries;
}

// Requires that the outer headers have passed all checks.
void FrameReader::remember(const unsigned char* headers, const FrameAddress& address) {
  Entry& entry = entries_[entry_of(headers)];
  for (size_t i = 0; i < kWords; ++i) entry.words[i] = constant_word(headers, i);
  const unsigned char* ip = headers + kIp;
  entry.sum = Ipv4Header::sum(ip) - (ip[Ipv4Header::kTosOffset] & 3U) -
              load_be16(ip + Ipv4Header::kTotalLengthOffset) -
              load_be16(ip + Ipv4Header::kChecksumOffset);
  entry.address = address;
  entry.valid = true;
  last_ = &entry;
}

// True if the outer headers are remembered ones, and what differs passes all checks: `out` has the
// address. False says nothing about the frame.
bool FrameReader::recall(const unsigned char* headers, size_t frame_bytes, DecodedFrame& out) {
  const Entry& entry = entries_[entry_of(headers)];
  uint64_t differs = entry.valid ? 0 : 1;
  for (size_t i = 0; i < kWords; ++i) differs |= constant_word(headers, i) ^ entry.words[i];
  const unsigned char* ip = headers + kIp;
  const uint32_t ecn = ip[Ipv4Header::kTosOffset] & 3U;
  const uint32_t total_length = load_be16(ip + Ipv4Header::kTotalLengthOffset);
  const uint32_t udp_length = load_be16(headers + kUdp + Udp::kLengthOffset);
  const uint32_t sum = entry.sum + ecn + total_length + load_be16(ip + Ipv4Header::kChecksumOffset);
  if (differs != 0 || total_length > frame_bytes - kIp ||
      udp_length + Ipv4Header::kBytes != total_length ||
      udp_length < Udp::kBytes + Bth::kBytes + kIcrcBytes ||
      Ipv4Header::checksum_of_sum(sum) != 0) {
    return false;
  }
  if (last_ != &entry) out.address = entry.address;
  last_ = &entry;
  out.address.ecn = static_cast<Ecn>(ecn);
  return true;
}

DropReason FrameReader::decode(std::span<const unsigned char> frame, DecodedFrame& out,
                               bool check_icrc) {
  unsigned char headers[kHeadersCopied];
  const size_t copied = copy_headers(frame, headers);
  Layout layout;
  if (frame.size() > kUdp + Udp::kBytes && recall(headers, frame.size(), out)) [[likely]] {
    layout = {.udp_offset = kUdp,
              .udp_bytes = load_be16(headers + kUdp + Udp::kLengthOffset),
              .ecn = out.address.ecn};
    return decode_rest(frame, headers, copied, layout, out, check_icrc);
  }
  last_ = nullptr;
  DropReason reason = decode_network(headers, frame.size(), out.address, layout);
  if (reason != DropReason::kNone) return reason;
  reason = check_udp(headers, layout);
  if (reason != DropReason::kNone) return reason;
  if (!out.address.is_ipv6) remember(headers, out.address);
  return decode_rest(frame, headers, copied, layout, out, check_icrc);
}

}  // namespace mprdma::wire
