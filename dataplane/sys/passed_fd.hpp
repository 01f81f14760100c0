// Messages over a Unix socket with descriptors attached (SCM_RIGHTS, unix(7)). Nothing here blocks
// or raises a signal, and nothing is believed of what was received. Any thread.
#pragma once

#include <sys/types.h>

#include <array>
#include <cstddef>

namespace mprdma::dataplane {

// As send(), with `passed_fd` attached unless it is -1. The descriptor stays the caller's.
ssize_t send_with_fd(int socket, const void* bytes, size_t size, int passed_fd);

// As many as a message can carry (SCM_MAX_FD of the kernel): a descriptor that finds no room would
// be closed within recvmsg(), where closing may block.
inline constexpr size_t kPassedFdsMax = 253;

struct PassedFds {
  std::array<int, kPassedFdsMax> fds;
  size_t count = 0;
};

// As recv(). Descriptors that came along are in *passed, close-on-exec and the caller's to close.
ssize_t receive_with_fds(int socket, void* bytes, size_t size, PassedFds* passed);

// The last descriptor, or -1: our messages carry one at most. The others go to close_one(fd).
template <class Close>
int keep_last(const PassedFds& passed, Close&& close_one) {
  if (passed.count == 0) return -1;
  for (size_t i = 0; i + 1 < passed.count; ++i) close_one(passed.fds[i]);
  return passed.fds[passed.count - 1];
}

}  // namespace mprdma::dataplane
