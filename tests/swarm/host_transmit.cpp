// Sends the packets of the transport as a dataplane does, and checks each of them.

#include "tests/swarm/world.hpp"

namespace mprdma::swarm {

namespace {

using wire::PacketStream;

constexpr uint32_t kOverheadBytes = 66;  // Ethernet, IPv4, UDP, ICRC, preamble and gap

}  // namespace

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
  if (!forged) note_packet(node, q, packet);
  const bool is_ack = header.info().stream == PacketStream::kAck;
  const auto bytes =
      static_cast<uint32_t>(packet.header_bytes + header.payload_len + kOverheadBytes);
  if (forged) {  // a forged packet does not use the port
    arrivals_.assign(1, {now_ + scenario_.links[node.number].delay, false});
  } else {
    links_[node.number]->send(now_, bytes, is_ack, header.vp, arrivals_);
  }
  trace("n{} qp{} -> {} psn {} len {} vp {} flags {} nack {} sack {} run {}{}{}", node.number, q,
        wire::opcode_name(header.opcode), header.psn.value(), header.payload_len, header.vp,
        is_ack ? header.mp_ack.flags : header.mp_data.flags, static_cast<int>(header.mp_ack.nack),
        header.mp_ack.sack.value(), header.mp_ack.run, forged ? " FORGED" : "",
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

bool World::poll(Node& node, uint32_t q, transport::TxPacket& out) {
  transport::Qp& qp = *node.qps[q];
  const bool may_be_long = qp.sends_long();
  const bool sent = poll_plain(node, q, out) || qp.poll_packet(now_, out);
  check_changes(node, q);
  if (!sent) return false;
  expect(out.header.payload_len <= scenario_.path_mtu || may_be_long,
         "n{} qp{}: a payload of {} without notice", node.number, q, out.header.payload_len);
  expect(out.more || !qp.wants_to_send(), "n{} qp{}: sends no more, and wants to", node.number, q);
  return true;
}

bool World::send_one(Node& node, uint32_t q) {
  transport::TxPacket out;
  // A request whose memory was closed gives no packet; the next request may give one.
  for (uint32_t tries = 0; !poll(node, q, out); ++tries) {
    if (!node.qps[q]->wants_to_send()) return false;
    expect(tries < 300, "n{} qp{}: wants to send and has nothing", node.number, q);
  }
  auto payload = std::make_shared<std::vector<uint8_t>>();
  for (uint32_t i = 0; i < out.num_segments; ++i) {
    const auto bytes = node.bytes(out.segments[i].addr, out.segments[i].length);
    payload->insert(payload->end(), bytes.begin(), bytes.end());
  }
  const wire::Packet header = is_irn() ? extended(node, q, out.header) : out.header;
  expect(payload->size() == header.payload_len, "n{} qp{}: {} bytes gathered for a payload of {}",
         node.number, q, payload->size(), header.payload_len);
  check_path(node, q, header);
  int64_t index = -1;
  if (is_roce()) {
    check_sent_roce(node, q, header);
    index = 0;
  } else if (header.opcode == wire::Opcode::kCnp) {
    expect(side(node, q).params.congestion != transport::Congestion::kNone,
           "n{} qp{}: a CNP without a rate controller", node.number, q);
  } else if (header.info().stream == PacketStream::kAck) {
    check_ack(node, q, header, nullptr);
  } else {
    const bool asks = (header.mp_data.flags & wire::kMpDataTakesMaps) != 0;
    expect(asks == side(node, q).params.ack_map, "n{} qp{}: asks for a map: {}", node.number, q,
           asks);
    const bool request = header.info().stream == PacketStream::kRequest;
    Flow& flow = request ? own_flow(node, q) : peer_flow(node, q);
    StreamModel& stream = request ? flow.requests() : flow.responses();
    const uint64_t before = stream.sent();
    if (stream.index_of(header.psn) < static_cast<int64_t>(before))
      check_copy(node, q, header.psn, stream);
    if (scenario_.kind != Kind::kGarbage) {
      const uint64_t marks = node.resend_marks();
      index = static_cast<int64_t>(request ? flow.on_request_sent(header, *payload, now_, marks)
                                           : flow.on_response_sent(header, *payload, now_, marks));
      ++node.data_sent;
      if (static_cast<uint64_t>(index) < before) {
        ++node.data_sent_again;
      } else if (side(node, q).params.recovery != transport::Recovery::kPaper) {
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
  transmit(node, q, out.header, std::move(payload), index);
  check_windows(node, q);
  note_state(node, q);
  return true;
}

// A packet is about to be sent again. On a perfect network the sender has a reason
// (StreamModel::Again); the paper's sender has rules of its own (check_copies_of_paper).
void World::check_copy(const Node& node, uint32_t q, Psn psn, const StreamModel& stream) {
  if (scenario_.kind != Kind::kClean) return;
  if (side(node, q).params.recovery == transport::Recovery::kPaper) return;
  const int64_t index = stream.index_of(psn);
  if (index < 0) return;  // on_sent() tells
  const auto why = stream.why_again(static_cast<uint64_t>(index), now_);
  expect(why != StreamModel::Again::kUnasked, "n{} qp{}: PSN {} is sent again on a perfect network",
         node.number, q, psn.value());
  if (why == StreamModel::Again::kOverdue) ++copies_after_jumps_;
}

// Checks the path: the configured one; or one that an acknowledgement echoed, at most two packets
// each; or another one, of the policy's choice,
// which the sender counts.
void World::check_path(Node& node, uint32_t q, const wire::Packet& header) {
  if (side(node, q).params.path_policy == transport::PathPolicy::kSingle) {
    expect(header.vp == side(node, q).vp, "n{} qp{}: on virtual path {}", node.number, q,
           header.vp);
    return;
  }
  expect(header.vp >= wire::kVirtualPathMin, "n{} qp{}: on port {}", node.number, q, header.vp);
  const PacketStream stream = header.info().stream;
  if (stream == PacketStream::kAck || header.opcode == wire::Opcode::kCnp) return;
  if (!transport::is_clocked(side(node, q).params.path_policy)) return;  // any path
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
  if (params.recovery == transport::Recovery::kPaper || is_roce()) return;  // its accounting leaks
  const transport::Qp& qp = *node.qps[q];
  for (const auto* sender :
       {&qp.mp()->requester().sender(), &qp.mp()->responder().response_sender()}) {
    const uint32_t window = sender->window().packets();
    const uint32_t used = sender->in_flight() + sender->awaited();
    expect(sender->credits() == 0 || used + sender->credits() <= window,
           "n{} qp{}: {} in flight, {} awaited and {} credits in a window of {}", node.number, q,
           sender->in_flight(), sender->awaited(), sender->credits(), window);
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

}  // namespace mprdma::swarm
