#include "switchsim/model/network.hpp"

namespace mprdma::switchsim {

uint32_t wheel_buckets(const Topology& topology) {
  // A few packets are on each wire at a time. A bucket with one event is the cheapest: its event
  // can be fetched from memory together with those of others.
  return std::clamp<uint32_t>(topology.ports() * 32, 1024, 1 << 20);
}

SimSpan wheel_horizon(const Topology& topology) {
  constexpr uint32_t kPacketBytes = 4200;
  // Longer ones wait in the heap: a slow link must not make the buckets of the others coarse.
  constexpr SimSpan kMost = SimSpan::us(100);
  SimSpan longest;
  for (const LinkConfig& link : topology.links) {
    for (const PortConfig* port : {&link.ab, &link.ba}) {
      longest = std::max(longest, std::min(port->delay + port->rate.time_of(kPacketBytes), kMost));
    }
  }
  return longest;
}

uint32_t whole_ps_per_byte(LinkRate rate) {
  constexpr uint64_t kPicosecondsBits = 8'000'000'000'000;
  const uint64_t bps = rate.bits_per_second();
  const uint64_t ps = kPicosecondsBits / bps;
  return kPicosecondsBits % bps == 0 && ps <= UINT32_MAX ? static_cast<uint32_t>(ps) : 0;
}

}  // namespace mprdma::switchsim
