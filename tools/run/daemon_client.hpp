// `mprdma run` and `mprdma doctor` as clients of mprdmad: which one runs, which device it serves,
// and a private one where none does.
//
// A private daemon has no wire and ends by itself: when no process has been there for
// kPrivateLingerS and nobody holds SOCKET.users, which a program that `mprdma run` has started
// inherits. Two that start one at once start one: SOCKET.start is the lock.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "base/status.hpp"
#include "tools/locations.hpp"
#include "tools/run/run_plan.hpp"

namespace mprdma::tools {

inline constexpr int kPrivateLingerS = 10;
inline constexpr const char* kPrivateAddress = "10.73.0.1/24";

struct DaemonInfo {
  DaemonDevice device;
  uint32_t processes = 0;
  bool link_up = false;
  pid_t pid = 0;
};

// 0 or an errno value: ENOENT, ECONNREFUSED: nobody serves there; EACCES: it does not serve us.
int query_daemon(const std::string& socket, DaemonInfo* out);

// A connection to a daemon that is root's or our own user's; the same errors. `pid` may be null.
int connect_daemon(const std::string& socket, int* fd, pid_t* pid);

// The socket of this user's own daemon.
std::string own_daemon_socket(const std::string& runtime_directory);

// Paths where a program would look for its daemon: the one in its configuration (MPRDMA_PORT, or
// [port] spec of MPRDMA_CONFIG's file), else this user's own and the system's.
// An error says what is wrong with the configuration.
Status daemon_places(const dataplane::Environment& environment,
                     const std::string& runtime_directory, std::vector<std::string>* out);

// The daemon for a wish, started if it may be.
Status find_daemon(const DaemonWish& wish, const Locations& locations,
                   const std::string& runtime_directory, DaemonDevice* out);

}  // namespace mprdma::tools
