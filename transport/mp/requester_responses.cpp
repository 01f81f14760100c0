// The packets that a requester takes from its peer: acknowledgements of its requests, READ data and
// the results of atomics.
#include <algorithm>

#include "transport/mp/mp_opcode.hpp"
#include "transport/mp/requester.hpp"
#include "wire/rnr_timer.hpp"

namespace mprdma::transport {

namespace {

using wire::NackCode;

// The status of a NAK code. A reserved code ends a request, too.
template <class Code>
constexpr WcStatus status_of(Code code) {
  return status_of_refusal(code, WcStatus::kRemoteInvalidRequestError);
}

}  // namespace

// ---- Acknowledgements --------------------------------------------------------------------------

void Requester::on_ack(Time now, const wire::Packet& ack) {
  now_ = now;
  if (sender_.take_in_order(now, ack, has_backlog())) [[likely]] {
    core_.waited = Duration::zero();
    peer_in_order_ = (ack.mp_ack.flags & wire::kMpAckOrderedPlacement) != 0;
    ++device_.counters->acks_received;
    if (!sends_.steady()) return time_oldest_read();
    core_.changes = 0;
    return note_steady_ack();
  }
  const NackCode code = ack.mp_ack.nack;
  const StreamSender::AckResult result = sender_.on_ack(now, ack, has_backlog());
  TransportCounters& counters = *device_.counters;
  if (result == StreamSender::AckResult::kGhost) {
    ++counters.drop_ghost_ack;
    return;
  }
  core_.waited = Duration::zero();
  // Only an acknowledgement of something new tells how the peer places: another one may be old, or
  // not from the peer.
  if (result == StreamSender::AckResult::kProgress) {
    peer_in_order_ = (ack.mp_ack.flags & wire::kMpAckOrderedPlacement) != 0;
  }
  ++(code == NackCode::kNone ? counters.acks_received : counters.nacks_received);
  if (result == StreamSender::AckResult::kStale && code == NackCode::kNone) {
    ++counters.drop_stale_ack;
  }
  time_oldest_read();
  // A NAK is about the oldest outstanding packet, or it is stale.
  if (ack.psn != sender_.una() || sender_.idle()) return;
  if (code == NackCode::kRnr) {
    on_rnr(now, ack);
  } else if (is_terminal(code)) {
    on_terminal_nak(ack);
  }
}

void Requester::on_rnr(Time now, const wire::Packet& ack) {
  if (sender_.paused()) return;  // a duplicate: the wait has begun already
  ++device_.counters->rnr_received;
  // Each message has its own retries; only progress beyond it shows that the receiver was ready.
  if (ack.psn != rnr_psn_) sends_.renew_rnr_retries();
  rnr_psn_ = ack.psn;
  if (!sends_.consume_rnr_retry(sends_.index_of(ack.psn))) return;
  sender_.pause(now, now + wire::rnr_timer(ack.mp_ack.detail));
}

void Requester::on_terminal_nak(const wire::Packet& ack) {
  if (sends_.stopped()) return;
  const NackCode code = ack.mp_ack.nack;
  sends_.end(sends_.index_of(ack.psn), status_of(code), static_cast<uint32_t>(code));
}

// ---- Responses ---------------------------------------------------------------------------------

RxVerdict Requester::on_response(Time now, const wire::Packet& packet, FrameHandle frame,
                                 RxActions& actions) {
  now_ = now;
  if (packet.psn.at_or_after(response_end_)) {
    ++device_.counters->drop_bad_packet;  // unsolicited
    return RxVerdict::kDone;
  }
  const RxVerdict verdict =
      response_receiver_.receive(now, packet, frame, actions, ResponseStream{*this, actions});
  // An out-of-order packet is progress, too: it shows that the responder is alive and sends.
  if (response_receiver_.took_packet()) last_response_ = now;
  time_oldest_read();
  note_backlog();
  return verdict;
}

// READ data is placed on arrival if all of its destination memory, or the device, allows that. A
// packet that does not fit the READ that it names waits and is judged in order.
PlacementVerdict Requester::place_response(const wire::Packet& packet, FrameHandle frame,
                                           RxActions& actions) const {
  if (packet.info().operation != wire::Operation::kReadResponse || packet.payload_len == 0 ||
      !sends_.has_reads()) {
    return PlacementVerdict::kHold;
  }
  // Message numbers of open READs are consecutive, so the difference is an index.
  const uint32_t oldest = sends_.at(sends_.read_index()).message_number;
  const uint32_t which = (packet.mp_data.message_number - oldest) & kPsnMask;
  if (which >= sends_.num_reads()) return PlacementVerdict::kHold;
  const uint32_t index = sends_.read_index(which);
  const Work& work = sends_.at(index);
  const uint32_t offset = packet.mp_data.offset;
  if (work.status != WcStatus::kSuccess || work.opcode != WorkOpcode::kRead ||
      offset % work.segment != 0 || !response_fits(work, offset, packet) ||
      work.response_first + offset / work.segment != packet.psn) {
    return PlacementVerdict::kHold;
  }
  // A synchronise operation updates memory after everything before it, so its data waits.
  if ((work.flags & kSynchronise) != 0 &&
      response_receiver_.rcv_nxt().before(work.response_first)) {
    return PlacementVerdict::kHold;
  }
  const bool forced = config_.params.placement == PlacementPolicy::kRelaxed;
  const uint32_t access = forced ? kLocalWrite : kLocalWrite | kRelaxedOrdering;
  if (!sends_.opens(index, offset, packet.payload_len, access)) return PlacementVerdict::kHold;
  sends_.scatter(index, offset, packet.payload_len, frame, actions);
  return PlacementVerdict::kPlaced;
}

// Tells whether `packet` is the packet of the READ's data that belongs at `offset`.
bool Requester::response_fits(const Work& work, uint32_t offset, const wire::Packet& packet) const {
  if (packet.mp_data.offset != offset || offset > work.length) return false;
  const uint32_t left = work.length - offset;
  const uint32_t expected = std::min(left, work.segment);
  return packet.payload_len == expected && packet.info().starts_message() == (offset == 0) &&
         packet.info().ends_message() == (left == expected);
}

// What the extended packet would say besides: the standard's belongs to the oldest READ.
wire::Packet Requester::complete(const wire::Packet& packet) const {
  wire::Packet whole = packet;
  if (!sends_.has_reads()) return whole;
  const Work& work = sends_.at(sends_.read_index());
  whole.mp_data.message_number = work.message_number;
  whole.mp_data.offset = work.response_offset;
  return whole;
}

ExecuteResult Requester::execute_response(const wire::Packet& packet, FrameHandle frame,
                                          bool placed, RxActions& actions) {
  // Without an open READ the packet follows a READ that failed, and is dropped.
  if (!sends_.has_reads()) return {};
  const uint32_t index = sends_.read_index();
  Work& work = sends_.at(index);
  // A response shows that its request, and everything before it, has arrived.
  sender_.on_implied_ack(now_, work.first + 1);
  core_.waited = Duration::zero();
  const wire::OpcodeInfo& info = packet.info();
  if (info.operation == wire::Operation::kResponseError) {
    const auto code = static_cast<wire::NakCode>(packet.aeth.value());
    return end_response(index, status_of(code), packet.aeth.syndrome);
  }
  if (is_atomic(work.opcode)) return execute_atomic_response(packet, actions);
  if (info.operation != wire::Operation::kReadResponse ||
      packet.mp_data.message_number != work.message_number ||
      !response_fits(work, work.response_offset, packet)) {
    return end_response(index, WcStatus::kBadResponseError);
  }
  const uint32_t offset = work.response_offset;
  const bool open = placed ? sends_.opens(index, offset, packet.payload_len, kLocalWrite)
                           : sends_.scatter(index, offset, packet.payload_len, frame, actions);
  if (!open) return end_response(index, WcStatus::kLocalProtectionError);
  work.response_offset += packet.payload_len;
  if (info.ends_message()) {
    sender_.on_peer_path(packet.vp);
    work.response_done = true;
    pop_read();
  }
  return {};
}

// Places the old value of the peer's memory, in the host's byte order like any integer of the
// application.
ExecuteResult Requester::execute_atomic_response(const wire::Packet& packet, RxActions& actions) {
  const uint32_t index = sends_.read_index();
  Work& work = sends_.at(index);
  if (packet.info().operation != wire::Operation::kAtomicAck ||
      packet.mp_data.message_number != work.message_number || packet.payload_len != 0) {
    return end_response(index, WcStatus::kBadResponseError);
  }
  if (!sends_.scatter_result(index, packet.atomic_original, actions)) {
    return end_response(index, WcStatus::kLocalProtectionError);
  }
  sender_.on_peer_path(packet.vp);
  work.response_offset = work.length;
  work.response_done = true;
  pop_read();
  return {};
}

// Fails a READ. Until the queue pair is in error, the rest of the stream is taken without a check.
ExecuteResult Requester::end_response(uint32_t index, WcStatus status, uint32_t vendor_err) {
  sends_.fail(index, status, vendor_err);
  return {};
}

}  // namespace mprdma::transport
