#include "transport/roce_responder.hpp"

#include <algorithm>

#include "transport/requester.hpp"
#include "transport/roce_opcode.hpp"
#include "transport/sge_list.hpp"
#include "transport/work_opcode.hpp"

namespace mprdma::transport {

namespace {

using wire::NakCode;
using wire::Operation;

// A peer that does not ask for acknowledgements gets one after so many packets.
constexpr uint32_t kAckEvery = 32;

constexpr uint32_t packets_of(uint32_t length, uint32_t mtu) {
  return length == 0 ? 1 : (length - 1) / mtu + 1;
}

}  // namespace

RoceResponder::RoceResponder(QpCore& core) : core_(core), resources_(core.config.max_rd_atomic) {}

void RoceResponder::enter_rtr() {
  expected_ = core_.attributes.rq_psn;
  msn_ = unacked_ = 0;
  stats_ = {};
}

void RoceResponder::reset() {
  resources_.clear();
  cursor_ = resources_.tail_index();
  message_ = {};
  expected_ = Psn();
  nak_made_ = receiving_ = refused_ = refusal_due_ = false;
  refusal_event_ = QpEvent::kNone;
  reply_ = Reply::kNone;
}

void RoceResponder::fail() {
  if (refused_) return;
  cursor_ = resources_.tail_index();
  reply_ = Reply::kNone;
}

void RoceResponder::on_request(const wire::Packet& packet, FrameHandle frame, RxActions& actions) {
  if (refused_) {
    ++core_.device.counters->drop_bad_state;
    return;
  }
  const int32_t ahead = expected_.distance_to(packet.psn);
  if (ahead > 0) {
    on_gap();
  } else if (ahead < 0) {
    on_duplicate(packet);
  } else {
    // The one that was waited for: a NAK that has not left is out of date.
    nak_made_ = false;
    if (reply_ == Reply::kNak) reply_ = ack_owed_ ? Reply::kAck : Reply::kNone;
    if (execute(packet, frame, actions)) ++core_.device.counters->packets_received;
  }
}

// ---- Out of turn -------------------------------------------------------------------------------

// 9.7.5.2.8, C9-110: one NAK, then silence until the expected PSN comes.
void RoceResponder::on_gap() {
  ++core_.device.counters->drop_out_of_sequence;
  if (nak_made_) return;
  set_nak(wire::nak_syndrome(NakCode::kPsnSequenceError));
}

// 9.7.5.1.2 to 9.7.5.1.5.
void RoceResponder::on_duplicate(const wire::Packet& packet) {
  ++core_.device.counters->drop_duplicate;
  switch (packet.info().operation) {
    case Operation::kReadRequest:
      answer_read_again(packet);
      break;
    case Operation::kCompareSwap:
    case Operation::kFetchAdd:
      answer_atomic_again(packet);
      break;
    default:
      // The most recent PSN, not that of the duplicate.
      if (reply_ == Reply::kNone) reply_ = Reply::kAck;
      ack_owed_ = true;
      break;
  }
}

// False: older than what is remembered; the peer does not need it any more.
bool RoceResponder::find_resource(Psn psn, uint32_t* index) const {
  // The newest first: old ones may look new.
  for (*index = resources_.tail_index(); (*index)-- != resources_.head_index();) {
    const Resource& resource = resources_.at_index(*index);
    const int32_t inside = resource.first.distance_to(psn);
    if (inside >= 0 && static_cast<uint32_t>(inside) < resource.packets) return true;
  }
  return false;
}

// It may ask for a part of what it asked for at first.
void RoceResponder::answer_read_again(const wire::Packet& packet) {
  uint32_t index = 0;
  if (!find_resource(packet.psn, &index)) return;
  const Resource& resource = resources_.at_index(index);
  if (resource.operation != Operation::kReadRequest) return;
  const uint32_t mtu = core_.attributes.path_mtu;
  const wire::Reth& reth = packet.reth;
  const auto begin = static_cast<uint32_t>(resource.first.distance_to(packet.psn));
  const uint32_t offset = begin * mtu;
  if (reth.rkey != resource.reth.rkey || reth.va != resource.reth.va + offset ||
      reth.dma_len > resource.reth.dma_len - offset) {
    return;
  }
  ++core_.device.counters->reads_again;
  begin_answer(index, begin, begin + packets_of(reth.dma_len, mtu), offset + reth.dma_len);
}

void RoceResponder::answer_atomic_again(const wire::Packet& packet) {
  uint32_t index = 0;
  if (!find_resource(packet.psn, &index)) return;
  if (resources_.at_index(index).operation != packet.info().operation) return;
  ++core_.device.counters->atomics_replayed;
  begin_answer(index, 0, 1, wire::kAtomicBytes);
}

// ---- In turn -----------------------------------------------------------------------------------

bool RoceResponder::execute(const wire::Packet& packet, FrameHandle frame, RxActions& actions) {
  if (!continues(packet) || !length_fits_place(packet, core_.attributes.path_mtu)) {
    return receiving_
               ? refuse_receive(WcStatus::kRemoteInvalidRequestError, NakCode::kInvalidRequest)
               : refuse(NakCode::kInvalidRequest);
  }
  if (!protection_domain(packet, &message_pd_)) return refuse(NakCode::kInvalidRequest);
  switch (packet.info().operation) {
    case Operation::kSend:
      return execute_send(packet, frame, actions);
    case Operation::kWrite:
      return execute_write(packet, frame, actions);
    case Operation::kReadRequest:
      return execute_read(packet);
    default:
      return execute_atomic(packet, actions);
  }
}

// The opcode sequence of 9.7.4.1.2.
bool RoceResponder::continues(const wire::Packet& packet) const {
  if (message_.operation == Operation::kNone) return packet.info().starts_message();
  return !packet.info().starts_message() && packet.info().operation == message_.operation;
}

// XRC: that of the shared receive queue which the packet names (annex A14), if there is one.
bool RoceResponder::protection_domain(const wire::Packet& packet, uint32_t* pd) const {
  *pd = core_.config.pd;
  if (core_.config.service != QpService::kXrcReceive) return true;
  const SharedReceives* shared = core_.shared_for(packet);
  if (shared != nullptr) *pd = shared->pd;
  return shared != nullptr;
}

bool RoceResponder::execute_send(const wire::Packet& packet, FrameHandle frame,
                                 RxActions& actions) {
  if (packet.info().starts_message()) {
    if (!begin_receive(packet)) return not_ready();
    message_ = {.operation = Operation::kSend, .offset = 0, .reth = {}};
  }
  Receive& receive = core_.receives.current();
  if (packet.payload_len > receive.capacity_bytes - message_.offset) {
    return refuse_receive(WcStatus::kLocalLengthError, NakCode::kInvalidRequest);
  }
  // A shared queue's local keys are judged in its protection domain (10.2.9.3).
  const uint32_t pd = receive.shared != nullptr ? receive.shared->pd : core_.config.pd;
  if (!scatter_payload(core_.receives.current_sges(), message_.offset, packet.payload_len, frame,
                       *core_.device.memory, pd, actions)) {
    return refuse_receive(WcStatus::kLocalProtectionError, NakCode::kRemoteOperationalError);
  }
  message_.offset += packet.payload_len;
  if (packet.info().ends_message()) {
    if (packet.info().has_ieth &&
        !core_.device.memory->invalidate(packet.ieth_rkey, message_pd_, core_.config.qpn)) {
      return refuse_invalidate();
    }
    finish_receive(packet, WcOpcode::kRecv, message_.offset);
  }
  finish_packet(packet, 1);
  return true;
}

bool RoceResponder::begin_receive(const wire::Packet& packet) {
  receiving_ = core_.receives.ready(core_.shared_for(packet));
  return receiving_;
}

void RoceResponder::finish_receive(const wire::Packet& packet, WcOpcode opcode, uint32_t byte_len) {
  Receive& receive = core_.receives.current();
  receive.opcode = opcode;
  receive.byte_len = byte_len;
  receive.solicited = packet.solicited_event;
  receive.has_imm = packet.info().has_immdt;
  receive.invalidated = packet.info().has_ieth;
  receive.imm = packet.info().has_ieth ? packet.ieth_rkey : packet.immdt;
  core_.receives.finish_current();
  receiving_ = false;
}

bool RoceResponder::execute_write(const wire::Packet& packet, FrameHandle frame,
                                  RxActions& actions) {
  const wire::OpcodeInfo& info = packet.info();
  // A queue pair that does not offer the operation at all: the request is invalid.
  if ((core_.attributes.access & kRemoteWrite) == 0) return refuse(NakCode::kInvalidRequest);
  const wire::Reth reth = info.starts_message() ? packet.reth : message_.reth;
  const uint32_t offset = info.starts_message() ? 0 : message_.offset;
  // The packets of a message hold as many bytes as its first one promised (9.7.4.1.6).
  const uint32_t end = offset + packet.payload_len;
  const bool fits = reth.dma_len <= kMaxMessageBytes && end <= reth.dma_len &&
                    (end == reth.dma_len) == info.ends_message();
  if (!fits) return refuse(NakCode::kInvalidRequest);
  uint64_t addr = 0;
  // The first packet is judged by all of the range, each other one by what it writes: a region may
  // be closed meanwhile.
  const uint32_t judged = info.starts_message() ? reth.dma_len : packet.payload_len;
  if (judged > 0 &&
      !core_.device.memory->translate_remote(reth.rkey, message_pd_, core_.config.qpn,
                                             reth.va + offset, judged, kRemoteWrite, &addr)) {
    return refuse_write(packet);
  }
  if (packet.payload_len > 0 && !core_.device.memory->present(addr, packet.payload_len, true)) {
    return refuse_write(packet);
  }
  if (info.has_immdt && !begin_receive(packet)) return not_ready();
  if (packet.payload_len > 0) {
    actions.placements.push({.frame = frame, .length = packet.payload_len, .addr = addr});
  }
  message_ = {.operation = Operation::kWrite, .offset = end, .reth = reth};
  if (info.has_immdt) finish_receive(packet, WcOpcode::kRecvWriteImm, reth.dma_len);
  finish_packet(packet, 1);
  return true;
}

bool RoceResponder::execute_read(const wire::Packet& packet) {
  const wire::Reth& reth = packet.reth;
  uint64_t addr = 0;
  if ((core_.attributes.access & kRemoteRead) == 0 || reth.dma_len > kMaxMessageBytes) {
    return refuse(NakCode::kInvalidRequest);
  }
  if (reth.dma_len > 0 &&
      !core_.device.memory->translate_remote(reth.rkey, message_pd_, core_.config.qpn, reth.va,
                                             reth.dma_len, kRemoteRead, &addr)) {
    return refuse(NakCode::kRemoteAccessError);
  }
  const uint32_t packets = packets_of(reth.dma_len, core_.attributes.path_mtu);
  Resource* resource = take_resource(packet, packets);
  if (resource == nullptr) return refuse(NakCode::kInvalidRequest);
  begin_answer(resources_.tail_index() - 1, 0, packets, reth.dma_len);
  finish_packet(packet, packets);
  resource->msn = msn_;
  return true;
}

// 9.4.5: done once, by the host, before the next call; the answer waits in the resource.
bool RoceResponder::execute_atomic(const wire::Packet& packet, RxActions& actions) {
  const wire::Reth& reth = packet.reth;
  uint64_t addr = 0;
  if ((core_.attributes.access & kRemoteAtomic) == 0) return refuse(NakCode::kInvalidRequest);
  // Before the key is looked at (9.4.5; 9.7.4.1.5).
  if (reth.va % wire::kAtomicBytes != 0) return refuse(NakCode::kInvalidRequest);
  if (!core_.device.memory->translate_remote(reth.rkey, message_pd_, core_.config.qpn, reth.va,
                                             wire::kAtomicBytes, kRemoteAtomic, &addr)) {
    return refuse(NakCode::kRemoteAccessError);
  }
  // A region may lie across the words of the host's memory.
  if (addr % wire::kAtomicBytes != 0) return refuse(NakCode::kInvalidRequest);
  if (!core_.device.memory->present(addr, wire::kAtomicBytes, true)) {
    return refuse(NakCode::kRemoteAccessError);
  }
  Resource* resource = take_resource(packet, 1);
  if (resource == nullptr) return refuse(NakCode::kInvalidRequest);
  const bool swaps = packet.info().operation == Operation::kCompareSwap;
  actions.placements.push({.length = wire::kAtomicBytes,
                           .addr = addr,
                           .kind = swaps ? PlacementKind::kCompareSwap : PlacementKind::kFetchAdd,
                           .compare = packet.atomic_compare,
                           .swap_add = packet.atomic_swap_add,
                           .original = &resource->original});
  begin_answer(resources_.tail_index() - 1, 0, 1, wire::kAtomicBytes);
  finish_packet(packet, 1);
  resource->msn = msn_;
  return true;
}

// The peer has at most max_dest_rd_atomic requests open, so this one says that the oldest is
// complete there; unless that was not answered, and the peer breaks the rule (9.7.4.1.7).
RoceResponder::Resource* RoceResponder::take_resource(const wire::Packet& packet,
                                                      uint32_t packets) {
  const uint32_t limit =
      std::min<uint32_t>(core_.attributes.max_dest_rd_atomic, core_.config.max_rd_atomic);
  if (limit == 0) return nullptr;
  if (resources_.size() >= limit) {
    if (!resources_.front().answered) return nullptr;
    if (cursor_ == resources_.head_index()) ++cursor_;
    resources_.pop();
    pass_answered();
  }
  Resource resource;
  resource.operation = packet.info().operation;
  resource.first = packet.psn;
  resource.packets = packets;
  resource.reth = packet.reth;
  resource.pd = message_pd_;
  return &resources_.push(resource);
}

void RoceResponder::finish_packet(const wire::Packet& packet, uint32_t psns) {
  expected_ += psns;
  if (packet.info().ends_message()) {
    message_ = {};
    msn_ = (msn_ + 1) & wire::kMessageNumberMask;
  }
  const Operation operation = packet.info().operation;
  if (operation != Operation::kSend && operation != Operation::kWrite) return;  // answered anyway
  if (packet.ack_req || ++unacked_ >= kAckEvery) reply_ = Reply::kAck;
}

// ---- Refusals ----------------------------------------------------------------------------------

bool RoceResponder::not_ready() {
  ++core_.device.counters->rnr_sent;
  set_nak(wire::rnr_nak_syndrome(core_.attributes.min_rnr_timer));
  return false;
}

// A READ may turn out to be refused after a request behind it was: the NAK is for the earlier one,
// and it is one error of the queue pair all the same.
bool RoceResponder::refuse(NakCode code) {
  if (!refused_) {
    refusal_event_ =
        code == NakCode::kRemoteAccessError ? QpEvent::kAccessError : QpEvent::kRequestError;
    ++core_.device.counters->errors_remote;
    refusal_due_ = refused_ = true;
  }
  set_nak(wire::nak_syndrome(code));
  return false;
}

// The receive that a message took ends in an error of its own, which says what an event would.
bool RoceResponder::refuse_receive(WcStatus status, NakCode code) {
  Receive& receive = core_.receives.current();
  receive.status = status;
  receive.vendor_err = roce_vendor_err(wire::nak_syndrome(code));
  core_.receives.finish_current();
  receiving_ = false;
  refuse(code);
  refusal_event_ = QpEvent::kNone;
  return false;
}

// The memory is not open: the receive that a WRITE with immediate would have taken ends in a local
// access error, as with adapters; without one an event says it.
bool RoceResponder::refuse_write(const wire::Packet& packet) {
  if (packet.info().has_immdt && begin_receive(packet)) {
    return refuse_receive(WcStatus::kLocalAccessError, NakCode::kRemoteAccessError);
  }
  return refuse(NakCode::kRemoteAccessError);
}

// A SEND with invalidate whose key is not this queue pair's to invalidate: its data has arrived, so
// that the receive ends in an error, and the queue pair with it; the peer hears neither an
// acknowledgement nor a NAK of it (9.9.3, class J). What is owed for earlier requests still leaves.
bool RoceResponder::refuse_invalidate() {
  Receive& receive = core_.receives.current();
  receive.status = WcStatus::kRemoteInvalidRequestError;
  core_.receives.finish_current();
  receiving_ = false;
  ++core_.device.counters->errors_local;
  refusal_due_ = refused_ = true;
  return false;
}

void RoceResponder::set_nak(uint8_t syndrome) {
  nak_made_ = true;
  nak_syndrome_ = syndrome;
  nak_psn_ = expected_;
  ack_owed_ = reply_ == Reply::kAck || (reply_ == Reply::kNak && ack_owed_);
  reply_ = Reply::kNak;
}

bool RoceResponder::take_refusal(QpEvent* event) {
  if (!refusal_due_) return false;
  refusal_due_ = false;
  *event = refusal_event_;
  refusal_event_ = QpEvent::kNone;
  return true;
}

}  // namespace mprdma::transport
