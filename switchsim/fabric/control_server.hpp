// The Unix socket by which a running fabric is asked and told: a line of JSON in, a line of JSON
// out, any number of them on a connection. Only the same user may connect. Nothing blocks: a client
// that does not read its answers is hung up on.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/status.hpp"

namespace mprdma::switchsim {

class ControlServer {
 public:
  using Handler = std::function<std::string(const std::string& request)>;

  ControlServer() = default;
  ~ControlServer();
  ControlServer(const ControlServer&) = delete;
  ControlServer& operator=(const ControlServer&) = delete;

  // Requires that nobody else serves this path: a socket that is there is removed.
  Status open(const std::string& path);
  // Readable when poll() has something to do.
  [[nodiscard]] int fd() const { return epoll_fd_; }
  void poll(const Handler& handler);

 private:
  struct Connection {
    int fd = -1;
    std::string in;
    std::string out;
  };

  void accept_all();
  bool read_some(Connection* connection);
  static bool write_some(Connection* connection);
  void watch(const Connection& connection, int operation) const;

  std::string path_;
  int epoll_fd_ = -1;
  int listen_fd_ = -1;
  std::vector<Connection> connections_;
};

}  // namespace mprdma::switchsim
