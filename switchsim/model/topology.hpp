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
  // Every so many packets of this direction one is lost, as by a switch that filters on a byte of
  // the IP identification; 0: none.
  uint32_t drop_every = 0;
};

struct LinkConfig {
  NodeId a = 0;
  NodeId b = 0;
  PortConfig ab;
  PortConfig ba;
  std::string name;  // as in the scenario; shown in counters
};

// How much an ingress can take after it has sent a pause.
enum class Headroom : uint8_t {
  kAuto,   // 2 x rate x delay + 2 MTU: nothing is lost, with none to spare
  kHpcc,   // 3 x rate x delay, as in HPCC's simulations
  kBytes,  // PfcConfig::headroom_bytes
};

// Priority flow control between all neighbours; see pause.hpp.
struct PfcConfig {
  bool on = false;
  // An ingress that holds more is paused; 0: more than the dynamic threshold allows it.
  uint64_t pause_bytes = 0;
  uint32_t hysteresis_bytes = 3000;
  Headroom headroom = Headroom::kAuto;
  uint64_t headroom_bytes = 0;
  uint32_t mtu_bytes = 4210;  // of the longest packet, on the wire
  // Global Pause (IEEE 802.3x): one class, which is lossless and stops as a whole.
  bool global = false;
  // A packet's class stands in the tag of its VLAN (PCP), which ends at the first switch that
  // routes it: from there on it is not lossless. Else in its IP header (DSCP), which it keeps.
  bool pcp = false;
  bool operator==(const PfcConfig&) const = default;
};

// The size of a managed buffer (buffer_layout.hpp) whose topology sets no limit, and the largest
// limit of one: free bytes times alpha, below 2^40 times 2^22, fit in 64 bits.
inline constexpr uint64_t kManagedBufferBytesMax = uint64_t{1} << 40;
inline constexpr uint32_t kBufferAlphaQ16Max = 64 << 16;

struct Topology {
  uint32_t hosts = 0;
  uint32_t switches = 0;
  // Buffer of each switch, shared by all its ports; 0: no limit. A managed buffer (one with a
  // threshold, a reserve or PFC) has at most kManagedBufferBytesMax, which is also what 0 means.
  uint64_t switch_buffer_bytes = 0;
  // Dynamic threshold: share of the free memory that a queue (with PFC also: an ingress) may hold,
  // Q16.16, at most kBufferAlphaQ16Max; 0: no threshold.
  uint32_t buffer_alpha_q16 = 0;
  uint32_t reserve_bytes = 0;  // reserved for each queue (with PFC also: each ingress)
  PfcConfig pfc;
  // A packet for a host whose link is down leaves its switch by all other ports, as if the switch
  // knew an IP address (ARP) without the port of the MAC address. Nobody takes the copies.
  bool flood = false;
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
