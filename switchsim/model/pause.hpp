// Priority flow control (IEEE 802.1Qbb) of one direction of a link: what its two ends keep of it.
// The rules that move packets are in network_pfc_inl.hpp.
//
//   - two classes: what is lossless (NetPacket::priority 0), which alone can be paused, and the
//     rest, which can be dropped. They have a queue each; when both wait, they share the wire
//     byte by byte
//   - the receiver pauses the sender when a lossless packet exceeds the limit of the ingress, and
//     lets it go on when the ingress has fallen to the limit less the hysteresis, or is empty
//   - a pause, and its end, takes effect the delay of the way back later, and then at the boundary
//     of a packet. Its frame takes no time of the wire, waits for no other and is never lost; the
//     headroom of 2 x rate x delay + 2 MTU is exactly what that needs
//   - no refresh and no end by time: a pause lasts until its end is signalled
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "base/check.hpp"
#include "switchsim/model/output_port.hpp"
#include "switchsim/model/shared_buffer.hpp"
#include "switchsim/model/sim_time.hpp"

namespace mprdma::switchsim {

// Values of NetPacket::priority.
inline constexpr uint8_t kLosslessPriority = 0;
inline constexpr uint8_t kLossyPriority = 1;

// Signals on their way to the sender, oldest first. Pause and resume alternate.
class PauseSignals {
 public:
  static constexpr uint32_t kMax = 8;

  // Signals do not overtake each other. With kMax of them on their way, the newest two cancel: a
  // sender that is not released meanwhile loses nothing, and one that is not paused fills headroom
  // that is free by then, because a pause does not end earlier.
  void push(SimTime at) {
    if (count_ == kMax) {
      --count_;
      return;
    }
    if (count_ > 0) at = std::max(at, times_[(first_ + count_ - 1) % kMax]);
    times_[(first_ + count_) % kMax] = at;
    ++count_;
  }
  void pop() {
    DCHECK(count_ > 0);
    first_ = (first_ + 1) % kMax;
    --count_;
  }
  [[nodiscard]] bool empty() const { return count_ == 0; }
  [[nodiscard]] uint32_t count() const { return count_; }
  [[nodiscard]] SimTime front() const { return times_[first_]; }

 private:
  std::array<SimTime, kMax> times_;
  uint32_t first_ = 0;
  uint32_t count_ = 0;
};

struct PausePort {
  // ---- At the sender
  PacketQueue rest;  // packets that are not lossless; lossless ones are in the port's own queue
  bool paused = false;
  SimTime paused_since;
  SimSpan paused_before;    // time of pauses that have ended
  int64_t lead_bytes = 0;   // lossless less other bytes that were sent while both waited
  bool discarding = false;  // lossless packets are dropped

  // ---- At the receiver
  BufferAccount ingress;  // account of the lossless packets
  uint64_t headroom_max = 0;
  uint64_t headroom_peak = 0;
  bool pausing = false;  // has asked the sender to pause
  uint64_t pause_sent = 0;
  PauseSignals signals;
};

// The pause state of one direction of a link. All zero without PFC.
struct PauseState {
  bool paused = false;      // the sender is paused now
  uint64_t pause_sent = 0;  // pauses that the receiver asked for
  SimSpan paused_time;      // time for which the sender was paused, up to now
  uint64_t headroom_peak_bytes = 0;
};

}  // namespace mprdma::switchsim
