#include "transport/mp/responder.hpp"

#include <algorithm>

#include "transport/mp/mp_opcode.hpp"
#include "transport/work/work_opcode.hpp"

namespace mprdma::transport {

namespace {

using wire::NackCode;
using wire::Operation;

// length_fits_place() for packets of any segment that is taken.
bool segment_fits_place(const wire::Packet& packet, const QpAttributes& attributes) {
  const wire::OpcodeInfo& info = packet.info();
  if (info.first || info.middle) return takes_segment(attributes, packet.payload_len);
  return packet.payload_len <= longest_segment(attributes) && (info.only || packet.payload_len > 0);
}

}  // namespace

Responder::Responder(QpCore& core)
    : core_(core),
      config_(core.config),
      device_(core.device),
      attributes_(core.attributes),
      receiver_(config_.params, 0, device_),
      response_sender_(config_.params, device_.counters, core.trace(TraceStream::kResponses)),
      contexts_(config_.max_rd_atomic) {
  half_ = open_half(device_, config_.params);
  response_sender_.attach(half_.get());
}

void Responder::connect() {
  receiver_.reset(attributes_.rq_psn, attributes_.dest_qpn);
  // Responses start at the requester's first PSN as well (design 3.3, rule 1).
  response_sender_.reset(attributes_.rq_psn, attributes_.vp,
                         Prng(attributes_.path_seed).split("responses"));
  follow_attributes();
  response_end_ = attributes_.rq_psn;
  contexts_.clear();
  message_ = {};
  receive_number_ = read_number_ = 0;
  receiver_.set_msn(0);
}

void Responder::follow_attributes() {
  const uint8_t timeout = attributes_.timeout;
  response_sender_.set_path_mtu(attributes_.path_mtu);
  receiver_.set_ack_run(attributes_.ack_run);
  response_sender_.limit_timeouts(timeout == 0 ? Duration::infinite() : ack_timeout(timeout));
}

void Responder::reset(RxActions& actions) {
  receiver_.release_held(actions);
  receiver_.reset(Psn(), Qpn());
  response_sender_.reset(Psn());
  response_end_ = Psn();
  contexts_.clear();
  message_ = {};
  failed_ = response_failed_ = false;
}

bool Responder::resume(Time now, RxActions& actions) {
  if (failed_) return false;
  now_ = now;
  return receiver_.resume(now, actions, RequestStream{*this, actions});
}

RxVerdict Responder::on_request(Time now, const wire::Packet& packet, FrameHandle frame,
                                RxActions& actions) {
  now_ = now;
  // What is executed adds to it; the receiver itself has neither timers nor packets to send.
  core_.changes = 0;
  return receiver_.receive(now, packet, frame, actions, RequestStream{*this, actions});
}

// ---- Requests out of order ---------------------------------------------------------------------

// A WRITE is placed on arrival if its memory, or the device, allows that. A packet that breaks a
// rule waits and is judged in order.
PlacementVerdict Responder::place(const wire::Packet& packet, FrameHandle frame,
                                  RxActions& actions) const {
  const wire::Reth& reth = packet.reth;
  if (packet.info().operation != Operation::kWrite || packet.payload_len == 0 ||
      !write_fits(packet) || packet.mp_data.offset % attributes_.path_mtu != 0 ||
      (attributes_.access & kRemoteWrite) == 0) {
    return PlacementVerdict::kHold;
  }
  const bool forced = config_.params.placement == PlacementPolicy::kRelaxed;
  const uint32_t access = forced ? kRemoteWrite : kRemoteWrite | kRelaxedOrdering;
  uint64_t base = 0;
  if (!open_remote(core_, config_.pd, reth, access, &base) ||
      !device_.memory->present(base + packet.mp_data.offset, packet.payload_len, true)) {
    return PlacementVerdict::kHold;
  }
  // A synchronise operation follows all messages before it; its own packets may come in any order.
  if ((packet.mp_data.flags & wire::kMpDataSync) != 0) {
    // How long the packets before a last one are, is not known where there are segments.
    const bool last = packet.info().ends_message() && packet.mp_data.offset > 0;
    if (last && longest_segment(attributes_) > attributes_.path_mtu) return PlacementVerdict::kHold;
    const uint32_t segment = last ? attributes_.path_mtu : packet.payload_len;
    const Psn first = packet.psn - packet.mp_data.offset / segment;
    if (receiver_.rcv_nxt().before(first)) return PlacementVerdict::kTooEarly;
  }
  actions.placements.push({.frame = frame,
                           .payload_offset = 0,
                           .length = packet.payload_len,
                           .addr = base + packet.mp_data.offset});
  return PlacementVerdict::kPlaced;
}

// ---- Requests, at the head of line -------------------------------------------------------------

[[gnu::always_inline]] inline ExecuteResult Responder::execute_whole(const wire::Packet& packet,
                                                                     FrameHandle frame, bool placed,
                                                                     RxActions& actions) {
  const wire::OpcodeInfo& info = packet.info();
  switch (info.operation) {
    case Operation::kSend:
      return execute_send(packet, frame, actions);
    case Operation::kWrite:
      return execute_write(packet, frame, placed, actions);
    case Operation::kReadRequest:
      return execute_read(packet);
    case Operation::kCompareSwap:
    case Operation::kFetchAdd:
      return execute_atomic(packet, actions);
    default:
      return refuse(NackCode::kInvalidRequest);
  }
}

ExecuteResult Responder::execute(const wire::Packet& packet, FrameHandle frame, bool placed,
                                 RxActions& actions) {
  if (config_.params.protocol == Protocol::kIrn) [[unlikely]] {
    return execute_whole(complete(packet), frame, placed, actions);
  }
  return execute_whole(packet, frame, placed, actions);
}

// What the extended packet would say besides, at the head of line: the standard's packets follow
// from those before.
wire::Packet Responder::complete(const wire::Packet& packet) const {
  const wire::OpcodeInfo& info = packet.info();
  const bool receives = info.operation == Operation::kSend || info.operation == Operation::kWrite;
  wire::Packet whole = packet;
  whole.mp_data.message_number = (receives ? receive_number_ : read_number_) & kPsnMask;
  if (receives && !info.starts_message()) {
    whole.mp_data.offset = message_.offset;
    whole.reth = message_.reth;
  }
  return whole;
}

// Refuses a request. A receive that the message has taken ends in an error, too.
ExecuteResult Responder::refuse(NackCode code) {
  if (message_.operation == Operation::kSend) {
    return refuse_receive(WcStatus::kRemoteInvalidRequestError, code);
  }
  core_.refusal.raise(event_of_refusal(code));
  return {.nack = code};
}

// Refuses a message that has taken a receive: the receive's error replaces the event.
ExecuteResult Responder::refuse_receive(WcStatus status, NackCode code) {
  core_.receives.fail(status, static_cast<uint32_t>(code));
  message_ = {};
  core_.refusal.raise(QpEvent::kNone);
  return {.nack = code};
}

// Refuses a WRITE whose memory is not open. The receive that a WRITE with immediate would have
// taken ends in a local access error, as with adapters; without a receive there is an event.
ExecuteResult Responder::refuse_write(const wire::Packet& packet) {
  if (packet.info().has_immdt && receive_ready(packet)) {
    return refuse_receive(WcStatus::kLocalAccessError, NackCode::kRemoteAccessError);
  }
  return refuse(NackCode::kRemoteAccessError);
}

// Refuses a SEND with invalidate whose key this queue pair may not invalidate. Its data has
// arrived, so the receive and the queue pair end in an error; the peer gets neither an
// acknowledgement nor a NAK of it (IBTA 9.9.3, class J).
ExecuteResult Responder::refuse_invalidate() {
  ExecuteResult result =
      refuse_receive(WcStatus::kRemoteInvalidRequestError, NackCode::kRemoteAccessError);
  result.silent = true;
  return result;
}

ExecuteResult Responder::not_ready() const {
  return {.nack = NackCode::kRnr, .detail = attributes_.min_rnr_timer};
}

// Tells whether `packet` is the next one of the message that is arriving, or the first of a new
// one.
bool Responder::continues(const wire::Packet& packet, Operation operation) const {
  const bool starts = packet.info().starts_message();
  if (starts != (message_.operation == Operation::kNone)) return false;
  if (!starts && message_.operation != operation) return false;
  return packet.mp_data.offset == (starts ? 0 : message_.offset) &&
         segment_fits_place(packet, attributes_);
}

ExecuteResult Responder::execute_send(const wire::Packet& packet, FrameHandle frame,
                                      RxActions& actions) {
  if (!continues(packet, Operation::kSend)) return refuse(NackCode::kInvalidRequest);
  if (packet.mp_data.message_number != (receive_number_ & kPsnMask)) {
    return refuse(NackCode::kInvalidRequest);
  }
  if (packet.info().starts_message()) {
    if (!receive_ready(packet)) return not_ready();
    message_ = {.operation = Operation::kSend, .offset = 0, .reth = {}};
  }
  if (packet.payload_len > core_.receives.current().capacity_bytes - message_.offset) {
    return refuse_receive(WcStatus::kLocalLengthError, NackCode::kInvalidRequest);
  }
  if (!scatter_payload(core_.receives.current_sges(), message_.offset, packet.payload_len, frame,
                       *device_.memory, core_.receive_pd(), actions)) {
    return refuse_receive(WcStatus::kLocalProtectionError, NackCode::kRemoteOperationalError);
  }
  message_.offset += packet.payload_len;
  if (packet.info().ends_message()) {
    // The key must be invalid before the completion is visible (IBTA 9.4.1.1.4).
    if (packet.info().has_ieth &&
        !device_.memory->invalidate(packet.ieth_rkey, config_.pd, config_.qpn)) {
      return refuse_invalidate();
    }
    complete_receive(packet, WcOpcode::kRecv, message_.offset);
    message_ = {};
  }
  return {};
}

void Responder::complete_receive(const wire::Packet& packet, WcOpcode opcode, uint32_t byte_len) {
  core_.changes |= kCompletionsChanged;
  core_.receives.complete(packet, opcode, byte_len);
  receiver_.set_msn(++receive_number_);
}

// Tells whether a packet of a WRITE is consistent in itself and with the length of its message.
bool Responder::write_fits(const wire::Packet& packet) const {
  const wire::Reth& reth = packet.reth;
  const uint32_t offset = packet.mp_data.offset;
  return segment_fits_place(packet, attributes_) &&
         (offset == 0) == packet.info().starts_message() && reth.dma_len <= kMaxMessageBytes &&
         offset <= reth.dma_len && packet.payload_len <= reth.dma_len - offset &&
         (offset + packet.payload_len == reth.dma_len) == packet.info().ends_message();
}

// Tells whether a packet of a WRITE is the next one of its message, or the first of a new one, and
// consistent with it.
bool Responder::continues_write(const wire::Packet& packet) const {
  const wire::OpcodeInfo& info = packet.info();
  const uint32_t offset = packet.mp_data.offset;
  if (info.starts_message()) {
    if (message_.operation != Operation::kNone || offset != 0) return false;
  } else if (message_.operation != Operation::kWrite || offset != message_.offset ||
             packet.reth != message_.reth) {
    return false;
  }
  return write_fits(packet);
}

// Executes a packet of a WRITE in order. `placed`: its data is in memory already; all checks are
// made again, so a region that was closed meanwhile refuses it.
ExecuteResult Responder::execute_write(const wire::Packet& packet, FrameHandle frame, bool placed,
                                       RxActions& actions) {
  // A queue pair without remote write access does not offer the operation: invalid request.
  if (!continues_write(packet) || (attributes_.access & kRemoteWrite) == 0) {
    return refuse(NackCode::kInvalidRequest);
  }
  const wire::OpcodeInfo& info = packet.info();
  const wire::Reth& reth = packet.reth;
  const uint32_t offset = packet.mp_data.offset;
  uint64_t base = 0;
  if (reth.dma_len > 0 && !open_remote(core_, config_.pd, reth, kRemoteWrite, &base)) {
    return refuse_write(packet);
  }
  const bool places = packet.payload_len > 0 && !placed;
  if (places && !device_.memory->present(base + offset, packet.payload_len, true)) {
    return refuse_write(packet);
  }
  if (info.has_immdt) {
    if (packet.mp_data.message_number != (receive_number_ & kPsnMask)) {
      return refuse(NackCode::kInvalidRequest);
    }
    if (!receive_ready(packet)) return not_ready();
  }
  if (places) {
    place_payload(actions.placements.append(), frame, 0, packet.payload_len, base + offset);
  }
  if (info.has_immdt) complete_receive(packet, WcOpcode::kRecvWriteImm, reth.dma_len);
  if (info.ends_message()) {
    message_.operation = Operation::kNone;
  } else {
    message_ = {
        .operation = Operation::kWrite, .offset = offset + packet.payload_len, .reth = reth};
  }
  return {};
}

ExecuteResult Responder::execute_read(const wire::Packet& packet) {
  const wire::Reth& reth = packet.reth;
  if (!may_be_answered(packet) || reth.dma_len > kMaxMessageBytes ||
      (attributes_.access & kRemoteRead) == 0) {
    return refuse(NackCode::kInvalidRequest);
  }
  uint64_t base = 0;
  if (reth.dma_len > 0 && !open_remote(core_, config_.pd, reth, kRemoteRead, &base)) {
    return refuse(NackCode::kRemoteAccessError);
  }
  // The requester names the length of the packets if it is not the path MTU.
  const uint32_t segment =
      packet.mp_data.offset != 0 ? packet.mp_data.offset : attributes_.path_mtu;
  if (!takes_segment(attributes_, segment)) return refuse(NackCode::kInvalidRequest);
  return add_context(packet, packets_of(reth.dma_len, segment), segment);
}

// Executes an atomic, once per PSN because this is the head of line. The old value stays in the
// context for as long as the answer may have to be sent again.
ExecuteResult Responder::execute_atomic(const wire::Packet& packet, RxActions& actions) {
  if (!may_be_answered(packet) || (attributes_.access & kRemoteAtomic) == 0) {
    return refuse(NackCode::kInvalidRequest);
  }
  uint64_t addr = 0;
  const AtomicTarget target = open_atomic_target(core_, config_.pd, packet.reth, &addr);
  if (target == AtomicTarget::kMisaligned) return refuse(NackCode::kInvalidRequest);
  if (target == AtomicTarget::kClosed) return refuse(NackCode::kRemoteAccessError);
  const ExecuteResult result = add_context(packet, 1, attributes_.path_mtu);
  if (result.nack != NackCode::kNone) return result;
  const bool swaps = packet.info().operation == Operation::kCompareSwap;
  actions.placements.push({.addr = addr,
                           .kind = swaps ? PlacementKind::kCompareSwap : PlacementKind::kFetchAdd,
                           .compare = packet.atomic_compare,
                           .swap_add = packet.atomic_swap_add,
                           .original = &contexts_.back().original});
  return {};
}

// Checks a READ or an atomic: it comes between messages, without payload, and in its own order.
bool Responder::may_be_answered(const wire::Packet& packet) const {
  return message_.operation == Operation::kNone && packet.payload_len == 0 &&
         packet.mp_data.message_number == (read_number_ & kPsnMask);
}

ExecuteResult Responder::add_context(const wire::Packet& packet, uint32_t packets,
                                     uint32_t segment) {
  core_.changes = kAllChanged;
  free_acknowledged_contexts();
  const uint32_t limit = std::min<uint32_t>(attributes_.max_dest_rd_atomic, config_.max_rd_atomic);
  if (limit == 0) return refuse(NackCode::kInvalidRequest);
  if (contexts_.size() >= limit) {
    // The peer has at most `limit` requests open, so a new one shows that the oldest is complete
    // there. If the oldest answer was not sent yet, the peer breaks the rule (IBTA 9.7.7.1).
    const Psn end = contexts_.front().first + contexts_.front().packets;
    if (end.after(response_sender_.nxt())) return refuse(NackCode::kInvalidRequest);
    contexts_.pop();
    response_sender_.on_implied_ack(now_, end);
  }
  // Our requester limits its open READs to this span, so a peer beyond it breaks the rule.
  const auto unsent = static_cast<uint32_t>(response_sender_.nxt().distance_to(response_end_));
  if (unsent > 0 && unsent + packets > kStreamSpanMax) return refuse(NackCode::kInvalidRequest);
  const bool had_new = has_new();
  contexts_.push({.first = response_end_,
                  .packets = packets,
                  .segment = segment,
                  .atomic = packet.info().has_atomic_eth,
                  .reth = packet.reth,
                  .message_number = read_number_++ & kPsnMask});
  response_end_ += packets;
  response_sender_.on_peer_path(packet.vp);
  if (segment > attributes_.path_mtu && packets > 0) {
    has_long_ = true;
    long_end_ = response_end_;
  }
  if (!had_new) response_sender_.on_backlog(now_);
  return {};
}

// ---- Responses ---------------------------------------------------------------------------------

const Responder::ReadContext& Responder::context_of(Psn psn) const {
  uint32_t i = 0;
  while (contexts_[i].first.distance_to(psn) >= static_cast<int32_t>(contexts_[i].packets)) ++i;
  return contexts_[i];
}

void Responder::free_acknowledged_contexts() {
  while (!contexts_.empty()) {
    const ReadContext& oldest = contexts_.front();
    if ((oldest.first + oldest.packets).after(response_sender_.una())) return;
    contexts_.pop();
  }
}

bool Responder::poll_packet(Time now, TxPacket& out) {
  const StreamSender::Choice choice = response_sender_.choose(has_new());
  if (!choice.any()) return false;
  free_acknowledged_contexts();
  const ReadContext& context = context_of(choice.psn);
  out.header = wire::Packet{};
  out.num_segments = 0;
  out.header.psn = choice.psn;
  out.header.dest_qpn = attributes_.dest_qpn;
  out.header.mp_data.flags = asks_for_map(config_.params);
  out.header.mp_data.timestamp = static_cast<uint32_t>(now.ns());
  out.header.mp_data.message_number = context.message_number;
  out.retransmission = choice.retransmits();
  if (choice.retransmits()) out.header.mp_data.flags |= wire::kMpDataReTx;
  if (choice.kind == StreamSender::Choice::Kind::kProbe) {
    out.header.mp_data.flags |= wire::kMpDataTailProbe;
  }
  const auto index = static_cast<uint32_t>(context.first.distance_to(choice.psn));
  fill_response(context, index, choice.retransmits(), out);
  out.header.vp = response_sender_.on_sent(now, choice);
  return true;
}

void Responder::fill_response(const ReadContext& context, uint32_t index, bool retransmission,
                              TxPacket& out) {
  wire::Packet& header = out.header;
  if (context.atomic) {
    header.opcode = wire::Opcode::kMpAtomicAck;
    header.atomic_original = context.original;
    return;
  }
  const uint32_t offset = index * context.segment;
  const uint32_t length = std::min(context.segment, context.reth.dma_len - offset);
  uint64_t addr = 0;
  header.mp_data.offset = offset;
  if (!open_read_data(core_, config_.pd, context.reth, offset, length, &addr)) {
    header.opcode = wire::Opcode::kMpResponseError;
    header.aeth.syndrome = wire::nak_syndrome(wire::NakCode::kRemoteAccessError);
    // A repeated packet may have reached the peer before, and the application may have closed the
    // memory for that reason. Then this copy is a duplicate there, and the stream goes on;
    // otherwise the peer's READ ends.
    if (retransmission) return;
    // The region is gone: nothing new follows this packet.
    response_end_ = psn_max(response_sender_.nxt(), header.psn + 1);
    if (!response_failed_) core_.refusal.raise(QpEvent::kAccessError);
    response_failed_ = true;
    return;
  }
  const bool first = index == 0;
  const bool last = index + 1 == context.packets;
  header.opcode = first && last ? wire::Opcode::kMpReadResponseOnly
                  : first       ? wire::Opcode::kMpReadResponseFirst
                  : last        ? wire::Opcode::kMpReadResponseLast
                                : wire::Opcode::kMpReadResponseMiddle;
  header.payload_len = length;
  if (length > 0) out.segments[out.num_segments++] = {.addr = addr, .length = length};
}

void Responder::on_response_ack(Time now, const wire::Packet& ack) {
  const StreamSender::AckResult result = response_sender_.on_ack(now, ack, has_new());
  if (result == StreamSender::AckResult::kGhost) {
    ++device_.counters->drop_ghost_ack;
    return;
  }
  // An acknowledgement that answers no packet is a keep-alive: the requester has waited for the
  // verbs' timeout, which this side may not know.
  const bool answers = (ack.mp_ack.flags & wire::kMpAckSackValid) != 0;
  if (!answers && ack.psn == response_sender_.una()) response_sender_.repeat_head();
  ++(ack.mp_ack.nack == NackCode::kNone ? device_.counters->acks_received
                                        : device_.counters->nacks_received);
}

void Responder::on_deadline(Time now) {
  if (!dormant() && response_sender_.next_deadline(has_new()) <= now)
    response_sender_.on_deadline(now);
}

Time Responder::next_deadline() const {
  return dormant() ? Time::never() : response_sender_.next_deadline(has_new());
}

}  // namespace mprdma::transport
