// Frame -> decode -> queue pair -> placements, frames back, acknowledgement.
#include <algorithm>
#include <cstdio>

#include "dataplane/fault_report.hpp"
#include "dataplane/memory_probe.hpp"
#include "dataplane/placement.hpp"
#include "dataplane/worker.hpp"
#include "wire/neighbour.hpp"

namespace mprdma::dataplane {

using transport::RxVerdict;

unsigned Worker::receive(Port& port, TxBatch& answers, Time now) {
  RxFrame frames[kBurst];
  const unsigned n = port.rx_burst(frames, kBurst);
  counters_.frames_in += n;
  flush_released();
  release_port_ = &port;
  for (unsigned i = 0; i < n; ++i) {
    if (i + 1 < n) __builtin_prefetch(frames[i + 1].data);
    if (receive_frame(port, frames[i], answers, now)) continue;
    if (release_port_ != &port || release_count_ == kBurst) flush_released();
    release_port_ = &port;
    release_cookies_[release_count_++] = frames[i].cookie;
  }
  flush_released();
  rx_frame_ = nullptr;
  return n;
}

// True if the frame stands in the table: it was released from there, or is held. False: the caller
// gives it back.
bool Worker::receive_frame(Port& port, const RxFrame& frame, TxBatch& answers, Time now) {
  const bool check_icrc = &port == port_.get() && port_info_.can_corrupt;
  const std::span<const unsigned char> bytes(frame.data, frame.length);
  // One read of a byte that the peer may still change: what it says is only a way to go.
  if (frame.length >= wire::Ethernet::kBytes && load_be16(frame.data + 12) == wire::kEtherTypeArp) {
    receive_arp(frame, answers);
    return false;
  }
  constexpr uint32_t kIcmpv6 = wire::Ethernet::kBytes + wire::Ipv6::kBytes;
  if (frame.length > kIcmpv6 && load_be16(frame.data + 12) == wire::kEtherTypeIpv6 &&
      frame.data[wire::Ethernet::kBytes + 6] == wire::kIpProtocolIcmpv6) {
    receive_neighbour(frame, answers);
    return false;
  }
  const wire::DropReason reason = wire::decode_frame(bytes, decoded_, check_icrc);
  if (reason != wire::DropReason::kNone) {
    ++wire_drops_[reason];
    return false;
  }
  rx_frame_ = frame.data;
  if ((decoded_.address.dst_mac[0] & 1) != 0 && is_group(decoded_.address.dst_ip)) {
    return receive_group(frame, port, answers, now);
  }
  const bool from_loop = &port == &loop_;
  if (decoded_.packet.dest_qpn == wire::kGeneralServicesQpn) {
    if (addressed_to_us(decoded_.address)) receive_management(frame, from_loop, answers, now);
    return false;
  }
  QpContext* qp = accept(decoded_, from_loop);
  if (qp == nullptr) return false;
  const wire::TransportService service = decoded_.packet.info().transport;
  const bool mp = service == wire::TransportService::kMp;
  if (qp->pair.wants_packet(mp) && (mp || service == wire::TransportService::kRc)) {
    note_packet_mode(*qp, mp, now, answers);
  }

  const transport::FrameHandle handle =
      frames_.borrow(frame.data + decoded_.payload_offset, frame.cookie, &port);
  const RxVerdict verdict = qp->qp.on_packet(now, decoded_.packet, handle, actions_);
  perform(*qp, &answers);
  touch(*qp);
  if (verdict != RxVerdict::kHeld) release(handle);
  return true;
}

// False: a counted drop.
bool Worker::addressed_to_us(const wire::FrameAddress& address) {
  if (address.dst_mac != config_.mac) {
    ++counters_.drop_wrong_mac;
    return false;
  }
  if (address.dst_ip != gids_[1] && address.dst_ip != gids_[0]) {
    ++counters_.drop_wrong_destination;
    return false;
  }
  return true;
}

// The queue pair that a packet is for; nullptr: a counted drop.
QpContext* Worker::accept(const wire::DecodedFrame& decoded, bool from_loop) {
  const wire::FrameAddress& address = decoded.address;
  if (!addressed_to_us(address)) return nullptr;
  QpContext* qp = qps_.find(decoded.packet.dest_qpn);
  if (qp == nullptr) {
    ++counters_.drop_unknown_qp;
    return nullptr;
  }
  // A queue pair without a path has no peer yet: the transport drops what comes in that state; one
  // for datagrams never has.
  if (qp->path != PathState::kNone &&
      (address.src_ip != qp->address.dst_ip || address.dst_ip != qp->address.src_ip ||
       from_loop != qp->loop)) {
    ++counters_.drop_wrong_source;
    return nullptr;
  }
  if (!good_pkey(decoded.packet.p_key)) {
    ++counters_.drop_bad_pkey;
    return nullptr;
  }
  return qp;
}

void Worker::perform(QpContext& qp, TxBatch* answers) {
  for (const transport::Placement& placement : actions_.placements) place(qp, placement);
  for (const transport::FrameHandle handle : actions_.released) release(handle);
  if (actions_.has_ack && answers != nullptr) send_ack(qp, *answers);
  actions_.clear();
}

void Worker::place(QpContext& qp, const transport::Placement& placement) {
  using transport::PlacementKind;
  const bool atomic =
      placement.kind == PlacementKind::kCompareSwap || placement.kind == PlacementKind::kFetchAdd;
  const uint32_t bytes = atomic ? sizeof(uint64_t) : placement.length;
  begin_copy(placement.addr, bytes, qp.qp.qpn());
  auto* const to = reinterpret_cast<unsigned char*>(placement.addr);
  switch (placement.kind) {
    case PlacementKind::kPayload:
      copy_tail_last(to, frames_[placement.frame].payload + placement.payload_offset, bytes);
      break;
    case PlacementKind::kGrh:
      place_grh(placement);
      break;
    case PlacementKind::kCompareSwap:
      *placement.original = compare_swap(to, placement.compare, placement.swap_add);
      break;
    case PlacementKind::kFetchAdd:
      *placement.original = fetch_add(to, placement.swap_add);
      break;
    case PlacementKind::kValue:
      copy_tail_last(
          to, reinterpret_cast<const unsigned char*>(&placement.compare) + placement.payload_offset,
          bytes);
      break;
  }
  end_copy();
  counters_.payload_bytes_in += bytes;
  qp.bytes_in += bytes;
}

// Memory that was registered on demand is looked at whenever it is used: whoever names it may name
// what is not mapped, and that must not end the process.
bool Worker::memory_there(void* host, uint64_t addr, uint64_t bytes, bool writes) {
  Worker& worker = *static_cast<Worker*>(host);
  if (!worker.mrs_.is_on_demand(addr, bytes) || probe_memory(addr, bytes, writes) == 0) return true;
  ++worker.counters_.memory_absent;
  if (worker.said_memory_absent_) return false;
  worker.said_memory_absent_ = true;
  std::fprintf(
      stderr,
      "mprdma: address 0x%llx was registered on demand, but cannot be %s: the request ends "
      "in an error\n",
      static_cast<unsigned long long>(addr), writes ? "written" : "read");
  return false;
}

void Worker::release(transport::FrameHandle handle) {
  const BorrowedFrame& frame = frames_[handle];
  if (release_count_ == kBurst || frame.port != release_port_) flush_released();
  release_port_ = frame.port;
  release_cookies_[release_count_++] = frame.cookie;
  frames_.give_back(handle);
}

void Worker::flush_released() {
  if (release_count_ > 0) release_port_->rx_release(release_cookies_.data(), release_count_);
  release_count_ = 0;
}

// RFC 4861, 7.2. Other messages of ICMPv6 are for the kernel, if anybody.
void Worker::receive_neighbour(const RxFrame& frame, TxBatch& answers) {
  constexpr size_t kIp = wire::Ethernet::kBytes;
  constexpr size_t kMessage = kIp + wire::Ipv6::kBytes;
  std::array<unsigned char, 512> copy;
  const size_t bytes = std::min<size_t>(frame.length, copy.size());
  std::memcpy(copy.data(), frame.data, bytes);
  const wire::Ethernet ethernet = wire::Ethernet::load(copy.data());
  const wire::Ipv6 ip = wire::Ipv6::load(copy.data() + kIp);
  wire::NeighbourMessage message;
  if (kMessage + ip.payload_length > bytes ||
      !wire::NeighbourMessage::parse(ip, {copy.data() + kMessage, ip.payload_length}, message)) {
    ++counters_.drop_neighbour;
    return;
  }
  ++counters_.neighbour_messages_received;
  const wire::IpAddress& own = gids_[0];
  const wire::IpAddress& who = message.advertisement ? message.target : ip.src;
  if (who == own) {
    if (ethernet.src != config_.mac) ++counters_.arp_conflicts;
    return;
  }
  const bool for_us = message.target == own;
  const bool unicast = message.has_mac && (message.mac[0] & 1) == 0;
  if (unicast && wire::is_link_local(who)) {
    const bool news = message.advertisement
                          ? arp_.learn_advertised(who, message.mac, message.overrides)
                          : arp_.learn(who, message.mac, for_us);
    if (news) path_changed(who);
  }
  if (message.advertisement || !for_us) return;
  TxFrame* answer = answers.next();
  if (answer == nullptr) return;
  unsigned char* const start = answer->payload - wire::Ethernet::kBytes;
  answer->header_bytes = wire::Ethernet::kBytes;
  answer->frame_bytes = static_cast<uint32_t>(wire::encode_advertisement(
      config_.mac, own, unicast ? message.mac : ethernet.src, ip.src, start));
  ++counters_.frames_out;
  ++counters_.neighbour_advertisements_sent;
}

void Worker::receive_arp(const RxFrame& frame, TxBatch& answers) {
  // A copy, because the peer may still write to the frame.
  std::array<unsigned char, wire::Ethernet::kBytes + wire::Arp::kBytes> copy{};
  const size_t bytes = frame.length < copy.size() ? frame.length : copy.size();
  std::memcpy(copy.data(), frame.data, bytes);
  wire::Arp arp;
  const std::span<const unsigned char> body(copy.data(), bytes);
  const wire::DropReason reason = wire::Arp::parse(body.subspan(wire::Ethernet::kBytes), arp);
  if (reason != wire::DropReason::kNone) {
    ++wire_drops_[reason];
    return;
  }
  ++counters_.arp_received;
  if (arp.sender_ip == config_.ipv4 && arp.sender_mac != config_.mac) {
    ++counters_.arp_conflicts;
    return;
  }
  const bool for_us = arp.target_ip == config_.ipv4;
  const bool unicast = (arp.sender_mac[0] & 1) == 0;
  if (unicast && arp.sender_ip != 0 && arp_.learn(arp.sender_ip, arp.sender_mac, for_us)) {
    path_changed(wire::map_ipv4(arp.sender_ip));
  }
  if (arp.operation != wire::ArpOperation::kRequest) return;
  if (!for_us) {
    ++counters_.arp_not_for_us;
    return;
  }
  if (send_arp(wire::ArpOperation::kReply, arp.sender_mac, arp.sender_ip, answers)) {
    ++counters_.arp_replies_sent;
  }
}

}  // namespace mprdma::dataplane
