// The requester's common case without detours: a SEND or WRITE of one piece is posted, its packets
// leave (both at once, if it is short), acknowledgements in order come, and its success is handed
// out.
//
// Invariant: each function either does what the general one does (requester.cpp,
// requester_responses.cpp) or returns false and does nothing; the caller then calls the general
// one.
#include <algorithm>

#include "transport/mp/mp_opcode.hpp"
#include "transport/mp/requester.hpp"
#include "transport/stream/stream_sender_steady.hpp"

namespace mprdma::transport {

bool Requester::post_plain(Time now, const PlainRequest& request) {
  if (!sends_.steady() || !sender_.steady()) return false;
  Work* const work = sends_.post_plain(request);
  if (work == nullptr) return false;
  now_ = now;
  choose_segment(*work);
  work->packets = packets_of(work->length, work->segment);
  core_.changes |= sends_.size() > 1 ? kSendingChanged : kAllChanged;
  if (!had_new_) begin_backlog();
  return true;
}

bool Requester::poll_plain(Time now, PlainPacket& out) {
  if (!had_new_ || !steady() || !sends_.next_is_plain() || !sender_.may_send_steady()) return false;
  const uint32_t packet_index = sends_.next_packet();
  Work& work = sends_.next();
  if (packet_index == 0 && work.segment != send_segment_of(attributes_)) return false;
  const uint32_t offset = packet_index * work.segment;
  const uint32_t length = std::min(work.length - offset, work.segment);
  if (!sends_.find_piece(offset, length, &out.from)) return false;
  core_.changes |= sender_.idle() ? kDeadlineChanged : 0;
  now_ = now;
  if (packet_index == 0) begin_plain(work);
  const wire::Opcode opcode =
      mp_opcode(work.opcode, packet_index == 0, packet_index + 1 == work.packets);
  fill_bare(now, work, opcode, offset, length, out.header);
  out.header.vp = sender_.send_steady(now);
  sends_.advance(1);
  if (sends_.next_is_plain()) {
    out.more = true;
    return true;
  }
  if (sends_.has_unsent()) {
    core_.changes = kAllChanged;
    sends_.run_local_work(sender_.nxt());
  }
  had_new_ = out.more = has_new();
  return true;
}

PlainSend Requester::send_plain(Time now, const PlainRequest& request, PlainPacket& out) {
  const Sge& sge = request.sge;
  if (sends_.has_unsent() || !steady() || sge.length > attributes_.path_mtu) {
    return PlainSend::kNothing;
  }
  out.from = sge.addr;
  if ((request.flags & kInline) == 0 && sge.length > 0 &&
      !device_.memory->translate(sge.lkey, config_.pd, sge.addr, sge.length, 0, &out.from)) {
    return PlainSend::kNothing;
  }
  Work* const work = sends_.post_plain(request);
  if (work == nullptr) return PlainSend::kNothing;
  now_ = now;
  work->segment = send_segment_of(attributes_);
  work->packets = 1;
  const bool first = sends_.size() == 1;
  if (!had_new_) sender_.on_backlog(now);
  DCHECK(steady());
  if (!sender_.may_send_steady()) {
    had_new_ = true;
    core_.changes |= first ? kAllChanged : kSendingChanged;
    if (sender_.awaits_burst()) core_.changes |= kDeadlineChanged;
    return PlainSend::kPosted;
  }
  core_.changes |= first ? kBusyChanged : 0;
  core_.changes |= sender_.idle() ? kDeadlineChanged : 0;
  begin_plain(*work);
  const wire::Opcode opcode =
      request.opcode == WorkOpcode::kWrite ? wire::Opcode::kMpWriteOnly : wire::Opcode::kMpSendOnly;
  fill_bare(now, *work, opcode, 0, sge.length, out.header);
  out.header.vp = sender_.send_steady(now);
  sends_.advance_over();
  had_new_ = out.more = false;
  return PlainSend::kSent;
}

// begin() of a plain request, whose segment is the present one.
inline void Requester::begin_plain(Work& work) {
  work.begun = true;
  work.first = sender_.nxt();
  work.message_number = receive_number_ & kPsnMask;
  if (consumes_receive(work.opcode)) ++receive_number_;
}

// The header but for its path: a packet of a request that has begun, for snd_nxt.
inline void Requester::fill_bare(Time now, const Work& work, wire::Opcode opcode, uint32_t offset,
                                 uint32_t length, wire::BarePacket& header) const {
  const bool last = offset + length == work.length;
  header.opcode = static_cast<uint8_t>(opcode);
  header.flags = last && (work.flags & kSolicited) != 0 ? wire::BarePacket::kSolicitedEvent : 0;
  header.psn = sender_.nxt().value();
  header.dest_qpn = attributes_.dest_qpn.value();
  header.payload_len = length;
  header.time = static_cast<uint32_t>(now.ns());
  header.number = work.message_number;
  header.offset = offset;
  header.extra = work.imm_or_rkey;
  header.va = work.remote_addr;
  header.rkey = work.rkey.value();
  header.dma_len = work.length;
}

bool Requester::take_plain_ack(Time now, const wire::BarePacket& packet) {
  // Flags, NACK code and detail in one.
  constexpr uint32_t kPlain = wire::kMpAckSackValid;
  constexpr uint32_t kOrdered = wire::kMpAckOrderedPlacement;
  const StreamSender::SteadyAck ack{.aack = Psn(packet.psn),
                                    .run = packet.number >> 24,
                                    .vp = packet.vp,
                                    .echoed_timestamp = packet.time,
                                    .delay_us = packet.offset >> 24};
  if ((packet.extra & ~kOrdered) != kPlain || Psn(packet.number) + 1 != ack.aack ||
      !sends_.steady() || !sender_.expects(ack)) {
    return false;
  }
  const bool has_new = sends_.next_is_plain();
  if (!has_new && sends_.has_unsent()) return false;
  sender_.take_steady(now, ack, has_new);
  now_ = now;
  core_.waited = Duration::zero();
  peer_in_order_ = (packet.extra & kOrdered) != 0;
  ++device_.counters->acks_received;
  note_steady_ack();
  return true;
}

// What an acknowledgement in the common case may have changed for the host.
void Requester::note_steady_ack() {
  if (completion_ready()) core_.changes |= kCompletionsChanged;
  if (!sends_.has_unsent()) return;
  const bool plain = sends_.next_is_plain() && !sender_.awaits_burst();
  core_.changes |= plain ? kSendingChanged : kAllChanged;
}

}  // namespace mprdma::transport
