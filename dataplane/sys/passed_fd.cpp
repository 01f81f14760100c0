#include "dataplane/sys/passed_fd.hpp"

#include <sys/socket.h>

#include <cerrno>
#include <cstring>

#include "base/check.hpp"

namespace mprdma::dataplane {

ssize_t send_with_fds(int socket, const void* bytes, size_t size, std::span<const int> fds) {
  iovec vector{const_cast<void*>(bytes), size};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(kSentFdsMax * sizeof(int))> control{};
  msghdr header{};
  header.msg_iov = &vector;
  header.msg_iovlen = 1;
  CHECK(fds.size() <= kSentFdsMax);
  if (!fds.empty()) {
    header.msg_control = control.data();
    header.msg_controllen = CMSG_SPACE(fds.size_bytes());
    cmsghdr* rights = CMSG_FIRSTHDR(&header);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(fds.size_bytes());
    std::memcpy(CMSG_DATA(rights), fds.data(), fds.size_bytes());
  }
  return sendmsg(socket, &header, MSG_DONTWAIT | MSG_NOSIGNAL);
}

ssize_t receive_with_fds(int socket, void* bytes, size_t size, PassedFds* passed) {
  passed->count = 0;
  iovec vector{bytes, size};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(kPassedFdsMax * sizeof(int))> control;
  msghdr header{};
  header.msg_iov = &vector;
  header.msg_iovlen = 1;
  header.msg_control = control.data();
  header.msg_controllen = control.size();
  ssize_t count = recvmsg(socket, &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  if (count < 0 && errno == ECONNRESET) {
    // A peer that closed without reading what we sent: its last words stand behind the error.
    count = recvmsg(socket, &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  }
  if (count < 0) return count;
  for (cmsghdr* c = CMSG_FIRSTHDR(&header); c != nullptr; c = CMSG_NXTHDR(&header, c)) {
    if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) continue;
    const size_t fds = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < fds; ++i) {
      std::memcpy(&passed->fds[passed->count++], CMSG_DATA(c) + i * sizeof(int), sizeof(int));
    }
  }
  return count;
}

}  // namespace mprdma::dataplane
