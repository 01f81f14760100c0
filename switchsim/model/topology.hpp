// The shape of a network: hosts, switches, links. Data only; made once, then read.
//
// Nodes are numbered: hosts first [0, hosts), then switches. A host has exactly one link. A link is
// two directed ports: port 2 * link sends from a to b, port 2 * link + 1 from b to a.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "switchsim/model/sim_time.hpp"

namespace mprdma::switchsim {

using NodeId = uint32_t;
using LinkId = uint32_t;
using PortId = uint32_t;

// RED with ECN (paper 3.2; Floyd and Jacobson 1993): marks with probability 0 below kmin, rising to
// pmax at kmax, 1 above. kmin == kmax is the step of DCTCP. Instantaneous queue, in bytes on the
// wire. kmax = 0: off.
struct RedConfig {
  uint32_t kmin_bytes = 0;
  uint32_t kmax_bytes = 0;
  uint32_t pmax_ppm = 1'000'000;
  bool mark_on_enqueue = false;  // default: the queue that a packet leaves behind as it departs
  bool operator==(const RedConfig&) const = default;
};

struct PortConfig {
  LinkRate rate = LinkRate::gbps(40);
  SimSpan delay;                         // propagation
  uint64_t queue_bytes_max = 1'000'000;  // tail drop; UINT64_MAX: none
  RedConfig red;
  uint32_t loss_ppm = 0;  // random loss on the wire of this direction
};

struct LinkConfig {
  NodeId a = 0;
  NodeId b = 0;
  PortConfig ab;
  PortConfig ba;
  std::string name;  // as in the scenario; shown in counters
};

struct Topology {
  uint32_t hosts = 0;
  uint32_t switches = 0;
  uint64_t switch_buffer_bytes = 0;  // shared by all ports of a switch; 0: not limited
  std::vector<LinkConfig> links;

  [[nodiscard]] uint32_t nodes() const { return hosts + switches; }
  [[nodiscard]] uint32_t ports() const { return static_cast<uint32_t>(links.size()) * 2; }
  [[nodiscard]] NodeId from(PortId port) const {
    return port % 2 == 0 ? links[port / 2].a : links[port / 2].b;
  }
  [[nodiscard]] NodeId to(PortId port) const {
    return port % 2 == 0 ? links[port / 2].b : links[port / 2].a;
  }
};

}  // namespace mprdma::switchsim
