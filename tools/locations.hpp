// Paths of this installation's libraries, found relative to the running `mprdma`, so that a build
// tree and an installed tree both work wherever they are put.
#pragma once

#include <string>

#include "base/status.hpp"

namespace mprdma::tools {

struct Locations {
  std::string executable;
  std::string preload;          // libmprdma-preload.so
  std::string provider;         // libmprdma-rdmav34.so
  std::string provider_driver;  // what IBV_DRIVERS takes: the same without "-rdmav34.so"
  std::string engine;           // libmprdma-engine.so
  std::string eal;              // libmprdma-eal.so; empty: built without DPDK
  std::string daemon;           // mprdmad; empty: not there
};

// An error names the file that is missing and where it was looked for.
Status find_locations(Locations* out);

}  // namespace mprdma::tools
