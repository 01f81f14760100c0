// What comes from the wire; datagrams of the CM agent.
#include <utility>

#include "dataplane/nic/nic_switch.hpp"
#include "wire/cm_mad.hpp"
#include "wire/ipv4.hpp"
#include "wire/ipv6.hpp"
#include "wire/neighbour.hpp"

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
  if (copy.copied >= wire::Ethernet::kBytes) neighbours_.heard(copy.bytes.data() + 6);
  switch (found.kind) {
    case FrameKind::kRoce:
      return roce_from_wire(copy, found, frame, now);
    case FrameKind::kArp:
      return arp_from_wire(copy, frame, now);
    case FrameKind::kNeighbour:
      return neighbour_from_wire(copy, found, frame, now);
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
  constexpr size_t kFrameBytesMax =
      wire::kMaxFrameHeaderBytes + wire::kMadBytes + wire::kMaxFrameTrailerBytes;
  const auto refuse = [this] { drop(*wire_, &NicCounters::nic_drop_management); };
  if (frame.length > kFrameBytesMax) return long_management_from_wire(frame, now);
  // Once into memory of our own; then it is looked at.
  std::array<unsigned char, kFrameBytesMax> bytes;
  std::memcpy(bytes.data(), frame.data, frame.length);
  wire::DecodedFrame decoded;
  const wire::Packet& packet = decoded.packet;
  if (wire::decode_frame({bytes.data(), frame.length}, decoded, wire_can_corrupt_) !=
      wire::DropReason::kNone) {
    return drop(*wire_, &NicCounters::nic_drop_malformed);
  }
  if (packet.info().transport != wire::TransportService::kUd ||
      packet.deth.q_key != wire::kGeneralServicesQKey || packet.payload_len < wire::kMadBytes) {
    return refuse();
  }
  const std::span<const unsigned char, wire::kMadBytes> mad(bytes.data() + decoded.payload_offset,
                                                            wire::kMadBytes);
  if (wire::is_probe_mad(mad)) return probe_from_wire(decoded, mad, now);
  if (packet.payload_len != wire::kMadBytes) return refuse();
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
  if (found.group || config_.shared_address || !is_ours(copy, found, true)) {
    return leave_to_kernel(copy, found, frame);
  }
  if (!put(*wire_, copy, copy.copied, frame)) return;
  // What put() has written last.
  TxFrame* out = wire_->outbox.last();
  unsigned char* const bytes = out->payload - out->header_bytes;
  unsigned char* const header = bytes + FrameClass::kIpOffset;
  unsigned char* const icmp = bytes + found.transport_offset;
  std::memcpy(bytes, bytes + 6, 6);
  std::memcpy(bytes + 6, config_.mac.data(), config_.mac.size());
  // RFC 1624: the checksum grows by what the first word of the message loses.
  uint32_t sum = load_be16(icmp + 2);
  if (found.is_ipv6) {
    wire::Ipv6 ip = wire::Ipv6::load(header);
    std::swap(ip.src, ip.dst);
    ip.hop_limit = wire::kDefaultTtl;
    ip.store(header);
    sum += 0xffff - ((wire::kIcmpv6EchoReply - wire::kIcmpv6EchoRequest) << 8);
    icmp[0] = wire::kIcmpv6EchoReply;
  } else {
    wire::Ipv4 ip = wire::Ipv4::load(header);
    std::swap(ip.src, ip.dst);
    ip.ttl = wire::kDefaultTtl;
    ip.store(header);
    sum += uint32_t{icmp[0]} << 8;
    icmp[0] = 0;  // echo reply (RFC 792)
  }
  store_be16(icmp + 2, static_cast<uint16_t>((sum & 0xffff) + (sum >> 16)));
  ++wire_->counters.nic_pings_answered;
}

// ---- The CM agent

void NicSwitch::resolve(const wire::IpAddress& to, Time now) {
  if (management_ == nullptr) return;
  bool waits = false;
  const wire::MacAddress* mac = nullptr;
  if (is_own(to)) {
    mac = &config_.mac;
  } else if (wire_ != nullptr && is_of_network(to)) {
    mac = neighbours_.ask(Neighbours::kAgent, to, now, &waits);
  }
  if (mac != nullptr || !waits) management_->on_resolved(to, mac, now);
}

void NicSwitch::send_mad(const CmAgent::OutgoingMad& mad, Time now) {
  if (is_own(mad.to)) {
    if (management_ != nullptr) management_->on_mad(mad.bytes, mad.to, now);
    return;
  }
  if (wire_ == nullptr || !is_of_network(mad.to)) return;
  bool waits = false;
  const wire::MacAddress* mac = neighbours_.ask(Neighbours::kAgent, mad.to, now, &waits);
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
  const bool ipv4 = wire::is_mapped_ipv4(mad.to);
  const wire::FrameAddress address{.dst_mac = mac,
                                   .src_mac = config_.mac,
                                   .is_ipv6 = !ipv4,
                                   .src_ip = ipv4 ? wire::map_ipv4(config_.ipv4) : link_local_,
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
