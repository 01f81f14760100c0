// Messages over a Unix socket with descriptors attached (SCM_RIGHTS, unix(7)). Nothing here blocks
// or raises a signal, and nothing is believed of what was received. Any thread.
#pragma once

#include <sys/types.h>

#include <array>
#include <cstddef>
#include <span>

namespace mprdma::dataplane {

// As send(), with these descriptors attached, kSentFdsMax at most. They stay the caller's.
// `tells_pid`: the kernel confirms the sender's number to a receiver that has SO_PASSCRED.
inline constexpr size_t kSentFdsMax = 2;
ssize_t send_with_fds(int socket, const void* bytes, size_t size, std::span<const int> fds,
                      bool tells_pid = false);

// As many as a message can carry (SCM_MAX_FD of the kernel): a descriptor that finds no room would
// be closed within recvmsg(), where closing may block.
inline constexpr size_t kPassedFdsMax = 253;

struct PassedFds {
  std::array<int, kPassedFdsMax> fds;
  size_t count = 0;
  pid_t sender = 0;  // confirmed by the kernel, in our PID namespace; 0: not told, or not there
};

// As recv(). Descriptors that came along are in *passed, close-on-exec and the caller's to close.
ssize_t receive_with_fds(int socket, void* bytes, size_t size, PassedFds* passed);

// Takes the last descriptor out; -1: there is none.
inline int take_last(PassedFds* passed) {
  return passed->count == 0 ? -1 : passed->fds[--passed->count];
}

// Gives each descriptor that is left to close_one(fd).
template <class Close>
void close_rest(PassedFds* passed, Close&& close_one) {
  while (passed->count > 0) close_one(take_last(passed));
}

}  // namespace mprdma::dataplane
