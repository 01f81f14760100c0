// The receiver half of a reliable packet stream under ordered placement (design 3.2): packets are
// delivered to `execute` in PSN order; those that come early wait in their frames, against the
// held-frame budget. Every packet is acknowledged at once; one call makes at most one
// acknowledgement.
//
// rcv_nxt = next PSN expected; the window is [rcv_nxt, rcv_nxt + L). A packet may be held at
// rcv_nxt itself: it was received, but the receiver was not ready (RNR).
// rcv_nxt passes a packet only once it is executed, so a NAK always names a PSN >= the peer's
// snd_una.
#pragma once

#include <array>
#include <cstdint>

#include "base/check.hpp"
#include "base/psn.hpp"
#include "base/window_bitmap.hpp"
#include "transport/counters.hpp"
#include "transport/held_pool.hpp"
#include "transport/params.hpp"
#include "transport/types.hpp"

namespace mprdma::transport {

// What executing a packet at the head of line came to.
struct Outcome {
  wire::NackCode nack = wire::NackCode::kNone;  // kNone: done; kRnr: not now; else: for ever wrong
  uint8_t detail = 0;                           // RNR timer code
};

class StreamReceiver {
 public:
  // `ack_flags`: which stream its acknowledgements speak of (wire::kMpAckResponseStream or 0).
  StreamReceiver(uint32_t window_slots, uint8_t ack_flags, HeldPool* held,
                 TransportCounters* counters)
      : slots_(window_slots), ack_flags_(ack_flags), held_(held), counters_(counters) {
    CHECK(window_slots <= kWindowSlotsMax);
  }

  // Requires release_held() before, if anything may be held.
  void reset(Psn first, uint32_t peer_qpn) {
    rcv_nxt_ = first;
    peer_qpn_ = peer_qpn;
    received_.reset();
    refusal_ = {};
  }

  // Takes one packet of the stream. `execute(packet, frame) -> Outcome` runs a packet in order; it
  // adds its placements to `actions` by itself.
  template <class Execute>
  RxVerdict receive(const wire::Packet& packet, FrameHandle frame, RxActions& actions,
                    Execute&& execute);

  // Tries again what was held at the head of line. True if something was executed: `actions` then
  // has an acknowledgement, which names no packet.
  template <class Execute>
  bool resume(RxActions& actions, Execute&& execute);

  // Gives all held frames back.
  void release_held(RxActions& actions);

  // An acknowledgement of everything so far that answers no packet.
  void make_plain_ack(uint16_t vp, wire::Packet& ack) const;

  [[nodiscard]] Psn rcv_nxt() const { return rcv_nxt_; }
  [[nodiscard]] bool holds_head() const { return received_.test(rcv_nxt_.value()); }
  // A terminal NAK was sent; it is repeated for whatever comes.
  [[nodiscard]] bool refused() const { return refusal_.nack != wire::NackCode::kNone; }
  void set_msn(uint32_t msn) { msn_ = msn & kPsnMask; }

 private:
  // What executing as far as possible came to: kNone when the next packet is not there.
  template <class Execute>
  Outcome drain(RxActions& actions, Execute&& execute);
  void acknowledge(const wire::Packet& packet, Outcome outcome, bool held, RxActions& actions);
  void nack_overflow(const wire::Packet& packet, RxActions& actions);
  bool hold(const wire::Packet& packet, FrameHandle frame);
  uint32_t take_held() {
    received_.clear(rcv_nxt_.value());
    return held_index_[rcv_nxt_.value() % kWindowSlotsMax];
  }
  static constexpr bool terminal(Outcome outcome) {
    return outcome.nack != wire::NackCode::kNone && outcome.nack != wire::NackCode::kRnr;
  }

  uint32_t slots_;
  uint8_t ack_flags_;
  HeldPool* held_;
  TransportCounters* counters_;
  Psn rcv_nxt_;
  uint32_t peer_qpn_ = 0;
  uint32_t msn_ = 0;
  Outcome refusal_;
  WindowBitmap<kWindowSlotsMax> received_;
  std::array<uint32_t, kWindowSlotsMax> held_index_{};
};

template <class Execute>
RxVerdict StreamReceiver::receive(const wire::Packet& packet, FrameHandle frame, RxActions& actions,
                                  Execute&& execute) {
  ++counters_->packets_received;
  const int32_t ahead = rcv_nxt_.distance_to(packet.psn);
  if (refused()) {
    acknowledge(packet, refusal_, false, actions);
    return RxVerdict::kDone;
  }
  if (ahead >= static_cast<int32_t>(slots_)) {
    nack_overflow(packet, actions);
    return RxVerdict::kDone;
  }
  if (ahead < 0 || (ahead > 0 && received_.test(packet.psn.value()))) {
    ++counters_->drop_duplicate;
    acknowledge(packet, {}, false, actions);
    return RxVerdict::kDone;
  }
  if (ahead > 0) {
    if (!hold(packet, frame)) return RxVerdict::kDone;
    ++counters_->packets_out_of_order;
    acknowledge(packet, {}, false, actions);
    return RxVerdict::kHeld;
  }
  RxVerdict verdict = RxVerdict::kDone;
  Outcome outcome;
  if (holds_head()) {
    ++counters_->drop_duplicate;
  } else {
    outcome = execute(packet, frame);
    if (outcome.nack == wire::NackCode::kNone) {
      ++rcv_nxt_;
    } else if (outcome.nack == wire::NackCode::kRnr && hold(packet, frame)) {
      verdict = RxVerdict::kHeld;
    }
  }
  if (outcome.nack == wire::NackCode::kNone) outcome = drain(actions, execute);
  acknowledge(packet, outcome, holds_head(), actions);
  return verdict;
}

template <class Execute>
Outcome StreamReceiver::drain(RxActions& actions, Execute&& execute) {
  while (holds_head()) {
    const uint32_t index = held_index_[rcv_nxt_.value() % kWindowSlotsMax];
    const HeldPacket& held = (*held_)[index];
    const Outcome outcome = execute(held.packet, held.frame);
    if (outcome.nack == wire::NackCode::kRnr) return outcome;
    actions.released.push(held.frame);
    held_->give_back(take_held());
    if (outcome.nack != wire::NackCode::kNone) return outcome;
    ++rcv_nxt_;
  }
  return {};
}

template <class Execute>
bool StreamReceiver::resume(RxActions& actions, Execute&& execute) {
  if (refused() || !holds_head()) return false;
  const Psn before = rcv_nxt_;
  const wire::Packet head = (*held_)[held_index_[rcv_nxt_.value() % kWindowSlotsMax]].packet;
  const Outcome outcome = drain(actions, execute);
  if (before == rcv_nxt_ && !terminal(outcome)) return false;
  acknowledge(head, outcome, holds_head(), actions);
  // The peer must not take the wait for a round trip, nor the packet for a fresh SACK.
  if (!terminal(outcome) && outcome.nack != wire::NackCode::kRnr) {
    actions.ack.mp_ack.flags &= static_cast<uint8_t>(~wire::kMpAckSackValid);
  }
  return true;
}

}  // namespace mprdma::transport
