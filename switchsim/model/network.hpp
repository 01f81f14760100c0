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
//   - PFC and thresholds of buffers (pause.hpp, shared_buffer.hpp) cost a branch when they are off
//
// `Hosts` is the caller's class (a template parameter: no virtual call per packet):
//   void on_packet(NodeId host, PacketId packet)  arrived; the host owns it now: release() it, or
//                                                 send() it again
//   bool pull(NodeId host)                        the host's NIC has become free and nothing waits:
//                                                 send() the next packet, false if there is none;
//                                                 a NIC that is paused takes nic_takes() only, and
//                                                 is asked again when the pause ends
//   void on_timer(TimerId timer)
// All three may call the network, but for run_until() and step(). A fourth may be there or not:
//   void on_drop(PacketId packet)                 the network dropped it (counted) and releases it
//                                                 after this call, which may look at packet() and
//                                                 call nothing else of the network
// and a fifth:
//   void on_transmit(PortId port, PacketId packet)  a tapped port begins to send it; may look only
// and a sixth:
//   void on_routes_changed()                      packets may take other paths from now on
// and a seventh:
//   void on_copy(PacketId from, PacketId to)      the network made a copy of a packet (a flood)
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/check.hpp"
#include "base/counters.hpp"
#include "base/prng.hpp"
#include "switchsim/model/buffer_layout.hpp"
#include "switchsim/model/event_wheel.hpp"
#include "switchsim/model/output_port.hpp"
#include "switchsim/model/packet_pool.hpp"
#include "switchsim/model/pause.hpp"
#include "switchsim/model/routes.hpp"
#include "switchsim/model/shared_buffer.hpp"
#include "switchsim/model/sim_time.hpp"
#include "switchsim/model/topology.hpp"

namespace mprdma::switchsim {

using TimerId = uint32_t;

#define MPRDMA_LINK_COUNTERS(X)                                                \
  X(packets, "packets that left the port")                                     \
  X(bytes, "bytes of those on the wire")                                       \
  X(marked, "packets marked with congestion experienced")                      \
  X(drop_queue, "packets dropped because the queue was full")                  \
  X(drop_buffer, "packets dropped because the switch's buffer was full")       \
  X(drop_loss, "packets lost at random")                                       \
  X(drop_down, "packets lost because the link was down")                       \
  X(drop_route, "packets that arrived here at a switch that had no way on")    \
  X(flooded, "copies that left here of packets for a host without a link")     \
  X(drop_paused, "packets dropped because a watchdog gave the paused port up") \
  X(drop_flooded, "such copies that arrived here, which nobody takes")
MPRDMA_DEFINE_COUNTERS(LinkCounters, MPRDMA_LINK_COUNTERS);

struct NetworkConfig {
  Topology topology;
  uint64_t seed = 1;
  uint32_t packets_max = 1 << 20;  // in the network at once
  uint32_t timers = 0;
  // The time after which the switch beside a link stops using it when it went down, and uses it
  // again when it came up. Without `reroute` the network does not react, and paths over the link
  // are a black hole.
  bool reroute = false;
  SimSpan reroute_after;
};

template <class Hosts>
class Network {
 public:
  Network(const NetworkConfig& config, Hosts& hosts);
  Network(const Network&) = delete;
  Network& operator=(const Network&) = delete;

  // ---- Packets
  // kNoPacket when packets_max are out.
  PacketId allocate();
  NetPacket& packet(PacketId id) { return packets_[id]; }
  void release(PacketId id) { packets_.release(id); }
  // Hands a packet to the host's NIC. It leaves at once if the wire is idle, otherwise it waits in
  // the NIC's queue. It is dropped and counted if that is full or the link is down.
  void send(NodeId host, PacketId id);
  // False: a pause stops packets of this priority at the host's NIC.
  [[nodiscard]] bool nic_takes(NodeId host, uint8_t priority) const {
    return !pfc_ || !pauses_[routes_.nic(host)].paused ||
           (priority != kLosslessPriority && !topology_.pfc.global);
  }
  // True if the wire of this host would take a packet of either class now.
  [[nodiscard]] bool nic_idle(NodeId host) const { return ports_[routes_.nic(host)].idle(now_); }
  // Called when the host has something to send: pull() is called as soon as the wire takes a packet
  // (within this call, if it is idle), and again until it returns false. Nothing is pulled while
  // the link is down. A pull() that returns true must have sent.
  void want_pull(NodeId host);
  // With PFC: a host that cannot take more packets pauses the switch's port to it, and ends the
  // pause.
  void set_host_pausing(NodeId host, bool pausing);
  // With PFC: the switch's port to the host drops lossless packets until it is taken back, those
  // that wait there, too; a watchdog's cure for a host that does not end its pause.
  void set_discarding(NodeId host, bool discarding);

  // ---- Time
  [[nodiscard]] SimTime now() const { return now_; }
  // Sets or moves a timer; never() cancels it. A time in the past means now.
  void set_timer(TimerId timer, SimTime at);
  // Handles everything up to and including `until`; now() is then `until`.
  void run_until(SimTime until);
  // Handles the next event; false when there is none. An event may be one without effect: a timer
  // that was moved away.
  bool step();
  // never() when nothing will happen by itself. May be too early (a timer that was moved away).
  [[nodiscard]] SimTime next_event() const { return wheel_.next(); }

  // ---- Changes while it runs
  // What waits in front of either port and what is on the wire is lost, and counted at once.
  void set_link_up(LinkId link, bool up);
  void set_rate(PortId port, LinkRate rate);  // from the next packet on
  void set_loss(PortId port, uint32_t loss_ppm);
  void set_delay(PortId port, SimSpan delay);  // from the next packet on; none overtakes another
  void set_red(PortId port, const RedConfig& red);
  void set_queue_limit(PortId port, uint64_t bytes);  // for packets that come
  // From now on on_transmit() sees the packets that leave this port.
  void tap(PortId port);

  // ---- Getters
  [[nodiscard]] const Topology& topology() const { return topology_; }
  [[nodiscard]] const LinkCounters& counters(PortId port) const { return counters_[port]; }
  [[nodiscard]] uint64_t queue_bytes(PortId port) const {
    return ports_[port].queue.bytes + (pfc_ ? pauses_[port].rest.bytes : 0);
  }
  // With PFC: of that, what is lossless.
  [[nodiscard]] uint64_t lossless_bytes(PortId port) const { return ports_[port].queue.bytes; }
  // The greatest length that the queue has had.
  [[nodiscard]] uint64_t queue_bytes_peak(PortId port) const {
    return extras_[port].queue_bytes_peak;
  }
  // The memory of a switch: the bytes that wait at all its ports, and the most that ever did.
  [[nodiscard]] const SharedBuffer& buffer(NodeId node) const {
    return buffers_[node - topology_.hosts];
  }
  [[nodiscard]] PauseState pause_state(PortId port) const;
  // The receiver of the port has asked for a pause and not ended it.
  [[nodiscard]] bool pausing(PortId port) const { return pfc_ && pauses_[port].pausing; }
  // The sender of the port is paused, its receiver wants that, no signal is on its way, and what
  // was sent before has arrived.
  [[nodiscard]] bool stopped(PortId port) const;
  // Of a port into a switch: what of `stuck` bytes that came by it, and that stay for ever, takes
  // of what all share; and whether the receiver ends the pause when all others have left it, and
  // all ingresses together hold `shared` of what all share.
  [[nodiscard]] uint64_t shared_of(PortId port, uint64_t stuck) const;
  [[nodiscard]] bool would_resume(PortId port, uint64_t stuck, uint64_t shared) const;
  [[nodiscard]] bool lossless(const NetPacket& packet) const {
    return pfc_ && (packet.priority == kLosslessPriority || topology_.pfc.global);
  }
  // Calls look(const NetPacket&) for each packet that waits in front of the port. A packet's
  // ingress is the port by which it came into the switch; with pause_state() this shows which port
  // blocks which.
  template <class Look>
  void for_each_waiting(PortId port, Look&& look) const;
  [[nodiscard]] bool link_up(LinkId link) const { return ports_[link * 2].up; }
  // The port by which a host sends.
  [[nodiscard]] PortId nic(NodeId host) const { return routes_.nic(host); }
  [[nodiscard]] uint64_t events_handled() const { return events_handled_; }
  [[nodiscard]] uint64_t packet_hops() const { return packet_hops_; }
  [[nodiscard]] uint32_t packets_in_use() const { return packets_.in_use(); }
  // Finds the ports that a packet of `flow` takes from host to host. Returns how many there are,
  // and writes the first out.size() of them; 0 if there is no way.
  uint32_t path_of(NodeId from, NodeId to, uint64_t flow, std::span<PortId> out) const;
  // Aborts unless bytes are conserved: at every port (in a build with DCHECK), and in every switch
  // (by ingress = by egress = in total). Costs a look at every port and packet: for tests.
  void check() const;

 private:
  // Events are numbered: ports' kicks, timers, links' changes of routes, with PFC signals to ports,
  // packets' arrivals.
  [[nodiscard]] EventId event_of_timer(TimerId timer) const { return first_timer_ + timer; }
  [[nodiscard]] EventId event_of_link(LinkId link) const { return first_link_ + link; }
  [[nodiscard]] EventId event_of_packet(PacketId packet) const { return first_packet_ + packet; }

  void make_ports();
  void make_buffers();
  void look_ahead();
  void handle(EventId event);
  void arrive(PacketId id);
  void expire(TimerId timer);
  void change_routes(LinkId link);
  void kick(PortId id);
  void pull(PortId id);

  void offer(PortId id, PacketId packet_id);
  void enqueue(PortId id, PacketId packet_id);
  void append(PortId id, PacketQueue& queue, PacketId packet_id);
  PacketId dequeue(PortId id, PacketQueue& queue);
  void transmit_next(PortId id, PacketQueue& queue);
  void transmit(PortId id, PacketId packet_id);
  [[nodiscard]] bool special_case(PortId id, PacketId packet_id, SimTime& arrival);
  [[nodiscard]] bool is_special(PortId id) const;
  void kick_when_free(PortId id);
  void drop(PortId id, uint64_t LinkCounters::*reason, PacketId packet_id);
  void give_up(PacketId id);
  void drop_at_dead_end(PortId id, PacketId packet_id);
  void flood(PortId dead_end, PacketId packet_id);
  void mark(PortId id, NetPacket& packet, uint64_t waiting_bytes);
  void cut(PortId id);
  void lose_on_wire(PortId id);
  void check_switches() const;

  // network_pfc_inl.hpp: managed buffers and PFC
  void make_accounts();
  void offer_managed(PortId id, PacketId packet_id);
  [[nodiscard]] bool admit(PortId id, const NetPacket& packet);
  [[nodiscard]] bool admit_lossless(SharedBuffer& buffer, const NetPacket& packet);
  void refund(PortId id, const NetPacket& packet);
  void kick_classes(PortId id);
  [[nodiscard]] bool wants_wire(PortId id) const;
  [[nodiscard]] bool may_pull(PortId id) const;
  void update_open(PortId id);
  void set_pausing(PortId id, bool pausing);
  void process_signal(PortId id);
  void check_accounts() const;

  Hosts& hosts_;
  Topology topology_;
  bool reroute_;
  SimSpan reroute_after_;
  SimTime now_;
  uint64_t events_handled_ = 0;
  uint64_t packet_hops_ = 0;
  EventId first_timer_;
  EventId first_link_;
  EventId first_signal_;
  EventId first_packet_;
  EventWheel wheel_;
  PacketPool packets_;
  Routes routes_;
  std::vector<OutputPort> ports_;
  std::vector<LinkCounters> counters_;
  std::vector<PortExtras> extras_;
  bool managed_;
  bool pfc_;
  std::vector<SharedBuffer> buffers_;  // by switch
  std::vector<BufferAccount>
      accounts_;                    // by port: its queue's; empty unless the buffers are managed
  std::vector<PausePort> pauses_;   // by port; empty without PFC
  std::vector<SimTime> deadlines_;  // by timer
  std::vector<std::vector<PortId>> flood_ports_;  // by switch; empty unless they flood
};

}  // namespace mprdma::switchsim

#include "switchsim/model/network_changes_inl.hpp"
#include "switchsim/model/network_flood_inl.hpp"
#include "switchsim/model/network_inl.hpp"
#include "switchsim/model/network_pfc_inl.hpp"
