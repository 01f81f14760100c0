// The network: links, switches and queues, driven by time that the caller passes in. The same code
// is the event simulator's network (virtual time, switchsim/sim) and the real-time switch (the
// caller's clock, switchsim/fabric).
//
//   - a packet is an index into a pool that the network owns; what it carries is the host's own
//     (`contents`), the network looks at flow, size, destination and ECN only
//   - an idle port forwards at once: one event per hop (arrival at the next node); a kick only
//     while backlogged
//   - ECMP: index = mix(flow, seed of the switch) over the equal-cost ports that are usable
//   - ties are broken by (time, sequence number): the same calls give the same bytes
//   - nothing is allocated after construction; events are embedded in packets, ports and timers
//
// `Hosts` is the caller's class (a template parameter: no virtual call per packet):
//   void on_packet(NodeId host, PacketId packet)  arrived; the host owns it now: release() it, or
//                                                 send() it again
//   bool pull(NodeId host)                        the host's NIC has become free and nothing waits:
//                                                 send() the next packet, false if there is none
//   void on_timer(TimerId timer)
// All three may call the network.
#pragma once

#include <cstdint>
#include <span>

#include "base/counters.hpp"
#include "switchsim/model/sim_time.hpp"
#include "switchsim/model/topology.hpp"

namespace mprdma::switchsim {

using PacketId = uint32_t;
using TimerId = uint32_t;
inline constexpr PacketId kNoPacket = UINT32_MAX;

// 32 bytes: two to a cache line.
struct NetPacket {
  uint64_t flow = 0;        // premixed five-tuple: flow_hash() of ecmp.hpp
  uint32_t next = 0;        // intrusive queue, the network's own
  uint32_t wire_bytes = 0;  // with preamble, FCS and gap
  uint32_t contents = 0;    // the host's own
  NodeId destination = 0;   // a host
  uint32_t ingress = 0;     // port it came by, the network's own (shared buffer)
  bool ect = true;          // ECN-capable
  bool ce = false;          // congestion experienced
  uint8_t priority = 0;
  uint8_t spare = 0;
};
static_assert(sizeof(NetPacket) == 32);

#define MPRDMA_LINK_COUNTERS(X)                                          \
  X(packets, "packets that left the port")                               \
  X(bytes, "bytes of those on the wire")                                 \
  X(marked, "packets marked with congestion experienced")                \
  X(drop_queue, "packets dropped because the queue was full")            \
  X(drop_buffer, "packets dropped because the switch's buffer was full") \
  X(drop_loss, "packets lost at random")                                 \
  X(drop_down, "packets lost because the link was down")
MPRDMA_DEFINE_COUNTERS(LinkCounters, MPRDMA_LINK_COUNTERS);

struct NetworkConfig {
  Topology topology;
  uint64_t seed = 1;
  uint32_t packets_max = 1 << 20;  // in the network at once
  uint32_t timers = 0;
  // How long after a link went down (came up) the switch beside it stops (starts) using it; never:
  // the network does not notice, and paths through it are a black hole.
  bool reroute = false;
  SimSpan reroute_after;
};

template <class Hosts>
class Network {
 public:
  Network(const NetworkConfig& config, Hosts& hosts);

  // ---- Packets
  // kNoPacket when packets_max are out.
  PacketId allocate();
  NetPacket& packet(PacketId id);
  void release(PacketId id);
  // Hands a packet to the host's NIC: leaves at once if the wire is idle, else waits in the NIC's
  // queue. Dropped and counted if that is full or the link is down.
  void send(NodeId host, PacketId id);
  // The wire of this host would take a packet now.
  [[nodiscard]] bool nic_idle(NodeId host) const;
  // The host has something to send: pull() is called as soon as the wire takes it (at once, within
  // this call, if it is idle).
  void want_pull(NodeId host);

  // ---- Time
  [[nodiscard]] SimTime now() const;
  void set_timer(TimerId timer, SimTime at);  // sets or moves; never() cancels
  // Handles everything up to and including `until`; now() is then `until`.
  void run_until(SimTime until);
  // Handles the next event; false when there is none.
  bool step();
  [[nodiscard]] SimTime next_event() const;  // never() when nothing will happen by itself

  // ---- Changes while it runs
  void set_link_up(LinkId link, bool up);
  void set_rate(PortId port, LinkRate rate);  // from the next packet on
  void set_loss(PortId port, uint32_t loss_ppm);
  void set_delay(PortId port, SimSpan delay);
  void set_red(PortId port, const RedConfig& red);
  void set_queue_limit(PortId port, uint64_t bytes);

  // ---- Getters
  [[nodiscard]] const Topology& topology() const;
  [[nodiscard]] const LinkCounters& counters(PortId port) const;
  [[nodiscard]] uint64_t queue_bytes(PortId port) const;
  [[nodiscard]] bool link_up(LinkId link) const;
  [[nodiscard]] uint64_t events_handled() const;
  [[nodiscard]] uint64_t packet_hops() const;
  [[nodiscard]] uint32_t packets_in_use() const;
  // The ports that a packet of `flow` would take from host to host: which path it is.
  uint32_t path_of(NodeId from, NodeId to, uint64_t flow, std::span<PortId> out) const;
};

}  // namespace mprdma::switchsim
