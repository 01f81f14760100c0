// Where a switch sends a packet: all shortest paths by hop count. Parallel links are ports of equal
// cost. A destination is its leaf, the switch that the host hangs on, so the table has one entry
// for each pair of switch and leaf, and the entries of a switch share equal lists of ports.
//
// Allocates at construction and in compute(), never for a packet.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "switchsim/model/ecmp.hpp"
#include "switchsim/model/topology.hpp"

namespace mprdma::switchsim {

inline constexpr PortId kNoPort = UINT32_MAX;

class Routes {
 public:
  // Checks the shape: a host has one link, link ends exist. Every link is usable at first.
  Routes(const Topology& topology, uint64_t seed);

  // What the switches know of a link; counts from the next compute().
  void set_usable(LinkId link, bool usable) { usable_[link] = usable; }
  void compute();

  // The port by which switch `node` sends a packet to the host, kNoPort if there is none. The link
  // to the host itself is not asked whether it is usable.
  [[nodiscard]] PortId next_port(NodeId node, NodeId destination, uint64_t flow) const {
    const Attachment& host = attachments_[destination];
    if (host.leaf == node) return host.down;
    if (host.leaf_index == kNoLeaf) return kNoPort;
    const uint32_t at = node - hosts_;
    const Group group = groups_[group_of_[uint64_t{at} * leaves_ + host.leaf_index]];
    if (group.count <= 1) return group.count == 0 ? kNoPort : ports_[group.first];
    return ports_[group.first + ecmp_index(flow, seeds_[at], group.count)];
  }

  // All of them, in the order that the index counts.
  [[nodiscard]] std::span<const PortId> next_ports(NodeId node, NodeId destination) const;

  [[nodiscard]] PortId nic(NodeId host) const { return attachments_[host].up; }
  // Entries of the tables, to see that memory stays linear in the hosts.
  [[nodiscard]] size_t table_entries() const {
    return attachments_.size() + group_of_.size() + groups_.size() + ports_.size();
  }

 private:
  static constexpr uint32_t kNoLeaf = UINT32_MAX;

  struct Attachment {
    NodeId leaf = 0;                // what the host's link leads to
    uint32_t leaf_index = kNoLeaf;  // kNoLeaf: another host
    PortId up = kNoPort;            // host to leaf
    PortId down = kNoPort;          // leaf to host
  };
  struct Group {
    uint32_t first = 0;
    uint32_t count = 0;
  };
  struct Neighbour {
    PortId port;
    uint32_t peer;  // index of a switch
  };

  void attach(const Topology& topology);
  void connect(const Topology& topology);
  void measure(uint32_t leaf, std::span<uint16_t> distance) const;
  void choose(uint32_t at, std::span<const uint16_t> distances);

  uint32_t hosts_;
  uint32_t switches_;
  uint32_t leaves_ = 0;
  std::vector<Attachment> attachments_;  // by host
  std::vector<uint32_t> leaf_switches_;  // by leaf index: index of the switch
  std::vector<uint32_t> group_of_;       // by switch index, leaf index
  std::vector<Group> groups_;
  std::vector<PortId> ports_;
  std::vector<uint64_t> seeds_;            // by switch index
  std::vector<bool> usable_;               // by link
  std::vector<uint32_t> neighbour_first_;  // by switch index; into neighbours_
  std::vector<Neighbour> neighbours_;
};

}  // namespace mprdma::switchsim
