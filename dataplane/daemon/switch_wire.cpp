// Frames from the wire.
#include <utility>

#include "dataplane/daemon/switch.hpp"
#include "wire/ipv4.hpp"
#include "wire/ipv6.hpp"
#include "wire/neighbour.hpp"
#include "wire/pause_frame.hpp"

namespace mprdma::dataplane::mprdmad {

bool Switch::receive_wire(Time now) {
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

void Switch::from_wire(const RxFrame& frame, Time now) {
  HeaderCopy copy;
  copy.take(frame.data, frame.length);
  const FrameClass found = classify(copy);
  const bool to_us =
      found.group || (copy.copied >= wire::Ethernet::kBytes &&
                      std::memcmp(copy.bytes.data(), config_.mac.data(), config_.mac.size()) == 0);
  if (!to_us) return drop(*wire_, &StationCounters::nic_drop_not_ours);
  if (copy.copied >= wire::Ethernet::kBytes) resolver_.heard(copy.bytes.data() + 6);
  switch (found.kind) {
    case FrameKind::kRoce:
      return roce_from_wire(copy, found, frame, now);
    case FrameKind::kArp:
    case FrameKind::kNeighbour:
      return neighbour_from_wire(copy, found, frame, now);
    case FrameKind::kEcho:
      return answer_ping(copy, found, frame);
    case FrameKind::kOther:
      if (wire::PauseFrame::is_on(copy.bytes.data(), copy.copied)) return pause_from_wire(copy);
      return leave_to_kernel(copy, found, frame);
    case FrameKind::kMalformed:
      return drop(*wire_, &StationCounters::nic_drop_malformed);
  }
}

void Switch::roce_from_wire(const HeaderCopy& copy, const FrameClass& found, const RxFrame& frame,
                            Time now) {
  // No other host sends from our address; a device that returns our own frames would cause a loop.
  if (is_ours(copy, found, false)) return drop(*wire_, &StationCounters::nic_drop_forged);
  const unsigned char* const bth = copy.bytes.data() + found.transport_offset;
  const Qpn qpn(load_be24(bth + 5));
  const uint32_t header_bytes =
      found.transport_offset +
      static_cast<uint32_t>(wire::opcode_info(static_cast<wire::Opcode>(bth[0])).header_bytes);
  // An opcode that nobody knows has no headers; one that says more than there is, is cut short.
  if (header_bytes == found.transport_offset || header_bytes > copy.copied) {
    return drop(*wire_, &StationCounters::nic_drop_malformed);
  }
  if (found.group) {
    if (qpn != wire::kMulticastQpn) return drop(*wire_, &StationCounters::nic_drop_not_ours);
    return put_to_clients(*wire_, copy, header_bytes, frame);
  }
  if (!is_ours(copy, found, true)) return leave_to_kernel(copy, found, frame);
  if (qpn == wire::kGeneralServicesQpn) return management_from_wire(frame, now);
  Station* to =
      qpn > wire::kGeneralServicesQpn && qpn != wire::kMulticastQpn ? station_of(qpn) : nullptr;
  if (to == nullptr) return drop(*wire_, &StationCounters::nic_drop_unknown_qp);
  put(*to, copy, header_bytes, frame);
}

// A client's engine stops its data by itself, as one that owns its port does (worker_pause.cpp), by
// the priorities of its packets, of which the link has one only if the configuration says so.
void Switch::pause_from_wire(const HeaderCopy& copy) {
  wire::PauseFrame pause;
  const auto ours = static_cast<uint8_t>(config_.pfc_priority ? 1U << *config_.pfc_priority : 0xff);
  if (wire::PauseFrame::parse({copy.bytes.data(), copy.copied}, pause) != wire::PauseDrop::kNone) {
    return drop(*wire_, &StationCounters::nic_drop_malformed);
  }
  if (!config_.pfc || !pause.concerns(ours)) {
    ++wire_->counters.nic_pauses_ignored;
    return;
  }
  ++wire_->counters.nic_pauses;
  if (config_.pfc_priority) pause = wire::PauseFrame::of_link(pause.quanta_of(ours));
  for (const auto& client : clients_) {
    if (client == nullptr) continue;
    if (!client->owes_pause) client->pause = {};
    client->pause.add(pause);
    client->owes_pause = true;
  }
  tell_pauses();
}

// A client that has no room is told later: the end of a pause is said once.
void Switch::tell_pauses() {
  owes_pauses_ = false;
  for (const auto& client : clients_) {
    if (client == nullptr || !client->owes_pause) continue;
    std::array<unsigned char, wire::kMinFrameBytes> bytes;
    const auto length = static_cast<uint32_t>(client->pause.store(config_.mac, bytes.data()));
    const bool waits = client->port->link_up() && client->outbox.room() == 0;
    client->owes_pause = waits;
    owes_pauses_ |= waits;
    if (!waits) put_whole(*client, bytes.data(), length);
  }
}

// The frame is copied into the answer, and turned round there.
void Switch::answer_ping(const HeaderCopy& copy, const FrameClass& found, const RxFrame& frame) {
  if (found.group || config_.shared_address || !is_ours(copy, found, true)) {
    return leave_to_kernel(copy, found, frame);
  }
  if (!put(*wire_, copy, copy.copied, frame)) return;
  // The frame that put() wrote last.
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
    wire::Ipv4Header ip = wire::Ipv4Header::load(header);
    std::swap(ip.src, ip.dst);
    ip.ttl = wire::kDefaultTtl;
    ip.store(header);
    sum += uint32_t{icmp[0]} << 8;
    icmp[0] = 0;  // echo reply (RFC 792)
  }
  store_be16(icmp + 2, static_cast<uint16_t>((sum & 0xffff) + (sum >> 16)));
  ++wire_->counters.nic_pings_answered;
}

}  // namespace mprdma::dataplane::mprdmad
