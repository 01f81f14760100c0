// Files beside the socket of a private mprdmad, which `mprdma run` and the daemon itself share:
// SOCKET.users is held, shared, by programs that were started for the daemon, SOCKET.start by who
// starts one. The daemon that ends removes both; a lock on a file without a name is none, so who
// gets one looks whether the file is still there.
#pragma once

#include <string>
#include <utility>

namespace mprdma::tools {

inline constexpr const char* kUsersSuffix = ".users";
inline constexpr const char* kStartSuffix = ".start";

// flock(2) on the file of that path, which is made if need be, waiting for some seconds at most.
// The descriptor, or -1 and errno.
int lock_file(const std::string& path, int operation);

// The daemon's side of it.
class DaemonFiles {
 public:
  explicit DaemonFiles(std::string socket) : socket_(std::move(socket)) {}
  // When the socket is gone: removes what nobody else holds.
  ~DaemonFiles();
  DaemonFiles(const DaemonFiles&) = delete;
  DaemonFiles& operator=(const DaemonFiles&) = delete;

  // Whether no program holds SOCKET.users. If so, it is held by us until the end: who comes
  // meanwhile waits, and starts another daemon.
  bool nobody_counts_on_us();

 private:
  std::string socket_;
  int users_fd_ = -1;
};

}  // namespace mprdma::tools
