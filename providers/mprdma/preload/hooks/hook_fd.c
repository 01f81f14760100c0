/* SPDX-License-Identifier: BSD-2-Clause */
/* What can be done to a descriptor: close, dup, fcntl, write, ioctl; and the sockets that may not
 * exist.
 */
#include <fcntl.h>
#include <linux/netlink.h>
#include <rdma/rdma_user_ioctl_cmds.h>
#include <stdarg.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "providers/mprdma/preload/preload.h"

MPRDMA_REAL(int, close_range, unsigned int, unsigned int, int)
MPRDMA_REAL(void, closefrom, int)
MPRDMA_REAL(int, dup, int)
MPRDMA_REAL(int, dup2, int, int)
MPRDMA_REAL(int, dup3, int, int, int)
MPRDMA_REAL(int, fcntl64, int, int, ...)
MPRDMA_REAL(ssize_t, write, int, const void*, size_t)
MPRDMA_REAL(int, ioctl, int, unsigned long, ...)
MPRDMA_REAL(int, socket, int, int, int)

/* Resolves the hooked functions early, because they may be called in a signal handler, or between
 * fork and exec while another thread held the loader's lock, where dlsym() is not safe. */
__attribute__((constructor)) static void find_early(void) {
  dup_real();
  dup2_real();
  dup3_real();
  fcntl64_real();
  write_real();
  ioctl_real();
  socket_real();
}

MPRDMA_HOOK int close(int fd) {
  return mprdma_fd_close(fd);
}

#ifndef CLOSE_RANGE_CLOEXEC /* <linux/close_range.h>, since Linux 5.11 */
#define CLOSE_RANGE_CLOEXEC (1u << 2)
#endif

/* Forgets the closed descriptors: otherwise the next open("/dev/null") that gets the number of a
 * closed uverbs would be taken for it. */
MPRDMA_HOOK int close_range(unsigned int first, unsigned int last, int flags) {
  if (first <= last && ((unsigned int)flags & CLOSE_RANGE_CLOEXEC) == 0) {
    mprdma_fd_forget_range(first, last);
  }
  return close_range_real()(first, last, flags);
}

MPRDMA_HOOK void closefrom(int first) {
  mprdma_fd_forget_range(first > 0 ? (unsigned int)first : 0, UINT_MAX);
  closefrom_real()(first);
}

MPRDMA_HOOK int dup(int old_fd) {
  int fd = dup_real()(old_fd);
  if (fd >= 0) {
    mprdma_fd_copy(old_fd, fd);
  }
  return fd;
}

MPRDMA_HOOK int dup2(int old_fd, int new_fd) {
  if (old_fd != new_fd && fcntl(old_fd, F_GETFD) >= 0) {
    mprdma_fd_forget(new_fd);
  }
  int fd = dup2_real()(old_fd, new_fd);
  if (fd >= 0 && old_fd != new_fd) {
    mprdma_fd_copy(old_fd, new_fd);
  }
  return fd;
}

MPRDMA_HOOK int dup3(int old_fd, int new_fd, int flags) {
  if (old_fd != new_fd && fcntl(old_fd, F_GETFD) >= 0) {
    mprdma_fd_forget(new_fd);
  }
  int fd = dup3_real()(old_fd, new_fd, flags);
  if (fd >= 0) {
    mprdma_fd_copy(old_fd, new_fd);
  }
  return fd;
}

/* Every command takes nothing, an int or a pointer: a long holds them all on this platform. */
static int fcntl_any(int fd, int command, long argument) {
  int result = fcntl64_real()(fd, command, argument);
  if (result >= 0 && (command == F_DUPFD || command == F_DUPFD_CLOEXEC)) {
    mprdma_fd_copy(fd, result);
  }
  return result;
}

MPRDMA_HOOK int fcntl(int fd, int command, ...) {
  va_list arguments;
  va_start(arguments, command);
  long argument = va_arg(arguments, long);
  va_end(arguments);
  return fcntl_any(fd, command, argument);
}

MPRDMA_HOOK int fcntl64(int fd, int command, ...) {
  va_list arguments;
  va_start(arguments, command);
  long argument = va_arg(arguments, long);
  va_end(arguments);
  return fcntl_any(fd, command, argument);
}

/* A kernel's uverbs also takes commands by write(). Ours answers by ioctl only, and must not
 * swallow a command as a null device would. */
MPRDMA_HOOK ssize_t write(int fd, const void* buffer, size_t bytes) {
  switch (mprdma_fd_kind(fd)) {
    case MPRDMA_FD_RDMA_CM:
      return mprdma_ucma_write(fd, buffer, bytes);
    case MPRDMA_FD_UVERBS:
      errno = EOPNOTSUPP;
      return -1;
    default:
      return write_real()(fd, buffer, bytes);
  }
}

MPRDMA_HOOK int ioctl(int fd, unsigned long request, ...) {
  va_list arguments;
  va_start(arguments, request);
  void* argument = va_arg(arguments, void*);
  va_end(arguments);
  if (request == RDMA_VERBS_IOCTL && mprdma_fd_kind(fd) == MPRDMA_FD_UVERBS) {
    return mprdma_uverbs_ioctl(argument);
  }
  return ioctl_real()(fd, request, argument);
}

/* libibverbs asks RDMA netlink for devices first, and looks at sysfs only if that fails. */
MPRDMA_HOOK int socket(int domain, int type, int protocol) {
  if (domain == AF_NETLINK && protocol == NETLINK_RDMA && mprdma_preload_facts() != NULL) {
    errno = EPROTONOSUPPORT;
    return -1;
  }
  return socket_real()(domain, type, protocol);
}
