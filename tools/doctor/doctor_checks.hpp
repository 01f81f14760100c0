// The checks of `mprdma doctor`: what this machine can run, and how to fix what it cannot.
#pragma once

#include <string>
#include <vector>

#include "tools/locations.hpp"

namespace mprdma::tools {

enum class Health { kOk, kWarn, kFail };

struct Finding {
  std::string id;    // "rdma-core.abi"
  std::string what;  // subject of the check
  Health health = Health::kOk;
  std::string detail;  // what was found
  std::string remedy;  // what to do; empty if nothing has to be done
};

// Without what follows nothing works: libraries, and the kernel's side that the local wire needs.
std::vector<Finding> check_libraries();
// Checks of the machine: memory, cores, devices.
std::vector<Finding> check_machine();

// For the child of the preload check: prints the names of all verbs devices, one a line.
int print_devices();

}  // namespace mprdma::tools
