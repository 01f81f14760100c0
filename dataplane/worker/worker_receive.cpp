// Frame -> decode -> queue pair -> placements, frames back, acknowledgement.
#include <algorithm>
#include <cstdio>

#include "dataplane/sys/check_memory.hpp"
#include "dataplane/sys/memory_fault.hpp"
#include "dataplane/worker/copy_to_memory.hpp"
#include "dataplane/worker/worker.hpp"
#include "wire/neighbour.hpp"

namespace mprdma::dataplane {

using transport::RxVerdict;

unsigned Worker::receive(const Source& from, TxBatch& answers, Time now) {
  RxFrame frames[kBurst];
  Port& port = *from.port;
  const unsigned n = port.rx_burst(frames, kBurst);
  if (n == 0) return 0;
  counters_.frames_in += n;
  flush_released();
  release_port_ = &port;
  for (unsigned i = 0; i < n; ++i) {
    if (i + 1 < n) __builtin_prefetch(frames[i + 1].data);
    if (receive_frame(from, frames[i], answers, now)) continue;
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
bool Worker::receive_frame(const Source& from, const RxFrame& frame, TxBatch& answers, Time now) {
  const bool check_icrc = from.port == port_.get() && port_info_.can_corrupt;
  const std::span<const unsigned char> bytes(frame.data, frame.length);
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
  const wire::DropReason reason = wire::decode_frame(bytes, decoded_, check_icrc);
  if (reason != wire::DropReason::kNone) {
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
  return receive_packet(from, frame, answers, now);
}

// A packet of a queue pair, in decoded_. As receive_frame().
bool Worker::receive_packet(const Source& from, const RxFrame& frame, TxBatch& answers, Time now) {
  QpContext* qp = accept(decoded_, from);
  if (qp == nullptr) return false;
  const wire::TransportService service = decoded_.packet.info().transport;
  const bool mp = service == wire::TransportService::kMp;
  if (qp->pair.wants_packet(mp) && (mp || service == wire::TransportService::kRc)) {
    // Of queue pair 1, whose datagrams never go by a ring.
    TxBatch by_port(from.ring != nullptr ? port_.get() : nullptr);
    note_packet_mode(*qp, mp, now, from.ring != nullptr ? by_port : answers);
  }

  const transport::FrameHandle handle =
      frames_.borrow(frame.data + decoded_.payload_offset, frame.cookie, from.port);
  const RxVerdict verdict = qp->qp.on_packet(now, decoded_.packet, handle, actions_);
  Port* const back = port_of(*qp);
  if (back == from.port) [[likely]] {
    apply_actions(*qp, &answers);
  } else {
    // One direction of a queue pair has one way, or its acknowledgements and its responses would
    // overtake one another.
    TxBatch by_its_port(back);
    apply_actions(*qp, &by_its_port);
  }
  mark_dirty(*qp);
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
  if (qp->path != PathState::kNone &&
      (address.src_ip != qp->address.dst_ip || address.dst_ip != qp->address.src_ip ||
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

void Worker::apply_actions(QpContext& qp, TxBatch* answers) {
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

// On-demand memory is checked at each use: a packet may name a part that is not mapped, and that
// must not end the process.
bool Worker::memory_there(void* host, uint64_t addr, uint64_t bytes, bool writes) {
  Worker& worker = *static_cast<Worker*>(host);
  if (!worker.mrs_.is_on_demand(addr, bytes) || probe_memory(addr, bytes, writes) == 0) return true;
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

}  // namespace mprdma::dataplane
