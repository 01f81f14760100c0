// The plan of `mprdma run`: the environment of the program, worked out from the command line, the
// environment, the configuration file and the built-in pair of hosts, in this order. Apart from
// run.cpp so that it can be tested without running anything.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/status.hpp"
#include "dataplane/engine/config.hpp"
#include "tools/locations.hpp"

namespace mprdma::tools {

// A host as a running fabric describes it, ready for the environment.
struct FabricHost {
  std::string fabric;
  std::string port;
  std::string address;
  std::string mac;
  std::string mtu;
};

// The device of a running mprdmad, as it describes itself.
struct DaemonDevice {
  std::string socket;
  std::string name;
  dataplane::DaemonDevice device;
};

struct RunOptions {
  // "h0", "h1"; empty: a part of mprdmad's device, unless an address or a port is named elsewhere.
  std::string host;
  std::optional<FabricHost> fabric_host;  // `host` of a fabric instead of the built-in pair
  std::optional<DaemonDevice> daemon;     // for whoever wants_daemon()
  std::string port;
  std::string address;
  std::string mac;
  std::string mtu;
  std::string device;
  std::string config;
  std::string mode;
  std::string preset;
  std::string offload;
  std::string paths;
  std::string fault;
  bool quiet = false;
};

struct RunPlan {
  // Variables to set for the program.
  std::map<std::string, std::string> variables;
  // Directory to make for the built-in wire; empty: none.
  std::string wire_directory;
  // For the person at the terminal; empty: nothing to say.
  std::string note;
};

// Names the daemon that has to be asked before plan_run().
struct DaemonWish {
  bool wanted = false;
  std::string socket;  // of the one that is named; empty: whichever runs, or a private one
};

Status wants_daemon(const RunOptions& options, const dataplane::Environment& environment,
                    DaemonWish* out);
Status plan_run(const RunOptions& options, const Locations& locations,
                const dataplane::Environment& environment, unsigned uid, RunPlan* out);

}  // namespace mprdma::tools
