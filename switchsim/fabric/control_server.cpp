#include "switchsim/fabric/control_server.hpp"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>

namespace mprdma::switchsim {

namespace {

constexpr size_t kConnectionsMax = 16;
constexpr size_t kRequestBytesMax = 4096;
constexpr size_t kAnswerBytesMax = 4 << 20;

bool same_user(int fd) {
  ucred peer{};
  socklen_t length = sizeof peer;
  return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0 && peer.uid == geteuid();
}

}  // namespace

ControlServer::~ControlServer() {
  for (const Connection& connection : connections_) close(connection.fd);
  if (listen_fd_ >= 0) {
    close(listen_fd_);
    unlink(path_.c_str());
  }
  if (epoll_fd_ >= 0) close(epoll_fd_);
}

Status ControlServer::open(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) {
    return {ENAMETOOLONG, "the path '" + path + "' is too long"};
  }
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  epoll_fd_ = epoll_create1(EPOLL_CLOEXEC);
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (epoll_fd_ < 0 || fd < 0) return system_status("socket", errno);
  unlink(path.c_str());
  fchmod(fd, 0600);
  if (bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      listen(fd, 8) != 0) {
    Status status = system_status(path, errno);
    close(fd);
    return status;
  }
  path_ = path;
  listen_fd_ = fd;
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = fd;
  epoll_ctl(epoll_fd_, EPOLL_CTL_ADD, fd, &event);
  return {};
}

void ControlServer::accept_all() {
  for (;;) {
    const int fd = accept4(listen_fd_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0) return;
    if (connections_.size() >= kConnectionsMax || !same_user(fd)) {
      close(fd);
      continue;
    }
    connections_.push_back({fd, {}, {}});
    watch(connections_.back(), EPOLL_CTL_ADD);
  }
}

void ControlServer::watch(const Connection& connection, int operation) const {
  epoll_event event{};
  event.events = EPOLLIN | (connection.out.empty() ? 0U : static_cast<unsigned>(EPOLLOUT));
  event.data.fd = connection.fd;
  epoll_ctl(epoll_fd_, operation, connection.fd, &event);
}

// Reads what has arrived. False: the connection is over.
bool ControlServer::read_some(Connection* connection) {
  char bytes[1024];
  for (;;) {
    const ssize_t count = recv(connection->fd, bytes, sizeof bytes, MSG_DONTWAIT);
    if (count < 0) return errno == EAGAIN || errno == EINTR;
    if (count == 0) return false;
    connection->in.append(bytes, static_cast<size_t>(count));
    if (connection->in.size() > kRequestBytesMax) return false;
  }
}

bool ControlServer::write_some(Connection* connection) {
  while (!connection->out.empty()) {
    const ssize_t count = send(connection->fd, connection->out.data(), connection->out.size(),
                               MSG_DONTWAIT | MSG_NOSIGNAL);
    if (count < 0) return errno == EAGAIN || errno == EINTR;
    connection->out.erase(0, static_cast<size_t>(count));
  }
  return true;
}

void ControlServer::poll(const Handler& handler) {
  accept_all();
  for (size_t i = 0; i < connections_.size();) {
    Connection& connection = connections_[i];
    bool alive = read_some(&connection);
    for (size_t end; (end = connection.in.find('\n')) != std::string::npos;) {
      connection.out += handler(connection.in.substr(0, end)) + "\n";
      connection.in.erase(0, end + 1);
    }
    const bool waited = !connection.out.empty();
    alive = write_some(&connection) && alive && connection.out.size() <= kAnswerBytesMax;
    if (!alive) {
      close(connection.fd);
      connections_.erase(connections_.begin() + static_cast<ptrdiff_t>(i));
      continue;
    }
    if (waited) watch(connection, EPOLL_CTL_MOD);
    ++i;
  }
}

}  // namespace mprdma::switchsim
