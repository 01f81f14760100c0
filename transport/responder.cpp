#include "transport/responder.hpp"

#include <algorithm>

namespace mprdma::transport {

namespace {

using wire::NackCode;
using wire::Operation;

// READs in execution at most, whatever was negotiated.
constexpr uint32_t kReadContextsMax = 128;
// After so many timeouts in a row the response stream falls silent until the peer is heard again.
constexpr uint32_t kDormantAfterTimeouts = 7;

constexpr uint32_t div_round_up(uint32_t a, uint32_t b) {
  return a / b + (a % b != 0 ? 1 : 0);
}

}  // namespace

Responder::Responder(const QpConfig& config, const Device& device, const QpAttributes& attributes)
    : config_(config),
      device_(device),
      attributes_(attributes),
      receiver_(config.params, 0, device),
      response_sender_(config.params, device.counters),
      receives_(std::max(config.recv_depth, 1u)),
      sges_(std::make_unique<Sge[]>(size_t{receives_.capacity()} * config.max_recv_sge)),
      contexts_(kReadContextsMax) {}

void Responder::connect() {
  receiver_.reset(attributes_.rq_psn, attributes_.dest_qpn);
  // Responses start at the requester's first PSN as well (design 3.3, rule 1).
  response_sender_.reset(attributes_.rq_psn, attributes_.vp,
                         Prng(attributes_.path_seed).split("responses"));
  response_end_ = attributes_.rq_psn;
  contexts_.clear();
  message_ = {};
  receive_number_ = read_number_ = 0;
  receiver_.set_msn(0);
}

void Responder::reset(RxActions& actions) {
  receiver_.release_held(actions);
  receiver_.reset(Psn(), 0);
  response_sender_.reset(Psn());
  response_end_ = Psn();
  contexts_.clear();
  receives_.clear();
  next_receive_ = receives_.tail_index();
  message_ = {};
  failed_ = response_failed_ = false;
  refusal_due_ = false;
  refusal_event_ = QpEvent::kNone;
}

bool Responder::post_recv(const RecvRequest& request) {
  if (receives_.size() >= config_.recv_depth) return false;
  std::copy(request.sges.begin(), request.sges.end(), sges_of(receives_.tail_index()).begin());
  Receive receive;
  receive.wr_id = request.wr_id;
  receive.num_sge = static_cast<uint32_t>(request.sges.size());
  receive.capacity_bytes =
      static_cast<uint32_t>(std::min<uint64_t>(total_bytes(request.sges), UINT32_MAX));
  receives_.push(receive);
  return true;
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
  if (!device_.memory->translate(reth.rkey, config_.pd, reth.va, reth.dma_len, access, &base)) {
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
      return info.has_ieth ? refuse(NackCode::kInvalidRequest)
                           : execute_send(packet, frame, actions);
    case Operation::kWrite:
      return execute_write(packet, frame, placed, actions);
    case Operation::kReadRequest:
      return execute_read(packet);
    default:
      return refuse(NackCode::kInvalidRequest);
  }
}

Outcome Responder::refuse(NackCode code) {
  refusal_due_ = true;
  refusal_event_ =
      code == NackCode::kRemoteAccessError ? QpEvent::kAccessError : QpEvent::kRequestError;
  return {.nack = code};
}

// The receive that a message took ends in an error of its own, which says what an event would.
Outcome Responder::refuse_receive(WcStatus status, NackCode code) {
  Receive& receive = receives_.at_index(next_receive_++);
  receive.done = true;
  receive.status = status;
  refusal_due_ = true;
  return {.nack = code};
}

Outcome Responder::not_ready() const {
  return {.nack = NackCode::kRnr, .detail = attributes_.min_rnr_timer};
}

// First and middle packets are full, last ones not empty (IBTA 9.7.4.1.6).
bool Responder::length_fits_place(const wire::Packet& packet) const {
  const wire::OpcodeInfo& info = packet.info();
  const uint32_t mtu = attributes_.path_mtu;
  if (info.first || info.middle) return packet.payload_len == mtu;
  return packet.payload_len <= mtu && (info.only || packet.payload_len > 0);
}

// Is it the next packet of the message that is arriving, or the first of a new one?
bool Responder::continues(const wire::Packet& packet, Operation operation) const {
  const bool starts = packet.info().starts_message();
  if (starts != (message_.operation == Operation::kNone)) return false;
  if (!starts && message_.operation != operation) return false;
  return packet.mp_data.offset == (starts ? 0 : message_.offset) && length_fits_place(packet);
}

Outcome Responder::execute_send(const wire::Packet& packet, FrameHandle frame, RxActions& actions) {
  if (!continues(packet, Operation::kSend)) return refuse(NackCode::kInvalidRequest);
  if (packet.mp_data.message_number != (receive_number_ & kPsnMask)) {
    return refuse(NackCode::kInvalidRequest);
  }
  if (packet.info().starts_message()) {
    if (!receive_ready()) return not_ready();
    message_ = {.operation = Operation::kSend, .offset = 0, .reth = {}};
  }
  Receive& receive = receives_.at_index(next_receive_);
  if (packet.payload_len > receive.capacity_bytes - message_.offset) {
    return refuse_receive(WcStatus::kLocalLengthError, NackCode::kInvalidRequest);
  }
  if (!scatter_payload(sges_of(next_receive_).first(receive.num_sge), message_.offset,
                       packet.payload_len, frame, *device_.memory, config_.pd, actions)) {
    return refuse_receive(WcStatus::kLocalProtectionError, NackCode::kRemoteOperationalError);
  }
  message_.offset += packet.payload_len;
  if (packet.info().ends_message()) {
    complete_receive(packet, WcOpcode::kRecv, message_.offset);
    message_ = {};
  }
  return {};
}

void Responder::complete_receive(const wire::Packet& packet, WcOpcode opcode, uint32_t byte_len) {
  Receive& receive = receives_.at_index(next_receive_++);
  receive.done = true;
  receive.opcode = opcode;
  receive.byte_len = byte_len;
  receive.solicited = packet.solicited_event;
  receive.has_imm = packet.info().has_immdt;
  receive.imm = packet.immdt;
  receiver_.set_msn(++receive_number_);
}

// Does a packet of a WRITE agree with itself and with the length of its message?
bool Responder::write_fits(const wire::Packet& packet) const {
  const wire::Reth& reth = packet.reth;
  const uint32_t offset = packet.mp_data.offset;
  return length_fits_place(packet) && (offset == 0) == packet.info().starts_message() &&
         reth.dma_len <= kMaxMessageBytes && offset <= reth.dma_len &&
         packet.payload_len <= reth.dma_len - offset &&
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
  if (reth.dma_len > 0 && !device_.memory->translate(reth.rkey, config_.pd, reth.va, reth.dma_len,
                                                     kRemoteWrite, &base)) {
    return refuse(NackCode::kRemoteAccessError);
  }
  if (info.has_immdt) {
    if (packet.mp_data.message_number != (receive_number_ & kPsnMask)) {
      return refuse(NackCode::kInvalidRequest);
    }
    if (!receive_ready()) return not_ready();
  }
  if (packet.payload_len > 0 && !placed) {
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
  if (message_.operation != Operation::kNone || packet.payload_len != 0 ||
      reth.dma_len > kMaxMessageBytes ||
      packet.mp_data.message_number != (read_number_ & kPsnMask)) {
    return refuse(NackCode::kInvalidRequest);
  }
  if ((attributes_.access & kRemoteRead) == 0) return refuse(NackCode::kInvalidRequest);
  uint64_t base = 0;
  if (reth.dma_len > 0 && !device_.memory->translate(reth.rkey, config_.pd, reth.va, reth.dma_len,
                                                     kRemoteRead, &base)) {
    return refuse(NackCode::kRemoteAccessError);
  }
  free_acknowledged_contexts();
  const uint32_t limit = std::min<uint32_t>(attributes_.max_dest_rd_atomic, kReadContextsMax);
  if (limit == 0) return refuse(NackCode::kInvalidRequest);
  if (contexts_.size() >= limit) {
    // The peer has at most `limit` READs open, so this one says that the oldest is complete there;
    // unless it was not even sent, and the peer breaks the rule (IBTA 9.7.7.1).
    const Psn end = contexts_.front().first + contexts_.front().packets;
    if (end.after(response_sender_.nxt())) return refuse(NackCode::kInvalidRequest);
    contexts_.pop();
    response_sender_.on_implied_ack(now_, end);
  }
  const uint32_t packets = std::max(div_round_up(reth.dma_len, attributes_.path_mtu), 1u);
  // A requester keeps its open READs below that, too.
  const auto unsent = static_cast<uint32_t>(response_sender_.nxt().distance_to(response_end_));
  if (unsent > 0 && unsent + packets > kStreamSpanMax) return refuse(NackCode::kInvalidRequest);
  const bool had_new = has_new();
  contexts_.push({.first = response_end_,
                  .packets = packets,
                  .reth = reth,
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
  if (choice.again()) out.header.mp_data.flags |= wire::kMpDataReTx;
  if (choice.kind == StreamSender::Choice::Kind::kProbe) {
    out.header.mp_data.flags |= wire::kMpDataTailProbe;
  }
  fill_response(context, static_cast<uint32_t>(context.first.distance_to(choice.psn)), out);
  out.header.vp = response_sender_.on_sent(now, choice);
  return true;
}

void Responder::fill_response(const ReadContext& context, uint32_t index, TxPacket& out) {
  wire::Packet& header = out.header;
  const uint32_t offset = index * attributes_.path_mtu;
  const uint32_t length = std::min(attributes_.path_mtu, context.reth.dma_len - offset);
  uint64_t addr = 0;
  header.mp_data.offset = offset;
  if (length > 0 &&
      !device_.memory->translate(context.reth.rkey, config_.pd, context.reth.va + offset, length,
                                 kRemoteRead, &addr)) {
    // The region is gone: nothing new follows this packet.
    header.opcode = wire::Opcode::kMpResponseError;
    header.aeth.syndrome = wire::nak_syndrome(wire::NakCode::kRemoteAccessError);
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
  if (response_sender_.on_ack(now, ack, has_new()) == StreamSender::AckResult::kGhost) {
    ++device_.counters->drop_ghost_ack;
    return;
  }
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

// ---- Completions -------------------------------------------------------------------------------

bool Responder::poll_completion(Completion& out) {
  if (receives_.empty()) return false;
  const Receive& receive = receives_.front();
  if (!receive.done && !failed_) return false;
  out = Completion{};
  out.is_recv = true;
  out.wr_id = receive.wr_id;
  out.opcode = receive.opcode;
  out.status = receive.done ? receive.status : WcStatus::kFlushError;
  out.byte_len = receive.byte_len;
  out.has_imm = receive.has_imm;
  out.imm = receive.imm;
  out.solicited = receive.solicited;
  if (next_receive_ == receives_.head_index()) ++next_receive_;
  receives_.pop();
  return true;
}

}  // namespace mprdma::transport
