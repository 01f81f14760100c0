#include "dataplane/nic/message_socket.hpp"

#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>

namespace mprdma::dataplane::nic {

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
  iovec vector{const_cast<void*>(bytes), size};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
  msghdr header{};
  header.msg_iov = &vector;
  header.msg_iovlen = 1;
  if (passed_fd >= 0) {
    header.msg_control = control.data();
    header.msg_controllen = control.size();
    cmsghdr* rights = CMSG_FIRSTHDR(&header);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(rights), &passed_fd, sizeof(int));
  }
  for (;;) {
    if (sendmsg(socket, &header, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0) return 0;
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
  iovec vector{in->bytes.data(), in->bytes.size()};
  // Descriptors beyond these are closed by the kernel.
  alignas(cmsghdr) std::array<char, CMSG_SPACE(4 * sizeof(int))> control{};
  msghdr header{};
  header.msg_iov = &vector;
  header.msg_iovlen = 1;
  header.msg_control = control.data();
  header.msg_controllen = control.size();
  ssize_t count = 0;
  // A peer that closed without reading what we sent: its last words stand behind the error.
  for (int attempt = 0; attempt < 3; ++attempt) {
    count = recvmsg(socket, &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (count >= 0 || (errno != EINTR && errno != ECONNRESET)) break;
  }
  if (count < 0) return errno == EINTR ? EAGAIN : errno;
  for (cmsghdr* c = CMSG_FIRSTHDR(&header); c != nullptr; c = CMSG_NXTHDR(&header, c)) {
    if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) continue;
    const size_t fds = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < fds; ++i) {
      if (in->passed_fd >= 0) close(in->passed_fd);
      std::memcpy(&in->passed_fd, CMSG_DATA(c) + i * sizeof(int), sizeof(int));
    }
  }
  // The end; an empty message, which nobody sends, looks the same.
  if (count == 0) {
    if (in->passed_fd >= 0) close(in->passed_fd);
    in->passed_fd = -1;
    return ECONNRESET;
  }
  in->size = static_cast<size_t>(count);
  return 0;
}

}  // namespace mprdma::dataplane::nic
