// The receiving half of a stream, as hardware would have it (offload_context.hpp).
#include "transport/stream/offload_receiver.hpp"
#include "transport/stream/stream_receiver.hpp"

namespace mprdma::transport {

namespace {

OffloadSlot slot_of(const PlacedPacket& placed) {
  const wire::OpcodeInfo& info = wire::opcode_info(placed.opcode);
  if (!info.last && !info.only) return OffloadSlot::kReceived;
  const bool completes = info.has_immdt || info.operation == wire::Operation::kSend;
  return completes ? OffloadSlot::kTailWithCompletion : OffloadSlot::kTail;
}

}  // namespace

bool StreamReceiver::store(OffloadContext* context) const {
  if (slots_ != OffloadContext::kSlots || held_slots_ > 0 || has_head()) return false;
  if (refused() || owes_ack()) return false;
  context->received_low = context->received_high = 0;
  for (uint32_t i = 0; i < slots_; ++i) {
    const Psn psn = rcv_nxt_ + i;
    if (!placed_.test(psn.value())) continue;
    OffloadReceiver::set_slot(context, i, slot_of(placed_at(psn)));
  }
  return true;
}

}  // namespace mprdma::transport
