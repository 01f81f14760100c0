// Deadlocks by PFC: ports that wait for each other in a circle.
//
// A port is blocked while its receiver, a switch, pauses it. The receiver may end the pause when a
// packet that came by the port leaves it, if then the ingress holds less than a threshold. So a
// port waits for the ports in front of which that waits. A set of blocked ports is in deadlock if
// for each of them the bytes that wait in front of others of the set are all that came by it, or
// more than the threshold even if all else has left the switches: whatever else moves, none of them
// will ever be released. The largest such set is what remains of all blocked ports when those are
// taken away, one after the other, for which that does not hold. A threshold that depends on what
// is free of the switch's memory counts what waits in front of the set as taken.
//
// A host that pauses for ever blocks a tree of ports, which is no deadlock: it ends with the pause.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "switchsim/model/topology.hpp"

namespace mprdma::switchsim {

class DeadlockSearch {
 public:
  // The ports of a deadlock in the order in which each waits for the next, and the last for the
  // first, beginning with the lowest number. Empty: there is none. Costs a look at every packet
  // that waits in front of a blocked port.
  template <class Net>
  static std::vector<PortId> find(const Net& network) {
    DeadlockSearch search(network.topology());
    for (PortId port = 0; port < network.topology().ports(); ++port) {
      if (network.stopped(port) && search.to_switch(port)) search.blocked_.insert(port);
    }
    for (const PortId port : search.blocked_) {
      if (!search.to_switch(port ^ 1)) continue;  // a host's port
      network.for_each_waiting(port, [&](const auto& packet) {
        if (network.lossless(packet)) search.waits_[packet.ingress][port] += packet.wire_bytes;
      });
    }
    search.reduce(network);
    return search.cycle();
  }

 private:
  explicit DeadlockSearch(const Topology& topology) : topology_(topology) {}

  [[nodiscard]] bool to_switch(PortId port) const { return topology_.to(port) >= topology_.hosts; }
  // The bytes that came by the port and wait in front of blocked ones.
  [[nodiscard]] uint64_t stuck(PortId at) const {
    const auto found = waits_.find(at);
    if (found == waits_.end()) return 0;
    uint64_t bytes = 0;
    for (const auto& [port, waiting] : found->second)
      bytes += blocked_.contains(port) ? waiting : 0;
    return bytes;
  }

  template <class Net>
  void reduce(const Net& network) {
    for (bool changed = true; changed;) {
      std::map<NodeId, uint64_t> shared;  // of each switch's memory
      for (const auto& [port, ahead] : waits_) {
        shared[topology_.to(port)] += network.shared_of(port, stuck(port));
      }
      changed =
          std::erase_if(blocked_, [&](PortId port) {
            const uint64_t bytes = stuck(port);
            return bytes == 0 || network.would_resume(port, bytes, shared[topology_.to(port)]);
          }) > 0;
    }
  }

  // Every port that is left waits for another one that is left, so that a walk comes round.
  [[nodiscard]] std::vector<PortId> cycle() const {
    if (blocked_.empty()) return {};
    std::vector<PortId> walk;
    PortId at = *blocked_.begin();
    for (auto known = walk.end(); known == walk.end();) {
      walk.push_back(at);
      for (const auto& [port, bytes] : waits_.at(at)) {
        if (!blocked_.contains(port)) continue;
        at = port;
        break;
      }
      known = std::find(walk.begin(), walk.end(), at);
      if (known != walk.end()) {
        walk.erase(walk.begin(), known);
        break;
      }
    }
    std::rotate(walk.begin(), std::min_element(walk.begin(), walk.end()), walk.end());
    return walk;
  }

  const Topology& topology_;
  std::set<PortId> blocked_;
  std::map<PortId, std::map<PortId, uint64_t>> waits_;  // by ingress: bytes by the blocked port
};

}  // namespace mprdma::switchsim
