// Hosts of a run with engines (--engine): acknowledgements that are owed and sent later, attributes
// that change in mid-run, and the functions for the common case, which must do what the general
// ones do. main.cpp runs such a seed once more without the latter and compares the notes.

#include <algorithm>
#include <utility>

#include "tests/swarm/world.hpp"
#include "wire/bare_packet.hpp"

namespace mprdma::swarm {

namespace {

using transport::StreamReceiver;
using wire::BarePacket;
using wire::PacketStream;

uint64_t hash_of(uint64_t hash, uint64_t value) {
  hash = (hash ^ value) * 0x9e3779b97f4a7c15;
  return hash ^ (hash >> 29);
}

bool is_response_ack(const wire::Packet& ack) {
  return (ack.mp_ack.flags & wire::kMpAckResponseStream) != 0;
}

const StreamReceiver& receiver_of(const transport::Qp& qp, bool responses) {
  return responses ? qp.mp()->requester().receiver() : qp.mp()->responder().receiver();
}

}  // namespace

// ---- Owed acknowledgements ---------------------------------------------------------------------

// Sends all that the queue pair owes.
void World::send_owed_acks(Node& node, uint32_t q) {
  node.unanswered_left[q] =
      static_cast<uint32_t>(node.engine_prng.range(1, node.engine.ack_packets));
  wire::Packet ack;
  while (node.qps[q]->take_ack(now_, ack)) {
    if (options_.sabotage == Sabotage::kForgetOwed && !sabotaged_) {
      sabotaged_ = true;
      continue;
    }
    send_owed_ack(node, q, ack);
  }
  expect(!node.qps[q]->owes_ack(), "n{} qp{}: owes what it does not give", node.number, q);
  check_owed(node, q);
}

void World::send_owed_ack(Node& node, uint32_t q, wire::Packet ack) {
  if (options_.sabotage == Sabotage::kLongRun && ack.mp_ack.run > 0 && !sabotaged_) {
    sabotaged_ = true;
    ++ack.mp_ack.run;
  }
  expect(ack.opcode == wire::Opcode::kMpAck && ack.payload_len == 0 &&
             ack.dest_qpn == nodes_[1 - node.number]->qpns[q],
         "n{} qp{}: owes a {} to QP {}", node.number, q, wire::opcode_name(ack.opcode),
         ack.dest_qpn.value());
  if (scenario_.kind != Kind::kGarbage) {
    const bool responses = is_response_ack(ack);
    StreamModel& stream = responses ? own_flow(node, q).responses() : peer_flow(node, q).requests();
    uint32_t run_max = side(node, q).ack_run;
    for (const AttributeChange& change : scenario_.changes)
      run_max = std::max(run_max, change.ack_run);
    // A host that is not polled sends nothing.
    const Time latest =
        std::max(stream.owed_since() + node.engine.ack_patience, std::min(node.wake_at, now_));
    expect(!stream.owes_ack() || now_ <= latest,
           "n{} qp{}: keeps an acknowledgement {} ns too long", node.number, q,
           (now_ - latest).count_ns());
    stream.on_owed_ack_made(ack, now_, run_max);
    expect(((ack.mp_ack.flags & wire::kMpAckOrderedPlacement) != 0) == places_in_order(node, q),
           "n{} qp{}: an owed acknowledgement says that it places in order: {}", node.number, q,
           (ack.mp_ack.flags & wire::kMpAckOrderedPlacement) != 0);
  }
  transmit(node, q, ack, nullptr, -1);
}

// Sends what may wait no longer.
void World::send_due_acks(Node& node) {
  if (!node.engine.owes_acks || node.asleep) return;
  Time next = Time::never();
  for (uint32_t q = 0; q < node.qps.size(); ++q) {
    transport::Qp& qp = *node.qps[q];
    check_owed(node, q);
    if (!qp.owes_ack()) continue;
    const Time due = qp.owed_since() + node.engine.ack_patience;
    if (due > now_ && node.unanswered_left[q] > 0) {
      next = std::min(next, due);
    } else {
      send_owed_acks(node, q);
    }
  }
  if (next >= node.owed_acks_at) return;
  node.owed_acks_at = next;
  events_.push(next, EventKind::kOwedAcks, node.number);
}

void World::on_owed_acks(Node& node) {
  if (now_ < node.owed_acks_at) return;
  node.owed_acks_at = Time::never();
  send_due_acks(node);
}

// Every packet that is taken is answered at once, or its acknowledgement is owed.
void World::note_taken(Node& node, uint32_t q, const InFlight& packet) {
  const wire::Packet& header = packet.decoded;
  const PacketStream stream = header.info().stream;
  if (!node.engine.owes_acks || stream == PacketStream::kAck) return;
  if (node.unanswered_left[q] > 0) --node.unanswered_left[q];
  if (packet.index < 0) return;
  const bool responses = stream == PacketStream::kResponse;
  StreamModel& model = responses ? own_flow(node, q).responses() : peer_flow(node, q).requests();
  const bool plain = !packet.ce && (header.mp_data.flags & wire::kMpDataReTx) == 0;
  const auto index = static_cast<uint64_t>(packet.index);
  if (!node.actions.has_ack && plain && index == model.next_in_order()) {
    const bool owes = receiver_of(*node.qps[q], responses).owes_ack();
    expect(owes || fatal(), "n{} qp{}: packet {} came in order and gets no answer", node.number, q,
           index);
    if (owes) model.on_owed({index, packet.vp, header.mp_data.timestamp, now_});
  }
  check_owed(node, q);
}

void World::check_owed(Node& node, uint32_t q) {
  const bool modelled = scenario_.kind != Kind::kGarbage && !is_roce() && flows_[q][0] != nullptr;
  if (!modelled) return;
  const StreamModel& requests = peer_flow(node, q).requests();
  const StreamModel& responses = own_flow(node, q).responses();
  const transport::Qp& qp = *node.qps[q];
  expect(receiver_of(qp, false).owes_ack() == requests.owes_ack(),
         "n{} qp{}: says that an acknowledgement of requests is owed: {}", node.number, q,
         !requests.owes_ack());
  expect(receiver_of(qp, true).owes_ack() == responses.owes_ack(),
         "n{} qp{}: says that an acknowledgement of responses is owed: {}", node.number, q,
         !responses.owes_ack());
  expect(qp.owes_ack() == (requests.owes_ack() || responses.owes_ack()),
         "n{} qp{}: says that any acknowledgement is owed: {}", node.number, q, qp.owes_ack());
  if (!qp.owes_ack()) return;
  const Time since = std::min(requests.owed_since(), responses.owed_since());
  expect(qp.owed_since() == since, "n{} qp{}: owes since {} ns later than it does", node.number, q,
         (qp.owed_since() - since).count_ns());
}

// take_changes() names every answer that has become another one.
void World::check_changes(Node& node, uint32_t q) {
  transport::Qp& qp = *node.qps[q];
  if (!scenario_.engine || qp.mp() == nullptr) return;
  const transport::QpChanges changes = qp.take_changes();
  const Answers now{.completion = qp.mp()->requester().completion_ready(),
                    .sends = qp.wants_to_send(),
                    .busy = qp.busy(),
                    .state = qp.state(),
                    .deadline = qp.next_deadline()};
  const Answers before = std::exchange(node.answers[q], now);
  const auto named = [&](transport::QpChanges bit) { return (changes & bit) != 0; };
  expect(named(transport::kCompletionsChanged) || before.completion || !now.completion,
         "n{} qp{}: has a completion without a word", node.number, q);
  expect(named(transport::kSendingChanged) || before.sends || !now.sends,
         "n{} qp{}: wants to send without a word", node.number, q);
  // A shorter estimate of the round trip moves a deadline that runs; a host need not follow at
  // once.
  const bool runs = !before.deadline.is_never() && now.deadline > now_;
  expect(named(transport::kDeadlineChanged) || now.deadline >= before.deadline || runs,
         "n{} qp{}: a deadline {} ns earlier without a word", node.number, q,
         (before.deadline - now.deadline).count_ns());
  expect(named(transport::kBusyChanged) || now.busy <= before.busy,
         "n{} qp{}: is busy without a word", node.number, q);
  expect(named(transport::kOthersChanged) || now.state == before.state,
         "n{} qp{}: is in state {} without a word", node.number, q, static_cast<int>(now.state));
}

// ---- Attributes --------------------------------------------------------------------------------

// The peer takes the segments before they are sent.
void World::change_attributes(const AttributeChange& change) {
  const uint32_t q = change.queue_pair;
  Node& node = *nodes_[change.node];
  Node& peer = peer_of(node);
  trace("n{} qp{} sends segments of {}, runs of {}", change.node, q, change.send_segment,
        change.ack_run);
  transport::QpAttributes taken = peer.qps[q]->attributes();
  taken.take_segment = side(peer, q).take_segment;
  peer.qps[q]->set_attributes(taken);
  transport::QpAttributes sent = node.qps[q]->attributes();
  sent.send_segment = change.send_segment;
  sent.ack_run = change.ack_run;
  node.qps[q]->set_attributes(sent);
  own_flow(node, q).set_segment(std::max(change.send_segment, scenario_.path_mtu));
  if (!node.asleep) service(node, q);
}

// ---- The functions for the common case ---------------------------------------------------------

bool World::take_plain(Node& node, uint32_t q, const InFlight& packet,
                       transport::FrameHandle frame) {
  const wire::Packet& header = packet.decoded;
  if (!uses_plain(node) || !BarePacket::carries(header)) return false;
  BarePacket bare;
  BarePacket::store(header, reinterpret_cast<unsigned char*>(&bare));
  // Fields may be anything; some bits mean nothing.
  if (packet.forged && (header.psn.value() & 1) != 0) bare.psn |= 0xa500'0000;
  transport::PlainPlacement placement;
  if (!node.qps[q]->take_plain(now_, bare, node.actions, &placement)) return false;
  expect(!node.actions.has_ack && node.actions.placements.empty() && node.actions.released.empty(),
         "n{} qp{}: a plain packet leaves more to do than it may", node.number, q);
  if (placement.length == 0) return true;
  expect(placement.length == header.payload_len, "n{} qp{}: places {} bytes of {}", node.number, q,
         placement.length, header.payload_len);
  transport::place_payload(node.actions.placements.append(), frame, 0, placement.length,
                           placement.to);
  return true;
}

bool World::post_plain(Node& node, uint32_t q, const Op& op,
                       const std::vector<transport::Sge>& sges) {
  const bool kind =
      op.opcode == transport::WorkOpcode::kSend || op.opcode == transport::WorkOpcode::kWrite;
  const bool waits = (op.flags & (transport::kFence | transport::kSynchronise)) != 0;
  if (!uses_plain(node) || !kind || waits || sges.size() != 1) return false;
  return node.qps[q]->post_plain(now_, {.wr_id = op.wr_id,
                                        .remote_addr = op.remote_iova,
                                        .rkey = op.rkey,
                                        .opcode = op.opcode,
                                        .flags = op.flags,
                                        .sge = sges[0]});
}

bool World::poll_plain(Node& node, uint32_t q, transport::TxPacket& out) {
  transport::PlainPacket plain;
  if (!uses_plain(node) || !node.qps[q]->poll_plain(now_, plain)) return false;
  const uint32_t length = plain.header.payload_len;
  expect(plain.header.load(BarePacket::kBytes + length, out.header),
         "n{} qp{}: a plain packet that does not load", node.number, q);
  // A bare packet asks for no map, and the same one as a frame does.
  if (side(node, q).params.ack_map) out.header.mp_data.flags |= wire::kMpDataTakesMaps;
  out.retransmission = false;
  out.more = plain.more;
  out.num_segments = length > 0 ? 1 : 0;
  out.segments[0] = {.addr = plain.from, .length = length};
  return true;
}

bool World::pop_plain(Node& node, uint32_t q, transport::Completion& out) {
  transport::PlainCompletion plain;
  if (!uses_plain(node) || !node.qps[q]->pop_plain(plain)) return false;
  out = {};
  out.wr_id = plain.wr_id;
  out.byte_len = plain.byte_len;
  out.opcode = plain.opcode;
  out.emit = plain.emit;
  return true;
}

// ---- Notes -------------------------------------------------------------------------------------

void World::note(const Node& node, uint32_t q, const char* what,
                 std::initializer_list<uint64_t> values) {
  if (!scenario_.engine) return;
  uint64_t hash = 0;
  for (const uint64_t value : values) hash = hash_of(hash, value);
  notes_.push_back({now_, node.number, q, what, hash});
}

void World::note_packet(const Node& node, uint32_t q, const InFlight& packet) {
  if (!scenario_.engine) return;
  uint64_t hash = packet.vp;
  for (size_t i = 0; i < packet.header_bytes; ++i) hash = hash_of(hash, packet.header[i]);
  note(node, q, "a packet that is sent", {hash, packet.payload ? packet.payload->size() : 0});
}

void World::note_state(const Node& node, uint32_t q) {
  if (!scenario_.engine) return;
  const transport::Qp& qp = *node.qps[q];
  const auto deadline = static_cast<uint64_t>(qp.next_deadline().ns());
  note(node, q, "the state",
       {deadline, uint64_t{qp.wants_to_send()}, uint64_t{qp.busy()}, qp.sends_outstanding(),
        uint64_t{qp.sends_long()}});
  for (const transport::StreamStats& s : {qp.request_stats(), qp.response_stats()}) {
    note(node, q, "a stream",
         {s.window_raw, s.in_flight, static_cast<uint64_t>(s.srtt_ns), s.paths_in_use, s.ooo_degree,
          s.packets_sent, s.random_paths, s.path_probes, s.window_reductions});
  }
}

}  // namespace mprdma::swarm
