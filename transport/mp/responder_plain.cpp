// The responder's common case without detours: the next packet of a WRITE, or a SEND of one packet,
// in order.
//
// Invariant: each function either does what on_request() does (responder.cpp) or returns false and
// does nothing; the caller then calls on_request().
#include "transport/mp/responder.hpp"

namespace mprdma::transport {

// Tells whether the packet is the next one of a WRITE, if `message` is what has come of it. If so,
// *to is where the payload goes, and `message` is what has come then.
[[gnu::always_inline]] inline bool Responder::continues_plain(const wire::BarePacket& packet,
                                                              IncomingMessage& message,
                                                              uint64_t* to) const {
  const auto opcode = static_cast<wire::Opcode>(packet.opcode);
  const bool only = opcode == wire::Opcode::kMpWriteOnly;
  const uint32_t offset = packet.offset;
  const uint32_t length = packet.payload_len;
  if (packet.number >> 24 != 0 || packet.flags != 0 || (attributes_.access & kRemoteWrite) == 0) {
    return false;
  }
  if (only || opcode == wire::Opcode::kMpWriteFirst) {
    if (message.operation != wire::Operation::kNone || offset != 0) return false;
  } else if (message.operation != wire::Operation::kWrite || offset != message.offset ||
             packet.va != message.reth.va || Key(packet.rkey) != message.reth.rkey ||
             packet.dma_len != message.reth.dma_len) {
    return false;
  }
  bool ends = only;
  if (only) {  // which of the checks below are left for a message of one packet
    if (length != packet.dma_len || length == 0 || length > longest_segment(attributes_)) {
      return false;
    }
  } else {
    if (packet.dma_len > kMaxMessageBytes || offset > packet.dma_len || length == 0 ||
        length > packet.dma_len - offset) {
      return false;
    }
    ends = offset + length == packet.dma_len;
    if (ends != (opcode == wire::Opcode::kMpWriteLast) ||
        (ends ? length > longest_segment(attributes_) : !takes_segment(attributes_, length))) {
      return false;
    }
  }
  uint64_t base = 0;
  if (!device_.memory->translate_remote(Key(packet.rkey), config_.pd, config_.qpn, packet.va,
                                        packet.dma_len, kRemoteWrite, &base) ||
      !device_.memory->present(base + offset, length, true)) {
    return false;
  }
  *to = base + offset;
  if (only) return true;
  if (ends) {
    message.operation = wire::Operation::kNone;
  } else {
    message.operation = wire::Operation::kWrite;
    message.offset = offset + length;
    message.reth = {.va = packet.va, .rkey = Key(packet.rkey), .dma_len = packet.dma_len};
  }
  return true;
}

bool Responder::take_plain_write(Time now, const wire::BarePacket& packet, RxActions& actions,
                                 uint64_t* to) {
  if (!receiver_.expects(packet.psn) || !continues_plain(packet, message_, to)) return false;
  now_ = now;
  receiver_.pass(now, packet.vp, packet.time, actions);
  return true;
}

bool Responder::begin_plan(uint32_t psn, PlannedWrites& plan) const {
  if (!receiver_.expects(psn)) return false;
  plan.next = Psn(psn);
  plan.message = message_;
  return true;
}

bool Responder::plan_plain_write(const wire::BarePacket& packet, PlannedWrites& plan,
                                 uint64_t* to) const {
  if (packet.psn != plan.next.value() || !continues_plain(packet, plan.message, to)) return false;
  ++plan.next;
  return true;
}

bool Responder::take_plain_send(Time now, const wire::BarePacket& packet, RxActions& actions,
                                uint64_t* to) {
  const uint32_t length = packet.payload_len;
  ReceiveQueue& receives = core_.receives;
  if (!receiver_.expects(packet.psn) || packet.offset != 0 || length == 0 ||
      (packet.flags & static_cast<uint8_t>(~wire::BarePacket::kSolicitedEvent)) != 0 ||
      packet.number != (receive_number_ & kPsnMask) ||
      message_.operation != wire::Operation::kNone || length > longest_segment(attributes_) ||
      receives.waiting() == 0) {
    return false;
  }
  const Receive& receive = receives.current();
  if (receive.num_sge != 1 || length > receive.capacity_bytes) return false;
  const Sge& sge = receives.current_sges()[0];
  if (!device_.memory->translate(sge.lkey, core_.receive_pd(), sge.addr, length, kLocalWrite, to)) {
    return false;
  }
  now_ = now;
  message_ = {};
  core_.changes |= kCompletionsChanged;
  receives.complete_plain(length, (packet.flags & wire::BarePacket::kSolicitedEvent) != 0);
  receiver_.set_msn(++receive_number_);
  receiver_.pass(now, packet.vp, packet.time, actions);
  return true;
}

}  // namespace mprdma::transport
