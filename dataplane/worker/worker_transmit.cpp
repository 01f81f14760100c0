// Scheduler -> packet -> frame; acknowledgements.
#include <cstring>

#include "dataplane/sys/memory_fault.hpp"
#include "dataplane/worker/worker.hpp"

namespace mprdma::dataplane {

bool Worker::transmit(Time now) {
  burst_was_full_ = false;
  unpark_some();
  if (scheduler_.empty()) return false;
  TxBatch wire_batch(port_.get(), TxUse::kData);
  TxBatch loop_batch(&loop_, TxUse::kData);
  unsigned budget = kTxPerBurst;
  // Limit of queue pairs that meet a full wire before the burst ends: with ten thousand active ones
  // the price of back-pressure must not be a walk over all of them.
  unsigned refusals_left = 8;
  const unsigned budget_before = budget;
  while (budget > 0 && refusals_left > 0) {
    QpContext* qp = scheduler_.pop();
    if (qp == nullptr) break;
    TxBatch& own = qp->loop ? loop_batch : wire_batch;
    TxBatch& batch = qp->ring != nullptr ? qp->ring->batch : own;
    const unsigned before = budget;
    bool refused = false;
    if (qp->qp.service() == transport::QpService::kUd) {
      refused = transmit_datagrams(*qp, wire_batch, loop_batch, &budget, now);
    } else {
      transmit_connected(*qp, batch, &budget, now);
      refused = batch.full();
    }
    if (refused && qp->ring != nullptr) {
      park(*qp);
    } else if (budget == before && refused) {
      --refusals_left;
    }
    reschedule(*qp);
  }
  if (daemon_ != nullptr) {
    for (DirectRing* ring : daemon_->rings()) ring->batch.finish();
  }
  burst_was_full_ = budget == 0 && !scheduler_.empty();
  return budget != budget_before;
}

void Worker::transmit_connected(QpContext& qp, TxBatch& batch, unsigned* budget, Time now) {
  for (unsigned left = kQuantum; left > 0 && *budget != 0; --left) {
    if (!qp.qp.wants_to_send()) return;
    if (qp.path != PathState::kReady) {
      if (qp.path != PathState::kFailed || !qp.qp.poll_packet(now, tx_packet_)) return;
      ++counters_.drop_no_path;
      --*budget;
      continue;
    }
    TxFrame* frame = batch.next();
    if (frame == nullptr) {
      qp.qp.on_back_pressure();
      return;
    }
    if (!qp.qp.poll_packet(now, tx_packet_)) {
      batch.put_back();
      return;
    }
    send_packet(qp, qp.address, with_icrc(qp), tx_packet_, *frame);
    --*budget;
  }
}

void Worker::send_packet(QpContext& qp, const wire::FrameAddress& address, bool with_icrc,
                         const transport::TxPacket& packet, TxFrame& frame) {
  const uint32_t payload_bytes = packet.header.payload_len;
  CHECK(payload_bytes + kFrameTailroom <= frame.capacity);
  uint32_t copied = 0;
  for (uint32_t i = 0; i < packet.num_segments; ++i) {
    const transport::Segment& segment = packet.segments[i];
    begin_copy(segment.addr, segment.length, qp.qp.qpn());
    std::memcpy(frame.payload + copied, reinterpret_cast<const void*>(segment.addr),
                segment.length);
    end_copy();
    copied += segment.length;
  }
  CHECK(copied == payload_bytes);
  const size_t header_bytes = wire::encode_frame(address, packet.header, frame.payload);
  frame.header_bytes = static_cast<uint32_t>(header_bytes);
  frame.frame_bytes = static_cast<uint32_t>(
      wire::finish_frame(frame.payload - header_bytes, header_bytes, payload_bytes, with_icrc));
  counters_.payload_bytes_out += payload_bytes;
  (packet.retransmission ? qp.bytes_retransmitted : qp.bytes_out) += payload_bytes;
  ++counters_.frames_out;
}

void Worker::send_ack(QpContext& qp, TxBatch& answers) {
  if (qp.path != PathState::kReady) {
    ++counters_.drop_no_path;
    return;
  }
  TxFrame* frame = answers.next();
  if (frame == nullptr) {
    ++counters_.drop_ack_no_room;
    return;
  }
  const size_t header_bytes = wire::encode_frame(qp.address, actions_.ack, frame->payload);
  frame->header_bytes = static_cast<uint32_t>(header_bytes);
  frame->frame_bytes = static_cast<uint32_t>(
      wire::finish_frame(frame->payload - header_bytes, header_bytes, 0, with_icrc(qp)));
  ++counters_.frames_out;
}

}  // namespace mprdma::dataplane
