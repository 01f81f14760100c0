/* SPDX-License-Identifier: BSD-2-Clause */
/* open and fopen, in all of libc's spellings. opendir and fopen do not pass through open's symbol
 * inside libc, so each has a hook of its own. */
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include "providers/mprdma/preload/preload.h"

MPRDMA_REAL(int, open64, const char*, int, ...)
MPRDMA_REAL(int, openat64, int, const char*, int, ...)
MPRDMA_REAL(FILE*, fopen64, const char*, const char*)

/* On this platform open and open64 are one: off_t has 64 bits. */
_Static_assert(sizeof(off_t) == 8, "a 32-bit off_t needs open and open64 apart");

/* Resolved early for signal handlers and fork: see find_early() in hook_fd.c. */
__attribute__((constructor)) static void find_early(void) {
  open64_real();
  openat64_real();
}

static int open_uverbs(int flags) {
  int fd = open64_real()("/dev/null", flags & ~(O_CREAT | O_EXCL | O_TRUNC));
  if (fd >= 0 && !mprdma_fd_set(fd, MPRDMA_FD_UVERBS, -1)) {
    mprdma_fd_close(fd);
    errno = EMFILE;
    return -1;
  }
  return fd;
}

static int open_any(int directory, const char* path, int flags, mode_t mode) {
  struct mprdma_path resolved;
  mprdma_path_resolve(path, &resolved);
  if (resolved.kind == MPRDMA_PATH_UVERBS) {
    return open_uverbs(flags);
  }
  if (resolved.kind == MPRDMA_PATH_RDMA_CM) {
    return mprdma_ucma_open(flags);
  }
  return openat64_real()(directory, resolved.real, flags, mode);
}

static bool takes_mode(int flags) {
  return (flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE;
}

/* Reads the argument that is there only with O_CREAT. Where it is absent this platform reads a
 * register, and the value is dropped. */
#define READ_MODE(mode, flags)                           \
  va_list arguments;                                     \
  va_start(arguments, flags);                            \
  mode_t mode = (mode_t)va_arg(arguments, unsigned int); \
  va_end(arguments);                                     \
  mode = takes_mode(flags) ? mode : 0;

MPRDMA_HOOK int open(const char* path, int flags, ...) {
  READ_MODE(mode, flags)
  return open_any(AT_FDCWD, path, flags, mode);
}

MPRDMA_HOOK int open64(const char* path, int flags, ...) {
  READ_MODE(mode, flags)
  return open_any(AT_FDCWD, path, flags | O_LARGEFILE, mode);
}

MPRDMA_HOOK int openat(int directory, const char* path, int flags, ...) {
  READ_MODE(mode, flags)
  return open_any(directory, path, flags, mode);
}

MPRDMA_HOOK int openat64(int directory, const char* path, int flags, ...) {
  READ_MODE(mode, flags)
  return open_any(directory, path, flags | O_LARGEFILE, mode);
}

/* Variants that a program compiled with _FORTIFY_SOURCE calls. */
int __open_2(const char* path, int flags);
int __open64_2(const char* path, int flags);
int __openat_2(int directory, const char* path, int flags);
int __openat64_2(int directory, const char* path, int flags);

MPRDMA_HOOK int __open_2(const char* path, int flags) {
  return open_any(AT_FDCWD, path, flags, 0);
}

MPRDMA_HOOK int __open64_2(const char* path, int flags) {
  return open_any(AT_FDCWD, path, flags | O_LARGEFILE, 0);
}

MPRDMA_HOOK int __openat_2(int directory, const char* path, int flags) {
  return open_any(directory, path, flags, 0);
}

MPRDMA_HOOK int __openat64_2(int directory, const char* path, int flags) {
  return open_any(directory, path, flags | O_LARGEFILE, 0);
}

static FILE* fopen_any(const char* path, const char* mode) {
  struct mprdma_path resolved;
  mprdma_path_resolve(path, &resolved);
  return fopen64_real()(resolved.real, mode);
}

MPRDMA_HOOK FILE* fopen(const char* path, const char* mode) {
  return fopen_any(path, mode);
}

MPRDMA_HOOK FILE* fopen64(const char* path, const char* mode) {
  return fopen_any(path, mode);
}
