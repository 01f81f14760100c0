// Frame -> decode -> queue pair -> placements, frames back, acknowledgement.
#include <algorithm>
#include <cstdio>
#include <cstring>

#include "dataplane/sys/check_memory.hpp"
#include "dataplane/sys/memory_fault.hpp"
#include "dataplane/sys/no_cancellation.hpp"
#include "dataplane/sys/stage.hpp"
#include "dataplane/worker/copy_to_memory.hpp"
#include "dataplane/worker/worker.hpp"
#include "wire/bare_packet.hpp"
#include "wire/neighbour.hpp"

namespace mprdma::dataplane {

using transport::RxVerdict;

unsigned Worker::receive(const Source& from, TxBatch& answers, Time now) {
  RxFrame frames[kBurst];
  Port& port = *from.port;
  const unsigned n = port.rx_burst(frames, kBurst);
  if (n == 0) return 0;
  stamp(Stage::kTaken);
  counters_.frames_in += n;
  const RxFrame* const end = frames + n;
  for (const RxFrame* frame = frames; frame != end; ++frame) {
    if (frame + 1 != end) __builtin_prefetch(frame[1].data);
    if (frame->form == FrameForm::kLent) [[unlikely]] {
      frame += receive_lent(from, {frame, end}, answers, now) - 1;
      continue;
    }
    const bool held = frame->form == FrameForm::kBare ? receive_bare(from, *frame, answers, now)
                                                      : receive_frame(from, *frame, answers, now);
    if (!held) release(&port, frame->cookie);
  }
  flush_released();
  rx_frame_ = nullptr;
  return n;
}

// The sender may change these bytes meanwhile: it only spoils its own frame.
bool Worker::is_from_within(std::span<const unsigned char> frame) const {
  constexpr size_t kHeaders = wire::Ethernet::kBytes + wire::Ipv6::kBytes;
  if (daemon_ == nullptr || frame.size() < kHeaders) return false;
  const unsigned char* const ip = frame.data() + wire::Ethernet::kBytes;
  switch (load_be16(frame.data() + 12)) {
    case wire::kEtherTypeIpv4:
      return load_be32(ip + 12) == wire::unmap_ipv4(gids_[1]).value();
    case wire::kEtherTypeIpv6: {
      wire::IpAddress from;
      std::memcpy(from.data(), ip + 8, from.size());
      return wire::same_ip(from, gids_[0]);  // mprdmad drops no other IPv6 source as ours
    }
    default:
      return false;
  }
}

// A frame as Ethernet carries it. True if the transport holds it. False: the caller gives it back.
bool Worker::receive_frame(const Source& from, const RxFrame& frame, TxBatch& answers, Time now) {
  const std::span<const unsigned char> bytes(frame.data, frame.length);
  const bool check_icrc =
      from.port == port_.get() && port_info_.can_corrupt && !is_from_within(bytes);
  // Reads a byte that the peer may still change, once: it only selects the branch.
  if (from.ring == nullptr && frame.length >= wire::Ethernet::kBytes &&
      load_be16(frame.data + 12) == wire::kEtherTypeArp) {
    nic_part_.on_arp(bytes, now, answers);
    return false;
  }
  constexpr uint32_t kIcmpv6 = wire::Ethernet::kBytes + wire::Ipv6::kBytes;
  // Other ICMPv6 messages are for the kernel, if there is one.
  if (from.ring == nullptr && frame.length > kIcmpv6 &&
      load_be16(frame.data + 12) == wire::kEtherTypeIpv6 &&
      frame.data[wire::Ethernet::kBytes + 6] == wire::kIpProtocolIcmpv6) {
    nic_part_.on_discovery(bytes, now, answers);
    return false;
  }
  const wire::DropReason reason = reader_.decode(bytes, decoded_, check_icrc);
  if (reason != wire::DropReason::kNone) {
    if (reason == wire::DropReason::kUnknownEtherType && from.port == port_.get() &&
        receive_pause(frame, now)) {
      return false;
    }
    ++wire_drops_[reason];
    return false;
  }
  rx_frame_ = frame.data;
  if (from.ring == nullptr && wire::is_multicast(decoded_.address.dst_mac) &&
      wire::is_multicast(decoded_.address.dst_ip)) {
    return receive_group(frame, *from.port, answers, now);
  }
  if (from.ring == nullptr && decoded_.packet.dest_qpn == wire::kGeneralServicesQpn) {
    if (!addressed_to_us(decoded_.address)) return false;
    nic_part_.on_datagram(decoded_, frame.data + decoded_.payload_offset, from.port == &loop_, now,
                          answers);
    return false;
  }
  QpContext* qp = accept(decoded_, from);
  return qp != nullptr && receive_packet(from, qp, frame, answers, now);
}

// As receive_frame().
bool Worker::receive_bare(const Source& from, const RxFrame& frame, TxBatch& answers, Time now) {
  wire::BarePacket packet;
  std::memcpy(&packet, frame.data, sizeof(packet));
  QpContext* const qp = accept_bare(Qpn(packet.dest_qpn), from);
  if (qp == nullptr) return false;
  // The ring is there, as this packet shows, and the mode waits for it.
  if (qp->mode_due) [[unlikely]]
    choose_ring(*qp);
  transport::PlainPlacement placement;
  if (frame.length == sizeof(packet) + size_t{packet.payload_len} &&
      !qp->pair.wants_packet(PacketOf::kMp) &&
      qp->qp.take_plain(now, packet, actions_, &placement)) {
    if (placement.length > 0) {
      begin_copy(placement.to, placement.length, qp->qp.qpn());
      copy_tail_last(reinterpret_cast<unsigned char*>(placement.to),
                     frame.data + wire::BarePacket::kBytes, placement.length);
      end_copy();
      stamp(Stage::kPlaced);
      counters_.payload_bytes_in += placement.length;
      qp->bytes_in += placement.length;
      note_data(*qp, now);
    }
    finish_plain(*qp);
    return false;
  }
  if (!packet.load(frame.length, decoded_.packet)) {
    ++wire_drops_[wire::DropReason::kBadLength];
    return false;
  }
  rx_frame_ = nullptr;
  decoded_.payload_offset = wire::BarePacket::kBytes;
  return receive_packet(from, qp, frame, answers, now);
}

// What Qp::take_plain() leaves to do once the payload is in place.
void Worker::finish_plain(QpContext& qp) {
  if (actions_.has_owed_ack) [[unlikely]]
    apply_actions(qp, &batch_of(qp));
  mark_changed(qp);
}

// A packet in decoded_, for a queue pair that accepts it. As receive_frame().
bool Worker::receive_packet(const Source& from, QpContext* qp, const RxFrame& frame,
                            TxBatch& answers, Time now) {
  const wire::TransportService service = decoded_.packet.info().transport;
  const PacketOf of = packet_of(decoded_.packet);
  const bool reliable =
      service == wire::TransportService::kMp || service == wire::TransportService::kRc;
  const bool tells_mode = reliable && qp->pair.wants_packet(of);
  // Of queue pair 1, whose datagrams never go by a ring.
  TxBatch& questions = from.ring != nullptr ? wire_batch_ : answers;
  if (tells_mode && of == PacketOf::kRoce) [[unlikely]]
    note_first_packet(*qp, now, questions);
  const transport::FrameHandle handle =
      frames_.offer(frame.data + decoded_.payload_offset, frame.cookie, from.port);
  const RxVerdict verdict = qp->qp.on_packet(now, decoded_.packet, handle, actions_);
  const bool held = verdict == RxVerdict::kHeld;
  if (held) frames_.keep(handle);
  const wire::OpcodeInfo& info = decoded_.packet.info();
  if (info.operation == wire::Operation::kWrite || info.operation == wire::Operation::kSend)
    note_data(*qp, now);
  // One direction of a queue pair has one way, or its acknowledgements and its responses would
  // overtake one another.
  apply_actions(*qp, &batch_of(*qp));
  if (tells_mode) [[unlikely]]
    note_packet_mode(*qp, of, now, questions);
  mark_changed(*qp);
  return held;
}

// False: a counted drop.
bool Worker::addressed_to_us(const wire::FrameAddress& address) {
  if (!wire::same_mac(address.dst_mac, config_.mac)) {
    ++counters_.drop_wrong_mac;
    return false;
  }
  if (!wire::same_ip(address.dst_ip, gids_[1]) && !wire::same_ip(address.dst_ip, gids_[0])) {
    ++counters_.drop_wrong_destination;
    return false;
  }
  return true;
}

// The queue pair that a packet is for; nullptr: a counted drop.
QpContext* Worker::accept(const wire::DecodedFrame& decoded, const Source& from) {
  const wire::FrameAddress& address = decoded.address;
  if (!addressed_to_us(address)) return nullptr;
  QpContext* qp = qps_.find(decoded.packet.dest_qpn);
  if (qp == nullptr) {
    ++counters_.drop_unknown_qp;
    return nullptr;
  }
  // A queue pair without a path has no peer yet: the transport drops what comes in that state; one
  // for datagrams never has.
  if (qp->path != PathState::kNone && (!wire::same_ip(address.src_ip, qp->peer_ip()) ||
                                       !wire::same_ip(address.dst_ip, qp->outer.address().src_ip) ||
                                       (from.port == &loop_) != qp->loop)) {
    ++counters_.drop_wrong_source;
    return nullptr;
  }
  // The process at the other end of a ring may speak for its own queue pairs only.
  if (from.ring != nullptr &&
      !(may_use_ring(*qp) && from.ring->peers.owns(Qpn(qp->attr.dest_qpn)))) {
    ++counters_.drop_wrong_source;
    return nullptr;
  }
  if (!in_default_partition(decoded.packet.p_key)) {
    ++counters_.drop_bad_pkey;
    return nullptr;
  }
  return qp;
}

// As accept(), for a packet without addresses: the other end of the port is the only sender that
// there can be.
QpContext* Worker::accept_bare(Qpn dest, const Source& from) {
  QpContext* qp = qps_.find(dest);
  if (qp == nullptr) {
    ++counters_.drop_unknown_qp;
    return nullptr;
  }
  const bool may_come = from.ring != nullptr
                            ? may_use_ring(*qp) && from.ring->peers.owns(Qpn(qp->attr.dest_qpn))
                            : qp->path != PathState::kNone && (from.port == &loop_) == qp->loop &&
                                  qp->qp.service() != transport::QpService::kUd;
  if (may_come) return qp;
  ++counters_.drop_wrong_source;
  return nullptr;
}

void Worker::apply_actions(QpContext& qp, TxBatch* answers) {
  for (const transport::Placement& placement : actions_.placements) place(qp, placement);
  for (const transport::FrameHandle handle : actions_.released) release_held(handle);
  if (answers != nullptr) {
    if (actions_.has_owed_ack) send_ack(qp, actions_.owed_ack, *answers);
    if (actions_.has_ack) send_ack(qp, actions_.ack, *answers);
  }
  actions_.clear();
}

void Worker::place(QpContext& qp, const transport::Placement& placement) {
  using transport::PlacementKind;
  if (placement.kind != PlacementKind::kPayload) [[unlikely]]
    return place_other(qp, placement);
  begin_copy(placement.addr, placement.length, qp.qp.qpn());
  copy_tail_last(reinterpret_cast<unsigned char*>(placement.addr),
                 frames_[placement.frame].payload + placement.payload_offset, placement.length);
  end_copy();
  counters_.payload_bytes_in += placement.length;
  qp.bytes_in += placement.length;
}

void Worker::place_other(QpContext& qp, const transport::Placement& placement) {
  using transport::PlacementKind;
  const bool atomic =
      placement.kind == PlacementKind::kCompareSwap || placement.kind == PlacementKind::kFetchAdd;
  const uint32_t bytes = atomic ? sizeof(uint64_t) : placement.length;
  begin_copy(placement.addr, bytes, qp.qp.qpn());
  auto* const to = reinterpret_cast<unsigned char*>(placement.addr);
  switch (placement.kind) {
    case PlacementKind::kPayload:
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

// On-demand memory is checked at each use: a packet may name a part that is not mapped, and that
// must not end the process.
bool Worker::memory_there(void* host, uint64_t addr, uint64_t bytes, bool writes) {
  Worker& worker = *static_cast<Worker*>(host);
  if (!worker.mrs_.is_on_demand(addr, bytes)) return true;
  const NoCancellation whole;
  if (probe_memory(addr, bytes, writes) == 0) return true;
  ++worker.counters_.memory_absent;
  if (worker.warned_memory_absent_) return false;
  worker.warned_memory_absent_ = true;
  std::fprintf(
      stderr,
      "mprdma: address 0x%llx was registered on demand, but cannot be %s: the request ends "
      "in an error\n",
      static_cast<unsigned long long>(addr), writes ? "written" : "read");
  return false;
}

void Worker::release_held(transport::FrameHandle handle) {
  const BorrowedFrame& frame = frames_[handle];
  release(frame.port, frame.cookie);
  if (pull_buffers_.owns(frame.payload)) pull_buffers_.give_back(frame.payload);
  frames_.give_back(handle);
}

// Ports get their frames back some at a time.
void Worker::release(Port* port, uint64_t cookie) {
  if (release_count_ == kBurst || port != release_port_) flush_released();
  release_port_ = port;
  release_cookies_[release_count_++] = cookie;
}

void Worker::flush_released() {
  if (release_count_ > 0) release_port_->rx_release(release_cookies_.data(), release_count_);
  release_count_ = 0;
}

}  // namespace mprdma::dataplane
