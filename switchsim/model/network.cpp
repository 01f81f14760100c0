#include "switchsim/model/network.hpp"

namespace mprdma::switchsim {

uint32_t wheel_buckets(const Topology& topology) {
  // A few packets are on each wire at a time. Buckets with one event are the cheapest, because the
  // events of several buckets can be fetched from memory together.
  return std::clamp<uint32_t>(topology.ports() * 32, 1024, 1 << 20);
}

SimSpan wheel_horizon(const Topology& topology) {
  constexpr uint32_t kPacketBytes = 4200;
  // Longer delays wait in the heap: a slow link must not make all buckets coarse.
  constexpr SimSpan kMost = SimSpan::us(100);
  SimSpan longest;
  for (const LinkConfig& link : topology.links) {
    for (const PortConfig* port : {&link.ab, &link.ba}) {
      longest = std::max(longest, std::min(port->delay + port->rate.time_of(kPacketBytes), kMost));
    }
  }
  return longest;
}

}  // namespace mprdma::switchsim
