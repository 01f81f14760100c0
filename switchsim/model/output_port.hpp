// One direction of a link: the queue in front of it, its speed, and RED. Plain data and the rules
// that need nothing else; Network moves the packets.
//
//   - what counts as the queue is what waits: the packet on the wire has left it
//   - tail drop: a packet that would make the queue longer than its limit is dropped; a packet that
//     finds the port idle never waits and is never dropped
//   - RED draws only on the slope between kmin and kmax, from a stream of the port's own
//   - a packet that is not ECN-capable is not marked and not dropped by RED: it meets the tail only
#pragma once

#include <cstdint>

#include "base/prng.hpp"
#include "switchsim/model/sim_time.hpp"
#include "switchsim/model/topology.hpp"

namespace mprdma::switchsim {

// Packets that wait, linked by NetPacket::next.
struct PacketQueue {
  static constexpr uint32_t kNone = UINT32_MAX;

  uint64_t bytes = 0;
  uint32_t head = kNone;
  uint32_t tail = kNone;

  [[nodiscard]] bool empty() const { return head == kNone; }
};

// The fields that every packet touches: one cache line.
struct alignas(64) OutputPort {
  static constexpr uint32_t kNone = UINT32_MAX;

  SimTime busy_until;
  SimSpan delay;
  PacketQueue queue;  // with PFC: the lossless packets
  uint64_t queue_bytes_max = 0;
  uint32_t ps_per_byte = 0;  // 0: not a whole number; the rate is used
  NodeId to = 0;
  uint32_t buffer = kNone;  // number of the switch's buffer; kNone: a host's port
  bool up = true;
  bool open = true;           // up and, with PFC, neither paused nor shared with another class
  bool kick_pending = false;  // an event is set for busy_until
  bool pull_wanted = false;   // a host's port: the host has something to send
  bool special = false;       // loss, a floor for arrivals, a tap, PCP: see PortExtras
  bool red = false;

  [[nodiscard]] bool idle(SimTime now) const { return open && queue.empty() && busy_until <= now; }
};
static_assert(sizeof(OutputPort) == 64);

// The fields that few packets touch.
struct PortExtras {
  LinkRate rate;
  RedConfig red;
  uint32_t loss_ppm = 0;
  uint32_t drop_every = 0;
  uint32_t until_drop = 0;  // packets that pass before the next one that is dropped
  bool tapped = false;      // on_transmit() sees the packets
  bool untags = false;      // a switch's port where the class ends with the VLAN (PfcConfig::pcp)
  // The time before which no packet arrives, so that a delay that became shorter does not let
  // packets overtake.
  SimTime arrival_floor;
  uint64_t queue_bytes_peak = 0;
  uint64_t ingress_bytes = 0;  // bytes that wait in the switch and came over this link
  Prng red_draws{0};
  Prng loss_draws{0};
#ifdef MPRDMA_DCHECK
  // Invariants of the port, which Network::check() asserts: in = out + dropped + queued, out =
  // arrived + lost + on the wire.
  uint64_t bytes_in = 0;
  uint64_t bytes_dropped = 0;
  uint64_t bytes_arrived = 0;
  uint64_t bytes_lost = 0;
#endif
};

// True if RED marks at this queue length. Integer arithmetic: on the slope, the probability is pmax
// (q - kmin) / (kmax - kmin).
inline bool red_marks(const RedConfig& red, uint64_t queue_bytes, Prng& draws) {
  if (queue_bytes > red.kmax_bytes) return true;
  if (queue_bytes <= red.kmin_bytes) return false;
  constexpr uint64_t kMillion = 1'000'000;
  return draws.chance((queue_bytes - red.kmin_bytes) * red.pmax_ppm,
                      (red.kmax_bytes - red.kmin_bytes) * kMillion);
}

}  // namespace mprdma::switchsim
