// How the memory of the switches is divided: what each port has to itself, and what all share.
#pragma once

#include <cstdint>
#include <vector>

#include "switchsim/model/topology.hpp"

namespace mprdma::switchsim {

// Whether packets are charged to accounts: there are thresholds, reserves or PFC.
bool managed(const Topology& topology);

// What the receiver of this port can take after it has sent a pause; 0 without PFC, and where the
// receiver is a host. Computed ones are of the rates and delays of the topology, not of later ones.
uint64_t headroom_bytes(const Topology& topology, PortId port);

// By switch: the reserves of its queues and, with PFC, the reserves and headroom of its ingresses.
std::vector<uint64_t> dedicated_bytes(const Topology& topology);

}  // namespace mprdma::switchsim
