#include "switchsim/model/buffer_layout.hpp"

namespace mprdma::switchsim {

namespace {

const PortConfig& config_of(const Topology& topology, PortId port) {
  const LinkConfig& link = topology.links[port / 2];
  return port % 2 == 0 ? link.ab : link.ba;
}

// Bytes that a rate carries in a time, rounded up.
uint64_t bytes_in(LinkRate rate, SimSpan time) {
  constexpr uint64_t kMegabit = 1'000'000;
  constexpr uint64_t kPicosecondsByte = 8 * kMegabit;  // picoseconds a byte, times the rate in Mb/s
  const uint64_t mbps = (rate.bits_per_second() + kMegabit - 1) / kMegabit;
  const auto ps = static_cast<uint64_t>(time.count_ps());
  return (mbps * ps + kPicosecondsByte - 1) / kPicosecondsByte;
}

}  // namespace

bool managed(const Topology& topology) {
  return topology.buffer_alpha_q16 != 0 || topology.reserve_bytes != 0 || topology.pfc.on;
}

uint64_t headroom_bytes(const Topology& topology, PortId port) {
  const PfcConfig& pfc = topology.pfc;
  if (!pfc.on || topology.to(port) < topology.hosts) return 0;
  const LinkRate rate = config_of(topology, port).rate;
  const SimSpan there_and_back =
      config_of(topology, port).delay + config_of(topology, port ^ 1).delay;
  switch (pfc.headroom) {
    case Headroom::kBytes:
      return pfc.headroom_bytes;
    case Headroom::kHpcc:
      return (3 * bytes_in(rate, there_and_back) + 1) / 2;
    case Headroom::kAuto:
      // The headroom holds the bytes on the wire when the pause is sent and those sent until it
      // arrives, the packet that exceeded the limit, and the packet that is being sent when the
      // pause arrives.
      break;
  }
  return bytes_in(rate, there_and_back) + uint64_t{2} * pfc.mtu_bytes;
}

std::vector<uint64_t> dedicated_bytes(const Topology& topology) {
  std::vector<uint64_t> bytes(topology.switches);
  for (PortId port = 0; port < topology.ports(); ++port) {
    const NodeId from = topology.from(port);
    const NodeId to = topology.to(port);
    if (from >= topology.hosts) bytes[from - topology.hosts] += topology.reserve_bytes;
    if (to >= topology.hosts && topology.pfc.on) {
      bytes[to - topology.hosts] += topology.reserve_bytes + headroom_bytes(topology, port);
    }
  }
  return bytes;
}

}  // namespace mprdma::switchsim
