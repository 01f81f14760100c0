// Bodies of Network: packets for a host whose link is down (Topology::flood). Included by
// network.hpp only.
#pragma once

#include "switchsim/model/network.hpp"

namespace mprdma::switchsim {

// The packet cannot leave by this port, because the link is down.
template <class Hosts>
void Network<Hosts>::drop_at_dead_end(PortId id, PacketId packet_id) {
  if (topology_.flood && ports_[id].to < topology_.hosts) flood(id, packet_id);
  drop(id, &LinkCounters::drop_down, packet_id);
}

// Sends a copy by each port of the switch but the one that the packet came by.
template <class Hosts>
void Network<Hosts>::flood(PortId dead_end, PacketId packet_id) {
  const NetPacket& packet = packets_[packet_id];
  const NodeId node = topology_.from(dead_end);
  for (const PortId out : flood_ports_[node - topology_.hosts]) {
    if (!ports_[out].up || out == (packet.ingress ^ 1)) continue;
    const PacketId id = allocate();
    if (id == kNoPacket) return;
    NetPacket& copy = packets_[id];
    copy = packet;
    copy.flooded = true;
    if constexpr (requires { hosts_.on_copy(id, id); }) hosts_.on_copy(packet_id, id);
    ++counters_[out].flooded;
    offer(out, id);
  }
}

}  // namespace mprdma::switchsim
