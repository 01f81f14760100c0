// What a requester learns from its peer: acknowledgements of its requests, READ data and the
// results of atomics.
#include <algorithm>

#include "transport/mp_opcode.hpp"
#include "transport/requester.hpp"
#include "wire/rnr_timer.hpp"

namespace mprdma::transport {

namespace {

using wire::NackCode;

constexpr uint8_t kRnrRetryForever = 7;

constexpr WcStatus status_of(NackCode code) {
  switch (code) {
    case NackCode::kRemoteAccessError:
      return WcStatus::kRemoteAccessError;
    case NackCode::kRemoteOperationalError:
      return WcStatus::kRemoteOperationError;
    default:
      return WcStatus::kRemoteInvalidRequestError;
  }
}

constexpr WcStatus status_of_syndrome(uint8_t syndrome) {
  switch (static_cast<wire::NakCode>(wire::aeth_value(syndrome))) {
    case wire::NakCode::kRemoteAccessError:
      return WcStatus::kRemoteAccessError;
    case wire::NakCode::kRemoteOperationalError:
      return WcStatus::kRemoteOperationError;
    default:
      return WcStatus::kRemoteInvalidRequestError;
  }
}

}  // namespace

// ---- Acknowledgements --------------------------------------------------------------------------

void Requester::on_ack(Time now, const wire::Packet& ack) {
  now_ = now;
  const NackCode code = ack.mp_ack.nack;
  const StreamSender::AckResult result = sender_.on_ack(now, ack, has_backlog());
  TransportCounters& counters = *device_.counters;
  if (result == StreamSender::AckResult::kGhost) {
    ++counters.drop_ghost_ack;
    return;
  }
  core_.waited = Duration::zero();
  // What says nothing new may be old, or not from the peer.
  if (result == StreamSender::AckResult::kNews) {
    peer_in_order_ = (ack.mp_ack.flags & wire::kMpAckOrderedPlacement) != 0;
  }
  ++(code == NackCode::kNone ? counters.acks_received : counters.nacks_received);
  if (result == StreamSender::AckResult::kStale && code == NackCode::kNone) {
    ++counters.drop_stale_ack;
  }
  time_oldest_read();
  // What follows speaks of the oldest packet that is outstanding, or is stale.
  if (ack.psn != sender_.una() || sender_.idle()) return;
  if (code == NackCode::kRnr) {
    on_rnr(now, ack);
  } else if (code >= NackCode::kInvalidRequest) {
    on_terminal_nak(ack);
  }
}

void Requester::on_rnr(Time now, const wire::Packet& ack) {
  if (sender_.paused()) return;  // a duplicate: the wait is on already
  ++device_.counters->rnr_received;
  // Each message has its own retries; only getting past it says that the receiver was ready.
  if (ack.psn != rnr_psn_) rnr_left_ = attributes_.rnr_retry;
  rnr_psn_ = ack.psn;
  if (attributes_.rnr_retry != kRnrRetryForever) {
    if (rnr_left_ == 0) {
      ++device_.counters->rnr_retry_exceeded;
      stopped_ = true;
      fail_work(index_of(ack.psn), WcStatus::kRnrRetryExceeded,
                static_cast<uint32_t>(NackCode::kRnr));
      return;
    }
    --rnr_left_;
  }
  sender_.pause(now + wire::rnr_timer(ack.mp_ack.detail));
}

void Requester::on_terminal_nak(const wire::Packet& ack) {
  if (stopped_) return;
  stopped_ = true;
  fail_work(index_of(ack.psn), status_of(ack.mp_ack.nack), static_cast<uint32_t>(ack.mp_ack.nack));
}

void Requester::fail_work(uint32_t index, WcStatus status, uint32_t vendor_err) {
  Work& work = queue_.at_index(index);
  blocked_ = true;
  if (work.status != WcStatus::kSuccess) return;
  work.status = status;
  work.vendor_err = vendor_err;
  ++device_.counters->errors_local;
}

// ---- Responses ---------------------------------------------------------------------------------

RxVerdict Requester::on_response(Time now, const wire::Packet& packet, FrameHandle frame,
                                 RxActions& actions) {
  now_ = now;
  if (packet.psn.at_or_after(response_end_)) {
    ++device_.counters->drop_bad_packet;  // nobody asked for it
    return RxVerdict::kDone;
  }
  const RxVerdict verdict =
      response_receiver_.receive(packet, frame, actions, ResponseStream{*this, actions});
  // A packet ahead of its turn is progress, too: the responder lives and sends.
  if (response_receiver_.took_packet()) last_response_ = now;
  time_oldest_read();
  note_backlog();
  return verdict;
}

// READ data may be placed as it arrives where all the memory that it goes to, or the device, allows
// that. What does not fit the READ that it names waits, so that it is judged in its turn.
Early Requester::place_response(const wire::Packet& packet, FrameHandle frame,
                                RxActions& actions) const {
  if (packet.info().operation != wire::Operation::kReadResponse || packet.payload_len == 0 ||
      reads_.empty()) {
    return Early::kWait;
  }
  // Open READs have consecutive numbers.
  const uint32_t oldest = queue_.at_index(reads_.front()).message_number;
  const uint32_t which = (packet.mp_data.message_number - oldest) & kPsnMask;
  if (which >= reads_.size()) return Early::kWait;
  const uint32_t index = reads_[which];
  const Work& work = queue_.at_index(index);
  const uint32_t offset = packet.mp_data.offset;
  if (work.status != WcStatus::kSuccess || work.opcode != WorkOpcode::kRead ||
      offset % attributes_.path_mtu != 0 || !response_fits(work, offset, packet) ||
      work.response_first + offset / attributes_.path_mtu != packet.psn) {
    return Early::kWait;
  }
  // Memory here is updated after everything before it: it waits for its turn.
  if ((work.flags & kSynchronise) != 0 &&
      response_receiver_.rcv_nxt().before(work.response_first)) {
    return Early::kWait;
  }
  const bool forced = config_.params.placement == PlacementPolicy::kRelaxed;
  const std::span<const Sge> sges = sges_of(index).first(work.num_sge);
  const uint32_t access = forced ? kLocalWrite : kLocalWrite | kRelaxedOrdering;
  if (!all_open(sges, offset, packet.payload_len, *device_.memory, config_.pd, access)) {
    return Early::kWait;
  }
  scatter_payload(sges, offset, packet.payload_len, frame, *device_.memory, config_.pd, actions);
  return Early::kPlaced;
}

// Is it the packet of the READ's data that belongs at `offset`?
bool Requester::response_fits(const Work& work, uint32_t offset, const wire::Packet& packet) const {
  if (packet.mp_data.offset != offset || offset > work.length) return false;
  const uint32_t left = work.length - offset;
  const uint32_t expected = std::min(left, attributes_.path_mtu);
  return packet.payload_len == expected && packet.info().starts_message() == (offset == 0) &&
         packet.info().ends_message() == (left == expected);
}

Outcome Requester::execute_response(const wire::Packet& packet, FrameHandle frame, bool placed,
                                    RxActions& actions) {
  // A READ that failed takes no more than it asked for; nothing comes after it.
  if (reads_.empty()) return {};
  const uint32_t index = reads_.front();
  Work& work = queue_.at_index(index);
  // A response shows that its request, and everything before it, has arrived.
  sender_.on_implied_ack(now_, work.first + 1);
  core_.waited = Duration::zero();
  const wire::OpcodeInfo& info = packet.info();
  if (info.operation == wire::Operation::kResponseError) {
    return end_response(index, status_of_syndrome(packet.aeth.syndrome), packet.aeth.syndrome);
  }
  if (is_atomic(work.opcode)) return execute_atomic_response(packet, actions);
  if (info.operation != wire::Operation::kReadResponse ||
      packet.mp_data.message_number != work.message_number ||
      !response_fits(work, work.response_offset, packet)) {
    return end_response(index, WcStatus::kBadResponseError, 0);
  }
  const std::span<const Sge> sges = sges_of(index).first(work.num_sge);
  const bool open = placed ? all_open(sges, work.response_offset, packet.payload_len,
                                      *device_.memory, config_.pd, kLocalWrite)
                           : scatter_payload(sges, work.response_offset, packet.payload_len, frame,
                                             *device_.memory, config_.pd, actions);
  if (!open) return end_response(index, WcStatus::kLocalProtectionError, 0);
  work.response_offset += packet.payload_len;
  if (info.ends_message()) {
    work.response_done = true;
    pop_read();
  }
  return {};
}

// What was in the peer's memory before, in the host's byte order like any integer of the
// application.
Outcome Requester::execute_atomic_response(const wire::Packet& packet, RxActions& actions) {
  const uint32_t index = reads_.front();
  Work& work = queue_.at_index(index);
  if (packet.info().operation != wire::Operation::kAtomicAck ||
      packet.mp_data.message_number != work.message_number || packet.payload_len != 0) {
    return end_response(index, WcStatus::kBadResponseError, 0);
  }
  if (!scatter_value(sges_of(index).first(work.num_sge), packet.atomic_original, *device_.memory,
                     config_.pd, actions)) {
    return end_response(index, WcStatus::kLocalProtectionError, 0);
  }
  work.response_offset = work.length;
  work.response_done = true;
  pop_read();
  return {};
}

// The READ fails; its stream is taken as it comes until the queue pair is in error.
Outcome Requester::end_response(uint32_t index, WcStatus status, uint32_t vendor_err) {
  fail_work(index, status, vendor_err);
  return {};
}

}  // namespace mprdma::transport
