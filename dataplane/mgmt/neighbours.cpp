#include "dataplane/mgmt/neighbours.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include "wire/arp.hpp"

namespace mprdma::dataplane {

// ---- In ----------------------------------------------------------------------------------------

bool Neighbours::on_arp(std::span<const unsigned char> frame, NicHost& host) {
  std::array<unsigned char, wire::Ethernet::kBytes + wire::Arp::kBytes> copy{};
  const size_t bytes = std::min(frame.size(), copy.size());
  std::memcpy(copy.data(), frame.data(), bytes);
  wire::Arp arp;
  const wire::DropReason reason =
      wire::Arp::parse(std::span(copy).first(bytes).subspan(wire::Ethernet::kBytes), arp);
  if (reason != wire::DropReason::kNone) {
    host.count(reason == wire::DropReason::kBadArp ? NicCount::kArpBad : NicCount::kArpTruncated);
    return true;
  }
  // A multicast address is no host's (RFC 1812, section 3.3.2): the answer would go to everyone.
  if (wire::is_multicast(arp.sender_mac)) {
    host.count(NicCount::kArpBad);
    return true;
  }
  host.count(NicCount::kArpReceived);
  const bool for_us = arp.target_ip == ipv4_;
  const bool question = arp.operation == wire::ArpOperation::kRequest && for_us;
  if (arp.sender_ip == ipv4_) {
    if (arp.sender_mac != mac_) host.count(NicCount::kAddressConflicts);
    return question;
  }
  if (!arp.sender_ip.unspecified()) {
    const wire::IpAddress sender = wire::map_ipv4(arp.sender_ip);
    if (table_.learn(sender, arp.sender_mac, for_us)) host.on_neighbour(sender, &arp.sender_mac);
  }
  if (question) {
    send_arp_reply(arp.sender_mac, arp.sender_ip, host);
  } else if (arp.operation == wire::ArpOperation::kRequest) {
    host.count(NicCount::kArpNotForUs);
  }
  return question;
}

bool Neighbours::load(std::span<const unsigned char> frame, Discovery* out) {
  constexpr size_t kIp = wire::Ethernet::kBytes;
  constexpr size_t kMessage = kIp + wire::Ipv6::kBytes;
  std::array<unsigned char, kMessage + kMessageBytesMax> copy;
  const size_t bytes = std::min(frame.size(), copy.size());
  if (bytes < kMessage) return false;
  std::memcpy(copy.data(), frame.data(), bytes);
  out->ethernet = wire::Ethernet::load(copy.data());
  out->ip = wire::Ipv6::load(copy.data() + kIp);
  return kMessage + out->ip.payload_length <= bytes &&
         wire::NeighbourMessage::parse(out->ip, {copy.data() + kMessage, out->ip.payload_length},
                                       out->message);
}

bool Neighbours::on_discovery(std::span<const unsigned char> frame, NicHost& host) {
  Discovery heard;
  if (!load(frame, &heard) || wire::is_multicast(heard.ethernet.src)) {
    host.count(NicCount::kNeighbourMessagesBad);
    return true;
  }
  host.count(NicCount::kNeighbourMessagesReceived);
  const wire::NeighbourMessage& message = heard.message;
  const bool for_us = message.target == link_local_;
  const bool question = !message.advertisement && for_us;
  if (heard.ip.src == link_local_ || (message.advertisement && for_us)) {
    if (heard.ethernet.src != mac_) host.count(NicCount::kAddressConflicts);
    return question;
  }
  const bool names_sender = message.has_mac && !wire::is_multicast(message.mac);
  const wire::IpAddress& who = message.advertisement ? message.target : heard.ip.src;
  if (names_sender && wire::is_link_local(who)) {
    const bool news = message.advertisement
                          ? table_.learn_advertised(who, message.mac, message.overrides)
                          : table_.learn(who, message.mac, question);
    if (news) host.on_neighbour(who, &message.mac);
  }
  if (question) {
    send_advertisement(names_sender ? message.mac : heard.ethernet.src, heard.ip.src, host);
  }
  return question;
}

void Neighbours::learn_sender(const wire::FrameAddress& from, NicHost& host) {
  if (from.is_ipv6 || wire::is_multicast(from.src_mac)) return;
  const NeighbourTable::Entry* known = table_.find(from.src_ip);
  if (known != nullptr && known->state == NeighbourTable::State::kReachable) return;
  if (table_.learn(from.src_ip, from.src_mac, true)) host.on_neighbour(from.src_ip, &from.src_mac);
}

// ---- Out ---------------------------------------------------------------------------------------

wire::FrameAddress Neighbours::address_of(const wire::IpAddress& ip,
                                          const wire::MacAddress& mac) const {
  const bool ipv4 = wire::is_mapped_ipv4(ip);
  return {.dst_mac = mac,
          .src_mac = mac_,
          .is_ipv6 = !ipv4,
          .src_ip = ipv4 ? wire::map_ipv4(ipv4_) : link_local_,
          .dst_ip = ip};
}

void Neighbours::send_arp_request(Ipv4 ip, NicHost& host) const {
  std::array<unsigned char, wire::kMinFrameBytes> frame;
  const wire::Arp arp{.operation = wire::ArpOperation::kRequest,
                      .sender_mac = mac_,
                      .sender_ip = ipv4_,
                      .target_mac = {},
                      .target_ip = ip};
  wire::encode_arp_frame(wire::kBroadcastMac, mac_, arp, frame.data());
  if (host.send(frame)) host.count(NicCount::kArpRequestsSent);
}

void Neighbours::send_arp_reply(const wire::MacAddress& to_mac, Ipv4 to_ip, NicHost& host) const {
  std::array<unsigned char, wire::kMinFrameBytes> frame;
  const wire::Arp arp{.operation = wire::ArpOperation::kReply,
                      .sender_mac = mac_,
                      .sender_ip = ipv4_,
                      .target_mac = to_mac,
                      .target_ip = to_ip};
  wire::encode_arp_frame(to_mac, mac_, arp, frame.data());
  if (host.send(frame)) host.count(NicCount::kArpRepliesSent);
}

void Neighbours::send_solicitation(const wire::IpAddress& ip, NicHost& host) const {
  std::array<unsigned char, wire::NeighbourMessage::kFrameBytes> frame;
  wire::encode_solicitation(mac_, ip, frame.data());
  if (host.send(frame)) host.count(NicCount::kSolicitationsSent);
}

void Neighbours::send_advertisement(const wire::MacAddress& to_mac, const wire::IpAddress& to_ip,
                                    NicHost& host) const {
  std::array<unsigned char, wire::NeighbourMessage::kFrameBytes> frame;
  wire::encode_advertisement(mac_, link_local_, to_mac, to_ip, frame.data());
  if (host.send(frame)) host.count(NicCount::kAdvertisementsSent);
}

bool Neighbours::on_deadline(Time now, NicHost& host) {
  bool asked = false;
  table_.on_deadline(
      now,
      [&](const wire::IpAddress& ip) {
        asked = true;
        if (!wire::is_mapped_ipv4(ip)) return send_solicitation(ip, host);
        send_arp_request(wire::unmap_ipv4(ip), host);
      },
      [&](const wire::IpAddress& ip) { host.on_neighbour(ip, nullptr); });
  return asked;
}

}  // namespace mprdma::dataplane
