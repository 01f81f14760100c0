// The receiver half of a reliable packet stream (design 3.2; paper 3.3, figure 6). Packets execute
// in PSN order, at the head of line. An out-of-order packet either is placed on arrival, if its
// owner allows that, and only the facts of its header are kept; or waits in its frame, which counts
// against the held-frame budget. Every packet is acknowledged at once; one call makes at most one
// acknowledgement.
//
// rcv_nxt = next PSN expected; the window is [rcv_nxt, rcv_nxt + L). A slot of it is empty, held
// (a frame waits), or placed (executing it moves no data). A slot at rcv_nxt itself may be taken:
// the packet was received, but the receiver was not ready (RNR).
// rcv_nxt passes a packet only once it is executed, so a NAK always names a PSN >= the peer's
// snd_una, and packets that were placed early are judged in order like all others. A copy of a
// packet in a taken slot or before rcv_nxt is dropped, so that nothing is placed twice.
#pragma once

#include <array>
#include <cstdint>
#include <memory>

#include "base/check.hpp"
#include "base/psn.hpp"
#include "base/qpn.hpp"
#include "base/window_bitmap.hpp"
#include "transport/core/counters.hpp"
#include "transport/core/held_pool.hpp"
#include "transport/core/params.hpp"
#include "transport/core/qp_config.hpp"
#include "transport/core/types.hpp"

namespace mprdma::transport {

// Tells whether a NACK with this code ends the connection, like the NAKs of the standard (IBTA
// 9.7.5.2). A PSN sequence error does not: it asks for the packet once more.
constexpr bool is_terminal(wire::NackCode code) {
  return code >= wire::NackCode::kInvalidRequest;
}

// The result of executing a packet at the head of line.
struct ExecuteResult {
  wire::NackCode nack = wire::NackCode::kNone;  // kNone: done; kRnr: not now; else terminal
  uint8_t detail = 0;                           // RNR timer code
  bool silent = false;  // the peer gets no NAK: later packets are dropped without an answer
};

// The owner's decision about an out-of-order packet.
enum class PlacementVerdict : uint8_t {
  kHold,      // the packet waits in its frame
  kPlaced,    // its placements are in the actions; executing it later needs no payload
  kTooEarly,  // synchronise: an earlier packet is missing, so the peer has to send this one again
};

// The facts of a placed packet that executing it needs.
struct PlacedPacket {
  wire::Reth reth;
  uint32_t offset;
  uint32_t message_number;
  uint32_t immdt;
  uint16_t payload_len;
  uint16_t vp;
  wire::Opcode opcode;
  bool solicited_event;

  static PlacedPacket of(const wire::Packet& packet);
  [[nodiscard]] wire::Packet packet(Psn psn) const;
};

// `Owner` below is the requester or responder half that the stream belongs to:
//   ExecuteResult execute(const wire::Packet&, FrameHandle, bool placed)   runs a packet in order;
//   adds
//       its placements to the actions by itself, none if `placed` (the frame means nothing then)
//   PlacementVerdict place(const wire::Packet&, FrameHandle)                    judges an
//   out-of-order packet
class StreamReceiver {
 public:
  // `ack_flags`: the stream that the acknowledgements are about (wire::kMpAckResponseStream or 0).
  StreamReceiver(const Params& params, uint8_t ack_flags, const Device& device);

  // Requires a call of release_held() before, if any frame may be held.
  void reset(Psn first, Qpn peer_qpn) {
    rcv_nxt_ = first;
    peer_qpn_ = peer_qpn;
    received_.reset();
    placed_.reset();
    refusal_ = {};
  }

  // Takes one packet of the stream.
  template <class Owner>
  RxVerdict receive(const wire::Packet& packet, FrameHandle frame, RxActions& actions,
                    Owner&& owner);

  // Executes again from the head of line, after the owner has become ready. True if a packet was
  // executed: `actions` then has an acknowledgement, which names no packet.
  template <class Owner>
  bool resume(RxActions& actions, Owner&& owner);

  // Gives all held frames back.
  void release_held(RxActions& actions);

  // Makes an acknowledgement of everything so far that answers no packet.
  void make_plain_ack(uint16_t vp, wire::Packet& ack) const;

  [[nodiscard]] Psn rcv_nxt() const { return rcv_nxt_; }
  [[nodiscard]] bool has_head() const { return received_.test(rcv_nxt_.value()); }
  // True once a terminal NAK was sent; every further packet repeats it, unless the refusal is
  // silent.
  [[nodiscard]] bool refused() const { return refusal_.nack != wire::NackCode::kNone; }
  [[nodiscard]] bool repeats_nak() const { return refused() && !refusal_.silent; }
  // True if the last packet was executed, placed or held.
  [[nodiscard]] bool took_packet() const { return took_packet_; }
  void set_msn(uint32_t msn) { msn_ = msn & kPsnMask; }

 private:
  template <class Owner>
  RxVerdict receive_early(const wire::Packet& packet, FrameHandle frame, RxActions& actions,
                          Owner&& owner);
  // Keeps a packet that is out of order, or for which the receiver is not ready.
  template <class Owner>
  PlacementVerdict keep(const wire::Packet& packet, FrameHandle frame, Owner&& owner,
                        RxVerdict* verdict);
  // Executes as far as possible; kNone when the next packet is missing.
  template <class Owner>
  ExecuteResult drain(RxActions& actions, Owner&& owner);
  template <class Owner>
  ExecuteResult execute_head(Owner&& owner);
  void acknowledge(const wire::Packet& packet, ExecuteResult result, bool held, RxActions& actions);
  void nack_dropped(const wire::Packet& packet, wire::NackCode code, RxActions& actions);
  bool hold(const wire::Packet& packet, FrameHandle frame);
  void note_placed(const wire::Packet& packet);
  void free_slot(Psn psn, RxActions& actions);
  [[nodiscard]] wire::Packet head_packet() const;
  [[nodiscard]] bool places_in_order() const;
  [[nodiscard]] PlacedPacket& placed_at(Psn psn) const {
    return placed_packets_[psn.value() & (slots_ - 1)];
  }
  [[nodiscard]] const HeldPacket& held_at(Psn psn) const {
    return (*held_)[held_index_[psn.value() % kWindowSlotsMax]];
  }

  uint32_t slots_;
  PlacementPolicy placement_;
  uint8_t ack_flags_;
  HeldPool* held_;
  const MemoryTable* memory_;
  TransportCounters* counters_;
  Psn rcv_nxt_;
  Qpn peer_qpn_{};
  uint32_t msn_ = 0;
  ExecuteResult refusal_;
  bool took_packet_ = false;
  WindowBitmap<kWindowSlotsMax> received_;  // taken slots
  WindowBitmap<kWindowSlotsMax> placed_;    // taken slots whose data is in memory
  std::array<uint32_t, kWindowSlotsMax> held_index_{};
  std::unique_ptr<PlacedPacket[]> placed_packets_;  // slots_ of them; none under kOrdered
};

template <class Owner>
RxVerdict StreamReceiver::receive(const wire::Packet& packet, FrameHandle frame, RxActions& actions,
                                  Owner&& owner) {
  ++counters_->packets_received;
  took_packet_ = false;
  const int32_t ahead = rcv_nxt_.distance_to(packet.psn);
  if (refused()) {
    if (repeats_nak()) acknowledge(packet, refusal_, false, actions);
    return RxVerdict::kDone;
  }
  if (ahead >= static_cast<int32_t>(slots_)) {
    ++counters_->drop_window_overflow;
    nack_dropped(packet, wire::NackCode::kWindowOverflow, actions);
    return RxVerdict::kDone;
  }
  if (ahead < 0 || (ahead > 0 && received_.test(packet.psn.value()))) {
    ++counters_->drop_duplicate;
    acknowledge(packet, {}, false, actions);
    return RxVerdict::kDone;
  }
  if (ahead > 0) return receive_early(packet, frame, actions, owner);
  RxVerdict verdict = RxVerdict::kDone;
  ExecuteResult result;
  if (has_head()) {
    ++counters_->drop_duplicate;
  } else {
    result = owner.execute(packet, frame, false);
    if (result.nack == wire::NackCode::kNone) {
      took_packet_ = true;
      ++rcv_nxt_;
    } else if (result.nack == wire::NackCode::kRnr) {
      keep(packet, frame, owner, &verdict);
    }
  }
  if (result.nack == wire::NackCode::kNone) result = drain(actions, owner);
  acknowledge(packet, result, has_head(), actions);
  return verdict;
}

template <class Owner>
RxVerdict StreamReceiver::receive_early(const wire::Packet& packet, FrameHandle frame,
                                        RxActions& actions, Owner&& owner) {
  RxVerdict verdict = RxVerdict::kDone;
  if (keep(packet, frame, owner, &verdict) == PlacementVerdict::kTooEarly) {
    ++counters_->drop_sync_too_early;
    nack_dropped(packet, wire::NackCode::kSyncTooEarly, actions);
    return verdict;
  }
  if (!took_packet_) return verdict;
  ++counters_->packets_out_of_order;
  acknowledge(packet, {}, false, actions);
  return verdict;
}

template <class Owner>
PlacementVerdict StreamReceiver::keep(const wire::Packet& packet, FrameHandle frame, Owner&& owner,
                                      RxVerdict* verdict) {
  const PlacementVerdict placement = placement_ == PlacementPolicy::kOrdered
                                         ? PlacementVerdict::kHold
                                         : owner.place(packet, frame);
  if (placement == PlacementVerdict::kPlaced) {
    note_placed(packet);
    took_packet_ = true;
  } else if (placement == PlacementVerdict::kHold && hold(packet, frame)) {
    *verdict = RxVerdict::kHeld;
    took_packet_ = true;
  }
  return placement;
}

template <class Owner>
ExecuteResult StreamReceiver::execute_head(Owner&& owner) {
  if (placed_.test(rcv_nxt_.value())) return owner.execute(head_packet(), FrameHandle{}, true);
  const HeldPacket& held = held_at(rcv_nxt_);
  return owner.execute(held.packet, held.frame, false);
}

template <class Owner>
ExecuteResult StreamReceiver::drain(RxActions& actions, Owner&& owner) {
  while (has_head()) {
    const ExecuteResult result = execute_head(owner);
    if (result.nack == wire::NackCode::kRnr) return result;
    free_slot(rcv_nxt_, actions);
    if (result.nack != wire::NackCode::kNone) return result;
    ++rcv_nxt_;
  }
  return {};
}

template <class Owner>
bool StreamReceiver::resume(RxActions& actions, Owner&& owner) {
  if (refused() || !has_head()) return false;
  const Psn before = rcv_nxt_;
  const wire::Packet head = head_packet();
  const ExecuteResult result = drain(actions, owner);
  if (before == rcv_nxt_ && !is_terminal(result.nack)) return false;
  acknowledge(head, result, has_head(), actions);
  // The acknowledgement is marked as answering no packet, so that the peer takes neither the wait
  // for a round trip nor the packet for a fresh SACK.
  if (result.nack == wire::NackCode::kNone) {
    actions.ack.mp_ack.flags &= static_cast<uint8_t>(~wire::kMpAckSackValid);
  }
  return true;
}

}  // namespace mprdma::transport
