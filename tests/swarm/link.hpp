// One direction of the simulated network: the host's port (a FIFO with a rate and limited room),
// then a bottleneck queue that marks and overflows, then a path that loses, duplicates and delays.
#pragma once

#include <cstdint>
#include <vector>

#include "base/prng.hpp"
#include "base/units.hpp"
#include "tests/swarm/scenario.hpp"

namespace mprdma::swarm {

struct LinkStats {
  uint64_t sent = 0;
  uint64_t lost = 0;
  uint64_t overflowed = 0;
  uint64_t marked = 0;
  uint64_t duplicated = 0;
  uint64_t delayed = 0;
};

struct Arrival {
  Time at;
  bool ce = false;
};

class Link {
 public:
  Link(const LinkKnobs& knobs, Prng prng) : knobs_(knobs), prng_(prng) {}

  // The port's FIFO has room for one more data packet.
  [[nodiscard]] bool has_room(Time now) const { return now >= room_at_; }
  // When has_room() turns true.
  [[nodiscard]] Time room_at() const { return room_at_; }

  // Sends a packet of so many bytes; fills in when its copies arrive (none: lost).
  void send(Time now, uint32_t bytes, bool is_ack, uint16_t vp, std::vector<Arrival>& arrivals);

  // No more loss, duplication, reordering, jitter, marking or overflow.
  void clean_up();
  // Nothing gets through any more (or again).
  void set_cut(bool cut) { cut_ = cut; }
  [[nodiscard]] const LinkStats& stats() const { return stats_; }

 private:
  bool lose(bool is_ack, const LaneKnobs& lane);
  Duration delay(const LaneKnobs& lane);
  [[nodiscard]] const LaneKnobs& lane_of(uint16_t vp) const {
    return knobs_.lanes[((vp ^ knobs_.lane_salt) * 0x9e3779b1u) >> 30];
  }
  static Duration serialisation(uint32_t bytes, uint64_t bits_per_us) {
    return Duration::ns(static_cast<int64_t>(bytes * 8ull * 1000 / bits_per_us + 1));
  }

  LinkKnobs knobs_;
  Prng prng_;
  LinkStats stats_;
  Time port_free_;
  Time room_at_;
  Time queue_free_;
  uint32_t burst_left_ = 0;
  bool cut_ = false;
};

}  // namespace mprdma::swarm
