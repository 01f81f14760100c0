// Neighbours: ARP (RFC 826) and neighbour discovery (RFC 4861), of the wire, of clients and of the
// CM agent.
#include <algorithm>

#include "dataplane/nic/nic_switch.hpp"
#include "wire/ipv6.hpp"
#include "wire/neighbour.hpp"

namespace mprdma::dataplane::nic {

// The kernel hears all of it but questions for our address: they are answered here, also when the
// kernel has it, too, so that RDMA does not depend on how the tap is configured.
void NicSwitch::arp_from_wire(const HeaderCopy& copy, const RxFrame& frame, Time now) {
  wire::Arp arp;
  const std::span<const unsigned char> body(copy.bytes.data() + wire::Ethernet::kBytes,
                                            copy.copied - wire::Ethernet::kBytes);
  if (wire::Arp::parse(body, arp) != wire::DropReason::kNone) {
    return drop(*wire_, &NicCounters::nic_drop_malformed);
  }
  ++wire_->counters.nic_arp_questions;
  const bool for_us = arp.target_ip == config_.ipv4;
  const bool question = arp.operation == wire::ArpOperation::kRequest && for_us;
  if (!question) copy_to_kernel(frame);
  if (arp.sender_ip == config_.ipv4) {
    if (arp.sender_mac != config_.mac) ++wire_->counters.nic_arp_conflicts;
    return;
  }
  const bool unicast = (arp.sender_mac[0] & 1) == 0;
  if (unicast && arp.sender_ip != 0) {
    const wire::MacAddress mac = arp.sender_mac;
    const wire::IpAddress sender = wire::map_ipv4(arp.sender_ip);
    const bool news = neighbours_.learn(
        sender, mac, for_us,
        [&](const Neighbours::Question& waiting) { answer_question(waiting, &mac, now); });
    if (news) announce(sender, mac);
  }
  if (question) {
    send_arp_reply(*wire_, arp.sender_mac, arp.sender_ip, config_.mac, config_.ipv4);
  }
}

// RFC 4861, 7.2. The kernel hears of it as it does of ARP.
void NicSwitch::neighbour_from_wire(const HeaderCopy& copy, const FrameClass& found,
                                    const RxFrame& frame, Time now) {
  wire::NeighbourMessage message;
  const wire::Ipv6 ip = wire::Ipv6::load(copy.bytes.data() + FrameClass::kIpOffset);
  if (!load_neighbour(ip, found, frame, &message)) {
    return drop(*wire_, &NicCounters::nic_drop_malformed);
  }
  ++wire_->counters.nic_neighbour_questions;
  const bool question = !message.advertisement && message.target == link_local_;
  if (!question) copy_to_kernel(frame);
  if (is_own(ip.src) || (message.advertisement && message.target == link_local_)) {
    const wire::Ethernet ethernet = wire::Ethernet::load(copy.bytes.data());
    if (ethernet.src != config_.mac) ++wire_->counters.nic_arp_conflicts;
    return;
  }
  const bool unicast = message.has_mac && (message.mac[0] & 1) == 0;
  const wire::IpAddress& who = message.advertisement ? message.target : ip.src;
  if (unicast && wire::is_link_local(who)) {
    const auto tell = [&](const Neighbours::Question& waiting) {
      answer_question(waiting, &message.mac, now);
    };
    const bool news = message.advertisement
                          ? neighbours_.learn_advertised(who, message.mac, message.overrides, tell)
                          : neighbours_.learn(who, message.mac, question, tell);
    if (news) announce(who, message.mac);
  }
  if (!question) return;
  const wire::Ethernet ethernet = wire::Ethernet::load(copy.bytes.data());
  send_advertisement(*wire_, unicast ? message.mac : ethernet.src, ip.src, config_.mac,
                     link_local_);
}

// The whole message, once, into memory of our own. False: it is not to be believed.
bool NicSwitch::load_neighbour(const wire::Ipv6& ip, const FrameClass& found, const RxFrame& frame,
                               wire::NeighbourMessage* message) {
  std::array<unsigned char, kNeighbourBytesMax> bytes;
  if (found.transport_bytes > bytes.size()) return false;
  std::memcpy(bytes.data(), frame.data + found.transport_offset, found.transport_bytes);
  return wire::NeighbourMessage::parse(ip, {bytes.data(), found.transport_bytes}, *message);
}

// Clients that know the address hear that it has moved: a reply about the sender to itself, which
// makes nobody add it (RFC 5227, 1.1; RFC 4861, 7.2.6).
void NicSwitch::announce(const wire::IpAddress& ip, const wire::MacAddress& mac) {
  for (const auto& client : clients_) {
    if (client != nullptr) send_answer(*client, ip, ip, mac);
  }
}

// To a client, that `ip` is at `mac`.
void NicSwitch::send_answer(Station& client, const wire::IpAddress& to, const wire::IpAddress& ip,
                            const wire::MacAddress& mac) {
  if (!wire::is_mapped_ipv4(ip)) {
    return send_advertisement(client, config_.mac, link_local_, mac, ip);
  }
  send_arp_reply(client, config_.mac, wire::unmap_ipv4(to), mac, wire::unmap_ipv4(ip));
}

// Nobody answers where `mac` is nullptr: a client then gives up by itself.
void NicSwitch::answer_question(const Neighbours::Question& question, const wire::MacAddress* mac,
                                Time now) {
  if (question.who != Neighbours::kAgent) {
    Station* client = clients_[question.who].get();
    if (mac == nullptr || client == nullptr) return;
    return send_answer(*client, wire::map_ipv4(config_.ipv4), question.ip, *mac);
  }
  const wire::IpAddress ip = question.ip;
  if (mac == nullptr) {
    prober_.on_no_neighbour(ip);
  } else {
    prober_.on_neighbour(ip, [&](PathProber::Open& open) { send_probe(open, *mac, now); });
  }
  std::erase_if(waiting_mads_, [&](const CmAgent::OutgoingMad& mad) {
    if (mad.to != ip) return false;
    if (mac != nullptr) send_mad_to(mad, *mac);
    if (mac == nullptr) drop(*wire_, &NicCounters::nic_drop_management);
    return true;
  });
  if (management_ != nullptr) management_->on_resolved(ip, mac, now);
}

void NicSwitch::send_arp_reply(Station& to, const wire::MacAddress& to_mac, uint32_t to_ip,
                               const wire::MacAddress& mac, uint32_t ip) {
  std::array<unsigned char, wire::kMinFrameBytes> bytes;
  const wire::Arp arp{.operation = wire::ArpOperation::kReply,
                      .sender_mac = mac,
                      .sender_ip = ip,
                      .target_mac = to_mac,
                      .target_ip = to_ip};
  const size_t length = wire::encode_arp_frame(to_mac, mac, arp, bytes.data());
  if (put_whole(to, bytes.data(), static_cast<uint32_t>(length))) ++to.counters.nic_arp_answers;
}

void NicSwitch::send_arp_request(uint32_t ip) {
  std::array<unsigned char, wire::kMinFrameBytes> bytes;
  const wire::Arp arp{.operation = wire::ArpOperation::kRequest,
                      .sender_mac = config_.mac,
                      .sender_ip = config_.ipv4,
                      .target_mac = {},
                      .target_ip = ip};
  const size_t length = wire::encode_arp_frame(wire::kBroadcastMac, config_.mac, arp, bytes.data());
  if (put_whole(*wire_, bytes.data(), static_cast<uint32_t>(length))) {
    ++wire_->counters.nic_arp_requests;
  }
}

void NicSwitch::send_advertisement(Station& to, const wire::MacAddress& to_mac,
                                   const wire::IpAddress& to_ip, const wire::MacAddress& mac,
                                   const wire::IpAddress& ip) {
  std::array<unsigned char, wire::NeighbourMessage::kFrameBytes> bytes;
  const size_t length = wire::encode_advertisement(mac, ip, to_mac, to_ip, bytes.data());
  if (put_whole(to, bytes.data(), static_cast<uint32_t>(length))) {
    ++to.counters.nic_neighbour_answers;
  }
}

void NicSwitch::send_request(const wire::IpAddress& ip) {
  if (wire::is_mapped_ipv4(ip)) return send_arp_request(wire::unmap_ipv4(ip));
  std::array<unsigned char, wire::NeighbourMessage::kFrameBytes> bytes;
  const size_t length = wire::encode_solicitation(config_.mac, ip, bytes.data());
  if (put_whole(*wire_, bytes.data(), static_cast<uint32_t>(length))) {
    ++wire_->counters.nic_neighbour_requests;
  }
}

bool NicSwitch::ask_neighbours(Time now) {
  prober_.expire(now);
  if (neighbours_.next_deadline() > now || wire_ == nullptr) return false;
  neighbours_.on_deadline(
      now, [&](const wire::IpAddress& ip) { send_request(ip); },
      [&](const Neighbours::Question& question) { answer_question(question, nullptr, now); });
  return true;
}

// ---- Clients' questions

// False, and counted: the client asks for too much.
bool NicSwitch::may_ask(Station& client, Time now) {
  if (now >= client.arp_period_end) {
    client.arp_period_end = now + kArpPeriod;
    client.arp_questions_left = kArpPerPeriod;
  }
  if (client.arp_questions_left == 0) {
    drop(client, &NicCounters::nic_drop_arp);
    return false;
  }
  --client.arp_questions_left;
  return true;
}

// Requires an address that is checked and a question that the client may ask.
void NicSwitch::ask_for_client(uint32_t block, const wire::IpAddress& ip, Time now) {
  Station& client = *clients_[block];
  const wire::MacAddress* mac = &config_.mac;
  if (!is_own(ip)) {
    bool waits = false;
    if (wire_ == nullptr) return drop(client, &NicCounters::nic_drop_link_down);
    mac = neighbours_.ask(block, ip, now, &waits);
    if (mac == nullptr && !waits) drop(client, &NicCounters::nic_drop_arp);
  }
  if (mac != nullptr) send_answer(client, wire::map_ipv4(config_.ipv4), ip, *mac);
}

void NicSwitch::arp_from_client(uint32_t block, const HeaderCopy& copy, Time now) {
  Station& client = *clients_[block];
  wire::Arp arp;
  const std::span<const unsigned char> body(copy.bytes.data() + wire::Ethernet::kBytes,
                                            copy.copied - wire::Ethernet::kBytes);
  if (wire::Arp::parse(body, arp) != wire::DropReason::kNone) {
    return drop(client, &NicCounters::nic_drop_malformed);
  }
  ++client.counters.nic_arp_questions;
  if (arp.operation != wire::ArpOperation::kRequest || arp.sender_ip != config_.ipv4 ||
      arp.sender_mac != config_.mac) {
    return drop(client, &NicCounters::nic_drop_forged);
  }
  if (may_ask(client, now)) ask_for_client(block, wire::map_ipv4(arp.target_ip), now);
}

void NicSwitch::neighbour_from_client(uint32_t block, const HeaderCopy& copy,
                                      const FrameClass& found, const RxFrame& frame, Time now) {
  Station& client = *clients_[block];
  wire::NeighbourMessage message;
  const wire::Ipv6 ip = wire::Ipv6::load(copy.bytes.data() + FrameClass::kIpOffset);
  if (!load_neighbour(ip, found, frame, &message)) {
    return drop(client, &NicCounters::nic_drop_malformed);
  }
  ++client.counters.nic_neighbour_questions;
  if (message.advertisement || ip.src != link_local_ || message.mac != config_.mac ||
      !wire::is_link_local(message.target)) {
    return drop(client, &NicCounters::nic_drop_forged);
  }
  if (may_ask(client, now)) ask_for_client(block, message.target, now);
}

}  // namespace mprdma::dataplane::nic
