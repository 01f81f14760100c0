// What comes from the wire; neighbours; datagrams of the CM agent.
#include <algorithm>

#include "dataplane/nic/nic_switch.hpp"
#include "wire/cm_mad.hpp"
#include "wire/ipv4.hpp"

namespace mprdma::dataplane::nic {

bool NicSwitch::receive_wire(Time now) {
  std::array<RxFrame, kBurst> frames;
  const unsigned count = wire_->port->rx_burst(frames.data(), kBurst);
  if (count == 0) return false;
  wire_->counters.nic_frames_in += count;
  for (unsigned i = 0; i < count; ++i) {
    if (i + 1 < count) __builtin_prefetch(frames[i + 1].data);
    wire_->counters.nic_bytes_in += frames[i].length;
    from_wire(frames[i], now);
  }
  release(*wire_, frames.data(), count);
  wire_->last_moved = now;
  return true;
}

void NicSwitch::from_wire(const RxFrame& frame, Time now) {
  HeaderCopy copy;
  copy.take(frame.data, frame.length);
  const FrameClass found = classify(copy);
  const bool to_us =
      found.group || (copy.copied >= wire::Ethernet::kBytes &&
                      std::memcmp(copy.bytes.data(), config_.mac.data(), config_.mac.size()) == 0);
  if (!to_us) return drop(*wire_, &NicCounters::nic_drop_not_ours);
  switch (found.kind) {
    case FrameKind::kRoce:
      return roce_from_wire(copy, found, frame, now);
    case FrameKind::kArp:
      return arp_from_wire(copy, frame, now);
    case FrameKind::kEcho:
      return answer_ping(copy, found, frame);
    case FrameKind::kOther:
      return leave_to_kernel(copy, found, frame);
    case FrameKind::kMalformed:
      return drop(*wire_, &NicCounters::nic_drop_malformed);
  }
}

void NicSwitch::roce_from_wire(const HeaderCopy& copy, const FrameClass& found,
                               const RxFrame& frame, Time now) {
  // Nobody else sends in our name; a device that gives us our own frames back would close a circle.
  if (is_ours(copy, found, false)) return drop(*wire_, &NicCounters::nic_drop_forged);
  const unsigned char* const bth = copy.bytes.data() + found.transport_offset;
  const uint32_t qpn = load_be24(bth + 5);
  const uint32_t header_bytes =
      found.transport_offset +
      static_cast<uint32_t>(wire::opcode_info(static_cast<wire::Opcode>(bth[0])).header_bytes);
  // An opcode that nobody knows has no headers; one that says more than there is, is cut short.
  if (header_bytes == found.transport_offset || header_bytes > copy.copied) {
    return drop(*wire_, &NicCounters::nic_drop_malformed);
  }
  if (found.group) {
    if (qpn != wire::kMulticastQpn) return drop(*wire_, &NicCounters::nic_drop_not_ours);
    return put_to_clients(*wire_, copy, header_bytes, frame);
  }
  if (!is_ours(copy, found, true)) return leave_to_kernel(copy, found, frame);
  if (qpn == wire::kGeneralServicesQpn) return management_from_wire(frame, now);
  Station* to =
      qpn > wire::kGeneralServicesQpn && qpn != wire::kMulticastQpn ? station_of(qpn) : nullptr;
  if (to == nullptr) return drop(*wire_, &NicCounters::nic_drop_unknown_qp);
  put(*to, copy, header_bytes, frame);
}

void NicSwitch::management_from_wire(const RxFrame& frame, Time now) {
  // Once into memory of our own; then it is looked at.
  constexpr size_t kFrameBytesMax =
      wire::kMaxFrameHeaderBytes + wire::kMadBytes + wire::kMaxFrameTrailerBytes;
  const auto refuse = [this] { drop(*wire_, &NicCounters::nic_drop_management); };
  if (frame.length > kFrameBytesMax) return refuse();
  std::array<unsigned char, kFrameBytesMax> bytes;
  std::memcpy(bytes.data(), frame.data, frame.length);
  wire::DecodedFrame decoded;
  const wire::Packet& packet = decoded.packet;
  if (wire::decode_frame({bytes.data(), frame.length}, decoded, wire_can_corrupt_) !=
      wire::DropReason::kNone) {
    return drop(*wire_, &NicCounters::nic_drop_malformed);
  }
  if (packet.info().transport != wire::TransportService::kUd ||
      packet.deth.q_key != wire::kGeneralServicesQKey || packet.payload_len != wire::kMadBytes) {
    return refuse();
  }
  const std::span<const unsigned char> mad(bytes.data() + decoded.payload_offset, wire::kMadBytes);
  if (wire::MadHeader::load(mad.data()).management_class == wire::kCmClass) {
    ++wire_->counters.nic_cm_in;
    if (management_ != nullptr) management_->on_mad(mad, decoded.address.src_ip, now);
    return;
  }
  wire::PairMad pair;
  if (wire::decode_pair_mad(mad, pair) != wire::MadDrop::kNone) return refuse();
  Station* to = station_of(pair.response ? static_cast<uint32_t>(pair.transaction & wire::kQpnMask)
                                         : pair.info.receiver_qpn);
  if (to == nullptr) return drop(*wire_, &NicCounters::nic_drop_unknown_qp);
  put_whole(*to, bytes.data(), frame.length);
}

// The frame is copied into the answer, and turned round there.
void NicSwitch::answer_ping(const HeaderCopy& copy, const FrameClass& found, const RxFrame& frame) {
  constexpr uint32_t kIp = FrameClass::kIpOffset;
  constexpr uint32_t kIcmp = kIp + wire::Ipv4::kBytes;
  if (found.group || config_.shared_address || found.dst_ipv4 != config_.ipv4) {
    return leave_to_kernel(copy, found, frame);
  }
  if (!put(*wire_, copy, copy.copied, frame)) return;
  // What put() has written last.
  TxFrame* out = wire_->outbox.last();
  unsigned char* const bytes = out->payload - out->header_bytes;
  std::memcpy(bytes, bytes + 6, 6);
  std::memcpy(bytes + 6, config_.mac.data(), config_.mac.size());
  wire::Ipv4 ip = wire::Ipv4::load(bytes + kIp);
  std::swap(ip.src, ip.dst);
  ip.ttl = wire::kDefaultTtl;
  ip.store(bytes + kIp);
  bytes[kIcmp] = 0;  // echo reply (RFC 792)
  // RFC 1624: the first word of the message fell by 0x0800.
  const uint32_t sum = uint32_t{load_be16(bytes + kIcmp + 2)} + 0x0800;
  store_be16(bytes + kIcmp + 2, static_cast<uint16_t>((sum & 0xffff) + (sum >> 16)));
  ++wire_->counters.nic_pings_answered;
}

// ---- Neighbours

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
    const bool news = neighbours_.learn(
        arp.sender_ip, mac, for_us,
        [&](const Neighbours::Question& waiting) { answer_question(waiting, &mac, now); });
    if (news) announce(arp.sender_ip, mac);
  }
  if (question) {
    send_arp_reply(*wire_, arp.sender_mac, arp.sender_ip, config_.mac, config_.ipv4);
  }
}

// Clients that know the address hear that it has moved: a reply about the sender to itself, which
// makes nobody add it (RFC 5227, 1.1).
void NicSwitch::announce(uint32_t ip, const wire::MacAddress& mac) {
  for (const auto& client : clients_) {
    if (client != nullptr) send_arp_reply(*client, config_.mac, ip, mac, ip);
  }
}

// Nobody answers where `mac` is nullptr: a client then gives up by itself.
void NicSwitch::answer_question(const Neighbours::Question& question, const wire::MacAddress* mac,
                                Time now) {
  if (question.who != Neighbours::kAgent) {
    Station* client = clients_[question.who].get();
    if (mac == nullptr || client == nullptr) return;
    return send_arp_reply(*client, config_.mac, config_.ipv4, *mac, question.ip);
  }
  const wire::IpAddress ip = wire::map_ipv4(question.ip);
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

bool NicSwitch::ask_neighbours(Time now) {
  if (neighbours_.next_deadline() > now || wire_ == nullptr) return false;
  neighbours_.on_deadline(
      now, [&](uint32_t ip) { send_arp_request(ip); },
      [&](const Neighbours::Question& question) { answer_question(question, nullptr, now); });
  return true;
}

// ---- The CM agent

void NicSwitch::resolve(const wire::IpAddress& to, Time now) {
  if (management_ == nullptr) return;
  if (!wire::is_mapped_ipv4(to)) return management_->on_resolved(to, nullptr, now);
  const uint32_t ip = wire::unmap_ipv4(to);
  if (ip == config_.ipv4) return management_->on_resolved(to, &config_.mac, now);
  if (wire_ == nullptr) return management_->on_resolved(to, nullptr, now);
  bool waits = false;
  const wire::MacAddress* mac = neighbours_.ask(Neighbours::kAgent, ip, now, &waits);
  if (mac != nullptr || !waits) management_->on_resolved(to, mac, now);
}

void NicSwitch::send_mad(const CmAgent::OutgoingMad& mad, Time now) {
  if (mad.to == wire::map_ipv4(config_.ipv4)) {
    if (management_ != nullptr) management_->on_mad(mad.bytes, mad.to, now);
    return;
  }
  if (wire_ == nullptr || !wire::is_mapped_ipv4(mad.to)) return;
  bool waits = false;
  const wire::MacAddress* mac =
      neighbours_.ask(Neighbours::kAgent, wire::unmap_ipv4(mad.to), now, &waits);
  if (mac != nullptr) return send_mad_to(mad, *mac);
  if (waits && waiting_mads_.size() < kWaitingMads) {
    waiting_mads_.push_back(mad);
  } else {
    drop(*wire_, &NicCounters::nic_drop_management);
  }
}

void NicSwitch::send_mad_to(const CmAgent::OutgoingMad& mad, const wire::MacAddress& mac) {
  std::array<unsigned char,
             wire::kMaxFrameHeaderBytes + wire::kMadBytes + wire::kMaxFrameTrailerBytes>
      bytes;
  unsigned char* const payload = bytes.data() + wire::kMaxFrameHeaderBytes;
  const wire::FrameAddress address{.dst_mac = mac,
                                   .src_mac = config_.mac,
                                   .is_ipv6 = false,
                                   .src_ip = wire::map_ipv4(config_.ipv4),
                                   .dst_ip = mad.to,
                                   .dscp = static_cast<uint8_t>(mad.traffic_class >> 2),
                                   .ecn = wire::Ecn::kNotEct};
  wire::Packet packet;
  packet.opcode = wire::Opcode::kUdSendOnly;
  packet.vp = static_cast<uint16_t>(prng_.range(wire::kVirtualPathMin, wire::kVirtualPathMax));
  packet.psn = mad_psn_;
  mad_psn_ += 1;
  packet.dest_qpn = wire::kGeneralServicesQpn;
  packet.payload_len = wire::kMadBytes;
  packet.deth = {.q_key = wire::kGeneralServicesQKey, .src_qpn = wire::kGeneralServicesQpn};
  std::memcpy(payload, mad.bytes.data(), wire::kMadBytes);
  const size_t header_bytes = wire::encode_frame(address, packet, payload);
  const size_t length =
      wire::finish_frame(payload - header_bytes, header_bytes, wire::kMadBytes, wire_can_corrupt_);
  if (put_whole(*wire_, payload - header_bytes, static_cast<uint32_t>(length))) {
    ++wire_->counters.nic_cm_out;
  }
}

}  // namespace mprdma::dataplane::nic
