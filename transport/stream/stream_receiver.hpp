// The receiver half of a reliable packet stream (design 3.2; paper 3.3, figure 6). Packets execute
// in PSN order, at the head of line. An out-of-order packet either is placed on arrival, if its
// owner allows that, and only the facts of its header are kept; or waits in its frame, which counts
// against the held-frame budget. Every packet is acknowledged.
//
// Where the host takes owed acknowledgements (Device::owes_acks), that of a plain packet in order
// (unmarked, sent for the first time, nothing before it missing) is owed: the host asks for it when
// it suits, with the answer of the application, say. An owed acknowledgement answers a run of such
// packets, up to QpAttributes::ack_run of them on one path. Another packet makes the owed one
// leave, and is acknowledged at once itself unless it is plain. So one call makes at most two
// acknowledgements. Elsewhere each packet is acknowledged in its own call.
//
// rcv_nxt = next PSN expected; the window is [rcv_nxt, rcv_nxt + L). A slot of it is empty, held
// (a frame waits), or placed (executing it moves no data). A slot at rcv_nxt itself may be taken:
// the packet was received, but the receiver was not ready (RNR).
// rcv_nxt passes a packet only once it is executed, so a NAK always names a PSN >= the peer's
// snd_una, and packets that were placed early are judged in order like all others. A copy of a
// packet in a taken slot or before rcv_nxt is dropped, so that nothing is placed twice.
#pragma once

#include <cstdint>
#include <memory>

#include "base/check.hpp"
#include "base/psn.hpp"
#include "base/qpn.hpp"
#include "base/window_bitmap.hpp"
#include "base/zeroed_array.hpp"
#include "transport/core/counters.hpp"
#include "transport/core/held_pool.hpp"
#include "transport/core/params.hpp"
#include "transport/core/qp_config.hpp"
#include "transport/core/types.hpp"
#include "transport/stream/offload_context.hpp"

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
    taken_slots_ = 0;
    held_slots_ = 0;
    not_ready_ = false;
    refusal_ = {};
    owed_ = {};
  }

  // Takes one packet of the stream.
  template <class Owner>
  RxVerdict receive(Time now, const wire::Packet& packet, FrameHandle frame, RxActions& actions,
                    Owner&& owner);

  // True if `psn` is the next packet, and none behind it has come.
  [[nodiscard]] bool expects(uint32_t psn) const {
    return psn == rcv_nxt_.value() && taken_slots_ == 0 && !refused() && owes_acks_;
  }
  // receive() of a plain packet that expects() allows and that its owner has executed.
  void pass(Time now, uint16_t vp, uint32_t timestamp, RxActions& actions) {
    ++counters_->packets_received;
    took_packet_ = true;
    now_ = now;
    const Psn psn = rcv_nxt_++;
    owe(psn, vp, timestamp, actions);
  }

  // ---- Owed acknowledgements
  [[nodiscard]] bool owes_ack() const { return owed_.any; }
  // When the oldest packet came that the owed acknowledgement answers; never: none is owed.
  [[nodiscard]] Time owed_since() const { return owed_.any ? owed_.since : Time::never(); }
  // The owed acknowledgement leaves; requires owes_ack().
  void take_ack(Time now, wire::Packet& ack);
  // take_ack(), as a bare packet.
  void take_bare_ack(Time now, wire::BarePacket& ack);
  // Most packets that one acknowledgement answers.
  void set_ack_run(uint32_t packets) { run_max_ = static_cast<uint8_t>(packets - 1); }

  // Executes again from the head of line, after the owner has become ready. True if a packet was
  // executed: `actions` then has an acknowledgement, which names no packet.
  template <class Owner>
  bool resume(Time now, RxActions& actions, Owner&& owner);

  // Writes the slots into the context of hardware that goes on with the stream. False: it stays in
  // software, because a frame is held, its receiver was not ready, an acknowledgement is owed, the
  // stream has ended, or has another window. There is no way back: software executes placed packets
  // in order, by facts of their headers that the context does not have.
  bool store(OffloadContext* context) const;

  // Gives all held frames back.
  void release_held(RxActions& actions);

  // Makes an acknowledgement of everything so far that answers no packet.
  void make_plain_ack(uint16_t vp, wire::Packet& ack) const;

  [[nodiscard]] Psn rcv_nxt() const { return rcv_nxt_; }
  [[nodiscard]] bool has_head() const {
    return taken_slots_ > 0 && received_.test(rcv_nxt_.value());
  }
  // True once a terminal NAK was sent; every further packet repeats it, unless the refusal is
  // silent.
  [[nodiscard]] bool refused() const { return refusal_.nack != wire::NackCode::kNone; }
  [[nodiscard]] bool repeats_nak() const { return refused() && !refusal_.silent; }
  // True if the last packet was executed, placed or held.
  [[nodiscard]] bool took_packet() const { return took_packet_; }
  void set_msn(uint32_t msn) { msn_ = msn & kPsnMask; }
  [[nodiscard]] uint32_t msn() const { return msn_; }

 private:
  template <class Owner>
  RxVerdict receive_next(ExecuteResult result, const wire::Packet& packet, FrameHandle frame,
                         RxActions& actions, Owner&& owner);
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
  // Acknowledges a packet that was executed as the only one, in order.
  void acknowledge_in_order(const wire::Packet& packet, RxActions& actions);
  void release_owed(RxActions& actions);
  // The acknowledgement of a plain packet is owed.
  void owe(Psn psn, uint16_t vp, uint32_t timestamp, RxActions& actions) {
    if (owed_.any && owed_.run < run_max_ && owed_.vp == vp) {
      ++owed_.run;
    } else {
      if (owed_.any) release_owed(actions);
      owed_.any = true;
      owed_.run = 0;
      owed_.vp = vp;
      owed_.since = now_;
    }
    owed_.last = psn;
    owed_.timestamp = timestamp;
    owed_.last_at = now_;
  }
  void add_map(const wire::Packet& packet, RxActions& actions) const;
  void nack_dropped(const wire::Packet& packet, wire::NackCode code, RxActions& actions);
  bool hold(const wire::Packet& packet, FrameHandle frame);
  // False while the head of line waits for its receiver.
  [[nodiscard]] bool ready() const { return !(not_ready_ && not_ready_at_ == rcv_nxt_); }
  void note_placed(const wire::Packet& packet);
  void free_slot(Psn psn, RxActions& actions);
  [[nodiscard]] wire::Packet head_packet() const;
  [[nodiscard]] bool places_in_order() const;
  [[nodiscard]] uint8_t plain_flags() const;
  [[nodiscard]] uint8_t delay_of_owed(Time now) const;
  [[nodiscard]] PlacedPacket& placed_at(Psn psn) const {
    return placed_packets_[psn.value() & (slots_ - 1)];
  }
  [[nodiscard]] const HeldPacket& held_at(Psn psn) const {
    return (*held_)[held_index_[psn.value() & (slots_ - 1)]];
  }

  // The run of packets that the owed acknowledgement answers: run + 1 of them, up to `last`.
  struct Owed {
    bool any = false;
    uint8_t run = 0;
    uint16_t vp = 0;
    Psn last;
    uint32_t timestamp = 0;  // of the last packet
    Time since;              // arrival of the first packet
    Time last_at;            // arrival of the last packet
  };

  uint32_t slots_;
  PlacementPolicy placement_;
  uint8_t ack_flags_;
  bool owes_acks_;
  uint8_t run_max_ = 0;  // of Owed::run
  Owed owed_;
  HeldPool* held_;
  const MemoryTable* memory_;
  TransportCounters* counters_;
  Time now_;  // of the last packet, or call of resume()
  Psn rcv_nxt_;
  Qpn peer_qpn_{};
  uint32_t msn_ = 0;
  ExecuteResult refusal_;
  bool took_packet_ = false;
  uint32_t taken_slots_ = 0;
  uint32_t held_slots_ = 0;  // of them, those whose packet waits in its frame
  bool not_ready_ = false;   // an RNR NAK has left, which named `not_ready_at_`
  Psn not_ready_at_;
  WindowBitmap received_;                        // taken slots
  WindowBitmap placed_;                          // taken slots whose data is in memory
  std::unique_ptr<uint32_t[]> held_index_;       // by slot
  ZeroedArray<PlacedPacket> placed_packets_{0};  // slots_ of them; none under kOrdered
};

template <class Owner>
RxVerdict StreamReceiver::receive(Time now, const wire::Packet& packet, FrameHandle frame,
                                  RxActions& actions, Owner&& owner) {
  ++counters_->packets_received;
  took_packet_ = false;
  now_ = now;
  const int32_t ahead = rcv_nxt_.distance_to(packet.psn);
  if (ahead == 0 && !refused() && !has_head()) [[likely]] {
    const ExecuteResult result = owner.execute(packet, frame, false);
    if (result.nack == wire::NackCode::kNone) [[likely]] {
      took_packet_ = true;
      ++rcv_nxt_;
      if (!has_head()) [[likely]] {
        acknowledge_in_order(packet, actions);
        return RxVerdict::kDone;
      }
    }
    return receive_next(result, packet, frame, actions, owner);
  }
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
    actions.ack.mp_ack.flags |= wire::kMpAckDuplicate;
    add_map(packet, actions);
    return RxVerdict::kDone;
  }
  if (ahead > 0) return receive_early(packet, frame, actions, owner);
  // A copy of the head of line, which was not ready: it asks again.
  ++counters_->drop_duplicate;
  return receive_next({}, packet, frame, actions, owner);
}

// The rest of receive() for a packet at the head of line. `result`: of its execution.
template <class Owner>
RxVerdict StreamReceiver::receive_next(ExecuteResult result, const wire::Packet& packet,
                                       FrameHandle frame, RxActions& actions, Owner&& owner) {
  RxVerdict verdict = RxVerdict::kDone;
  if (result.nack == wire::NackCode::kRnr) keep(packet, frame, owner, &verdict);
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
  if (!took_packet_) {
    nack_dropped(packet, wire::NackCode::kBudgetExhausted, actions);
    return verdict;
  }
  ++counters_->packets_out_of_order;
  acknowledge(packet, {}, false, actions);
  add_map(packet, actions);
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
bool StreamReceiver::resume(Time now, RxActions& actions, Owner&& owner) {
  if (refused() || !has_head()) return false;
  now_ = now;
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
