// Unreliable datagrams: addresses of packets, groups, and the differences in sending and receiving
// them.
#include <cstring>

#include "dataplane/worker/worker.hpp"

namespace mprdma::dataplane {

// ---- Addresses ---------------------------------------------------------------------------------

// Resumes the address handles of a neighbour, or marks them failed.
void Worker::ah_path_changed(const wire::IpAddress& peer, const NeighbourTable::Entry& entry) {
  bool any = false;
  ahs_.for_each([&](uint32_t, AddressHandle& ah) {
    if (ah.loop || ah.group || ah.peer_ip() != peer) return;
    apply_neighbour(ah, entry);
    any = true;
  });
  if (any) mark_datagram_qps_dirty();
}

// The next datagram of a queue pair may wait for an address that is now known, or gone.
void Worker::mark_datagram_qps_dirty() {
  qps_.for_each([this](QpContext& qp) {
    if (qp.qp.service() == transport::QpService::kUd) mark_dirty(qp);
  });
}

// ---- Sending -----------------------------------------------------------------------------------

// True if the next datagram can be sent. While a neighbour's address is being resolved it waits,
// and so do those behind it: datagrams of a queue pair leave in order.
bool Worker::can_send_datagram(const QpContext& qp) const {
  if (!qp.qp.wants_to_send()) return false;
  const AddressHandle* ah = ahs_.find(qp.qp.next_ah());
  return ah == nullptr || ah->path != PathState::kResolving;
}

Worker::Turn Worker::transmit_datagrams(QpContext& qp, unsigned* budget, Time now) {
  for (unsigned left = kQuantum; left > 0 && *budget != 0; --left) {
    if (!qp.qp.wants_to_send()) return Turn::kDone;
    const AddressHandle* ah = ahs_.find(qp.qp.next_ah());
    if (ah == nullptr || ah->pd != qp.pd || ah->path == PathState::kFailed) {
      if (!qp.qp.poll_packet(now, tx_packet_)) return Turn::kDone;
      const bool known = ah != nullptr && ah->pd == qp.pd;
      ++(known ? counters_.drop_no_path : counters_.drop_no_address);
      --*budget;
      continue;
    }
    if (ah->path != PathState::kReady) return Turn::kDone;
    if (paused_ != 0 && waits_for_pause(qp)) return Turn::kRefused;
    TxBatch& batch = ah->loop ? loop_batch_ : wire_batch_;
    TxFrame* frame = batch.next(TxUse::kData);
    if (frame == nullptr) return Turn::kRefused;
    if (!qp.qp.poll_packet(now, tx_packet_)) {
      batch.put_back();
      return Turn::kDone;
    }
    send_packet(qp, ah->outer, false, tx_packet_, *frame);
    --*budget;
    if (ah->group && !mcast_.members(ah->peer_ip()).empty()) {
      // A wire does not bring back the frames that its own host sends to a group.
      frame = loop_batch_.next(TxUse::kData);
      if (frame == nullptr) {
        ++counters_.drop_group_no_room;
      } else {
        send_packet(qp, ah->outer, false, tx_packet_, *frame);
      }
    }
  }
  return Turn::kMore;
}

// ---- Receiving ---------------------------------------------------------------------------------

// A frame to an Ethernet group address, decoded: a copy for each queue pair that is attached.
// True if the frame was released here (as for receive_frame()).
bool Worker::receive_group(const RxFrame& frame, Port& port, TxBatch& answers, Time now) {
  const wire::FrameAddress& address = decoded_.address;
  const bool from_loop = &port == &loop_;
  const std::span<QpContext* const> members = mcast_.members(address.dst_ip);
  if (members.empty() || decoded_.packet.dest_qpn != wire::kMulticastQpn ||
      decoded_.packet.info().transport != wire::TransportService::kUd) {
    ++counters_.drop_no_group;
    return false;
  }
  // Our own datagrams come back over the loopback; on a shared device, other processes send under
  // the same address.
  if (is_own(address.src_ip) ? daemon_ == nullptr && !from_loop : from_loop) {
    ++counters_.drop_wrong_source;
    return false;
  }
  if (!in_default_partition(decoded_.packet.p_key)) {
    ++counters_.drop_bad_pkey;
    return false;
  }
  const transport::FrameHandle handle =
      frames_.offer(frame.data + decoded_.payload_offset, frame.cookie, &port);
  for (QpContext* qp : members) {
    const bool own = from_loop && decoded_.packet.deth.src_qpn == qp->qp.qpn();
    if (own && (qp->flags & MPRDMA_ABI_QP_BLOCK_SELF_MCAST) != 0) continue;
    qp->qp.on_packet(now, decoded_.packet, handle, actions_);
    apply_actions(*qp, &answers);
    mark_dirty(*qp);
  }
  return false;
}

// The global route header of the received packet (IBTA 11.4.1.2); over IPv4 the second half is its
// IP header and the first one zero (annex A17.4.4).
void Worker::place_grh(const transport::Placement& placement) {
  std::array<unsigned char, transport::kGrhBytes> grh{};
  const unsigned char* ip = rx_frame_ + wire::Ethernet::kBytes;
  if (decoded_.address.is_ipv6) {
    std::memcpy(grh.data(), ip, wire::Ipv6::kBytes);
  } else {
    std::memcpy(grh.data() + grh.size() - wire::Ipv4Header::kBytes, ip, wire::Ipv4Header::kBytes);
  }
  std::memcpy(reinterpret_cast<void*>(placement.addr), grh.data() + placement.payload_offset,
              placement.length);
}

}  // namespace mprdma::dataplane
