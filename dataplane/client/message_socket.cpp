#include "dataplane/client/message_socket.hpp"

#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <string>

#include "dataplane/sys/passed_fd.hpp"

namespace mprdma::dataplane::client {

int new_message_socket() {
  return socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
}

bool is_of_trusted_user(int socket) {
  ucred peer{};
  socklen_t length = sizeof peer;
  if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0) return false;
  if (peer.uid == 0 || peer.uid == geteuid()) return true;
  const char* named = std::getenv("MPRDMA_DAEMON_UID");
  return named != nullptr && std::to_string(peer.uid) == named;
}

int send_bytes(int socket, const void* bytes, size_t size, int passed_fd) {
  const std::span<const int> fds(&passed_fd, passed_fd >= 0 ? 1 : 0);
  for (;;) {
    if (send_with_fds(socket, bytes, size, fds) >= 0) return 0;
    if (errno != EINTR) return errno;
  }
}

// A look, without room for descriptors: the kernel says that there would be some.
bool brings_descriptor(int socket) {
  char byte = 0;
  iovec vector{&byte, sizeof byte};
  msghdr header{};
  header.msg_iov = &vector;
  header.msg_iovlen = 1;
  return recvmsg(socket, &header, MSG_DONTWAIT | MSG_PEEK) >= 0 &&
         (header.msg_flags & MSG_CTRUNC) != 0;
}

int receive_message(int socket, Incoming* in) {
  in->size = 0;
  in->passed_fd = -1;
  PassedFds passed;
  ssize_t count = 0;
  for (int attempt = 0; attempt < 3; ++attempt) {
    count = receive_with_fds(socket, in->bytes.data(), in->bytes.size(), &passed);
    if (count >= 0 || errno != EINTR) break;
  }
  if (count < 0) return errno == EINTR ? EAGAIN : errno;
  in->passed_fd = take_last(&passed);  // our messages carry one at most
  close_rest(&passed, [](int fd) { close(fd); });
  // The end; an empty message, which nobody sends, looks the same.
  if (count == 0) {
    if (in->passed_fd >= 0) close(in->passed_fd);
    in->passed_fd = -1;
    return ECONNRESET;
  }
  in->size = static_cast<size_t>(count);
  return 0;
}

}  // namespace mprdma::dataplane::client
