// How long a fabric sleeps between two looks at its ports while frames move. Pure.
//
// A turn costs a wake-up of the fabric, and one of each host that gets frames: some 50 us of
// processors together on a virtual machine (perf record -g on two vCPUs of an AMD EPYC). Messages
// that are answered one by one wait for each turn. Frames that stream wait behind each other in the
// network's queues anyway.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/units.hpp"

namespace mprdma::switchsim {

// The shortest sleep.
inline constexpr Duration kTurn = Duration::us(25);
// The same after a turn that moved a stream's frames.
inline constexpr Duration kStreamTurn = Duration::us(50);
// Frames of a turn (Fabric::frames_moved) that make a stream. A message of 8 KB in packets of 4 KB
// and its acknowledgements are 8: each frame counts when it comes in and when it goes out.
inline constexpr uint32_t kStreamFrames = 12;

// After a turn that moved so many frames, where the network's next event is so far away. The sleep
// may end up to a turn after the event, so that one wake-up serves several events.
constexpr Duration turn_pause(uint32_t frames_moved, Duration until_event) {
  const Duration turn = frames_moved < kStreamFrames ? kTurn : kStreamTurn;
  return std::clamp(until_event, turn, turn * 2);
}

}  // namespace mprdma::switchsim
