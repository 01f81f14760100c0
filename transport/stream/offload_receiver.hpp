// The receiving half of a connection as hardware has it: a pure step (context, packet -> context,
// answer) on the slots of the offload context and what a plain RoCE connection has. It is the
// reference of an RTL receiver, and a test holds it against the software's StreamReceiver, packet
// by packet.
//
// Hardware places every packet on arrival (relaxed placement), so a slot needs the paper's two bits
// only: whether the packet has come, whether a message ends with it, and whether that message
// completes for the application (paper, 3.3). Completions leave in order, as rcv_nxt passes their
// slots. What else an entry of the completion queue needs of a message that came early (immediate
// data, its length) is not in the context; the paper does not say where hardware keeps it. Rights,
// receive requests and what else judges a packet are of the RoCE half, before this step.
#pragma once

#include <cstdint>

#include "base/check.hpp"
#include "base/psn.hpp"
#include "transport/stream/offload_context.hpp"
#include "wire/mp_ack_ext.hpp"

namespace mprdma::transport {

// What a plain RoCE connection has of its receiving half.
struct RoceReceiver {
  Psn nxt;
  uint32_t msn = 0;

  constexpr bool operator==(const RoceReceiver&) const = default;
};

// The state of a slot (paper, figure 6).
enum class OffloadSlot : uint8_t { kEmpty, kReceived, kTail, kTailWithCompletion };

struct OffloadPacket {
  Psn psn;
  OffloadSlot slot = OffloadSlot::kReceived;  // what its slot becomes; not kEmpty
  bool synchronise = false;                   // nothing of its message may be placed early
  uint32_t packets_before = 0;                // of its message
};

struct OffloadAnswer {
  bool placed = false;
  bool duplicate = false;
  wire::NackCode nack = wire::NackCode::kNone;  // names the packet
  // The packet is behind a hole: bit i says whether PSN psn - 64 + i has come.
  bool behind_hole = false;
  uint64_t map = 0;
  uint32_t completions = 0;  // for the application, now
};

class OffloadReceiver {
 public:
  // AACK of the answer is roce->nxt, its SACK the packet.
  static constexpr OffloadAnswer receive(OffloadContext* context, RoceReceiver* roce,
                                         const OffloadPacket& packet) {
    OffloadAnswer answer;
    const int32_t ahead = roce->nxt.distance_to(packet.psn);
    if (ahead >= static_cast<int32_t>(OffloadContext::kSlots)) {
      answer.nack = wire::NackCode::kWindowOverflow;
      return answer;
    }
    DCHECK(packet.slot != OffloadSlot::kEmpty);
    const uint64_t taken = taken_slots(*context);
    answer.behind_hole = ahead > 0;
    if (ahead < 0 || (taken >> ahead & 1) != 0) {
      answer.duplicate = true;
    } else if (packet.synchronise && ahead > static_cast<int32_t>(packet.packets_before)) {
      // rcv_nxt itself is missing, which is before the message.
      answer.nack = wire::NackCode::kSyncTooEarly;
      answer.behind_hole = false;
      return answer;
    } else {
      answer.placed = true;
      set_slot(context, static_cast<uint32_t>(ahead), packet.slot);
      if (ahead == 0) answer.completions = advance(context, roce);
    }
    if (answer.behind_hole) {
      const auto at = static_cast<uint32_t>(ahead);
      answer.map = taken << (64 - at) | ((uint64_t{1} << (64 - at)) - 1);
    }
    return answer;
  }

  static constexpr OffloadSlot slot(const OffloadContext& context, uint32_t index) {
    const uint64_t half = index < 32 ? context.received_low : context.received_high;
    return static_cast<OffloadSlot>(half >> (2 * (index % 32)) & 3);
  }
  // Requires that the slot is empty.
  static constexpr void set_slot(OffloadContext* context, uint32_t index, OffloadSlot slot) {
    uint64_t& half = index < 32 ? context->received_low : context->received_high;
    half |= uint64_t{static_cast<uint8_t>(slot)} << (2 * (index % 32));
  }

 private:
  // A bit for each slot that is not empty, that of rcv_nxt the lowest.
  static constexpr uint64_t taken_slots(const OffloadContext& context) {
    uint64_t out = 0;
    for (uint32_t i = 0; i < OffloadContext::kSlots; ++i) {
      if (slot(context, i) != OffloadSlot::kEmpty) out |= uint64_t{1} << i;
    }
    return out;
  }
  // rcv_nxt passes the slots that are contiguous. Gives the completions among them.
  static constexpr uint32_t advance(OffloadContext* context, RoceReceiver* roce) {
    uint32_t completions = 0;
    while (slot(*context, 0) != OffloadSlot::kEmpty) {
      const OffloadSlot head = slot(*context, 0);
      if (head != OffloadSlot::kReceived) roce->msn = (roce->msn + 1) & kPsnMask;
      if (head == OffloadSlot::kTailWithCompletion) ++completions;
      context->received_low = context->received_low >> 2 | context->received_high << 62;
      context->received_high >>= 2;
      ++roce->nxt;
    }
    return completions;
  }
};

}  // namespace mprdma::transport
