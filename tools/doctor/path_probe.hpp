// Sends path probes to a peer through mprdmad, for `mprdma doctor --path`. An engine that owns its
// port belongs to one process and has no door for this: only the daemon's device can ask.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.hpp"
#include "tools/doctor/path_report.hpp"

namespace mprdma::tools {

struct PathOptions {
  std::string peer;     // IPv4
  std::string socket;   // of mprdmad; empty: the user's own, else the system's
  unsigned ports = 16;  // UDP source ports
  unsigned probes = 5;  // on each of them
  std::string runtime_directory;
};

inline constexpr unsigned kPathPortsMax = 256;
inline constexpr unsigned kPathProbesMax = 100;

// Takes seconds at most where the network loses, less than one where it does not. After an
// error nothing is known of the path.
Status measure_path(const PathOptions& options, PathMeasured* out);

}  // namespace mprdma::tools
