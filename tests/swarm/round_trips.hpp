// What a checker knows of the round trips of a stream: how old a packet may be before its sender
// may call it late.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <vector>

#include "base/units.hpp"

namespace mprdma::swarm {

class RoundTrips {
 public:
  // The packet leaves, for the first time or again.
  void on_sent(uint64_t index, Time now) {
    if (sent_at_.size() <= index) sent_at_.resize(index + 1);
    sent_at_[index] = now;
  }
  // The acknowledgement of a packet echoes when it left.
  void on_echo(uint32_t echoed, Time now) {
    const Duration took = Duration::ns(static_cast<uint32_t>(now.ns()) - echoed);
    const Duration smooth =
        trips_.empty() ? took : trips_.back().smooth + (took - trips_.back().smooth) / 8;
    trips_.push_back({now, took, smooth});
    if (trips_.size() > kTripsMax) trips_.pop_front();
  }
  // Its last copy is older than every round trip of the last eight rounds took, and a quarter of
  // the shortest of them in addition (docs/algorithms.md, loss detection): the round trip has grown
  // at once by more than a sender can foresee, or the packet is lost. A round lasts the shortest of
  // the smoothed round trips (RFC 6298) that it has seen; time in which nothing came does not
  // count.
  [[nodiscard]] bool overdue(uint64_t index, Time now) const {
    if (trips_.empty()) return false;
    Duration most;
    Duration least = trips_.back().took;
    Duration round = trips_.back().smooth;
    for (auto trip = trips_.rbegin(); trip != trips_.rend(); ++trip) {
      round = std::min(round, trip->smooth);
      if (trip->at < trips_.back().at - round * kRounds) break;
      most = std::max(most, trip->took);
      least = std::min(least, trip->took);
    }
    return now - sent_at_[index] >= most + least / 4;
  }
  // True if what echoes this time answers the last copy of the packet, or the network's copy of it.
  [[nodiscard]] bool answers_last_copy(uint64_t index, uint32_t echoed_ns) const {
    return static_cast<uint32_t>(sent_at_[index].ns()) == echoed_ns;
  }

 private:
  static constexpr int64_t kRounds = 8;
  static constexpr size_t kTripsMax = 1 << 14;
  struct Trip {
    Time at;
    Duration took;
    Duration smooth;
  };
  std::vector<Time> sent_at_;  // the last copy
  std::deque<Trip> trips_;
};

}  // namespace mprdma::swarm
