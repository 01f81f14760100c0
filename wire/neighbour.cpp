#include "wire/neighbour.hpp"

#include <algorithm>

namespace mprdma::wire {

namespace {

constexpr unsigned char kSourceMac = 1;
constexpr unsigned char kTargetMac = 2;
constexpr unsigned char kRouter = 0x80;
constexpr unsigned char kSolicited = 0x40;
constexpr unsigned char kOverride = 0x20;
constexpr IpAddress kUnspecified{};
constexpr IpAddress kAllNodes = {0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
constexpr MacAddress kAllNodesMac = {0x33, 0x33, 0, 0, 0, 1};

bool is_group_address(const IpAddress& ip) {
  return ip[0] == 0xff;
}

// Sums bytes in pairs; the last of an odd number stands for a pair with zero.
uint32_t sum_of(std::span<const unsigned char> bytes) {
  uint32_t sum = 0;
  for (size_t i = 0; i < bytes.size(); ++i) sum += i % 2 == 0 ? bytes[i] * 256U : bytes[i];
  return sum;
}

// False: the options are not well-formed. Those that we do not know are skipped.
bool parse_options(std::span<const unsigned char> options, unsigned char wanted,
                   NeighbourMessage& out) {
  while (!options.empty()) {
    if (options.size() < NeighbourMessage::kOptionBytes) return false;
    const size_t bytes = options[1] * size_t{8};
    if (bytes == 0 || bytes > options.size()) return false;
    if (options[0] == wanted && bytes == NeighbourMessage::kOptionBytes) {
      out.has_mac = true;
      std::copy_n(options.begin() + 2, out.mac.size(), out.mac.begin());
    }
    options = options.subspan(bytes);
  }
  return true;
}

}  // namespace

IpAddress link_local_of(const MacAddress& mac) {
  return {0xfe,   0x80,   0,    0,    0,      0,      0,     0, static_cast<uint8_t>(mac[0] ^ 2u),
          mac[1], mac[2], 0xff, 0xfe, mac[3], mac[4], mac[5]};
}

bool is_link_local(const IpAddress& ip) {
  return ip[0] == 0xfe && (ip[1] & 0xc0) == 0x80;
}

bool mac_of_link_local(const IpAddress& ip, MacAddress* mac) {
  if (!is_link_local(ip) || ip[11] != 0xff || ip[12] != 0xfe) return false;
  *mac = {static_cast<uint8_t>(ip[8] ^ 2u), ip[9], ip[10], ip[13], ip[14], ip[15]};
  return true;
}

IpAddress solicited_node(const IpAddress& ip) {
  return {0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff, ip[13], ip[14], ip[15]};
}

MacAddress mac_of_solicited_node(const IpAddress& ip) {
  return {0x33, 0x33, 0xff, ip[13], ip[14], ip[15]};
}

uint16_t icmpv6_checksum(const IpAddress& src, const IpAddress& dst,
                         std::span<const unsigned char> message) {
  const auto length = static_cast<uint32_t>(message.size());
  uint32_t sum = sum_of(src) + sum_of(dst) + (length >> 16) + (length & 0xffff) +
                 kIpProtocolIcmpv6 + sum_of(message);
  while ((sum >> 16) != 0) sum = (sum & 0xffff) + (sum >> 16);
  return static_cast<uint16_t>(~sum);
}

bool NeighbourMessage::parse(const Ipv6& ip, std::span<const unsigned char> message,
                             NeighbourMessage& out) {
  if (message.size() < kBytes) return false;
  out = NeighbourMessage{};
  out.advertisement = message[0] == kIcmpv6Advertisement;
  std::copy_n(message.begin() + 8, out.target.size(), out.target.begin());
  const bool known = out.advertisement || message[0] == kIcmpv6Solicitation;
  if (!known || message[1] != 0 || ip.hop_limit != kNeighbourHopLimit ||
      is_group_address(out.target) || is_group_address(ip.src) ||
      icmpv6_checksum(ip.src, ip.dst, message) != 0 ||
      !parse_options(message.subspan(kBytes), out.advertisement ? kTargetMac : kSourceMac, out)) {
    return false;
  }
  if (out.advertisement) {
    out.router = (message[4] & kRouter) != 0;
    out.solicited = (message[4] & kSolicited) != 0;
    out.overrides = (message[4] & kOverride) != 0;
    if (out.solicited && is_group_address(ip.dst)) return false;
  } else if (ip.src == kUnspecified && (out.has_mac || ip.dst != solicited_node(out.target))) {
    return false;
  }
  return true;
}

size_t encode_neighbour_frame(const Ethernet& ethernet, const IpAddress& src, const IpAddress& dst,
                              const NeighbourMessage& message, unsigned char* out) {
  constexpr size_t kMessageBytes = NeighbourMessage::kBytes + NeighbourMessage::kOptionBytes;
  std::fill_n(out, NeighbourMessage::kFrameBytes, static_cast<unsigned char>(0));
  ethernet.store(out);
  Ipv6 ip;
  ip.payload_length = kMessageBytes;
  ip.next_header = kIpProtocolIcmpv6;
  ip.hop_limit = kNeighbourHopLimit;
  ip.src = src;
  ip.dst = dst;
  ip.store(out + Ethernet::kBytes);
  unsigned char* const icmp = out + Ethernet::kBytes + Ipv6::kBytes;
  icmp[0] = message.advertisement ? kIcmpv6Advertisement : kIcmpv6Solicitation;
  if (message.advertisement) {
    icmp[4] = static_cast<unsigned char>((message.router ? kRouter : 0) |
                                         (message.solicited ? kSolicited : 0) |
                                         (message.overrides ? kOverride : 0));
  }
  std::copy(message.target.begin(), message.target.end(), icmp + 8);
  unsigned char* const option = icmp + NeighbourMessage::kBytes;
  option[0] = message.advertisement ? kTargetMac : kSourceMac;
  option[1] = 1;
  std::copy(message.mac.begin(), message.mac.end(), option + 2);
  store_be16(icmp + 2, icmpv6_checksum(src, dst, {icmp, kMessageBytes}));
  return NeighbourMessage::kFrameBytes;
}

size_t encode_solicitation(const MacAddress& mac, const IpAddress& target, unsigned char* out) {
  NeighbourMessage message;
  message.has_mac = true;
  message.mac = mac;
  message.target = target;
  const Ethernet ethernet{
      .dst = mac_of_solicited_node(target), .src = mac, .ether_type = kEtherTypeIpv6};
  return encode_neighbour_frame(ethernet, link_local_of(mac), solicited_node(target), message, out);
}

size_t encode_advertisement(const MacAddress& mac, const IpAddress& target,
                            const MacAddress& asker_mac, const IpAddress& asker,
                            unsigned char* out) {
  const bool nameless = asker == kUnspecified;
  NeighbourMessage message;
  message.advertisement = true;
  message.solicited = !nameless;
  message.overrides = true;
  message.has_mac = true;
  message.mac = mac;
  message.target = target;
  const Ethernet ethernet{
      .dst = nameless ? kAllNodesMac : asker_mac, .src = mac, .ether_type = kEtherTypeIpv6};
  return encode_neighbour_frame(ethernet, target, nameless ? kAllNodes : asker, message, out);
}

}  // namespace mprdma::wire
