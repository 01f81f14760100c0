// The packets that the responder sends: READ data, atomic results, ACKs and NAKs (IBTA volume 1,
// 9.7.5).
#include <algorithm>

#include "transport/roce/roce_opcode.hpp"
#include "transport/roce/roce_responder.hpp"

namespace mprdma::transport {

// Begins a response, also one that is under way: the peer asks from the first packet it lacks.
void RoceResponder::begin_answer(uint32_t index, uint32_t begin, uint32_t end, uint32_t end_byte) {
  Resource& resource = resources_.at_index(index);
  resource.begin = resource.next = begin;
  resource.end = end;
  resource.end_byte = end_byte;
  cursor_ = resources_.head_index() +
            std::min(cursor_ - resources_.head_index(), index - resources_.head_index());
}

// Advances to the next resource that has something to send.
void RoceResponder::pass_answered() {
  while (answers() && resources_.at_index(cursor_).next == resources_.at_index(cursor_).end) {
    resources_.at_index(cursor_++).answered = true;
  }
}

bool RoceResponder::poll_packet(TxPacket& out) {
  out.ah = 0;
  out.num_segments = 0;
  while (answers()) {
    Resource& resource = resources_.at_index(cursor_);
    if (resource.operation != wire::Operation::kReadRequest) {
      fill_atomic(resource, out);
    } else if (!fill_read(resource, out)) {
      if (!resource.answered) break;
      // The whole response was sent before, and the application may have closed the region for that
      // reason; this request was late. A peer that still needs the data gives up by itself.
      resource.next = resource.end;
      pass_answered();
      continue;
    }
    ++core_.device.counters->packets_sent;
    ++stats_.packets_sent;
    out.retransmission = resource.next < resource.sent;
    resource.sent = std::max(resource.sent, ++resource.next);
    // A response acknowledges all requests before it, too.
    const bool newest = out.header.psn + 1 == expected_;
    if (newest && reply_ == Reply::kAck) reply_ = Reply::kNone, unacked_ = 0;
    pass_answered();
    return true;
  }
  if (reply_ == Reply::kNone) return false;
  fill_reply(out);
  return true;
}

void RoceResponder::fill_header(TxPacket& out, wire::Opcode opcode, Psn psn) const {
  out.header = wire::Packet{};
  out.header.opcode = roce_opcode(opcode, core_.config.service == QpService::kXrcReceive);
  out.header.dest_qpn = core_.attributes.dest_qpn;
  out.header.vp = core_.attributes.vp;
  out.header.psn = psn;
  out.header.aeth = {.syndrome = wire::kAckSyndrome, .msn = msn_};
}

// Fills in a packet of READ data. False: the region was closed meanwhile, or its memory is absent;
// unless the data was sent before, a NAK takes the packet's place.
bool RoceResponder::fill_read(Resource& resource, TxPacket& out) {
  const uint32_t offset = resource.next * core_.attributes.path_mtu;
  const uint32_t length = std::min(resource.end_byte - offset, core_.attributes.path_mtu);
  uint64_t addr = 0;
  if (!open_read_data(core_, resource.pd, resource.reth, offset, length, &addr)) {
    if (resource.answered) return false;
    refuse(wire::NakCode::kRemoteAccessError);
    nak_psn_ = resource.first + resource.next;
    cursor_ = resources_.tail_index();
    return false;
  }
  const bool first = resource.next == resource.begin;
  const bool last = resource.next + 1 == resource.end;
  fill_header(out, roce_response_opcode(first, last), resource.first + resource.next);
  out.header.aeth.msn = resource.msn;
  out.header.payload_len = length;
  if (length > 0) out.segments[out.num_segments++] = {.addr = addr, .length = length};
  return true;
}

void RoceResponder::fill_atomic(Resource& resource, TxPacket& out) {
  fill_header(out, wire::Opcode::kRcAtomicAck, resource.first);
  out.header.aeth.msn = resource.msn;
  out.header.atomic_original = resource.original;
}

// An acknowledgement never names the PSN of a READ or an atomic: a peer whose response was lost may
// take it for the end of the request, and complete it without the data, as Soft-RoCE does.
Psn RoceResponder::newest_without_response(uint32_t* msn) const {
  Psn end = expected_;
  *msn = msn_;
  for (uint32_t i = resources_.tail_index(); i-- != resources_.head_index();) {
    const Resource& resource = resources_.at_index(i);
    if (resource.first + resource.packets != end) break;
    end = resource.first;
    *msn = (resource.msn - 1) & wire::kMessageNumberMask;
  }
  return end - 1;
}

void RoceResponder::fill_reply(TxPacket& out) {
  TransportCounters& counters = *core_.device.counters;
  const bool nak = reply_ == Reply::kNak;
  uint32_t msn = msn_;
  const Psn psn = nak ? nak_psn_ : newest_without_response(&msn);
  fill_header(out, wire::Opcode::kRcAck, psn);
  out.header.aeth.msn = msn;
  if (nak) out.header.aeth.syndrome = nak_syndrome_;
  ++(nak ? counters.nacks_sent : counters.acks_sent);
  reply_ = Reply::kNone;
  unacked_ = 0;
}

}  // namespace mprdma::transport
