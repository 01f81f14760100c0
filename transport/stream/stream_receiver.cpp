#include "transport/stream/stream_receiver.hpp"

#include <algorithm>
#include <bit>

namespace mprdma::transport {

PlacedPacket PlacedPacket::of(const wire::Packet& packet) {
  return {.reth = packet.reth,
          .offset = packet.mp_data.offset,
          .message_number = packet.mp_data.message_number,
          .immdt = packet.immdt,
          .payload_len = static_cast<uint16_t>(packet.payload_len),
          .vp = packet.vp,
          .opcode = packet.opcode,
          .solicited_event = packet.solicited_event};
}

wire::Packet PlacedPacket::packet(Psn psn) const {
  wire::Packet out;
  out.opcode = opcode;
  out.psn = psn;
  out.vp = vp;
  out.payload_len = payload_len;
  out.solicited_event = solicited_event;
  out.mp_data.offset = offset;
  out.mp_data.message_number = message_number;
  out.reth = reth;
  out.immdt = immdt;
  return out;
}

StreamReceiver::StreamReceiver(const Params& params, uint8_t ack_flags, const Device& device)
    : slots_(params.window_slots),
      placement_(params.placement),
      ack_flags_(ack_flags),
      owes_acks_(device.owes_acks),
      held_(device.held),
      memory_(device.memory),
      counters_(device.counters),
      received_(slots_),
      placed_(slots_),
      held_index_(std::make_unique_for_overwrite<uint32_t[]>(slots_)) {
  CHECK(std::has_single_bit(slots_) && slots_ <= kWindowSlotsMax);
  if (placement_ == PlacementPolicy::kOrdered) return;
  placed_packets_ = ZeroedArray<PlacedPacket>(slots_);
}

bool StreamReceiver::hold(const wire::Packet& packet, FrameHandle frame) {
  const uint32_t index = held_->allocate(packet, frame, held_slots_, ready());
  if (index == HeldPool::kNone) {
    ++counters_->drop_held_budget;
    return false;
  }
  received_.set(packet.psn.value());
  ++taken_slots_;
  ++held_slots_;
  held_index_[packet.psn.value() & (slots_ - 1)] = index;
  return true;
}

void StreamReceiver::note_placed(const wire::Packet& packet) {
  ++counters_->packets_placed_early;
  received_.set(packet.psn.value());
  ++taken_slots_;
  placed_.set(packet.psn.value());
  placed_at(packet.psn) = PlacedPacket::of(packet);
}

void StreamReceiver::free_slot(Psn psn, RxActions& actions) {
  received_.clear(psn.value());
  --taken_slots_;
  if (placed_.test(psn.value())) {
    placed_.clear(psn.value());
    return;
  }
  --held_slots_;
  actions.released.push(held_at(psn).frame);
  held_->give_back(held_index_[psn.value() & (slots_ - 1)]);
}

wire::Packet StreamReceiver::head_packet() const {
  if (placed_.test(rcv_nxt_.value())) return placed_at(rcv_nxt_).packet(rcv_nxt_);
  return held_at(rcv_nxt_).packet;
}

bool StreamReceiver::places_in_order() const {
  if (placement_ == PlacementPolicy::kStandard) return memory_->relaxed_regions() == 0;
  return placement_ == PlacementPolicy::kOrdered;
}

void StreamReceiver::make_plain_ack(uint16_t vp, wire::Packet& ack) const {
  ack = wire::kBlankPacket;
  ack.opcode = wire::Opcode::kMpAck;
  ack.psn = rcv_nxt_;
  ack.dest_qpn = peer_qpn_;
  ack.vp = vp;
  ack.mp_ack.flags = plain_flags();
  ack.mp_ack.msn = msn_;
}

uint8_t StreamReceiver::plain_flags() const {
  return ack_flags_ | (places_in_order() ? wire::kMpAckOrderedPlacement : 0);
}

// Makes the acknowledgement of a packet. The SACK field is the packet's own PSN, except under a
// refusal or RNR: it then names the head of line, which the code is about. A silent refusal
// acknowledges what was executed before it.
void StreamReceiver::acknowledge(const wire::Packet& packet, ExecuteResult result, bool held,
                                 RxActions& actions) {
  release_owed(actions);
  if (is_terminal(result.nack)) refusal_ = result;
  wire::Packet& ack = actions.ack;
  make_plain_ack(packet.vp, ack);
  if (result.silent) {
    ++counters_->errors_local;
    actions.has_ack = packet.psn != rcv_nxt_;  // the packet at rcv_nxt_ itself is refused silently
    counters_->acks_sent += actions.has_ack ? 1 : 0;
    return;
  }
  actions.has_ack = true;
  wire::MpAckExt& ext = ack.mp_ack;
  ext.flags |= wire::kMpAckSackValid;
  if (packet.ce) ext.flags |= wire::kMpAckEce;
  if ((packet.mp_data.flags & wire::kMpDataReTx) != 0) ext.flags |= wire::kMpAckReTx;
  ext.echoed_timestamp = packet.mp_data.timestamp;
  ext.nack = result.nack;
  ext.detail = result.detail;
  ext.sack = result.nack == wire::NackCode::kNone ? packet.psn : rcv_nxt_;
  if (result.nack == wire::NackCode::kRnr) {
    ++counters_->rnr_sent;
    not_ready_ = true;
    not_ready_at_ = rcv_nxt_;
    if (held) ext.flags |= wire::kMpAckHeld;
  }
  if (is_terminal(result.nack)) ++counters_->errors_remote;
  ++(result.nack == wire::NackCode::kNone ? counters_->acks_sent : counters_->nacks_sent);
}

// The acknowledgement of a packet behind a hole says what else has come, if the packet asks for it.
void StreamReceiver::add_map(const wire::Packet& packet, RxActions& actions) const {
  const int32_t ahead = rcv_nxt_.distance_to(packet.psn);
  if (ahead <= 0 || (packet.mp_data.flags & wire::kMpDataTakesMaps) == 0) return;
  constexpr auto kPackets = static_cast<int32_t>(wire::MpAckMap::kPackets);
  uint64_t received = received_.next_64((packet.psn - wire::MpAckMap::kPackets).value());
  if (ahead < kPackets) received |= (uint64_t{1} << (kPackets - ahead)) - 1;
  actions.ack.opcode = wire::Opcode::kMpAckMap;
  actions.ack.mp_ack_map.received = received;
}

void StreamReceiver::release_owed(RxActions& actions) {
  if (!owed_.any) [[likely]]
    return;
  actions.has_owed_ack = true;
  take_ack(now_, actions.owed_ack);
}

// Requires that rcv_nxt has just passed the packet, and no other one with it.
void StreamReceiver::acknowledge_in_order(const wire::Packet& packet, RxActions& actions) {
  const bool plain = !packet.ce && (packet.mp_data.flags & wire::kMpDataReTx) == 0;
  if (!owes_acks_ || !plain) return acknowledge(packet, {}, false, actions);
  owe(packet.psn, packet.vp, packet.mp_data.timestamp, actions);
}

void StreamReceiver::take_ack(Time now, wire::Packet& ack) {
  owed_.any = false;
  make_plain_ack(owed_.vp, ack);
  // What came after the run was not in order, so that it has not moved rcv_nxt; it may have
  // drawn up what was held, which is for the next acknowledgement to say.
  ack.psn = owed_.last + 1;
  wire::MpAckExt& ext = ack.mp_ack;
  ext.flags |= wire::kMpAckSackValid;
  ext.echoed_timestamp = owed_.timestamp;
  ext.sack = owed_.last;
  ext.run = owed_.run;
  ext.delay_us = delay_of_owed(now);
  ++counters_->acks_sent;
}

void StreamReceiver::take_bare_ack(Time now, wire::BarePacket& ack) {
  owed_.any = false;
  ack = {};
  ack.opcode = static_cast<uint8_t>(wire::Opcode::kMpAck);
  ack.vp = owed_.vp;
  ack.psn = (owed_.last + 1).value();
  ack.dest_qpn = peer_qpn_.value();
  ack.time = owed_.timestamp;
  ack.number = owed_.last.value() | uint32_t{owed_.run} << 24;
  ack.offset = msn_ | uint32_t{delay_of_owed(now)} << 24;
  ack.extra = uint32_t{plain_flags()} | wire::kMpAckSackValid;
  ++counters_->acks_sent;
}

uint8_t StreamReceiver::delay_of_owed(Time now) const {
  return static_cast<uint8_t>(
      std::min<int64_t>((now - owed_.last_at).count_ns() / 1000, wire::kMpAckDelayMax));
}

// Makes a NACK whose SACK field names the dropped packet itself.
void StreamReceiver::nack_dropped(const wire::Packet& packet, wire::NackCode code,
                                  RxActions& actions) {
  acknowledge(packet, {}, false, actions);
  actions.ack.mp_ack.nack = code;
  --counters_->acks_sent;
  ++counters_->nacks_sent;
}

void StreamReceiver::release_held(RxActions& actions) {
  for (uint32_t i = 0; i < slots_; ++i) {
    const Psn psn = rcv_nxt_ + i;
    if (received_.test(psn.value())) free_slot(psn, actions);
  }
}

}  // namespace mprdma::transport
