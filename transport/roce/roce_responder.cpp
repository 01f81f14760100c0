#include "transport/roce/roce_responder.hpp"

#include <algorithm>

#include "transport/roce/roce_opcode.hpp"
#include "transport/work/sge_list.hpp"
#include "transport/work/work_opcode.hpp"

namespace mprdma::transport {

namespace {

using wire::NakCode;
using wire::Operation;

// Packets after which a peer that does not ask for acknowledgements gets one.
constexpr uint32_t kAckEvery = 32;

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
  nak_made_ = receiving_ = refused_ = false;
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
  if (begins_again(packet)) [[unlikely]]
    forget_message();
  const int32_t ahead = expected_.distance_to(packet.psn);
  if (ahead > 0) {
    on_gap();
  } else if (ahead < 0) {
    on_duplicate(packet);
  } else {
    core_.heard_peer = true;
    // The expected packet arrived, so a NAK for it that has not left is out of date.
    nak_made_ = false;
    if (reply_ == Reply::kNak) reply_ = ack_owed_ ? Reply::kAck : Reply::kNone;
    if (execute(packet, frame, actions)) ++core_.device.counters->packets_received;
  }
}

// ---- Out of order ------------------------------------------------------------------------------

// A gap is answered with one NAK, then with silence until the expected PSN comes (9.7.5.2.8,
// C9-110).
void RoceResponder::on_gap() {
  ++core_.device.counters->drop_out_of_sequence;
  if (nak_made_) return;
  if (may_forget()) forget_message();
  set_nak(wire::nak_syndrome(NakCode::kPsnSequenceError));
}

// Go-back-0: tells whether a message is arriving that may begin again.
bool RoceResponder::may_forget() const {
  return core_.config.params.go_back_0 && message_.operation != Operation::kNone &&
         goes_back_0(message_first_, expected_);
}

// Tells whether the packet begins that message once more.
bool RoceResponder::begins_again(const wire::Packet& packet) const {
  return may_forget() && packet.psn == message_first_ && packet.info().starts_message() &&
         packet.info().operation == message_.operation;
}

// What has come of the message counts no more. A receive that it has taken waits for it.
void RoceResponder::forget_message() {
  expected_ = message_first_;
  message_ = {};
  receiving_ = false;
}

// Answers a duplicate (9.7.5.1.2 to 9.7.5.1.5).
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
      // The acknowledgement names the most recent PSN, not that of the duplicate.
      if (reply_ == Reply::kNone) reply_ = Reply::kAck;
      ack_owed_ = true;
      break;
  }
}

// Finds the resource of a duplicate. False: the request is older than all resources, so the peer
// does not need its answer any more.
bool RoceResponder::find_resource(Psn psn, uint32_t* index) const {
  // The search begins with the newest, because an old PSN may look new.
  for (*index = resources_.tail_index(); (*index)-- != resources_.head_index();) {
    const Resource& resource = resources_.at_index(*index);
    const int32_t inside = resource.first.distance_to(psn);
    if (inside >= 0 && static_cast<uint32_t>(inside) < resource.packets) return true;
  }
  return false;
}

// Answers a duplicate READ, which may ask for a part of the original range.
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

// ---- In order ----------------------------------------------------------------------------------

bool RoceResponder::execute(const wire::Packet& packet, FrameHandle frame, RxActions& actions) {
  if (!continues(packet) || !length_fits_place(packet, core_.attributes.path_mtu)) {
    return receiving_
               ? refuse_receive(WcStatus::kRemoteInvalidRequestError, NakCode::kInvalidRequest)
               : refuse(NakCode::kInvalidRequest);
  }
  if (!protection_domain(packet, &message_pd_)) return refuse(NakCode::kInvalidRequest);
  if (packet.info().starts_message()) message_first_ = packet.psn;
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

// Checks the sequence of opcodes (9.7.4.1.2).
bool RoceResponder::continues(const wire::Packet& packet) const {
  if (message_.operation == Operation::kNone) return packet.info().starts_message();
  return !packet.info().starts_message() && packet.info().operation == message_.operation;
}

// The protection domain of a request. XRC: that of the shared receive queue which the packet names
// (annex A14); false if there is no such queue.
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
  if (packet.payload_len > core_.receives.current().capacity_bytes - message_.offset) {
    return refuse_receive(WcStatus::kLocalLengthError, NakCode::kInvalidRequest);
  }
  if (!scatter_payload(core_.receives.current_sges(), message_.offset, packet.payload_len, frame,
                       *core_.device.memory, core_.receive_pd(), actions)) {
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
  core_.receives.complete(packet, opcode, byte_len);
  receiving_ = false;
}

bool RoceResponder::execute_write(const wire::Packet& packet, FrameHandle frame,
                                  RxActions& actions) {
  const wire::OpcodeInfo& info = packet.info();
  // A queue pair without remote write access does not offer the operation: invalid request.
  if ((core_.attributes.access & kRemoteWrite) == 0) return refuse(NakCode::kInvalidRequest);
  const wire::Reth reth = info.starts_message() ? packet.reth : message_.reth;
  const uint32_t offset = info.starts_message() ? 0 : message_.offset;
  // The packets of a message hold as many bytes as its first one promised (9.7.4.1.6).
  const uint32_t end = offset + packet.payload_len;
  const bool fits = reth.dma_len <= kMaxMessageBytes && end <= reth.dma_len &&
                    (end == reth.dma_len) == info.ends_message();
  if (!fits) return refuse(NakCode::kInvalidRequest);
  uint64_t addr = 0;
  // The first packet is checked for the whole range, every other one for the part that it writes,
  // because the region may have been closed meanwhile.
  const wire::Reth judged = {.va = reth.va + offset,
                             .rkey = reth.rkey,
                             .dma_len = info.starts_message() ? reth.dma_len : packet.payload_len};
  if (judged.dma_len > 0 && !open_remote(core_, message_pd_, judged, kRemoteWrite, &addr)) {
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
  if (reth.dma_len > 0 && !open_remote(core_, message_pd_, reth, kRemoteRead, &addr)) {
    return refuse(NakCode::kRemoteAccessError);
  }
  const uint32_t packets = packets_of(reth.dma_len, core_.attributes.path_mtu);
  Resource* resource = allocate_resource(packet, packets);
  if (resource == nullptr) return refuse(NakCode::kInvalidRequest);
  begin_answer(resources_.tail_index() - 1, 0, packets, reth.dma_len);
  finish_packet(packet, packets);
  resource->msn = msn_;
  return true;
}

// Executes an atomic (9.4.5): the host does it once, before the next call; the answer waits in the
// resource.
bool RoceResponder::execute_atomic(const wire::Packet& packet, RxActions& actions) {
  if ((core_.attributes.access & kRemoteAtomic) == 0) return refuse(NakCode::kInvalidRequest);
  uint64_t addr = 0;
  const AtomicTarget target = open_atomic_target(core_, message_pd_, packet.reth, &addr);
  if (target == AtomicTarget::kMisaligned) return refuse(NakCode::kInvalidRequest);
  if (target == AtomicTarget::kClosed) return refuse(NakCode::kRemoteAccessError);
  Resource* resource = allocate_resource(packet, 1);
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

// Takes a resource for a READ or an atomic, the oldest one if all are taken: the peer has at most
// max_dest_rd_atomic requests open, so a new one shows that the oldest is complete there. If the
// oldest was not answered yet, the peer breaks the rule (9.7.4.1.7).
RoceResponder::Resource* RoceResponder::allocate_resource(const wire::Packet& packet,
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
  // Responses acknowledge READs and atomics.
  if (operation != Operation::kSend && operation != Operation::kWrite) return;
  if (packet.ack_req || ++unacked_ >= kAckEvery) reply_ = Reply::kAck;
}

// ---- Refusals ----------------------------------------------------------------------------------

bool RoceResponder::not_ready() {
  ++core_.device.counters->rnr_sent;
  set_nak(wire::rnr_nak_syndrome(core_.attributes.min_rnr_timer));
  return false;
}

// Refuses a request. A READ may be refused after a later request was: the NAK then names the READ,
// and the queue pair counts one error.
bool RoceResponder::refuse(NakCode code, QpEvent event) {
  if (!refused_) {
    ++core_.device.counters->errors_remote;
    core_.refusal.raise(event);
    refused_ = true;
  }
  set_nak(wire::nak_syndrome(code));
  return false;
}

bool RoceResponder::refuse(NakCode code) {
  return refuse(code, event_of_refusal(code));
}

// Refuses a message that has taken a receive: the receive's error replaces the event.
bool RoceResponder::refuse_receive(WcStatus status, NakCode code) {
  core_.receives.fail(status, roce_vendor_err(wire::nak_syndrome(code)));
  receiving_ = false;
  return refuse(code, QpEvent::kNone);
}

// Refuses a WRITE whose memory is not open. The receive that a WRITE with immediate would have
// taken ends in a local access error, as with adapters; without a receive there is an event.
bool RoceResponder::refuse_write(const wire::Packet& packet) {
  if (packet.info().has_immdt && begin_receive(packet)) {
    return refuse_receive(WcStatus::kLocalAccessError, NakCode::kRemoteAccessError);
  }
  return refuse(NakCode::kRemoteAccessError);
}

// Refuses a SEND with invalidate whose key this queue pair may not invalidate. Its data has
// arrived, so the receive and the queue pair end in an error; the peer gets neither an
// acknowledgement nor a NAK of it (9.9.3, class J). Answers to earlier requests still leave.
bool RoceResponder::refuse_invalidate() {
  core_.receives.fail(WcStatus::kRemoteInvalidRequestError);
  receiving_ = false;
  ++core_.device.counters->errors_local;
  core_.refusal.raise(QpEvent::kNone);
  refused_ = true;
  return false;
}

void RoceResponder::set_nak(uint8_t syndrome) {
  nak_made_ = true;
  nak_syndrome_ = syndrome;
  nak_psn_ = expected_;
  ack_owed_ = reply_ == Reply::kAck || (reply_ == Reply::kNak && ack_owed_);
  reply_ = Reply::kNak;
}

}  // namespace mprdma::transport
