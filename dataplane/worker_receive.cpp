// Frame -> decode -> queue pair -> placements, frames back, acknowledgement.
#include "dataplane/fault_report.hpp"
#include "dataplane/placement.hpp"
#include "dataplane/worker.hpp"

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
  const wire::DropReason reason = wire::decode_frame(bytes, decoded_, check_icrc);
  if (reason != wire::DropReason::kNone) {
    ++wire_drops_[reason];
    return false;
  }
  QpContext* qp = accept(decoded_, &port == &loop_);
  if (qp == nullptr) return false;

  const transport::FrameHandle handle =
      frames_.borrow(frame.data + decoded_.payload_offset, frame.cookie, &port);
  const RxVerdict verdict = qp->qp.on_packet(now, decoded_.packet, handle, actions_);
  perform(*qp, &answers);
  touch(*qp);
  if (verdict != RxVerdict::kHeld) release(handle);
  return true;
}

// The queue pair that a packet is for; nullptr: a counted drop.
QpContext* Worker::accept(const wire::DecodedFrame& decoded, bool from_loop) {
  const wire::FrameAddress& address = decoded.address;
  if (address.dst_mac != config_.mac) {
    ++counters_.drop_wrong_mac;
    return nullptr;
  }
  if (address.dst_ip != gids_[1] && address.dst_ip != gids_[0]) {
    ++counters_.drop_wrong_destination;
    return nullptr;
  }
  QpContext* qp = qps_.find(decoded.packet.dest_qpn);
  if (qp == nullptr) {
    ++counters_.drop_unknown_qp;
    return nullptr;
  }
  // A queue pair without a path has no peer yet: the transport drops what comes in that state.
  if (qp->path != PathState::kNone &&
      (address.src_ip != qp->address.dst_ip || address.dst_ip != qp->address.src_ip ||
       from_loop != qp->loop)) {
    ++counters_.drop_wrong_source;
    return nullptr;
  }
  // The default partition; the top bit only says who is a full member (IBTA 10.9.3).
  if ((decoded.packet.p_key & 0x7fff) != (wire::kDefaultPKey & 0x7fff)) {
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
  const BorrowedFrame& frame = frames_[placement.frame];
  begin_copy(placement.addr, placement.length, qp.qp.qpn());
  copy_tail_last(reinterpret_cast<unsigned char*>(placement.addr),
                 frame.payload + placement.payload_offset, placement.length);
  end_copy();
  counters_.payload_bytes_in += placement.length;
  qp.bytes_in += placement.length;
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
    path_changed(arp.sender_ip);
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
