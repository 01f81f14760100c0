// A RoCEv2 packet in its frame: Ethernet, IPv4 or IPv6, UDP, BTH, extension headers, payload, pad,
// ICRC.
//
// Sending. The payload has a fixed, aligned place in the frame; headers are written so that they
// end there:
//   size_t header_len = encode_frame(address, packet, payload_start);
//   unsigned char* frame = payload_start - header_len;
//   .. copy packet.payload_len bytes to payload_start ..
//   size_t frame_len = finish_frame(frame, header_len, packet.payload_len, with_icrc);
//
// Receiving. decode_frame may be called on memory that somebody else can still write: it copies the
// headers once and looks only at the copy, so that what it checked is what it returns. The bytes of
// the frame behind the headers are read once more for the ICRC. Its results are offsets and lengths
// inside the frame's span, whatever the bytes are. A payload in such memory is only ever copied.
//
// Requires nothing of the bytes: each frame ends in a Packet or in one named DropReason.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "wire/bth.hpp"
#include "wire/constants.hpp"
#include "wire/drop_reason.hpp"
#include "wire/ethernet.hpp"
#include "wire/ip_address.hpp"
#include "wire/ipv6.hpp"
#include "wire/packet.hpp"
#include "wire/udp.hpp"

namespace mprdma::wire {

// Everything of the outer headers that does not follow from the packet.
struct FrameAddress {
  MacAddress dst_mac{};
  MacAddress src_mac{};
  bool is_ipv6 = false;
  IpAddress src_ip{};  // IPv4 mapped, see ip_address.hpp
  IpAddress dst_ip{};
  uint8_t dscp = 0;
  // What a packet that is not marked carries: ECT(0) in every mp packet. Packet::ce overrides it.
  Ecn ecn = Ecn::kEct0;
  uint8_t ttl = kDefaultTtl;
  // IPv4 only. Zero is right for packets that may not be fragmented (RFC 6864).
  uint16_t ip_identification = 0;

  constexpr bool operator==(const FrameAddress&) const = default;
};

// Longest run of headers, Ethernet to the last extension header.
inline constexpr size_t kMaxFrameHeaderBytes =
    Ethernet::kBytes + Ipv6::kBytes + Udp::kBytes + kMaxTransportHeaderBytes;

// Pad and ICRC.
inline constexpr size_t kMaxFrameTrailerBytes = kPayloadAlign - 1 + kIcrcBytes;

struct DecodedFrame {
  Packet packet{};
  FrameAddress address{};       // as received; `ecn` holds the codepoint that arrived
  uint16_t payload_offset = 0;  // of the first payload byte in the frame
};

// Length of all headers that encode_frame would write. Requires a known opcode.
constexpr size_t frame_header_bytes(const FrameAddress& address, const Packet& packet) {
  return Ethernet::kBytes + (address.is_ipv6 ? Ipv6::kBytes : Ipv4Header::kBytes) + Udp::kBytes +
         header_bytes(packet);
}

// Writes all headers so that they end at `payload_start` and returns their length. Requires a known
// opcode and kMaxFrameHeaderBytes of room before `payload_start`.
size_t encode_frame(const FrameAddress& address, const Packet& packet,
                    unsigned char* payload_start);

// Appends pad and ICRC to a frame whose headers encode_frame wrote and whose payload is in place;
// returns the frame's length. Without `with_icrc` (a wire that cannot corrupt) the ICRC is 0.
// Requires kMaxFrameTrailerBytes of room behind the payload.
size_t finish_frame(unsigned char* frame, size_t header_len, size_t payload_len, bool with_icrc);

// Checks and decodes a frame, see above. On a drop `out` holds nothing of use.
DropReason decode_frame(std::span<const unsigned char> frame, DecodedFrame& out, bool check_icrc);

inline std::span<const unsigned char> payload_of(std::span<const unsigned char> frame,
                                                 const DecodedFrame& decoded) {
  return frame.subspan(decoded.payload_offset, decoded.packet.payload_len);
}

}  // namespace mprdma::wire
