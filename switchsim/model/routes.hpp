// Where a switch sends a packet: all shortest paths by hop count. Parallel links are ports of equal
// cost. A destination is its leaf, the switch that the host hangs on.
//
// A switch has a list of groups of ports, and a row: for each leaf the number of the group in its
// own list. Switches with equal rows share one. In a network of tiers most are equal: all cores of
// a fat-tree know the pods by the same numbers, all ToRs send everything up. So the tables are
// linear in the hosts there (2 entries a host in a fat-tree); without such symmetry they have an
// entry for each pair of switch and leaf.
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
    const Switch& at = switches_[node - hosts_];
    const Group group = groups_[at.first_group + cells_[at.row + host.leaf_index]];
    if (group.count <= 1) return group.count == 0 ? kNoPort : ports_[group.first];
    return ports_[group.first + ecmp_index(flow, at.seed, group.count)];
  }

  // All of them, in the order that the index counts.
  [[nodiscard]] std::span<const PortId> next_ports(NodeId node, NodeId destination) const;

  [[nodiscard]] PortId nic(NodeId host) const { return attachments_[host].up; }
  // Entries of the tables, to see that memory stays linear in the hosts.
  [[nodiscard]] size_t table_entries() const {
    return attachments_.size() + switches_.size() + cells_.size() + groups_.size() + ports_.size();
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
  struct Switch {
    uint64_t seed = 0;
    size_t row = 0;  // begin of its row in cells_
    uint32_t first_group = 0;
  };
  struct Neighbour {
    PortId port;
    uint32_t peer;  // index of a switch
  };
  class Builder;  // of the tables

  void attach(const Topology& topology);
  void connect(const Topology& topology);
  [[nodiscard]] std::span<const Neighbour> neighbours(uint32_t at) const {
    return std::span(neighbours_)
        .subspan(neighbour_first_[at], neighbour_first_[at + 1] - neighbour_first_[at]);
  }

  uint32_t hosts_;
  uint32_t leaves_ = 0;
  std::vector<Attachment> attachments_;  // by host
  std::vector<uint32_t> leaf_switches_;  // by leaf index: index of the switch
  std::vector<Switch> switches_;         // by switch index
  std::vector<uint16_t> cells_;  // rows by leaf index: a group's number in the switch's list
  std::vector<Group> groups_;    // switch by switch
  std::vector<PortId> ports_;
  std::vector<bool> usable_;               // by link
  std::vector<uint32_t> neighbour_first_;  // by switch index; into neighbours_
  std::vector<Neighbour> neighbours_;
};

}  // namespace mprdma::switchsim
