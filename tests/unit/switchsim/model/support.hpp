// Networks of a few lines, and hosts that only write down what arrives.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "switchsim/model/network.hpp"

namespace mprdma::switchsim {

// Host 0 - switch - ... - switch - host 1, all links alike. Nodes: hosts 0 and 1, switches after.
inline Topology chain(uint32_t switches, const PortConfig& port) {
  Topology topology;
  topology.hosts = 2;
  topology.switches = switches;
  NodeId last = 0;
  for (uint32_t i = 0; i <= switches; ++i) {
    const NodeId next = i == switches ? 1 : 2 + i;
    topology.links.push_back({last, next, port, port, ""});
    last = next;
  }
  return topology;
}

// `hosts` hosts on one switch, link i is host i's; node `hosts` is the switch.
inline Topology star(uint32_t hosts, const PortConfig& port) {
  Topology topology;
  topology.hosts = hosts;
  topology.switches = 1;
  for (NodeId host = 0; host < hosts; ++host) {
    topology.links.push_back({host, hosts, port, port, ""});
  }
  return topology;
}

// Leaf and spine: links of the hosts first, then of each leaf to each spine.
inline Topology leaf_spine(uint32_t leaves, uint32_t spines, uint32_t hosts_per_leaf,
                           const PortConfig& edge, const PortConfig& core) {
  Topology topology;
  topology.hosts = leaves * hosts_per_leaf;
  topology.switches = leaves + spines;
  for (NodeId host = 0; host < topology.hosts; ++host) {
    topology.links.push_back({host, topology.hosts + host / hosts_per_leaf, edge, edge, ""});
  }
  for (uint32_t leaf = 0; leaf < leaves; ++leaf) {
    for (uint32_t spine = 0; spine < spines; ++spine) {
      topology.links.push_back(
          {topology.hosts + leaf, topology.hosts + leaves + spine, core, core, ""});
    }
  }
  return topology;
}

struct Arrival {
  SimTime at;
  NodeId host;
  uint32_t contents;
  bool ce;
  bool operator==(const Arrival&) const = default;
};

// Takes every packet; sends what stands in `backlog` when pulled.
class Recorder {
 public:
  explicit Recorder(const NetworkConfig& config)
      : net(config, *this), backlog(config.topology.hosts) {}

  void on_packet(NodeId host, PacketId id) {
    arrivals.push_back({net.now(), host, net.packet(id).contents, net.packet(id).ce});
    net.release(id);
  }
  bool pull(NodeId host) {
    if (backlog[host].empty()) return false;
    if (!net.nic_takes(host, net.packet(backlog[host].front()).priority)) return false;
    net.send(host, backlog[host].front());
    backlog[host].pop_front();
    return true;
  }
  void on_timer(TimerId timer) { timers.push_back({timer, net.now()}); }
  void on_drop(PacketId id) { dropped.push_back(net_contents(id)); }

  PacketId make(NodeId to, uint32_t bytes, uint32_t contents = 0, uint64_t flow = 1) {
    const PacketId id = net.allocate();
    CHECK(id != kNoPacket);
    NetPacket& packet = net.packet(id);
    packet.destination = to;
    packet.wire_bytes = bytes;
    packet.contents = contents;
    packet.flow = flow;
    return id;
  }
  void send(NodeId from, NodeId to, uint32_t bytes, uint32_t contents = 0, uint64_t flow = 1) {
    net.send(from, make(to, bytes, contents, flow));
  }
  // Runs to the end and checks the network's invariants after every event.
  void run_checked() {
    while (net.step()) net.check();
  }

  struct Expiry {
    TimerId timer;
    SimTime at;
    bool operator==(const Expiry&) const = default;
  };

  Network<Recorder> net;
  std::vector<std::deque<PacketId>> backlog;
  std::vector<Arrival> arrivals;
  std::vector<Expiry> timers;
  std::vector<uint32_t> dropped;

 private:
  uint32_t net_contents(PacketId id) { return net.packet(id).contents; }
};

inline NetworkConfig config_of(Topology topology, uint64_t seed = 1) {
  NetworkConfig config;
  config.topology = std::move(topology);
  config.seed = seed;
  config.packets_max = 1 << 16;
  return config;
}

inline PortConfig port_of(uint64_t gbps, SimSpan delay) {
  PortConfig port;
  port.rate = LinkRate::gbps(gbps);
  port.delay = delay;
  return port;
}

}  // namespace mprdma::switchsim
