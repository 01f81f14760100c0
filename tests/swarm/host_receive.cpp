// Does what a dataplane does with a packet that arrives: passes it to the transport, and executes
// and checks the actions on memory, frames and the wire.

#include <algorithm>
#include <cstring>

#include "tests/swarm/world.hpp"

namespace mprdma::swarm {

namespace {

using transport::QpState;
using wire::PacketStream;

bool takes(const transport::Qp& qp, PacketStream stream) {
  const QpState state = qp.state();
  // A responder that refused a request still gets acknowledgements of the READ data that it owes.
  if (state == QpState::kErr) return stream == PacketStream::kAck && qp.mp()->responder().refused();
  return state == QpState::kRtr || state == QpState::kRts || state == QpState::kSqd;
}

bool is_response_ack(const wire::Packet& ack) {
  return (ack.mp_ack.flags & wire::kMpAckResponseStream) != 0;
}

// The acknowledgement's stream decides which half gets it.
const transport::StreamSender& sender_of(const transport::Qp& qp, const wire::Packet& ack) {
  return is_response_ack(ack) ? qp.mp()->responder().response_sender()
                              : qp.mp()->requester().sender();
}

bool says_only_too_early(const wire::Packet& packet, const transport::StreamSender& sender) {
  return packet.info().stream == PacketStream::kAck &&
         packet.mp_ack.nack == wire::NackCode::kSyncTooEarly && !sender.una().before(packet.psn);
}

// Such a sender knows which copy a NACK answers.
bool loses_by_time(const transport::Params& params) {
  return params.loss_by_time && params.recovery == transport::Recovery::kMp;
}

}  // namespace

void World::arrive(Node& node, const InFlight& packet) {
  if (node.asleep) {
    if (node.backlog.size() < 512) node.backlog.push_back(packet);
    return;
  }
  wire::Packet header;
  const size_t payload_bytes = packet.payload ? packet.payload->size() : 0;
  const size_t length =
      packet.header_bytes + payload_bytes + wire::pad_bytes(static_cast<uint32_t>(payload_bytes));
  const wire::DropReason reason =
      wire::decode_transport(std::span(packet.header.data(), packet.header_bytes), length, header);
  if (reason != wire::DropReason::kNone) {
    expect(packet.forged, "n{} qp{}: a packet that does not decode", node.number,
           packet.queue_pair);
    return;
  }
  header.vp = packet.vp;
  header.ce = packet.ce;
  const auto found = std::find(node.qpns.begin(), node.qpns.end(), header.dest_qpn);
  if (found == node.qpns.end()) return;
  const auto q = static_cast<uint32_t>(found - node.qpns.begin());
  deliver(node, q, packet, header);
}

void World::deliver(Node& node, uint32_t q, const InFlight& packet, const wire::Packet& header) {
  if (is_roce()) return deliver_roce(node, q, packet, header);
  const PacketStream stream = header.info().stream;
  const bool genuine = !packet.forged && scenario_.kind != Kind::kGarbage &&
                       packet.incarnation == incarnation_[q] && takes(*node.qps[q], stream);
  const bool response = stream == PacketStream::kResponse;
  trace("n{} qp{} <- {} psn {}{}{}", node.number, q, wire::opcode_name(header.opcode),
        header.psn.value(), genuine ? "" : " NOT GENUINE", header.ce ? " CE" : "");
  InFlight known = packet;
  known.decoded = header;
  if (!genuine) known.index = -1;
  if (genuine) own_flow(node, q).note_life(now_);
  if (stream == PacketStream::kAck) {
    paths_[q][node.number * 2 + (is_response_ack(header) ? 1 : 0)].credit[header.vp] +=
        transport::kBurstPackets * (header.mp_ack.run + 1u);
  }
  const uint64_t marks = node.loss_marks();
  const uint64_t nack_marks = node.counters.retransmitted_nack;
  const transport::Qp& qp = *node.qps[q];
  const Fixed16 window = sender_of(qp, header).window().exact();
  const bool only_too_early = genuine && says_only_too_early(header, sender_of(qp, header));
  bool must_mark = false;
  if (genuine && stream == PacketStream::kAck) {
    Flow& flow = is_response_ack(header) ? peer_flow(node, q) : own_flow(node, q);
    must_mark = flow.on_ack_delivered(header, is_response_ack(header), now_, node.resend_marks(),
                                      loses_by_time(side(node, q).params));
  } else if (known.index >= 0) {
    stream_to(node, q, response).on_delivered(static_cast<uint64_t>(known.index));
  }
  const transport::FrameHandle frame = node.frames.lend(known, response);
  node.actions.clear();
  const bool held =
      !take_plain(node, q, known, frame) &&
      node.qps[q]->on_packet(now_, header, frame, node.actions) == transport::RxVerdict::kHeld;
  check_changes(node, q);
  check_windows(node, q);
  must_mark = must_mark && side(node, q).params.recovery != transport::Recovery::kPaper;
  expect(!must_mark || fatal() || node.loss_marks() > marks,
         "n{} qp{}: the dropped packet that a NACK names is not marked lost", node.number, q);
  // Losses by age may have been found at the same call.
  expect(!only_too_early || node.loss_marks() > marks ||
             sender_of(qp, header).window().exact() == window,
         "n{} qp{}: a synchronise too early costs window", node.number, q);
  expect(!only_too_early || node.counters.retransmitted_nack == nack_marks,
         "n{} qp{}: a synchronise too early counts as loss", node.number, q);
  if (held) {
    node.frames.at(frame).held = true;
    if (known.index >= 0) {
      stream_to(node, q, response).on_held(static_cast<uint64_t>(known.index));
    }
  }
  do_actions(node, q, &known);
  note_taken(node, q, known);
  note_state(node, q);
  if (!held) node.frames.give_back(frame);
  check_frames(node);
  service(node, q);
}

void World::check_frames(const Node& node) const {
  expect(node.frames.lent() <= node.held.budget(), "n{}: {} frames held, the budget is {}",
         node.number, node.frames.lent(), node.held.budget());
  expect(node.frames.lent() == node.held.in_use(), "n{}: {} frames held, the pool says {}",
         node.number, node.frames.lent(), node.held.in_use());
}

void World::do_actions(Node& node, uint32_t q, const InFlight* trigger) {
  for (const transport::Placement& placement : node.actions.placements) {
    if (options_.sabotage == Sabotage::kSkipPlacement && !sabotaged_ && now_ > last_activity_) {
      sabotaged_ = true;
      continue;
    }
    place(node, q, placement);
    if (options_.sabotage == Sabotage::kPlaceTwice && !sabotaged_) {
      sabotaged_ = true;
      place(node, q, placement);
    }
  }
  for (const transport::FrameHandle handle : node.actions.released) {
    const FrameTable::Frame& frame = node.frames.at(handle);
    expect(frame.held, "n{} qp{}: frame {} is released and was not held", node.number, q, handle);
    const InFlight& packet = frame.packet;
    if (packet.index >= 0 && packet.incarnation == incarnation_[q]) {
      Flow& flow = frame.response ? own_flow(node, q) : peer_flow(node, q);
      (frame.response ? flow.responses() : flow.requests())
          .on_unheld(static_cast<uint64_t>(packet.index));
    }
    if (options_.sabotage == Sabotage::kKeepFrame && !sabotaged_) {
      sabotaged_ = true;
      continue;
    }
    node.frames.give_back(handle);
  }
  if (node.actions.has_owed_ack) send_owed_ack(node, q, node.actions.owed_ack);
  if (!node.actions.has_ack) return;
  if (!is_roce()) check_ack(node, q, node.actions.ack, trigger);
  transmit(node, q, node.actions.ack, nullptr, -1);
}

void World::execute_atomic(Node& node, uint32_t q, const transport::Placement& placement) {
  const auto at = node.bytes(placement.addr, sizeof(uint64_t));
  expect(placement.addr % sizeof(uint64_t) == 0, "n{} qp{}: an atomic at {:x}", node.number, q,
         placement.addr);
  uint64_t value = 0;
  std::memcpy(&value, at.data(), sizeof(value));
  if (scenario_.kind != Kind::kGarbage) peer_flow(node, q).on_atomic(placement, value);
  *placement.original = value;
  if (placement.kind == transport::PlacementKind::kFetchAdd) {
    value += placement.swap_add;
  } else if (value == placement.compare) {
    value = placement.swap_add;
  }
  std::memcpy(at.data(), &value, sizeof(value));
}

void World::place_value(Node& node, uint32_t q, const transport::Placement& placement) {
  if (scenario_.kind != Kind::kGarbage) own_flow(node, q).on_value_placed(placement);
  const auto* bytes = reinterpret_cast<const uint8_t*>(&placement.compare);
  std::memcpy(node.bytes(placement.addr, placement.length).data(), bytes + placement.payload_offset,
              placement.length);
}

void World::place(Node& node, uint32_t q, const transport::Placement& placement) {
  using transport::PlacementKind;
  const bool atomic =
      placement.kind == PlacementKind::kCompareSwap || placement.kind == PlacementKind::kFetchAdd;
  const uint64_t length = atomic ? sizeof(uint64_t) : placement.length;
  note(node, q, "a placement", {placement.addr, length});
  expect(node.writable(q, placement.addr, length),
         "n{} qp{}: places {} bytes at {:x}, which nobody opened", node.number, q, length,
         placement.addr);
  if (atomic) {
    execute_atomic(node, q, placement);
  } else if (placement.kind == PlacementKind::kValue) {
    place_value(node, q, placement);
  } else {
    place_payload(node, q, placement);
  }
}

void World::place_payload(Node& node, uint32_t q, const transport::Placement& placement) {
  if (is_roce()) return place_roce(node, q, placement);
  const FrameTable::Frame& frame = node.frames.at(placement.frame);
  const auto& payload = frame.packet.payload;
  const size_t available = payload ? payload->size() : 0;
  expect(placement.payload_offset <= available &&
             placement.length <= available - placement.payload_offset,
         "n{} qp{}: places {} bytes from {} of a payload of {}", node.number, q, placement.length,
         placement.payload_offset, available);
  const std::span<const uint8_t> bytes(payload->data() + placement.payload_offset,
                                       placement.length);
  if (scenario_.kind != Kind::kGarbage) {
    expect(frame.packet.index >= 0, "n{} qp{}: places bytes of a forged or stale packet",
           node.number, q);
    const auto index = static_cast<uint64_t>(frame.packet.index);
    if (frame.response) {
      own_flow(node, q).on_response_placed(index, placement, bytes);
    } else {
      peer_flow(node, q).on_request_placed(index, placement, bytes);
    }
  }
  const auto target = node.bytes(placement.addr, placement.length);
  std::memcpy(target.data(), bytes.data(), bytes.size());
}

// True if this node may place nothing on arrival.
bool World::places_in_order(const Node& node, uint32_t q) const {
  const transport::PlacementPolicy policy = side(node, q).params.placement;
  if (policy != transport::PlacementPolicy::kStandard) {
    return policy == transport::PlacementPolicy::kOrdered;
  }
  return std::none_of(scenario_.sides.begin(), scenario_.sides.end(), [&](const auto& sides) {
    return sides[node.number].relaxed_target || sides[node.number].relaxed_sink;
  });
}

void World::check_ack(Node& node, uint32_t q, const wire::Packet& ack, const InFlight* trigger) {
  const bool map = ack.opcode == wire::Opcode::kMpAckMap;
  expect((map || ack.opcode == wire::Opcode::kMpAck) && ack.payload_len == 0,
         "n{} qp{}: the acknowledgement is a {}", node.number, q, wire::opcode_name(ack.opcode));
  if (scenario_.kind == Kind::kGarbage) return;
  expect(ack.dest_qpn == nodes_[1 - node.number]->qpns[q], "n{} qp{}: acknowledges to QP {}",
         node.number, q, ack.dest_qpn.value());
  const bool response = is_response_ack(ack);
  Flow& flow = response ? own_flow(node, q) : peer_flow(node, q);
  StreamModel& stream = response ? flow.responses() : flow.requests();
  const int64_t index = trigger != nullptr ? trigger->index : -1;
  stream.on_ack_made(ack, index, scenario_.sides[q][0].params.window_slots);
  expect(((ack.mp_ack.flags & wire::kMpAckOrderedPlacement) != 0) == places_in_order(node, q),
         "n{} qp{}: says that it places in order: {}", node.number, q,
         (ack.mp_ack.flags & wire::kMpAckOrderedPlacement) != 0);
  if (index < 0 || (ack.mp_ack.flags & wire::kMpAckSackValid) == 0) return;
  const wire::Packet& cause = trigger->decoded;
  const uint8_t flags = ack.mp_ack.flags;
  const bool behind_hole =
      ack.mp_ack.nack == wire::NackCode::kNone && ack.mp_ack.sack.at_or_after(ack.psn);
  expect(map == (behind_hole && (cause.mp_data.flags & wire::kMpDataTakesMaps) != 0),
         "n{} qp{}: a map {}", node.number, q, map ? "for nothing" : "is missing");
  expect(((flags & wire::kMpAckEce) != 0) == trigger->ce, "n{} qp{}: ECE {} for CE {}", node.number,
         q, (flags & wire::kMpAckEce) != 0, trigger->ce);
  expect(((flags & wire::kMpAckReTx) != 0) == ((cause.mp_data.flags & wire::kMpDataReTx) != 0),
         "n{} qp{}: wrong echo of ReTx", node.number, q);
  expect(ack.mp_ack.echoed_timestamp == cause.mp_data.timestamp, "n{} qp{}: wrong timestamp echo",
         node.number, q);
  expect(ack.vp == trigger->vp, "n{} qp{}: wrong echo of the virtual path", node.number, q);
}

}  // namespace mprdma::swarm
