// Connections of the mode irn in the same runs: their data packets say less than those of mp, so
// the harness says the rest, from the model, and checks them as those of mp.

#include "base/prng.hpp"
#include "tests/swarm/draws.hpp"
#include "tests/swarm/world.hpp"
#include "transport/core/param_visit.hpp"

namespace mprdma::swarm {

namespace {

using transport::Params;
using wire::Opcode;
using wire::PacketStream;

constexpr uint8_t kServiceMp = 0xc0;

bool extended_alone(Opcode opcode) {
  return opcode == Opcode::kMpAck || opcode == Opcode::kMpAckMap ||
         opcode == Opcode::kMpResponseError;
}

Params draw_irn(Prng prng, const Params& drawn) {
  Params p = Params::irn();
  p.window_slots = drawn.window_slots;
  p.initial_window = drawn.initial_window;
  p.window_max = drawn.window_max;
  p.window_rtt = drawn.window_rtt;
  p.link_mbps = drawn.link_mbps;
  p.rto_floor = drawn.rto_floor;
  p.rto_ceiling = drawn.rto_ceiling;
  const Duration least = Duration::us(param_range(&Params::rto_low).low);
  p.rto_low = log_duration(prng, least, Duration::ms(20));
  p.rto_high = p.rto_low + log_duration(prng, least, Duration::ms(20));
  p.initial_rtt = drawn.initial_rtt;
  p.adapt_timeout = drawn.adapt_timeout;
  p.sync_policy = drawn.sync_policy;
  p.sync_alpha = drawn.sync_alpha;
  if (prng.chance(1, 4)) p.window_control = drawn.window_control;
  return p;
}

// A rate controller for all connections of one run in four: a receiver without one sends no CNPs.
// The least rate of TIMELY, a thousandth of the link, is 100 Mb/s to 1 Gb/s then.
void draw_congestion(Scenario& s, Prng prng) {
  using transport::Congestion;
  if (!prng.chance(1, 4)) return;
  const auto congestion = pick(prng, {Congestion::kDcqcnPaper, Congestion::kDcqcnTuned,
                                      Congestion::kTimely, Congestion::kTimelyPatched});
  const auto link_mbps = static_cast<uint32_t>(log_uniform(prng, 100'000, 1'000'000));
  for (auto& sides : s.sides) {
    for (SideKnobs& side : sides) {
      side.params.congestion = congestion;
      side.params.link_mbps = link_mbps;
    }
  }
}

}  // namespace

// Both ends place in order, whatever the memory allows.
void make_irn(Scenario& s, Prng prng) {
  s.protocol = transport::Protocol::kIrn;
  for (auto& sides : s.sides) {
    for (SideKnobs& side : sides) {
      side.params = draw_irn(prng.split(side.path_seed), side.params);
      side.relaxed_target = side.relaxed_sink = false;
    }
  }
  draw_congestion(s, prng.split("congestion"));
}

// The packet of mp that says the same as this one, which the queue pair sends.
wire::Packet World::extended(Node& node, uint32_t q, const wire::Packet& header) {
  if (header.opcode == Opcode::kCnp || extended_alone(header.opcode)) return header;
  expect(header.info().transport == wire::TransportService::kRc && header.irn,
         "n{} qp{}: sends a {}", node.number, q, wire::opcode_name(header.opcode));
  const bool request = header.info().stream == PacketStream::kRequest;
  expect(header.ack_req == request, "n{} qp{}: asks for an acknowledgement: {}", node.number, q,
         header.ack_req);
  wire::Packet packet = header;
  packet.opcode = static_cast<Opcode>(static_cast<uint8_t>(header.opcode) | kServiceMp);
  if (scenario_.kind == Kind::kGarbage) return packet;
  (request ? own_flow(node, q) : peer_flow(node, q)).complete(packet);
  return packet;
}

// A forged packet of mp as one of irn, or of somebody else.
wire::Packet World::forge_irn(Node& victim, uint32_t q) {
  wire::Packet packet = forge_packet(victim, q);
  if (packet.info().transport != wire::TransportService::kMp || extended_alone(packet.opcode)) {
    return packet;
  }
  if (hostile_prng_.chance(1, 4)) return packet;
  packet.opcode = static_cast<Opcode>(static_cast<uint8_t>(packet.opcode) & ~kServiceMp);
  packet.irn = hostile_prng_.chance(3, 4);
  return packet;
}

}  // namespace mprdma::swarm
