// Windows that follow the network (D16): from the rate of the link and a round trip to packets.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

#include "base/units.hpp"
#include "transport/core/params.hpp"

namespace mprdma::transport {

// Of a data packet on a wire, beside its payload: Ethernet with preamble and gap, IPv4, UDP, the
// headers of the mode mp, ICRC.
inline constexpr uint32_t kPacketOverheadBytes = 100;
// A window counts packets before the path MTU of the connection is known.
inline constexpr uint32_t kReferenceMtu = 1024;

// The bandwidth-delay product in packets with a payload of `mtu` bytes, rounded down.
constexpr uint64_t bandwidth_delay(uint32_t link_mbps, Duration rtt, uint32_t mtu) {
  const uint64_t bits = uint64_t{link_mbps} * static_cast<uint64_t>(rtt.count_ns()) / 1000;
  return bits / (8 * (uint64_t{mtu} + kPacketOverheadBytes));
}

// L, where `params` know the rate of the link: the window that the network may ask for fits.
constexpr uint32_t slots_for_link(const Params& params) {
  const uint64_t packets = 2 * bandwidth_delay(params.link_mbps, params.window_rtt, kReferenceMtu);
  const auto slots =
      std::bit_ceil(static_cast<uint32_t>(std::min<uint64_t>(packets, kWindowSlotsMax)));
  return std::max(params.window_slots, slots);
}

// Sets L, and what stays as long as L: with that delta no path is slow.
constexpr void set_slots(uint32_t slots, Params* params) {
  if (params->reorder_delta == params->window_slots) params->reorder_delta = slots;
  params->window_slots = slots;
}

}  // namespace mprdma::transport
