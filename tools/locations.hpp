// Where the libraries of this installation are: found relative to the running `mprdma`, so that a
// build tree and an installed tree both work wherever they are put.
#pragma once

#include <string>

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

// Empty, or the name of the file that is missing and where it was looked for.
std::string find_locations(Locations* out);

}  // namespace mprdma::tools
