// What a running fabric answers: one JSON object for each request, on the control socket.
//
//   {"command": "show"}    hosts, links, counters (the page of the fields: docs/operations.md)
//   {"command": "set", "link": "path1", "changes": ["down"]}   or "path1:ab" for one direction
//   {"command": "hosts"}   what `mprdma run` needs to be a host
//   {"command": "down"}    the fabric ends
//
// Every answer has "ok"; false comes with "error", a sentence.
#pragma once

#include <string>

#include "base/counters.hpp"
#include "switchsim/fabric/fabric.hpp"

namespace mprdma::switchsim {

// The counters of the loop; page: docs/operations.md. Late wake-ups show that the machine cannot
// carry the rates of the links.
#define MPRDMA_FABRIC_LOOP_COUNTERS(X)                                                 \
  X(turns, "looks at all ports")                                                       \
  X(sleeps_armed, "sleeps from which a frame would have woken the fabric")             \
  X(late_100us, "turns that came 0.1 ms late or more: the machine was busy elsewhere") \
  X(late_1ms, "of these, 1 ms or more")                                                \
  X(late_10ms, "of these, 10 ms or more")
MPRDMA_DEFINE_COUNTERS(FabricLoopCounters, MPRDMA_FABRIC_LOOP_COUNTERS);

struct FabricStatus {
  std::string name;
  Time started;
  Time now;
  FabricLoopCounters loop;
  bool down = false;  // set by the request to end
};

std::string answer(const std::string& request, Fabric& fabric, FabricStatus* status);

}  // namespace mprdma::switchsim
