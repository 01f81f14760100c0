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

#include "switchsim/fabric/fabric.hpp"

namespace mprdma::switchsim {

struct FabricStatus {
  std::string name;
  Time started;
  Time now;
  bool down = false;  // set by the request to end
};

std::string answer(const std::string& request, Fabric& fabric, FabricStatus* status);

}  // namespace mprdma::switchsim
