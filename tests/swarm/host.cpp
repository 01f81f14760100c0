// What a dataplane does with the transport, checked at every step.

#include <algorithm>
#include <cstring>

#include "tests/swarm/world.hpp"

namespace mprdma::swarm {

namespace {

using transport::QpState;
using wire::PacketStream;

constexpr uint32_t kOverheadBytes = 66;  // Ethernet, IPv4, UDP, ICRC, preamble and gap

bool takes(const transport::Qp& qp, PacketStream stream) {
  const QpState state = qp.state();
  // A responder that refused still hears of the READ data that it owes.
  if (state == QpState::kErr) return stream == PacketStream::kAck && qp.mp()->responder().refused();
  return state == QpState::kRtr || state == QpState::kRts || state == QpState::kSqd;
}

// PSNs that the node's senders have marked lost.
uint64_t loss_marks(const Node& node) {
  const transport::TransportCounters& c = node.counters;
  return c.retransmitted_nack + c.retransmitted_trigger + c.retransmitted_early +
         c.retransmitted_rto;
}

bool is_response_ack(const wire::Packet& ack) {
  return (ack.mp_ack.flags & wire::kMpAckResponseStream) != 0;
}

// .. of whom the acknowledgement speaks.
const transport::StreamSender& sender_of(const transport::Qp& qp, const wire::Packet& ack) {
  return is_response_ack(ack) ? qp.mp()->responder().response_sender()
                              : qp.mp()->requester().sender();
}

bool says_only_too_early(const wire::Packet& packet, const transport::StreamSender& sender) {
  return packet.info().stream == PacketStream::kAck &&
         packet.mp_ack.nack == wire::NackCode::kSyncTooEarly && !sender.una().before(packet.psn);
}

}  // namespace

// ---- To the wire -------------------------------------------------------------------------------

void World::transmit(Node& node, uint32_t q, const wire::Packet& header,
                     std::shared_ptr<const std::vector<uint8_t>> payload, int64_t index,
                     bool forged) {
  InFlight packet;
  packet.header_bytes = wire::encode_transport(header, packet.header.data());
  packet.payload = std::move(payload);
  packet.vp = header.vp;
  packet.queue_pair = q;
  packet.incarnation = incarnation_[q];
  packet.index = index;
  packet.forged = forged;
  const bool is_ack = header.info().stream == PacketStream::kAck;
  const auto bytes =
      static_cast<uint32_t>(packet.header_bytes + header.payload_len + kOverheadBytes);
  if (forged) {  // somebody else's, on a way of its own
    arrivals_.assign(1, {now_ + scenario_.links[node.number].delay, false});
  } else {
    links_[node.number]->send(now_, bytes, is_ack, header.vp, arrivals_);
  }
  trace("n{} qp{} -> {} psn {} len {} vp {} flags {} nack {} sack {}{}{}", node.number, q,
        wire::opcode_name(header.opcode), header.psn.value(), header.payload_len, header.vp,
        is_ack ? header.mp_ack.flags : header.mp_data.flags, static_cast<int>(header.mp_ack.nack),
        header.mp_ack.sack.value(), forged ? " FORGED" : "",
        arrivals_.empty()      ? " LOST"
        : arrivals_.size() > 1 ? " TWICE"
                               : "");
  for (const Arrival& arrival : arrivals_) {
    if (free_slots_.empty()) {
      free_slots_.push_back(slots_.size());
      slots_.emplace_back();
    }
    const uint64_t slot = free_slots_.back();
    free_slots_.pop_back();
    slots_[slot] = packet;
    slots_[slot].ce = arrival.ce;
    ++under_way_;
    events_.push(arrival.at, EventKind::kArrival, 1 - node.number, slot);
  }
}

bool World::send_one(Node& node, uint32_t q) {
  transport::TxPacket out;
  // A request whose memory turns out to be closed gives no packet, and the next one may.
  for (uint32_t tries = 0; !node.qps[q]->poll_packet(now_, out); ++tries) {
    if (!node.qps[q]->wants_to_send()) return false;
    expect(tries < 300, "n{} qp{}: wants to send and has nothing", node.number, q);
  }
  auto payload = std::make_shared<std::vector<uint8_t>>();
  for (uint32_t i = 0; i < out.num_segments; ++i) {
    const auto bytes = node.bytes(out.segments[i].addr, out.segments[i].length);
    payload->insert(payload->end(), bytes.begin(), bytes.end());
  }
  const wire::Packet& header = out.header;
  expect(payload->size() == header.payload_len, "n{} qp{}: {} bytes gathered for a payload of {}",
         node.number, q, payload->size(), header.payload_len);
  check_path(node, q, header);
  int64_t index = -1;
  if (is_roce()) {
    check_sent_roce(node, q, header);
    index = 0;
  } else if (header.info().stream == PacketStream::kAck) {
    check_ack(node, q, header, nullptr);
  } else {
    const bool request = header.info().stream == PacketStream::kRequest;
    Flow& flow = request ? own_flow(node, q) : peer_flow(node, q);
    StreamModel& stream = request ? flow.requests() : flow.responses();
    const uint64_t before = stream.sent();
    if (scenario_.kind != Kind::kGarbage) {
      const uint64_t marks = loss_marks(node);
      index = static_cast<int64_t>(request ? flow.on_request_sent(header, *payload, now_, marks)
                                           : flow.on_response_sent(header, *payload, now_, marks));
      ++node.data_sent;
      if (static_cast<uint64_t>(index) < before) {
        ++node.data_sent_again;
      } else if (side(node, q).params.sack_map) {
        const transport::Qp& qp = *node.qps[q];
        const auto& sender =
            request ? qp.mp()->requester().sender() : qp.mp()->responder().response_sender();
        expect(sender.in_flight() <= sender.window().packets(),
               "n{} qp{}: a new packet, {} in flight in a window of {}", node.number, q,
               sender.in_flight(), sender.window().packets());
      }
    }
  }
  const bool flips = options_.sabotage == Sabotage::kFlipByte && !payload->empty();
  if (flips && (index >= 5 || is_roce())) (*payload)[0] ^= 1;
  transmit(node, q, header, std::move(payload), index);
  check_windows(node, q);
  return true;
}

// The path is the one that is configured; or one that an acknowledgement echoed, at most two
// packets for each; or a random one, and then the sender says so.
void World::check_path(Node& node, uint32_t q, const wire::Packet& header) {
  if (side(node, q).params.path_policy == transport::PathPolicy::kSingle) {
    expect(header.vp == side(node, q).vp, "n{} qp{}: on virtual path {}", node.number, q,
           header.vp);
    return;
  }
  expect(header.vp >= wire::kVirtualPathMin, "n{} qp{}: on port {}", node.number, q, header.vp);
  const PacketStream stream = header.info().stream;
  if (stream == PacketStream::kAck) return;
  const bool response = stream == PacketStream::kResponse;
  PathModel& model = paths_[q][node.number * 2 + (response ? 1 : 0)];
  const transport::Qp& qp = *node.qps[q];
  const auto echoed = model.credit.find(header.vp);
  if (echoed != model.credit.end() && echoed->second > 0) {
    --echoed->second;
  } else {
    ++model.unexplained;
  }
  const transport::StreamStats stats = response ? qp.response_stats() : qp.request_stats();
  expect(model.unexplained <= stats.random_paths,
         "n{} qp{}: {} packets on paths that no acknowledgement echoed, {} were drawn", node.number,
         q, model.unexplained, stats.random_paths);
}

void World::check_windows(const Node& node, uint32_t q) const {
  const transport::Params& params = side(node, q).params;
  if (!params.sack_map || is_roce()) return;  // the paper's own accounting leaks
  const transport::Qp& qp = *node.qps[q];
  for (const auto* sender :
       {&qp.mp()->requester().sender(), &qp.mp()->responder().response_sender()}) {
    const uint32_t window = sender->window().packets();
    expect(sender->clocks() == 0 || sender->in_flight() + sender->clocks() <= window,
           "n{} qp{}: {} in flight and {} clocks in a window of {}", node.number, q,
           sender->in_flight(), sender->clocks(), window);
  }
}

void World::pump(Node& node) {
  const auto count = static_cast<uint32_t>(node.qps.size());
  bool progress = true;
  uint32_t burst = 0;
  while (progress) {
    progress = false;
    for (uint32_t i = 0; i < count; ++i) {
      const uint32_t q = (node.turn + i) % count;
      if (!node.qps[q]->wants_to_send()) continue;
      if (!links_[node.number]->has_room(now_)) {
        node.qps[q]->on_back_pressure();
        if (!node.port_event) {
          node.port_event = true;
          events_.push(links_[node.number]->room_at(), EventKind::kPortRoom, node.number);
        }
        continue;
      }
      progress = send_one(node, q) || progress;
      expect(++burst < 10'000, "n{} qp{}: sends without end at one instant", node.number, q);
    }
    ++node.turn;
  }
}

// ---- From the wire -----------------------------------------------------------------------------

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
        transport::kBurstPackets;
  }
  const uint64_t marks = loss_marks(node);
  const uint64_t nack_marks = node.counters.retransmitted_nack;
  const transport::Qp& qp = *node.qps[q];
  const Fixed16 window = sender_of(qp, header).window().exact();
  const bool only_too_early = genuine && says_only_too_early(header, sender_of(qp, header));
  bool must_mark = false;
  if (genuine && stream == PacketStream::kAck) {
    Flow& flow = is_response_ack(header) ? peer_flow(node, q) : own_flow(node, q);
    must_mark = flow.on_ack_delivered(header, is_response_ack(header), now_, marks);
  } else if (known.index >= 0) {
    Flow& flow = response ? own_flow(node, q) : peer_flow(node, q);
    (response ? flow.responses() : flow.requests())
        .on_delivered(static_cast<uint64_t>(known.index));
  }
  const transport::FrameHandle frame = node.frames.lend(known, response);
  node.actions.clear();
  const transport::RxVerdict verdict = node.qps[q]->on_packet(now_, header, frame, node.actions);
  const bool held = verdict == transport::RxVerdict::kHeld;
  check_windows(node, q);
  must_mark = must_mark && side(node, q).params.sack_map;
  expect(!must_mark || fatal() || loss_marks(node) > marks,
         "n{} qp{}: the dropped packet that a NACK names is not marked lost", node.number, q);
  // Time may have shown other losses.
  expect(!only_too_early || loss_marks(node) > marks ||
             sender_of(qp, header).window().exact() == window,
         "n{} qp{}: a synchronise too early costs window", node.number, q);
  expect(!only_too_early || node.counters.retransmitted_nack == nack_marks,
         "n{} qp{}: a synchronise too early counts as loss", node.number, q);
  if (held) {
    node.frames.at(frame).held = true;
    if (known.index >= 0) {
      Flow& flow = response ? own_flow(node, q) : peer_flow(node, q);
      (response ? flow.responses() : flow.requests()).on_held(static_cast<uint64_t>(known.index));
    }
  }
  do_actions(node, q, &known);
  if (!held) node.frames.give_back(frame);
  expect(node.frames.lent() <= node.held.budget(), "n{}: {} frames held, the budget is {}",
         node.number, node.frames.lent(), node.held.budget());
  expect(node.frames.lent() == node.held.in_use(), "n{}: {} frames held, the pool says {}",
         node.number, node.frames.lent(), node.held.in_use());
  service(node, q);
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
  if (!node.actions.has_ack) return;
  check_ack(node, q, node.actions.ack, trigger);
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

// Is there nothing that this node may place as it arrives?
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
  expect(ack.opcode == wire::Opcode::kMpAck && ack.payload_len == 0,
         "n{} qp{}: the acknowledgement is a {}", node.number, q, wire::opcode_name(ack.opcode));
  if (scenario_.kind == Kind::kGarbage) return;
  expect(ack.dest_qpn == nodes_[1 - node.number]->qpns[q], "n{} qp{}: acknowledges to QP {}",
         node.number, q, ack.dest_qpn);
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
  expect(((flags & wire::kMpAckEce) != 0) == trigger->ce, "n{} qp{}: ECE {} for CE {}", node.number,
         q, (flags & wire::kMpAckEce) != 0, trigger->ce);
  expect(((flags & wire::kMpAckReTx) != 0) == ((cause.mp_data.flags & wire::kMpDataReTx) != 0),
         "n{} qp{}: wrong echo of ReTx", node.number, q);
  expect(ack.mp_ack.echoed_timestamp == cause.mp_data.timestamp, "n{} qp{}: wrong timestamp echo",
         node.number, q);
  expect(ack.vp == trigger->vp, "n{} qp{}: wrong echo of the virtual path", node.number, q);
}

// ---- Around every call -------------------------------------------------------------------------

void World::service(Node& node, uint32_t q) {
  drain(node, q);
  pump(node);
  for (uint32_t i = 0; i < node.qps.size(); ++i) drain(node, i);
  arm(node);
}

void World::drain(Node& node, uint32_t q) {
  transport::Completion c;
  uint32_t count = 0;
  while (node.qps[q]->poll_completion(c)) {
    expect(++count < 100'000, "n{} qp{}: completions without end", node.number, q);
    if (options_.sabotage == Sabotage::kLoseCompletion && !sabotaged_) {
      sabotaged_ = true;
      continue;
    }
    if (options_.sabotage == Sabotage::kSwapCompletions && !sabotaged_) {
      if (!delayed_completion_) {
        delayed_completion_ = c;
        continue;
      }
      sabotaged_ = true;
      take_completion(node, q, c);
      c = *delayed_completion_;
    }
    take_completion(node, q, c);
  }
  while (true) {
    const transport::QpEvent event = node.qps[q]->poll_event();
    if (event == transport::QpEvent::kNone) break;
    trace("n{} qp{} event {}", node.number, q, static_cast<int>(event));
    expect(fatal() || event == transport::QpEvent::kCommEstablished,
           "n{} qp{}: asynchronous event {}", node.number, q, static_cast<int>(event));
    expect(event != transport::QpEvent::kLastWqeReached ||
               (node.shares_receives && node.qps[q]->state() == QpState::kErr &&
                recvs_outstanding(node, q) == 0),
           "n{} qp{}: the last receive is said to be reached", node.number, q);
    expect(++count < 100'000, "n{} qp{}: events without end", node.number, q);
  }
}

void World::take_completion(Node& node, uint32_t q, const transport::Completion& c) {
  trace("n{} qp{} {} completion wr {} status {}", node.number, q, c.is_recv ? "recv" : "send",
        c.wr_id, static_cast<int>(c.status));
  last_activity_ = now_;
  if (scenario_.kind == Kind::kGarbage) {
    App& a = app(node, q);
    const uint64_t next = c.is_recv ? (uint64_t{1} << 40) + a.recv_completed++ : a.completed++;
    expect(c.wr_id == next, "n{} qp{}: wr {} completes, {} is next", node.number, q, c.wr_id, next);
    wake_send_app(node, q, Duration::zero());
    return;
  }
  if (c.is_recv) {
    Flow& flow = peer_flow(node, q);
    const uint64_t number = flow.recvs_posted() - flow.recvs_outstanding();
    const Op* op = flow.on_recv_completion(c);
    if (op != nullptr) on_recv_completed(node, q, number, *op);
    expect((c.shared != nullptr) == node.shares_receives, "n{} qp{}: from the wrong receive queue",
           node.number, q);
    if (node.shares_receives) on_shared_completed(node, c.wr_id);
    // The other queue pairs wait for its place.
    if (node.shares_receives && op == nullptr) wake_recv_app(node, q, Duration::zero());
    if (op != nullptr && op->invalidates_there()) on_invalidated(node, q);
    return;
  }
  Flow& flow = own_flow(node, q);
  const Op op = flow.on_send_completion(c);
  if (c.status != transport::WcStatus::kSuccess) flow.note_failure(now_);
  if (op.in_window) --peer_of(node).windows[q].users;
  if (c.status == transport::WcStatus::kSuccess) on_op_completed(node, q, op);
  wake_send_app(node, q, Duration::zero());
}

void World::arm(Node& node) {
  if (node.asleep) return;
  Time next = Time::never();
  for (const auto& qp : node.qps) next = std::min(next, qp->next_deadline());
  if (next.is_never() || options_.sabotage == Sabotage::kDeafTimer) return;
  next = std::max(next, now_);
  if (next >= node.timer_at) return;
  node.timer_at = next;
  events_.push(next, EventKind::kTimer, node.number);
}

void World::on_timer(Node& node) {
  if (now_ < node.timer_at) return;
  node.timer_at = Time::never();
  for (uint32_t q = 0; q < node.qps.size(); ++q) {
    transport::Qp& qp = *node.qps[q];
    if (qp.next_deadline() > now_) continue;
    trace("n{} qp{} deadline", node.number, q);
    node.actions.clear();
    qp.on_deadline(now_, node.actions);
    do_actions(node, q, nullptr);
    expect(
        qp.next_deadline() > now_ || qp.wants_to_send() || qp.mp()->requester().completion_ready(),
        "n{} qp{}: a deadline that handling does not move", node.number, q);
    service(node, q);
  }
  arm(node);
}

void World::wake(Node& node) {
  node.asleep = false;
  std::vector<InFlight> backlog;
  backlog.swap(node.backlog);
  for (const InFlight& packet : backlog) arrive(node, packet);
  node.timer_at = now_;
  on_timer(node);
  for (uint32_t q = 0; q < node.qps.size(); ++q) service(node, q);
}

}  // namespace mprdma::swarm
