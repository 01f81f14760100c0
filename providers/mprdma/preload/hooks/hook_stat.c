/* SPDX-License-Identifier: BSD-2-Clause */
/* The stat family and access. Our character device is /dev/null with the numbers forged. */
#include <fcntl.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "providers/mprdma/preload/preload.h"

MPRDMA_REAL(int, fstatat64, int, const char*, struct stat64*, int)
MPRDMA_REAL(int, fstat64, int, struct stat64*)
MPRDMA_REAL(int, statx, int, const char*, int, unsigned int, struct statx*)
MPRDMA_REAL(int, faccessat, int, const char*, int, int)

_Static_assert(sizeof(struct stat) == sizeof(struct stat64), "stat and stat64 must be one");

/* Resolved early for signal handlers and fork: see find_early() in hook_fd.c. */
__attribute__((constructor)) static void find_early(void) {
  fstatat64_real();
  fstat64_real();
  faccessat_real();
}

/* Returns the device of ours that a descriptor stands for, PLAIN: none. */
static enum mprdma_path_kind device_of_fd(int fd) {
  switch (mprdma_fd_kind(fd)) {
    case MPRDMA_FD_UVERBS:
      return MPRDMA_PATH_UVERBS;
    case MPRDMA_FD_RDMA_CM:
      return MPRDMA_PATH_RDMA_CM;
    default:
      return MPRDMA_PATH_PLAIN;
  }
}

static enum mprdma_path_kind device_named(const struct mprdma_path* resolved, int fd,
                                          const char* path, int flags) {
  if (resolved->kind == MPRDMA_PATH_UVERBS || resolved->kind == MPRDMA_PATH_RDMA_CM) {
    return resolved->kind;
  }
  bool names_fd = (flags & AT_EMPTY_PATH) != 0 && (path == NULL || path[0] == '\0');
  return names_fd ? device_of_fd(fd) : MPRDMA_PATH_PLAIN;
}

static void forge(enum mprdma_path_kind device, struct stat64* status) {
  if (device != MPRDMA_PATH_PLAIN) {
    status->st_mode = (status->st_mode & 07777u) | S_IFCHR;
    status->st_rdev = mprdma_path_rdev(device);
  }
}

static int stat_any(int directory, const char* path, struct stat64* status, int flags) {
  struct mprdma_path resolved;
  mprdma_path_resolve(path, &resolved);
  int result = fstatat64_real()(directory, resolved.real, status, flags);
  if (result == 0) {
    forge(device_named(&resolved, directory, path, flags), status);
  }
  return result;
}

static int fstat_any(int fd, struct stat64* status) {
  int result = fstat64_real()(fd, status);
  if (result == 0) {
    forge(device_of_fd(fd), status);
  }
  return result;
}

MPRDMA_HOOK int stat(const char* restrict path, struct stat* restrict status) {
  return stat_any(AT_FDCWD, path, (struct stat64*)status, 0);
}

MPRDMA_HOOK int stat64(const char* restrict path, struct stat64* restrict status) {
  return stat_any(AT_FDCWD, path, status, 0);
}

MPRDMA_HOOK int lstat(const char* restrict path, struct stat* restrict status) {
  return stat_any(AT_FDCWD, path, (struct stat64*)status, AT_SYMLINK_NOFOLLOW);
}

MPRDMA_HOOK int lstat64(const char* restrict path, struct stat64* restrict status) {
  return stat_any(AT_FDCWD, path, status, AT_SYMLINK_NOFOLLOW);
}

MPRDMA_HOOK int fstat(int fd, struct stat* status) {
  return fstat_any(fd, (struct stat64*)status);
}

MPRDMA_HOOK int fstat64(int fd, struct stat64* status) {
  return fstat_any(fd, status);
}

MPRDMA_HOOK int fstatat(int directory, const char* restrict path, struct stat* restrict status,
                        int flags) {
  return stat_any(directory, path, (struct stat64*)status, flags);
}

MPRDMA_HOOK int fstatat64(int directory, const char* restrict path, struct stat64* restrict status,
                          int flags) {
  return stat_any(directory, path, status, flags);
}

MPRDMA_HOOK int statx(int directory, const char* restrict path, int flags, unsigned int mask,
                      struct statx* restrict status) {
  struct mprdma_path resolved;
  mprdma_path_resolve(path, &resolved);
  int result = statx_real()(directory, resolved.real, flags, mask, status);
  enum mprdma_path_kind device =
      result == 0 ? device_named(&resolved, directory, path, flags) : MPRDMA_PATH_PLAIN;
  if (device != MPRDMA_PATH_PLAIN) {
    status->stx_mode = (uint16_t)((status->stx_mode & 07777u) | S_IFCHR);
    status->stx_rdev_major = major(mprdma_path_rdev(device));
    status->stx_rdev_minor = minor(mprdma_path_rdev(device));
  }
  return result;
}

/* Programs built against glibc before 2.33 call these; 1 is the only layout of this platform. */
#define STAT_VERSION 1
#define DEFINE_XSTAT(name, type, call, ...)                      \
  int name(int version, __VA_ARGS__, type* status);              \
  MPRDMA_HOOK int name(int version, __VA_ARGS__, type* status) { \
    if (version != STAT_VERSION) {                               \
      errno = EINVAL;                                            \
      return -1;                                                 \
    }                                                            \
    return call;                                                 \
  }
DEFINE_XSTAT(__xstat, struct stat, stat(path, status), const char* path)
DEFINE_XSTAT(__xstat64, struct stat64, stat64(path, status), const char* path)
DEFINE_XSTAT(__lxstat, struct stat, lstat(path, status), const char* path)
DEFINE_XSTAT(__lxstat64, struct stat64, lstat64(path, status), const char* path)
DEFINE_XSTAT(__fxstat, struct stat, fstat(fd, status), int fd)
DEFINE_XSTAT(__fxstat64, struct stat64, fstat64(fd, status), int fd)

int __fxstatat(int version, int directory, const char* path, struct stat* status, int flags);
MPRDMA_HOOK int __fxstatat(int version, int directory, const char* path, struct stat* status,
                           int flags) {
  (void)version;
  return fstatat(directory, path, status, flags);
}

int __fxstatat64(int version, int directory, const char* path, struct stat64* status, int flags);
MPRDMA_HOOK int __fxstatat64(int version, int directory, const char* path, struct stat64* status,
                             int flags) {
  (void)version;
  return fstatat64(directory, path, status, flags);
}

static int access_any(int directory, const char* path, int mode, int flags) {
  struct mprdma_path resolved;
  mprdma_path_resolve(path, &resolved);
  return faccessat_real()(directory, resolved.real, mode, flags);
}

MPRDMA_HOOK int access(const char* path, int mode) {
  return access_any(AT_FDCWD, path, mode, 0);
}

MPRDMA_HOOK int faccessat(int directory, const char* path, int mode, int flags) {
  return access_any(directory, path, mode, flags);
}

MPRDMA_HOOK int eaccess(const char* path, int mode) {
  return access_any(AT_FDCWD, path, mode, AT_EACCESS);
}

MPRDMA_HOOK int euidaccess(const char* path, int mode) {
  return access_any(AT_FDCWD, path, mode, AT_EACCESS);
}
