#include "dataplane/sys/passed_fd.hpp"

#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/check.hpp"

namespace mprdma::dataplane {

namespace {

// Puts a control message behind those that are there, if there is something to send.
void append(msghdr* header, char* room, int type, const void* data, size_t bytes) {
  if (bytes == 0) return;
  char* const at = room + header->msg_controllen;
  const cmsghdr message{CMSG_LEN(bytes), SOL_SOCKET, type};
  std::memcpy(at, &message, sizeof message);
  std::memcpy(at + CMSG_LEN(0), data, bytes);
  header->msg_control = room;
  header->msg_controllen += CMSG_SPACE(bytes);
}

}  // namespace

ssize_t send_with_fds(int socket, const void* bytes, size_t size, std::span<const int> fds,
                      bool tells_pid) {
  iovec vector{const_cast<void*>(bytes), size};
  alignas(cmsghdr)
      std::array<char, CMSG_SPACE(kSentFdsMax * sizeof(int)) + CMSG_SPACE(sizeof(ucred))>
          control{};
  msghdr header{};
  header.msg_iov = &vector;
  header.msg_iovlen = 1;
  CHECK(fds.size() <= kSentFdsMax);
  append(&header, control.data(), SCM_RIGHTS, fds.data(), fds.size_bytes());
  const ucred self{getpid(), geteuid(), getegid()};
  if (tells_pid) append(&header, control.data(), SCM_CREDENTIALS, &self, sizeof self);
  return sendmsg(socket, &header, MSG_DONTWAIT | MSG_NOSIGNAL);
}

ssize_t receive_with_fds(int socket, void* bytes, size_t size, PassedFds* passed) {
  passed->count = 0;
  passed->sender = 0;
  iovec vector{bytes, size};
  alignas(cmsghdr)
      std::array<char, CMSG_SPACE(kPassedFdsMax * sizeof(int)) + CMSG_SPACE(sizeof(ucred))>
          control;
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
    if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_CREDENTIALS) {
      ucred sender;
      std::memcpy(&sender, CMSG_DATA(c), sizeof sender);
      passed->sender = sender.pid;
    }
    if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) continue;
    const size_t fds = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < fds && passed->count < kPassedFdsMax; ++i) {
      std::memcpy(&passed->fds[passed->count++], CMSG_DATA(c) + i * sizeof(int), sizeof(int));
    }
  }
  return count;
}

}  // namespace mprdma::dataplane
