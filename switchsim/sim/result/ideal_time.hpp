// How long a message would take alone on the network as it is in the scenario, all links up: the
// measure of slowdown.
//
// Its packets leave back to back; each hop passes them on as a whole, at the sum of the rates of
// the ports of equal cost that the flow may use there (one of them, on a single path); the last one
// arrives, and its acknowledgement returns over idle links. A READ's request goes there first, and
// its data's arrival is the end. No host thinks, no window is too small, and the last
// acknowledgement waits for none before it: it is a lower bound, and exact on one path unless the
// last packet is so short that its acknowledgement does wait (in roce, whose first packet is the
// longest, to a few bytes).
#pragma once

#include <cstdint>
#include <vector>

#include "switchsim/model/routes.hpp"
#include "switchsim/sim/scenario/scenario.hpp"

namespace mprdma::switchsim {

class IdealTime {
 public:
  // Ideal times follow from the topology alone.
  explicit IdealTime(const Topology& topology);

  struct Hop {
    LinkRate rate;      // of a packet
    LinkRate together;  // of all ports that the flow may use
    SimSpan delay;
  };
  // Empty: there is no way.
  using Path = std::vector<Hop>;

  // What lies between the ends of a flow, to be asked once.
  struct Way {
    Path data;
    Path back;
  };
  [[nodiscard]] Way way(const FlowSpec& flow) const;
  // The ideal time of one message; zero if there is no path.
  [[nodiscard]] static SimSpan of(const Way& way, const FlowSpec& flow, uint64_t bytes);

 private:
  [[nodiscard]] Path path(NodeId from, NodeId to, bool single) const;

  const Topology& topology_;
  Routes routes_;
  // For path(), so that an object is used by one thread at a time: the number of paths asked for,
  // and for each node the last of them that it was on.
  mutable uint64_t paths_ = 0;
  mutable std::vector<uint64_t> path_of_node_;
};

}  // namespace mprdma::switchsim
