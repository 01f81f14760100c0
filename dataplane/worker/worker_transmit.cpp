// Scheduler -> packet -> frame; acknowledgements.
#include <cstring>

#include "dataplane/port/lent_payload.hpp"
#include "dataplane/sys/memory_fault.hpp"
#include "dataplane/worker/worker.hpp"
#include "wire/bare_packet.hpp"

namespace mprdma::dataplane {

namespace {

// Of a packet that Qp::poll_plain() gave: new, of one piece. Of a WRITE, because the receiver knows
// at once where it goes.
bool may_lend(const wire::BarePacket& packet) {
  return packet.payload_len >= kLendMin &&
         wire::opcode_info(packet.opcode).operation == wire::Operation::kWrite;
}

}  // namespace

// The header in front of where the payload is, or will be.
inline void Worker::write_bare(const wire::BarePacket& header, TxFrame& frame) {
  std::memcpy(frame.payload - wire::BarePacket::kBytes, &header, wire::BarePacket::kBytes);
  frame.header_bytes = wire::BarePacket::kBytes;
  frame.frame_bytes = static_cast<uint32_t>(wire::BarePacket::kBytes) + header.payload_len;
  frame.form = FrameForm::kBare;
}

// tx_plain_ goes into the frame. Requires: it fits.
[[gnu::always_inline]] inline void Worker::fill_plain_frame(QpContext& qp, TxFrame& frame) {
  const wire::BarePacket& header = tx_plain_.header;
  DCHECK(header.payload_len + kFrameTailroom <= frame.capacity);
  if (header.payload_len > 0) {
    begin_copy(tx_plain_.from, header.payload_len, qp.qp.qpn());
    std::memcpy(frame.payload, reinterpret_cast<const void*>(tx_plain_.from), header.payload_len);
    end_copy();
  }
  write_bare(header, frame);
  counters_.payload_bytes_out += header.payload_len;
  qp.bytes_out += header.payload_len;
  ++counters_.frames_out;
}

bool Worker::transmit(Time now) {
  if (!parked_.empty()) unpark_some();
  if (paused_to_look_ > 0) unpause_some();
  burst_was_full_ = paused_to_look_ > 0;
  if (scheduler_.empty()) return false;
  unsigned budget = kTxPerBurst;
  // Limit of queue pairs that meet a full wire before the burst ends: with ten thousand active ones
  // the price of back-pressure must not be a walk over all of them.
  unsigned refusals_left = 8;
  const unsigned budget_before = budget;
  while (budget > 0 && refusals_left > 0) {
    QpContext* qp = scheduler_.pop();
    if (qp == nullptr) break;
    if (!transmit_turn(*qp, &budget, now)) --refusals_left;
  }
  burst_was_full_ |= budget == 0 && !scheduler_.empty();
  return budget != budget_before;
}

// The turn of a queue pair that is in neither list. False: the wire was full from the start.
bool Worker::transmit_turn(QpContext& qp, unsigned* budget, Time now) {
  const unsigned before = *budget;
  // An acknowledgement leaves before the answer that it waited for: the peer's request is complete
  // before the answer to it is there, as on an adapter.
  if (qp.owing && !qp.answers.expected()) try_owed_acks(qp);
  const bool datagrams = qp.qp.service() == transport::QpService::kUd;
  const Turn turn = datagrams ? transmit_datagrams(qp, budget, now)
                              : transmit_connected(qp, batch_of(qp), budget, now);
  if (turn == Turn::kRefused) {
    if (qp.ring != nullptr) {
      park(qp);
    } else if (waits_for_pause(qp)) {
      park_for_pause(qp);
      if (*budget > 0) --*budget;  // a burst has an end, however many there are
    }
  }
  if (turn != Turn::kDone && !qp.parked() && can_send(qp)) scheduler_.push(qp);
  note_changes(qp);
  return turn != Turn::kRefused || *budget != before || qp.parked();
}

// What it may send, it has just been asked.
void Worker::note_changes(QpContext& qp) {
  qp.changes |=
      static_cast<transport::QpChanges>(qp.qp.take_changes() & ~transport::kSendingChanged);
  if (qp.changes != 0) reschedule(qp);
}

// Takes requests from the ring, each into a frame in one go. False: those that are left need
// process_sends() and transmit_turn().
[[gnu::always_inline]] inline bool Worker::send_at_once(QpContext& qp, TxBatch& batch, Time now) {
  WorkRing& sq = qp.sq;
  if (sq.depth == 0) return false;
  const uint32_t producer = mprdma_abi_load_acquire(&sq.dbr->producer);
  for (unsigned left = kTxPerBurst; sq.next != producer; --left) {
    transport::PlainRequest request;
    if (left == 0 || !read_plain(sq, &request)) return false;
    TxFrame* const frame = batch.next(TxUse::kData);
    if (frame == nullptr) return false;
    const bool fits = batch.bare() && request.sge.length + kFrameTailroom <= frame->capacity;
    const transport::PlainSend done =
        fits ? qp.qp.send_plain(now, request, tx_plain_) : transport::PlainSend::kNothing;
    if (done != transport::PlainSend::kNothing) ++sq.next;
    if (done != transport::PlainSend::kSent) {
      batch.put_back();
      return false;
    }
    fill_plain_frame(qp, *frame);
  }
  return true;
}

bool Worker::run_sends(uint32_t doorbell, Time now) {
  QpContext* const qp = qps_.at_slot(doorbell);
  if (qp == nullptr) return false;
  now_ = now;
  ++counters_.bursts_posts;
  qp->answers.on_post(now);
  TxBatch& batch = batch_of(*qp);
  const bool alone =
      qp->qp.decided() && scheduler_.empty() && paused_ == 0 && qp->held == 0 && qp->changes == 0;
  bool taken = false;
  if (alone && qp->path == PathState::kReady && can_send_connected(*qp) &&
      (!qp->owing || try_owed_acks(*qp))) {
    taken = send_at_once(*qp, batch, now);
  }
  if (!taken && process_sends(*qp, now)) mprdma_abi_ring_doorbell(doorbells_.get(), doorbell);
  if (alone && (taken || can_send(*qp))) {
    unsigned budget = kTxPerBurst;
    if (!taken) transmit_turn(*qp, &budget, now);
    // Datagrams leave by any batch.
    const bool one_batch = taken || qp->qp.service() != transport::QpService::kUd;
    if (one_batch && (taken || owing_qps_ == nullptr)) [[likely]] {
      // The peer waits for the packet, and nobody for the rest.
      batch.commit();
      batch.flush();
      if (taken) note_changes(*qp);
      if (dirty_cqs_ != nullptr) fire_events();
      if (owing_qps_ == nullptr) [[likely]]
        return true;
    }
  } else {
    if (!qp->qp.decided()) qp->changes = transport::kAllChanged;  // requests wait in the ring
    mark_changed(*qp);
    reschedule_dirty();
    transmit(now);
  }
  send_owed_acks();
  commit_batches();
  port_->flush();
  fire_events();
  return true;
}

Worker::Turn Worker::refuse(QpContext& qp) {
  if (!qp.qp.wants_to_send()) return Turn::kDone;
  qp.qp.on_back_pressure();
  return Turn::kRefused;
}

Worker::Turn Worker::transmit_connected(QpContext& qp, TxBatch& batch, unsigned* budget, Time now) {
  if (qp.path != PathState::kReady) return drop_pathless(qp, budget, now);
  if (paused_ != 0 && waits_for_pause(qp)) return refuse(qp);
  const bool large = qp.qp.sends_long() && batch.has_large();
  for (unsigned left = kQuantum; left > 0 && *budget != 0; --left) {
    TxFrame* frame = large && !batch.hold_large() ? nullptr : batch.next(TxUse::kData);
    if (frame == nullptr) return refuse(qp);
    if (batch.bare() && qp.qp.poll_plain(now, tx_plain_)) {
      if (may_lend(tx_plain_.header) && batch.port().takes_lent()) {
        fill_lent_frame(qp, batch.port(), *frame);
      } else {
        frame = frame_for(tx_plain_.header.payload_len, *frame, batch);
        if (frame != nullptr) fill_plain_frame(qp, *frame);
      }
      --*budget;
      if (!tx_plain_.more) return Turn::kDone;
      continue;
    }
    if (!qp.qp.poll_packet(now, tx_packet_)) {
      batch.put_back();
      return Turn::kDone;
    }
    frame = frame_for(tx_packet_.header.payload_len, *frame, batch);
    if (frame != nullptr) send_packet(qp, qp.outer, batch.bare(), tx_packet_, *frame);
    --*budget;
    if (!tx_packet_.more) return Turn::kDone;
  }
  return Turn::kMore;
}

// The frame for a payload: `next`, or the large one that is held. nullptr: a counted drop, of a
// segment whose ring has gone. Its request waits for another ring, as long as for a dead wire.
TxFrame* Worker::frame_for(uint32_t payload_bytes, TxFrame& next, TxBatch& batch) {
  if (payload_bytes + kFrameTailroom <= next.capacity) return &next;
  if (batch.holds_large()) {
    TxFrame* const large = batch.take_large();
    CHECK(payload_bytes + kFrameTailroom <= large->capacity);
    return large;
  }
  batch.put_back();
  ++counters_.drop_too_long;
  return nullptr;
}

// tx_plain_ goes into the frame, without its payload.
void Worker::fill_lent_frame(QpContext& qp, Port& port, TxFrame& frame) {
  const wire::BarePacket& header = tx_plain_.header;
  port.lend(&frame, tx_plain_.from, qp.qp.qpn().value());
  std::memcpy(frame.payload - LentPayload::kBytes - wire::BarePacket::kBytes, &header,
              wire::BarePacket::kBytes);
  frame.header_bytes = frame.frame_bytes = wire::BarePacket::kBytes + LentPayload::kBytes;
  frame.form = FrameForm::kLent;
  qp.lends = true;
  counters_.payload_bytes_lent += header.payload_len;
  qp.bytes_out += header.payload_len;
  ++counters_.frames_out;
}

// The application may use the memory of its requests anew: what the peer has not taken by now, it
// will not take.
void Worker::take_back(QpContext& qp) {
  if (!qp.lends) return;
  qp.lends = false;
  (qp.ring != nullptr ? *qp.ring->port : *port_).take_back(qp.qp.qpn().value());
}

// The same, of memory that is about to be registered no more. The packets are lost, and repeated.
void Worker::take_back_memory(uint64_t address, uint64_t bytes) {
  port_->take_back_memory(address, bytes);
  if (daemon_ == nullptr) return;
  for (DirectRing* ring : daemon_->rings()) ring->port->take_back_memory(address, bytes);
}

// Nobody answers at the peer's address: what is sent is dropped, so that the transport's timers see
// it.
Worker::Turn Worker::drop_pathless(QpContext& qp, unsigned* budget, Time now) {
  if (qp.path != PathState::kFailed) return Turn::kDone;
  for (unsigned left = kQuantum; left > 0 && *budget != 0; --left, --*budget) {
    if (!qp.qp.poll_packet(now, tx_packet_)) return Turn::kDone;
    ++counters_.drop_no_path;
  }
  return Turn::kMore;
}

// Writes the headers in front of the payload, which is in place, and what follows it.
void Worker::write_headers(const QpContext& qp, const wire::FrameTemplate& outer,
                           const wire::Packet& header, bool bare, TxFrame& frame) {
  if (bare && wire::BarePacket::carries(header)) {
    wire::BarePacket::store(header, frame.payload - wire::BarePacket::kBytes);
    frame.header_bytes = wire::BarePacket::kBytes;
    frame.frame_bytes = static_cast<uint32_t>(wire::BarePacket::kBytes) + header.payload_len;
    frame.form = FrameForm::kBare;
    return;
  }
  const size_t header_bytes = outer.encode(header, frame.payload);
  frame.header_bytes = static_cast<uint32_t>(header_bytes);
  frame.frame_bytes = static_cast<uint32_t>(wire::finish_frame(
      frame.payload - header_bytes, header_bytes, header.payload_len, with_icrc(qp, outer)));
  frame.form = FrameForm::kFrame;
}

void Worker::copy_payload(const QpContext& qp, const transport::TxPacket& packet,
                          unsigned char* to) {
  uint32_t copied = 0;
  for (uint32_t i = 0; i < packet.num_segments; ++i) {
    const transport::Segment& segment = packet.segments[i];
    begin_copy(segment.addr, segment.length, qp.qp.qpn());
    std::memcpy(to + copied, reinterpret_cast<const void*>(segment.addr), segment.length);
    end_copy();
    copied += segment.length;
  }
  CHECK(copied == packet.header.payload_len);
}

void Worker::send_packet(QpContext& qp, const wire::FrameTemplate& outer, bool bare,
                         const transport::TxPacket& packet, TxFrame& frame) {
  const uint32_t payload_bytes = packet.header.payload_len;
  CHECK(payload_bytes + kFrameTailroom <= frame.capacity);
  copy_payload(qp, packet, frame.payload);
  write_headers(qp, outer, packet.header, bare, frame);
  counters_.payload_bytes_out += payload_bytes;
  (packet.retransmission ? qp.bytes_retransmitted : qp.bytes_out) += payload_bytes;
  ++counters_.frames_out;
}

void Worker::send_ack(QpContext& qp, const wire::Packet& ack, TxBatch& batch) {
  if (qp.path != PathState::kReady) {
    ++counters_.drop_no_path;
    return;
  }
  TxFrame* frame = batch.next();
  if (frame == nullptr) {
    ++counters_.drop_ack_no_room;
    return;
  }
  write_headers(qp, qp.outer, ack, batch.bare(), *frame);
  ++counters_.frames_out;
}

void Worker::send_owed_acks(QpContext& qp) {
  while (qp.qp.take_ack(now_, actions_.ack)) send_ack(qp, actions_.ack, batch_of(qp));
}

// False: the wire is full, and what is owed stays so.
bool Worker::try_owed_acks(QpContext& qp) {
  TxBatch& batch = batch_of(qp);
  while (qp.qp.owes_ack()) {
    if (qp.path == PathState::kReady) {
      TxFrame* const frame = batch.next();
      if (frame == nullptr) return false;
      wire::BarePacket ack;
      if (batch.bare() && qp.qp.take_bare_ack(now_, ack)) {
        write_bare(ack, *frame);
        ++counters_.frames_out;
        continue;
      }
      batch.put_back();
    }
    qp.qp.take_ack(now_, actions_.ack);
    send_ack(qp, actions_.ack, batch);
  }
  return true;
}

void Worker::send_owed_acks() {
  QpContext** link = &owing_qps_;
  while (*link != nullptr) {
    QpContext& qp = **link;
    if (qp.qp.owes_ack() && (ack_may_wait(qp) || !try_owed_acks(qp))) {
      link = &qp.next_owing;
      continue;
    }
    *link = qp.next_owing;
    qp.owing = false;
  }
}

// One for a packet or two, for a short time, if the application is about to answer.
bool Worker::ack_may_wait(QpContext& qp) {
  if (!qp.answers.expected()) return false;
  if (ack_patience_ == Duration::zero()) return false;
  if (now_ - qp.qp.owed_since() < ack_patience_) return true;
  qp.answers.miss();
  ++counters_.acks_owed_late;
  return false;
}

// False: there was nothing.
bool Worker::commit_batches() {
  bool any = wire_batch_.commit();
  any |= loop_batch_.commit();
  if (daemon_ == nullptr) return any;
  for (DirectRing* ring : daemon_->rings()) any |= ring->batch.commit();
  return any;
}

}  // namespace mprdma::dataplane
