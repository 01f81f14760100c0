// Connections of the standard in the same runs. Unit tests and conformance scripts check their
// packets; here completions, memory, deadlines and counters are checked.

#include <cstring>

#include "tests/swarm/world.hpp"

namespace mprdma::swarm {

namespace {

using transport::QpState;
using wire::Opcode;
using wire::PacketStream;

// A distance of PSNs that no run reaches.
constexpr uint32_t kFarAway = 1u << 20;

}  // namespace

void World::check_sent_roce(Node& node, uint32_t q, const wire::Packet& header) {
  expect(header.info().transport == wire::TransportService::kRc, "n{} qp{}: sends a {}",
         node.number, q, wire::opcode_name(header.opcode));
  expect(header.dest_qpn == nodes_[1 - node.number]->qpns[q], "n{} qp{}: to QP {}", node.number, q,
         header.dest_qpn.value());
  expect(header.payload_len <= scenario_.path_mtu, "n{} qp{}: a payload of {}", node.number, q,
         header.payload_len);
  if (header.info().stream != PacketStream::kAck) ++node.data_sent;
}

void World::deliver_roce(Node& node, uint32_t q, const InFlight& packet,
                         const wire::Packet& header) {
  const QpState state = node.qps[q]->state();
  const bool takes = state == QpState::kRtr || state == QpState::kRts || state == QpState::kSqd;
  const bool genuine = !packet.forged && scenario_.kind != Kind::kGarbage &&
                       packet.incarnation == incarnation_[q] && takes;
  trace("n{} qp{} <- {} psn {}{}", node.number, q, wire::opcode_name(header.opcode),
        header.psn.value(), genuine ? "" : " NOT GENUINE");
  InFlight known = packet;
  known.decoded = header;
  if (!genuine) known.index = -1;
  if (genuine) own_flow(node, q).note_life(now_);
  const transport::FrameHandle frame = node.frames.lend(known, false);
  node.actions.clear();
  const transport::RxVerdict verdict = node.qps[q]->on_packet(now_, header, frame, node.actions);
  expect(verdict == transport::RxVerdict::kDone && node.actions.released.empty(),
         "n{} qp{}: a frame is held", node.number, q);
  const bool notifies = node.actions.has_ack;
  expect(!notifies || (header.ce && node.actions.ack.opcode == wire::Opcode::kCnp),
         "n{} qp{}: an acknowledgement out of its order", node.number, q);
  do_actions(node, q, &known);
  node.frames.give_back(frame);
  service(node, q);
}

void World::place_roce(Node& node, uint32_t q, const transport::Placement& placement) {
  const FrameTable::Frame& frame = node.frames.at(placement.frame);
  const auto& payload = frame.packet.payload;
  expect(payload && placement.payload_offset + placement.length <= payload->size(),
         "n{} qp{}: places {} bytes from {}", node.number, q, placement.length,
         placement.payload_offset);
  expect(scenario_.kind == Kind::kGarbage || frame.packet.index >= 0,
         "n{} qp{}: places bytes of a forged or stale packet", node.number, q);
  if (placement.length == 0) return;
  std::memcpy(node.bytes(placement.addr, placement.length).data(),
              payload->data() + placement.payload_offset, placement.length);
}

// Draws a forged packet. In normal runs: an old request, an answer without a request, or a packet
// of another service.
wire::Packet World::forge_roce(Node& victim, uint32_t q) {
  Prng& prng = hostile_prng_;
  wire::Packet packet = forge_packet(victim, q);
  if (packet.info().transport != wire::TransportService::kMp) {
    if (packet.info().transport == wire::TransportService::kRc) packet.opcode = Opcode::kCnp;
    return packet;
  }
  packet.opcode = static_cast<Opcode>(static_cast<uint8_t>(packet.opcode) & 0x1f);
  if (!packet.info().valid) packet.opcode = Opcode::kRcAck;
  packet.aeth.syndrome = static_cast<uint8_t>(prng.next_u64());
  const bool request = packet.info().stream == PacketStream::kRequest;
  const Flow& flow = request ? peer_flow(victim, q) : own_flow(victim, q);
  const auto far = static_cast<uint32_t>(prng.range(1, (1u << 23) - kFarAway));
  const bool ahead = !request && prng.chance(1, 2);
  packet.psn = ahead ? flow.config().base + kFarAway + far / 2 : flow.config().base - far;
  if (scenario_.kind == Kind::kGarbage && prng.chance(3, 4)) {
    packet.psn = flow.config().base + static_cast<uint32_t>(prng.below(1000));
  }
  return packet;
}

}  // namespace mprdma::swarm
