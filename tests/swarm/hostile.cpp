// Packets that no peer of ours sends. In normal runs each is one that a correct receiver must
// recognise: its PSN lies outside of every window, or its opcode belongs to another transport. In
// garbage runs they may also look right, and then nothing is promised but memory safety.

#include <algorithm>

#include "tests/swarm/world.hpp"

namespace mprdma::swarm {

namespace {

using wire::Opcode;

constexpr Opcode kRequests[] = {
    Opcode::kMpSendFirst,   Opcode::kMpSendMiddle,         Opcode::kMpSendOnly,
    Opcode::kMpSendLastImm, Opcode::kMpWriteFirst,         Opcode::kMpWriteMiddle,
    Opcode::kMpWriteOnly,   Opcode::kMpWriteOnlyImm,       Opcode::kMpReadRequest,
    Opcode::kMpFetchAdd,    Opcode::kMpSendOnlyInvalidate, Opcode::kMpCompareSwap};
constexpr Opcode kResponses[] = {Opcode::kMpReadResponseFirst, Opcode::kMpReadResponseMiddle,
                                 Opcode::kMpReadResponseOnly,  Opcode::kMpReadResponseLast,
                                 Opcode::kMpResponseError,     Opcode::kMpAtomicAck};

// Of the mp data extension.
uint8_t forged_flags(Prng& prng, uint64_t number) {
  const bool asks = prng.split("asks").split(number).chance(1, 2);
  return static_cast<uint8_t>(prng.below(8) | (asks ? wire::kMpDataTakesMaps : 0));
}

// `next`: of the stream. What lies near it would be believed.
void add_forged_map(Prng prng, Psn next, wire::Packet& packet) {
  if (!prng.chance(1, 2)) return;
  packet.opcode = Opcode::kMpAckMap;
  packet.mp_ack_map.received = prng.next_u64();
  if (prng.chance(1, 2)) packet.mp_ack.flags |= wire::kMpAckDuplicate;
  // As far behind as PSNs reach.
  if (prng.chance(1, 2)) {
    packet.mp_ack.sack = next - (1u << 23) + static_cast<uint32_t>(prng.below(256));
  }
}

}  // namespace

void World::forge() {
  const auto n = static_cast<uint32_t>(hostile_prng_.below(2));
  const auto q = static_cast<uint32_t>(hostile_prng_.below(scenario_.queue_pairs));
  Node& victim = *nodes_[n];
  wire::Packet packet = is_roce()  ? forge_roce(victim, q)
                        : is_irn() ? forge_irn(victim, q)
                                   : forge_packet(victim, q);
  packet.dest_qpn = victim.qpns[q];
  packet.vp = static_cast<uint16_t>(hostile_prng_.next_u64());
  std::shared_ptr<std::vector<uint8_t>> payload;
  if (packet.info().has_payload) {
    const uint64_t lengths[] = {0, 1, scenario_.path_mtu - 1, scenario_.path_mtu, 4096};
    payload = std::make_shared<std::vector<uint8_t>>(lengths[hostile_prng_.below(5)], 0xee);
    packet.payload_len = static_cast<uint32_t>(payload->size());
  }
  // Makes a range with consistent fields, at the end of the open memory or beyond it.
  const bool garbage = scenario_.kind == Kind::kGarbage;
  const wire::OpcodeInfo& info = packet.info();
  const bool write_only = info.operation == wire::Operation::kWrite && info.only && !info.has_immdt;
  if (garbage && write_only && hostile_prng_.chance(3, 4)) {
    const Area& area = victim.areas[q].target;
    const uint64_t before_end = hostile_prng_.below(packet.payload_len + uint64_t{8});
    packet.payload_len = std::min<uint32_t>(packet.payload_len, scenario_.path_mtu);
    payload->resize(packet.payload_len);
    packet.mp_data.offset = 0;
    packet.reth = {.va = area.iova + area.length - before_end,
                   .rkey = area.key,
                   .dma_len = packet.payload_len};
  }
  if (garbage && packet.info().has_atomic_eth && hostile_prng_.chance(3, 4)) {
    const Area& words = victim.areas[q].words;
    packet.reth = {.va = words.iova + hostile_prng_.below(words.length + 8),
                   .rkey = words.key,
                   .dma_len = wire::kAtomicBytes};
    packet.atomic_swap_add = hostile_prng_.next_u64();
  }
  const bool window = hostile_prng_.chance(1, 2);
  packet.ieth_rkey = window ? victim.windows[q].key : victim.areas[q].target.key;
  transmit(peer_of(victim), q, packet, std::move(payload), -1, true);
}

wire::Packet World::forge_packet(Node& victim, uint32_t q) {
  Prng& prng = hostile_prng_;
  const bool garbage = scenario_.kind == Kind::kGarbage;
  wire::Packet packet;
  packet.mp_data.flags = forged_flags(prng, handled_);
  packet.mp_data.timestamp = static_cast<uint32_t>(prng.next_u64());
  packet.mp_data.message_number = static_cast<uint32_t>(prng.below(3));
  packet.mp_data.offset = static_cast<uint32_t>(prng.chance(1, 2) ? 0 : prng.next_u64());
  const Area& area = victim.areas[q].target;
  packet.reth = {
      .va = prng.chance(1, 2) ? area.iova : prng.next_u64(),
      .rkey = prng.chance(1, 2) ? area.key : Key(static_cast<uint32_t>(prng.next_u64())),
      .dma_len = static_cast<uint32_t>(prng.chance(1, 2) ? prng.below(5000) : prng.next_u64())};
  packet.solicited_event = prng.chance(1, 2);
  packet.ack_req = prng.chance(1, 2);
  const uint64_t what = prng.below(8);
  if (what == 0) {  // an opcode of another transport
    packet.opcode = static_cast<Opcode>(prng.below(0xc0));
    packet.psn = Psn(static_cast<uint32_t>(prng.next_u64()));
    if (!packet.info().valid) packet.opcode = Opcode::kRcSendOnly;
    return packet;
  }
  const bool response = prng.chance(1, 2);
  const bool is_ack = what <= 3;
  // The PSN space of the stream that the victim sends (for an ACK) or receives.
  Flow& flow = is_ack == response ? peer_flow(victim, q) : own_flow(victim, q);
  StreamModel& stream = response ? flow.responses() : flow.requests();
  const Psn next = flow.config().base + static_cast<uint32_t>(stream.sent());
  // Draws a PSN far outside the windows, up to 2^23 away.
  constexpr uint32_t kBeyond = 2 * transport::kSendSpanMax;
  const uint32_t far = static_cast<uint32_t>(prng.range(kBeyond, (1u << 23) - kBeyond));
  Psn psn = prng.chance(1, 2) ? next + far : next - far;
  if (prng.chance(1, 6)) psn = next + (1u << 23);
  if (garbage && prng.chance(3, 4)) psn = next + static_cast<uint32_t>(prng.below(40)) - 20;
  packet.psn = psn;
  if (is_ack) {
    packet.opcode = Opcode::kMpAck;
    packet.mp_ack.flags = static_cast<uint8_t>(prng.below(64));
    packet.mp_ack.nack =
        static_cast<wire::NackCode>(prng.below(static_cast<uint64_t>(wire::NackCode::kCount)));
    packet.mp_ack.detail = static_cast<uint8_t>(prng.below(256));
    packet.mp_ack.echoed_timestamp = static_cast<uint32_t>(prng.next_u64());
    packet.mp_ack.sack = psn + static_cast<uint32_t>(prng.below(64));
    add_forged_map(prng.split("map").split(handled_), next, packet);
    if (scenario_.engine) {
      Prng more = prng.split(handled_);
      packet.mp_ack.run = static_cast<uint8_t>(more.next_u64());
      packet.mp_ack.delay_us = static_cast<uint8_t>(more.next_u64());
    }
    if (response) {
      packet.mp_ack.flags |= wire::kMpAckResponseStream;
    } else {
      packet.mp_ack.flags &= static_cast<uint8_t>(~wire::kMpAckResponseStream);
    }
    return packet;
  }
  packet.opcode = response ? kResponses[prng.below(std::size(kResponses))]
                           : kRequests[prng.below(std::size(kRequests))];
  return packet;
}

}  // namespace mprdma::swarm
