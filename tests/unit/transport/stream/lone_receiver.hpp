// A StreamReceiver alone, whose packets are just noted when they are executed.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <set>
#include <vector>

#include "transport/stream/stream_receiver.hpp"

namespace mprdma::transport {

// L slots. `owes`: the host takes owed acknowledgements.
class Receiver {
 public:
  explicit Receiver(uint32_t slots = 8, uint32_t budget = 64, Psn first = Psn(50),
                    PlacementPolicy placement = PlacementPolicy::kStandard, bool owes = false)
      : held(budget),
        receiver({.window_slots = slots, .placement = placement}, 0,
                 {.memory = &memory, .held = &held, .counters = &counters, .owes_acks = owes}),
        first_(first) {
    receiver.reset(first, Qpn(77));
  }

  // `path`: 0 for one of the packet's own.
  RxVerdict take(int index, uint8_t flags = 0, bool ce = false, uint16_t path = 0) {
    wire::Packet packet;
    packet.opcode = wire::Opcode::kMpWriteOnly;
    packet.psn = first_ + static_cast<uint32_t>(index);
    packet.vp = path != 0 ? path : static_cast<uint16_t>(50000 + index);
    packet.payload_len = static_cast<uint32_t>(index + 1);
    packet.mp_data.flags = flags;
    packet.mp_data.timestamp = 0x1000u + static_cast<uint32_t>(index);
    packet.ce = ce;
    actions.clear();
    return receiver.receive(now, packet, static_cast<FrameHandle>(index), actions, *this);
  }
  bool resume() {
    actions.clear();
    return receiver.resume(now, actions, *this);
  }
  int index(Psn psn) const { return first_.distance_to(psn); }
  int aack() const { return index(actions.ack.psn); }
  int sack() const { return index(actions.ack.mp_ack.sack); }
  wire::NackCode nack() const { return actions.ack.mp_ack.nack; }
  std::vector<FrameHandle> released() const {
    return {actions.released.begin(), actions.released.end()};
  }

  // The functions that the receiver calls.
  ExecuteResult execute(const wire::Packet& packet, FrameHandle frame, bool was_placed) {
    const int i = index(packet.psn);
    EXPECT_EQ(was_placed, placed.contains(i));
    EXPECT_TRUE(was_placed || frame == static_cast<FrameHandle>(i));
    if (i == not_ready_for) return {.nack = wire::NackCode::kRnr, .detail = 12};
    if (i == refuses) return {.nack = wire::NackCode::kRemoteAccessError};
    EXPECT_EQ(packet.payload_len, static_cast<uint32_t>(i + 1)) << "the facts of its header";
    executed.push_back(i);
    return {};
  }
  PlacementVerdict place(const wire::Packet& packet, FrameHandle frame) {
    const int i = index(packet.psn);
    EXPECT_EQ(frame, static_cast<FrameHandle>(i));
    if (too_early.contains(i)) return PlacementVerdict::kTooEarly;
    if (!placeable.contains(i)) return PlacementVerdict::kHold;
    EXPECT_TRUE(placed.insert(i).second) << "placed twice";
    return PlacementVerdict::kPlaced;
  }

  TransportCounters counters;
  Time now;
  MemoryTable memory{8};
  HeldPool held;
  StreamReceiver receiver;
  std::vector<Placement> placements = std::vector<Placement>(16);
  std::vector<FrameHandle> frames = std::vector<FrameHandle>(kMaxReleased);
  RxActions actions{placements, frames};
  std::vector<int> executed;
  int not_ready_for = -1;
  int refuses = -1;
  std::set<int> placeable;  // ahead of their turn
  std::set<int> too_early;
  std::set<int> placed;

 private:
  Psn first_;
};

}  // namespace mprdma::transport
