#include "tests/integration/verbs_check/oob.hpp"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "tests/integration/verbs_check/args.hpp"

namespace mprdma::verbs_check {

namespace {

sockaddr_un address_of(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) fail("socket path is too long: %s", path.c_str());
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  return address;
}

int new_socket() {
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) fail("socket: %s", std::strerror(errno));
  return fd;
}

}  // namespace

Oob Oob::listen(const std::string& path) {
  Oob oob(true, path);
  oob.listen_fd_ = new_socket();
  const sockaddr_un address = address_of(path);
  if (bind(oob.listen_fd_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0 ||
      ::listen(oob.listen_fd_, 4) != 0) {
    fail("listen on %s: %s", path.c_str(), std::strerror(errno));
  }
  return oob;
}

Oob Oob::dial(const std::string& path) {
  constexpr int kTries = 1000;
  Oob oob(false, path);
  const sockaddr_un address = address_of(path);
  for (int i = 0; i < kTries; ++i) {
    oob.fd_ = new_socket();
    if (connect(oob.fd_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0) {
      return oob;
    }
    oob.hang_up();
    ::poll(nullptr, 0, 10);
  }
  fail("nobody listens on %s", path.c_str());
}

Oob::Oob(Oob&& other) noexcept
    : server_(other.server_),
      path_(std::move(other.path_)),
      listen_fd_(std::exchange(other.listen_fd_, -1)),
      fd_(std::exchange(other.fd_, -1)) {}

Oob::~Oob() {
  hang_up();
  if (listen_fd_ >= 0) {
    ::close(listen_fd_);
    unlink(path_.c_str());
  }
}

void Oob::accept() {
  hang_up();
  pollfd waiting{listen_fd_, POLLIN, 0};
  if (::poll(&waiting, 1, 30'000) != 1) fail("no client within 30 s");
  fd_ = accept4(listen_fd_, nullptr, nullptr, SOCK_CLOEXEC);
  if (fd_ < 0) fail("accept: %s", std::strerror(errno));
}

void Oob::hang_up() {
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
  partial_bytes_ = 0;
}

void Oob::send(const void* data, size_t bytes) {
  const auto* at = static_cast<const unsigned char*>(data);
  while (bytes > 0) {
    const ssize_t sent = ::send(fd_, at, bytes, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) fail("the peer process went away");
    at += sent;
    bytes -= static_cast<size_t>(sent);
  }
}

void Oob::receive(void* data, size_t bytes) {
  auto* at = static_cast<unsigned char*>(data);
  while (bytes > 0) {
    pollfd waiting{fd_, POLLIN, 0};
    if (::poll(&waiting, 1, 60'000) != 1) fail("the peer process is silent for 60 s");
    const ssize_t got = ::recv(fd_, at, bytes, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) fail("the peer process went away");
    at += got;
    bytes -= static_cast<size_t>(got);
  }
}

bool Oob::poll_bytes(void* message, size_t bytes) {
  const ssize_t got =
      recv(fd_, partial_.data() + partial_bytes_, bytes - partial_bytes_, MSG_DONTWAIT);
  if (got == 0) fail("the peer process went away");
  if (got < 0) {
    if (errno != EAGAIN && errno != EINTR) fail("the peer process went away");
    return false;
  }
  partial_bytes_ += static_cast<size_t>(got);
  if (partial_bytes_ < bytes) return false;
  std::memcpy(message, partial_.data(), bytes);
  partial_bytes_ = 0;
  return true;
}

bool Oob::closed() const {
  char byte = 0;
  const ssize_t got = recv(fd_, &byte, 1, MSG_DONTWAIT | MSG_PEEK);
  return got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR);
}

bool Oob::closes_within(double seconds) const {
  pollfd waiting{fd_, POLLIN | POLLRDHUP, 0};
  return ::poll(&waiting, 1, static_cast<int>(seconds * 1000)) == 1 && closed();
}

}  // namespace mprdma::verbs_check
