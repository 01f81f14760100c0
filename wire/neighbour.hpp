// Neighbour discovery (RFC 4861): the two messages that resolve an IPv6 address of the link,
// solicitation (4.3) and advertisement (4.4), in ICMPv6 (RFC 4443) behind an IPv6 header. And the
// addresses that it builds on: link-local ones (RFC 4291, 2.5.6) and groups of solicited nodes.
//
//   byte  0      type: 135 solicitation, 136 advertisement
//         1      code 0
//         2..3   checksum over pseudo-header (RFC 8200, 8.1) and message
//         4      advertisement: router (bit 7), solicited (6), override (5); else reserved
//         5..7   reserved
//         8..23  target
//         24..   options: type, length in units of 8 bytes, body. 1: the source's Ethernet
//                address, 2: the target's; others are skipped
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "wire/ethernet.hpp"
#include "wire/ip_address.hpp"
#include "wire/ipv6.hpp"

namespace mprdma::wire {

inline constexpr uint8_t kIpProtocolIcmpv6 = 58;
inline constexpr uint8_t kIcmpv6EchoRequest = 128;
inline constexpr uint8_t kIcmpv6EchoReply = 129;
inline constexpr uint8_t kIcmpv6Solicitation = 135;
inline constexpr uint8_t kIcmpv6Advertisement = 136;
// What did not come over a router (RFC 4861, 11.2).
inline constexpr uint8_t kNeighbourHopLimit = 255;

// fe80:: and the modified EUI-64 of the Ethernet address (RFC 4291, appendix A).
IpAddress link_local_of(const MacAddress& mac);
bool is_link_local(const IpAddress& ip);
// The Ethernet address inside a link-local address that was made from one; false: it was not.
bool mac_of_link_local(const IpAddress& ip, MacAddress* mac);
// ff02::1:ffXX:XXXX (RFC 4291, 2.7.1), and the Ethernet group of it.
IpAddress solicited_node(const IpAddress& ip);
MacAddress mac_of_solicited_node(const IpAddress& ip);

// One's complement sum of the message and its pseudo-header, complemented: what the checksum field
// has to hold when it counts as zero, and zero over a message whose checksum is right.
uint16_t icmpv6_checksum(const IpAddress& src, const IpAddress& dst,
                         std::span<const unsigned char> message);

struct NeighbourMessage {
  static constexpr size_t kBytes = 24;       // without options
  static constexpr size_t kOptionBytes = 8;  // of an Ethernet address
  static constexpr size_t kFrameBytes =      // of a frame that we send
      Ethernet::kBytes + Ipv6::kBytes + kBytes + kOptionBytes;

  bool advertisement = false;
  bool router = false;  // these three of an advertisement
  bool solicited = false;
  bool overrides = false;
  bool has_mac = false;  // the option that the type has
  MacAddress mac{};
  IpAddress target{};

  constexpr bool operator==(const NeighbourMessage&) const = default;

  // False: RFC 4861, 7.1.1 and 7.1.2, does not let it pass. `message` is all that follows `ip`.
  static bool parse(const Ipv6& ip, std::span<const unsigned char> message, NeighbourMessage& out);
};

// A whole frame, with the option. Requires room for NeighbourMessage::kFrameBytes at `out`; returns
// its length.
size_t encode_neighbour_frame(const Ethernet& ethernet, const IpAddress& src, const IpAddress& dst,
                              const NeighbourMessage& message, unsigned char* out);

// The frame in which `mac` asks for `target` from its link-local address.
size_t encode_solicitation(const MacAddress& mac, const IpAddress& target, unsigned char* out);
// The answer of `mac` to a solicitation for `target` that came from `asker`, at `asker_mac`; an
// asker without an address (RFC 4861, 7.2.4) is answered by way of all nodes.
size_t encode_advertisement(const MacAddress& mac, const IpAddress& target,
                            const MacAddress& asker_mac, const IpAddress& asker,
                            unsigned char* out);

}  // namespace mprdma::wire
