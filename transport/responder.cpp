#include "transport/responder.hpp"

#include <algorithm>

#include "transport/work_opcode.hpp"

namespace mprdma::transport {

namespace {

using wire::NackCode;
using wire::Operation;

// After so many timeouts in a row the response stream falls silent until the peer is heard again.
constexpr uint32_t kDormantAfterTimeouts = 7;

constexpr uint32_t div_round_up(uint32_t a, uint32_t b) {
  return a / b + (a % b != 0 ? 1 : 0);
}

}  // namespace

Responder::Responder(QpCore& core)
    : core_(core),
      config_(core.config),
      device_(core.device),
      attributes_(core.attributes),
      receiver_(config_.params, 0, device_),
      response_sender_(config_.params, device_.counters),
      contexts_(config_.max_rd_atomic) {}

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
  response_sender_.limit_timeouts(timeout == 0 ? Duration::infinite() : ack_timeout(timeout));
}

void Responder::reset(RxActions& actions) {
  receiver_.release_held(actions);
  receiver_.reset(Psn(), 0);
  response_sender_.reset(Psn());
  response_end_ = Psn();
  contexts_.clear();
  message_ = {};
  failed_ = response_failed_ = false;
  refusal_due_ = false;
  refusal_event_ = QpEvent::kNone;
}

bool Responder::resume(Time now, RxActions& actions) {
  if (failed_) return false;
  now_ = now;
  return receiver_.resume(actions, RequestStream{*this, actions});
}

RxVerdict Responder::on_request(Time now, const wire::Packet& packet, FrameHandle frame,
                                RxActions& actions) {
  now_ = now;
  return receiver_.receive(packet, frame, actions, RequestStream{*this, actions});
}

// ---- Requests, ahead of their turn -------------------------------------------------------------

// A WRITE may be placed as it arrives where its memory, or the device, allows that. What breaks a
// rule waits, so that it is judged in its turn.
Early Responder::place(const wire::Packet& packet, FrameHandle frame, RxActions& actions) const {
  const wire::Reth& reth = packet.reth;
  if (packet.info().operation != Operation::kWrite || packet.payload_len == 0 ||
      !write_fits(packet) || packet.mp_data.offset % attributes_.path_mtu != 0 ||
      (attributes_.access & kRemoteWrite) == 0) {
    return Early::kWait;
  }
  const bool forced = config_.params.placement == PlacementPolicy::kRelaxed;
  const uint32_t access = forced ? kRemoteWrite : kRemoteWrite | kRelaxedOrdering;
  uint64_t base = 0;
  if (!open_remote(reth, access, &base) ||
      !device_.memory->present(base + packet.mp_data.offset, packet.payload_len, true)) {
    return Early::kWait;
  }
  // A synchronise operation follows all messages before it; its own packets are free among
  // themselves.
  const Psn first = packet.psn - packet.mp_data.offset / attributes_.path_mtu;
  if ((packet.mp_data.flags & wire::kMpDataSync) != 0 && receiver_.rcv_nxt().before(first)) {
    return Early::kTooSoon;
  }
  actions.placements.push({.frame = frame,
                           .payload_offset = 0,
                           .length = packet.payload_len,
                           .addr = base + packet.mp_data.offset});
  return Early::kPlaced;
}

// ---- Requests, at the head of line -------------------------------------------------------------

Outcome Responder::execute(const wire::Packet& packet, FrameHandle frame, bool placed,
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

// A message that has taken a receive ends with it.
Outcome Responder::refuse(NackCode code) {
  if (message_.operation == Operation::kSend) {
    return refuse_receive(WcStatus::kRemoteInvalidRequestError, code);
  }
  refusal_due_ = true;
  refusal_event_ =
      code == NackCode::kRemoteAccessError ? QpEvent::kAccessError : QpEvent::kRequestError;
  return {.nack = code};
}

// The receive that a message took ends in an error of its own, which says what an event would.
Outcome Responder::refuse_receive(WcStatus status, NackCode code) {
  Receive& receive = core_.receives.current();
  receive.status = status;
  receive.vendor_err = static_cast<uint32_t>(code);
  core_.receives.finish_current();
  message_ = {};
  refusal_due_ = true;
  return {.nack = code};
}

// The memory is not open: the receive that a WRITE with immediate would have taken ends in a local
// access error, as with adapters; without one an event says it.
Outcome Responder::refuse_write(const wire::Packet& packet) {
  if (packet.info().has_immdt && receive_ready(packet)) {
    return refuse_receive(WcStatus::kLocalAccessError, NackCode::kRemoteAccessError);
  }
  return refuse(NackCode::kRemoteAccessError);
}

// A SEND with invalidate whose key is not this queue pair's to invalidate: its data has arrived, so
// that the receive ends in an error, and the queue pair with it; the peer hears neither an
// acknowledgement nor a NAK of it (IBTA 9.9.3, class J).
Outcome Responder::refuse_invalidate() {
  Outcome outcome =
      refuse_receive(WcStatus::kRemoteInvalidRequestError, NackCode::kRemoteAccessError);
  outcome.silent = true;
  return outcome;
}

Outcome Responder::not_ready() const {
  return {.nack = NackCode::kRnr, .detail = attributes_.min_rnr_timer};
}

// Is it the next packet of the message that is arriving, or the first of a new one?
bool Responder::continues(const wire::Packet& packet, Operation operation) const {
  const bool starts = packet.info().starts_message();
  if (starts != (message_.operation == Operation::kNone)) return false;
  if (!starts && message_.operation != operation) return false;
  return packet.mp_data.offset == (starts ? 0 : message_.offset) &&
         length_fits_place(packet, attributes_.path_mtu);
}

Outcome Responder::execute_send(const wire::Packet& packet, FrameHandle frame, RxActions& actions) {
  if (!continues(packet, Operation::kSend)) return refuse(NackCode::kInvalidRequest);
  if (packet.mp_data.message_number != (receive_number_ & kPsnMask)) {
    return refuse(NackCode::kInvalidRequest);
  }
  if (packet.info().starts_message()) {
    if (!receive_ready(packet)) return not_ready();
    message_ = {.operation = Operation::kSend, .offset = 0, .reth = {}};
  }
  const Receive& receive = core_.receives.current();
  if (packet.payload_len > receive.capacity_bytes - message_.offset) {
    return refuse_receive(WcStatus::kLocalLengthError, NackCode::kInvalidRequest);
  }
  const uint32_t pd = receive.shared != nullptr ? receive.shared->pd : config_.pd;
  if (!scatter_payload(core_.receives.current_sges(), message_.offset, packet.payload_len, frame,
                       *device_.memory, pd, actions)) {
    return refuse_receive(WcStatus::kLocalProtectionError, NackCode::kRemoteOperationalError);
  }
  message_.offset += packet.payload_len;
  if (packet.info().ends_message()) {
    // Before the completion says so (IBTA 9.4.1.1.4).
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
  Receive& receive = core_.receives.current();
  receive.opcode = opcode;
  receive.byte_len = byte_len;
  receive.solicited = packet.solicited_event;
  receive.has_imm = packet.info().has_immdt;
  receive.invalidated = packet.info().has_ieth;
  receive.imm = receive.invalidated ? packet.ieth_rkey : packet.immdt;
  core_.receives.finish_current();
  receiver_.set_msn(++receive_number_);
}

// Does a packet of a WRITE agree with itself and with the length of its message?
bool Responder::write_fits(const wire::Packet& packet) const {
  const wire::Reth& reth = packet.reth;
  const uint32_t offset = packet.mp_data.offset;
  return length_fits_place(packet, attributes_.path_mtu) &&
         (offset == 0) == packet.info().starts_message() && reth.dma_len <= kMaxMessageBytes &&
         offset <= reth.dma_len && packet.payload_len <= reth.dma_len - offset &&
         (offset + packet.payload_len == reth.dma_len) == packet.info().ends_message();
}

// `placed`: its data is in memory already; everything else is the same, so a region that was
// closed meanwhile refuses it.
Outcome Responder::execute_write(const wire::Packet& packet, FrameHandle frame, bool placed,
                                 RxActions& actions) {
  if (!continues(packet, Operation::kWrite)) return refuse(NackCode::kInvalidRequest);
  const wire::OpcodeInfo& info = packet.info();
  const wire::Reth& reth = packet.reth;
  if (!info.starts_message() && reth != message_.reth) return refuse(NackCode::kInvalidRequest);
  if (!write_fits(packet)) return refuse(NackCode::kInvalidRequest);
  const uint32_t offset = packet.mp_data.offset;
  // A queue pair that does not offer the operation at all: the request is invalid.
  if ((attributes_.access & kRemoteWrite) == 0) return refuse(NackCode::kInvalidRequest);
  uint64_t base = 0;
  if (reth.dma_len > 0 && !open_remote(reth, kRemoteWrite, &base)) return refuse_write(packet);
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
    actions.placements.push(
        {.frame = frame, .payload_offset = 0, .length = packet.payload_len, .addr = base + offset});
  }
  message_ = {.operation = Operation::kWrite, .offset = offset + packet.payload_len, .reth = reth};
  if (info.has_immdt) complete_receive(packet, WcOpcode::kRecvWriteImm, reth.dma_len);
  if (info.ends_message()) message_ = {};
  return {};
}

Outcome Responder::execute_read(const wire::Packet& packet) {
  const wire::Reth& reth = packet.reth;
  if (!may_be_answered(packet) || reth.dma_len > kMaxMessageBytes ||
      (attributes_.access & kRemoteRead) == 0) {
    return refuse(NackCode::kInvalidRequest);
  }
  uint64_t base = 0;
  if (reth.dma_len > 0 && !open_remote(reth, kRemoteRead, &base)) {
    return refuse(NackCode::kRemoteAccessError);
  }
  return add_context(packet, std::max(div_round_up(reth.dma_len, attributes_.path_mtu), 1u));
}

// Here at the head of line each PSN executes once, and what it found stays in the context for as
// long as the answer may have to be sent again.
Outcome Responder::execute_atomic(const wire::Packet& packet, RxActions& actions) {
  if (!may_be_answered(packet) || (attributes_.access & kRemoteAtomic) == 0) {
    return refuse(NackCode::kInvalidRequest);
  }
  // By the name that the peer has for it, before its key is looked at (IBTA 9.4.5; 9.7.4.1.5).
  if (packet.reth.va % wire::kAtomicBytes != 0) return refuse(NackCode::kInvalidRequest);
  uint64_t addr = 0;
  if (!open_remote(packet.reth, kRemoteAtomic, &addr)) {
    return refuse(NackCode::kRemoteAccessError);
  }
  // .. and here, where it happens: a region may lie across the words of the host's memory.
  if (addr % wire::kAtomicBytes != 0) return refuse(NackCode::kInvalidRequest);
  if (!device_.memory->present(addr, wire::kAtomicBytes, true)) {
    return refuse(NackCode::kRemoteAccessError);
  }
  const Outcome outcome = add_context(packet, 1);
  if (outcome.nack != NackCode::kNone) return outcome;
  const bool swaps = packet.info().operation == Operation::kCompareSwap;
  actions.placements.push({.addr = addr,
                           .kind = swaps ? PlacementKind::kCompareSwap : PlacementKind::kFetchAdd,
                           .compare = packet.atomic_compare,
                           .swap_add = packet.atomic_swap_add,
                           .original = &contexts_.back().original});
  return {};
}

// A READ or an atomic comes between messages, without payload, and in its own order.
bool Responder::may_be_answered(const wire::Packet& packet) const {
  return message_.operation == Operation::kNone && packet.payload_len == 0 &&
         packet.mp_data.message_number == (read_number_ & kPsnMask);
}

Outcome Responder::add_context(const wire::Packet& packet, uint32_t packets) {
  free_acknowledged_contexts();
  const uint32_t limit = std::min<uint32_t>(attributes_.max_dest_rd_atomic, config_.max_rd_atomic);
  if (limit == 0) return refuse(NackCode::kInvalidRequest);
  if (contexts_.size() >= limit) {
    // The peer has at most `limit` of them open, so this one says that the oldest is complete
    // there; unless it was not even sent, and the peer breaks the rule (IBTA 9.7.7.1).
    const Psn end = contexts_.front().first + contexts_.front().packets;
    if (end.after(response_sender_.nxt())) return refuse(NackCode::kInvalidRequest);
    contexts_.pop();
    response_sender_.on_implied_ack(now_, end);
  }
  // A requester keeps its open READs below that, too.
  const auto unsent = static_cast<uint32_t>(response_sender_.nxt().distance_to(response_end_));
  if (unsent > 0 && unsent + packets > kStreamSpanMax) return refuse(NackCode::kInvalidRequest);
  const bool had_new = has_new();
  contexts_.push({.first = response_end_,
                  .packets = packets,
                  .atomic = packet.info().has_atomic_eth,
                  .reth = packet.reth,
                  .message_number = read_number_++ & kPsnMask});
  response_end_ += packets;
  if (!had_new) response_sender_.on_backlog(now_);
  return {};
}

// ---- Responses ---------------------------------------------------------------------------------

bool Responder::has_new() const {
  return response_sender_.nxt() != response_end_;
}

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
  out.header.mp_data.timestamp = static_cast<uint32_t>(now.ns());
  out.header.mp_data.message_number = context.message_number;
  out.again = choice.again();
  if (choice.again()) out.header.mp_data.flags |= wire::kMpDataReTx;
  if (choice.kind == StreamSender::Choice::Kind::kProbe) {
    out.header.mp_data.flags |= wire::kMpDataTailProbe;
  }
  const auto index = static_cast<uint32_t>(context.first.distance_to(choice.psn));
  fill_response(context, index, choice.again(), out);
  out.header.vp = response_sender_.on_sent(now, choice);
  return true;
}

void Responder::fill_response(const ReadContext& context, uint32_t index, bool again,
                              TxPacket& out) {
  wire::Packet& header = out.header;
  if (context.atomic) {
    header.opcode = wire::Opcode::kMpAtomicAck;
    header.atomic_original = context.original;
    return;
  }
  const uint32_t offset = index * attributes_.path_mtu;
  const uint32_t length = std::min(attributes_.path_mtu, context.reth.dma_len - offset);
  uint64_t addr = 0;
  header.mp_data.offset = offset;
  wire::Reth part = context.reth;
  part.va += offset;
  part.dma_len = length;
  if (length > 0 &&
      !(open_remote(part, kRemoteRead, &addr) && device_.memory->present(addr, length, false))) {
    header.opcode = wire::Opcode::kMpResponseError;
    header.aeth.syndrome = wire::nak_syndrome(wire::NakCode::kRemoteAccessError);
    // Sent again: the peer may have it, and the application closed the memory for that reason. Then
    // this is a duplicate there, and the stream goes on; else the peer's READ ends.
    if (again) return;
    // The region is gone: nothing new follows this packet.
    response_end_ = psn_max(response_sender_.nxt(), header.psn + 1);
    if (!response_failed_) {
      refusal_due_ = true;
      refusal_event_ = QpEvent::kAccessError;
    }
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

bool Responder::dormant() const {
  return response_sender_.timeouts_in_a_row() >= kDormantAfterTimeouts;
}

void Responder::on_response_ack(Time now, const wire::Packet& ack) {
  const StreamSender::AckResult result = response_sender_.on_ack(now, ack, has_new());
  if (result == StreamSender::AckResult::kGhost) {
    ++device_.counters->drop_ghost_ack;
    return;
  }
  // It answers no packet: the requester has waited for the verbs' timeout, which we may not know.
  const bool answers = (ack.mp_ack.flags & wire::kMpAckSackValid) != 0;
  if (!answers && ack.psn == response_sender_.una()) response_sender_.repeat_head();
  ++(ack.mp_ack.nack == NackCode::kNone ? device_.counters->acks_received
                                        : device_.counters->nacks_received);
}

void Responder::on_sign_of_life(Time now) {
  if (dormant()) response_sender_.wake(now);
}

void Responder::on_deadline(Time now) {
  if (!dormant() && response_sender_.next_deadline(has_new()) <= now)
    response_sender_.on_deadline(now);
}

Time Responder::next_deadline() const {
  return dormant() ? Time::never() : response_sender_.next_deadline(has_new());
}

bool Responder::take_refusal(QpEvent* event) {
  if (!refusal_due_) return false;
  refusal_due_ = false;
  *event = refusal_event_;
  refusal_event_ = QpEvent::kNone;
  return true;
}

}  // namespace mprdma::transport
