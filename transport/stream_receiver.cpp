#include "transport/stream_receiver.hpp"

namespace mprdma::transport {

namespace {

bool is_terminal(wire::NackCode code) {
  return code >= wire::NackCode::kInvalidRequest;
}

}  // namespace

bool StreamReceiver::hold(const wire::Packet& packet, FrameHandle frame) {
  const uint32_t index = held_->take(packet, frame);
  if (index == HeldPool::kNone) {
    ++counters_->drop_held_budget;
    return false;
  }
  received_.set(packet.psn.value());
  held_index_[packet.psn.value() % kWindowSlotsMax] = index;
  return true;
}

void StreamReceiver::make_plain_ack(uint16_t vp, wire::Packet& ack) const {
  ack = wire::Packet{};
  ack.opcode = wire::Opcode::kMpAck;
  ack.psn = rcv_nxt_;
  ack.dest_qpn = peer_qpn_;
  ack.vp = vp;
  ack.mp_ack.flags = ack_flags_ | wire::kMpAckOrderedPlacement;
  ack.mp_ack.msn = msn_;
}

// The SACK field is the packet's own PSN, but under a refusal or RNR it names the head of line,
// which the code is about.
void StreamReceiver::acknowledge(const wire::Packet& packet, Outcome outcome, bool held,
                                 RxActions& actions) {
  if (terminal(outcome)) refusal_ = outcome;
  wire::Packet& ack = actions.ack;
  make_plain_ack(packet.vp, ack);
  wire::MpAckExt& ext = ack.mp_ack;
  ext.flags |= wire::kMpAckSackValid;
  if (packet.ce) ext.flags |= wire::kMpAckEce;
  if ((packet.mp_data.flags & wire::kMpDataReTx) != 0) ext.flags |= wire::kMpAckReTx;
  ext.echoed_timestamp = packet.mp_data.timestamp;
  ext.nack = outcome.nack;
  ext.detail = outcome.detail;
  ext.sack = outcome.nack == wire::NackCode::kNone ? packet.psn : rcv_nxt_;
  if (outcome.nack == wire::NackCode::kRnr) {
    ++counters_->rnr_sent;
    if (held) ext.flags |= wire::kMpAckHeld;
  }
  if (is_terminal(outcome.nack)) ++counters_->errors_remote;
  ++(outcome.nack == wire::NackCode::kNone ? counters_->acks_sent : counters_->nacks_sent);
  actions.has_ack = true;
}

void StreamReceiver::nack_overflow(const wire::Packet& packet, RxActions& actions) {
  ++counters_->drop_window_overflow;
  acknowledge(packet, {}, false, actions);
  actions.ack.mp_ack.nack = wire::NackCode::kWindowOverflow;
  --counters_->acks_sent;
  ++counters_->nacks_sent;
}

void StreamReceiver::release_held(RxActions& actions) {
  for (uint32_t i = 0; i < slots_; ++i) {
    const uint32_t pos = (rcv_nxt_ + i).value();
    if (!received_.test(pos)) continue;
    const uint32_t index = held_index_[pos % kWindowSlotsMax];
    actions.released.push((*held_)[index].frame);
    held_->give_back(index);
    received_.clear(pos);
  }
}

}  // namespace mprdma::transport
