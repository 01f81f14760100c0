// Frames from clients: policing and forwarding.
#include <algorithm>

#include "dataplane/daemon/switch.hpp"
#include "wire/packet.hpp"

namespace mprdma::dataplane::mprdmad {

namespace {

bool is_group_address(const HeaderCopy& copy, const FrameClass& found) {
  return found.is_ipv6 ? wire::is_multicast(destination_ipv6(copy))
                       : wire::is_multicast_ipv4(found.dst_ipv4);
}

}  // namespace

// Number of frames taken from this client in this turn: limited by the wire's room for a client
// that sends to the wire.
unsigned Switch::burst_of(Station& client, Time now) {
  if (!client.to_wire || wire_ == nullptr || !wire_->port->link_up()) return kBurst;
  const unsigned room = wire_->outbox.room();
  if (room > 0) {
    wire_full_since_ = Time::never();
    return room;
  }
  wire_->dirty = true;
  if (wire_full_since_.is_never()) wire_full_since_ = now;
  if (now - wire_full_since_ >= kWireFullMax) return kBurst;
  ++client.counters.nic_back_pressure;
  return 0;
}

bool Switch::receive_client(uint32_t block, Time now) {
  Station& client = *clients_[block];
  const unsigned wanted = burst_of(client, now);
  if (wanted == 0) return false;
  std::array<RxFrame, kBurst> frames;
  const unsigned count = client.port->rx_burst(frames.data(), wanted);
  if (count == 0) return false;
  client.to_wire = false;
  client.counters.nic_frames_in += count;
  for (unsigned i = 0; i < count; ++i) {
    if (i + 1 < count) __builtin_prefetch(frames[i + 1].data);
    client.counters.nic_bytes_in += frames[i].length;
    from_client(block, frames[i], now);
  }
  release(client, frames.data(), count);
  client.last_moved = now;
  return true;
}

void Switch::from_client(uint32_t block, const RxFrame& frame, Time now) {
  Station& client = *clients_[block];
  HeaderCopy copy;
  copy.take(frame.data, frame.length);
  const FrameClass found = classify(copy);
  if (found.kind == FrameKind::kArp) return arp_from_client(block, copy, now);
  if (found.kind == FrameKind::kNeighbour) {
    return neighbour_from_client(block, frame, now);
  }
  if (found.kind == FrameKind::kMalformed) {
    return drop(client, &StationCounters::nic_drop_malformed);
  }
  if (found.kind != FrameKind::kRoce) return drop(client, &StationCounters::nic_drop_not_ours);
  wire::Packet packet;
  const std::span<const unsigned char> headers(copy.bytes.data() + found.transport_offset,
                                               copy.copied - found.transport_offset);
  if (wire::decode_transport(headers, found.transport_bytes, packet) != wire::DropReason::kNone) {
    return drop(client, &StationCounters::nic_drop_malformed);
  }
  uint64_t StationCounters::*cause = nullptr;
  if (!may_send(block, found, packet, copy, &cause)) return drop(client, cause);
  if (packet.dest_qpn == wire::kGeneralServicesQpn) return pair_from_client(block, found, frame);
  set_next_hop(copy.bytes.data(), found);
  route(block, copy, found, packet, frame);
}

// False: the drop is counted as `cause`.
bool Switch::may_send(uint32_t block, const FrameClass& found, const wire::Packet& packet,
                      const HeaderCopy& copy, uint64_t StationCounters::** cause) const {
  *cause = &StationCounters::nic_drop_forged;
  if (std::memcmp(copy.bytes.data() + 6, config_.mac.data(), config_.mac.size()) != 0 ||
      !is_ours(copy, found, false)) {
    return false;
  }
  const bool datagram = packet.info().transport == wire::TransportService::kUd;
  if (datagram && packet.deth.src_qpn != wire::kGeneralServicesQpn &&
      (client::block_of(packet.deth.src_qpn) != block || packet.deth.src_qpn == Qpn(0))) {
    return false;
  }
  // Management goes from queue pair 1 to queue pair 1 and nowhere else.
  const bool from_services = datagram && packet.deth.src_qpn == wire::kGeneralServicesQpn;
  if ((packet.dest_qpn == wire::kGeneralServicesQpn) != from_services) return false;
  *cause = &StationCounters::nic_drop_malformed;
  if (packet.dest_qpn == Qpn(0)) return false;
  const bool group = found.group || is_group_address(copy, found);
  return group ? found.group && is_group_address(copy, found) && datagram &&
                     packet.dest_qpn == wire::kMulticastQpn
               : packet.dest_qpn != wire::kMulticastQpn;
}

// A frame for an address off the subnet gets the Ethernet address of the present gateway, because
// a client may still know a former one.
void Switch::set_next_hop(unsigned char* headers, const FrameClass& found) {
  if (found.is_ipv6 || found.group) return;
  const wire::MacAddress* gateway = resolver_.gateway_of(found.dst_ipv4);
  if (gateway == nullptr) return;
  std::memcpy(headers, gateway->data(), gateway->size());
  resolver_.sent_to_gateway();
}

void Switch::route(uint32_t block, const HeaderCopy& copy, const FrameClass& found,
                   const wire::Packet& packet, const RxFrame& frame) {
  Station& client = *clients_[block];
  const uint32_t header_bytes =
      found.transport_offset + static_cast<uint32_t>(wire::header_bytes(packet));
  if (found.group) {
    put_to_clients(client, copy, header_bytes, frame);
  } else if (is_ours(copy, found, true)) {
    Station* to = station_of(packet.dest_qpn);
    if (to == nullptr) return drop(client, &StationCounters::nic_drop_unknown_qp);
    if (put(*to, copy, header_bytes, frame)) ++client.counters.nic_hairpin;
    return;
  }
  if (wire_ == nullptr) {
    if (!found.group) drop(client, &StationCounters::nic_drop_link_down);
    return;
  }
  client.to_wire = true;
  put(*wire_, copy, header_bytes, frame);
}

// A datagram of our own class, from queue pair 1: what names the sender lies behind the headers, so
// the whole frame is copied before it is looked at.
void Switch::pair_from_client(uint32_t block, const FrameClass& found, const RxFrame& frame) {
  Station& client = *clients_[block];
  constexpr size_t kFrameBytesMax =
      wire::kMaxFrameHeaderBytes + wire::kMadBytes + wire::kMaxFrameTrailerBytes;
  if (frame.length > kFrameBytesMax) return drop(client, &StationCounters::nic_drop_malformed);
  std::array<unsigned char, kFrameBytesMax> bytes;
  std::memcpy(bytes.data(), frame.data, frame.length);
  // The checks run again on this copy, because the client may have written meanwhile.
  HeaderCopy copy;
  copy.take(bytes.data(), frame.length);
  const FrameClass again = classify(copy);
  wire::DecodedFrame decoded;
  wire::PairMad mad;
  if (again.kind != FrameKind::kRoce || again.is_ipv6 != found.is_ipv6 ||
      wire::decode_frame({bytes.data(), frame.length}, decoded, false) != wire::DropReason::kNone ||
      wire::decode_pair_mad({bytes.data() + decoded.payload_offset, decoded.packet.payload_len},
                            mad) != wire::MadDrop::kNone) {
    return drop(client, &StationCounters::nic_drop_malformed);
  }
  uint64_t StationCounters::*cause = nullptr;
  // Only the answer "question not known" names no queue pair; its transaction does.
  const bool named =
      (mad.response && mad.status != 0) || client::is_in_block(mad.info.sender_qpn, block);
  if (!may_send(block, again, decoded.packet, copy, &cause) ||
      decoded.packet.dest_qpn != wire::kGeneralServicesQpn || !named) {
    return drop(client, &StationCounters::nic_drop_forged);
  }
  if (!is_ours(copy, again, true)) {
    if (wire_ == nullptr) return drop(client, &StationCounters::nic_drop_link_down);
    client.to_wire = true;
    set_next_hop(bytes.data(), again);
    put_whole(*wire_, bytes.data(), frame.length);
    return;
  }
  const Qpn qpn = mad.response ? Qpn(static_cast<uint32_t>(mad.transaction & wire::kQpnMask))
                               : mad.info.receiver_qpn;
  Station* to = station_of(qpn);
  if (to == nullptr) return drop(client, &StationCounters::nic_drop_unknown_qp);
  if (put_whole(*to, bytes.data(), frame.length)) ++client.counters.nic_hairpin;
}

}  // namespace mprdma::dataplane::mprdmad
