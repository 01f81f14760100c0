/* SPDX-License-Identifier: BSD-2-Clause */
/* Directories, links and extended attributes: what `ls`, Python and the shell use to look around.
 */
#include <dirent.h>
#include <stdio.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "providers/mprdma/preload/preload.h"

MPRDMA_REAL(DIR*, opendir, const char*)
MPRDMA_REAL(int, scandir64, const char*, struct dirent64***, int (*)(const struct dirent64*),
            int (*)(const struct dirent64**, const struct dirent64**))
MPRDMA_REAL(int, chdir, const char*)
MPRDMA_REAL(ssize_t, readlink, const char*, char*, size_t)
MPRDMA_REAL(ssize_t, readlinkat, int, const char*, char*, size_t)
MPRDMA_REAL(char*, realpath, const char*, char*)
MPRDMA_REAL(ssize_t, getxattr, const char*, const char*, void*, size_t)
MPRDMA_REAL(ssize_t, lgetxattr, const char*, const char*, void*, size_t)

_Static_assert(sizeof(struct dirent) == sizeof(struct dirent64), "scandir and scandir64 are one");

/* Resolved early (see find_early() in hook_fd.c): chdir and readlink come between fork and exec,
   too. */
__attribute__((constructor)) static void find_early(void) {
  chdir_real();
  readlink_real();
}

MPRDMA_HOOK DIR* opendir(const char* path) {
  struct mprdma_path resolved;
  mprdma_path_resolve(path, &resolved);
  return opendir_real()(resolved.real);
}

MPRDMA_HOOK int scandir64(const char* restrict path, struct dirent64*** restrict list,
                          int (*filter)(const struct dirent64*),
                          int (*compare)(const struct dirent64**, const struct dirent64**)) {
  struct mprdma_path resolved;
  mprdma_path_resolve(path, &resolved);
  return scandir64_real()(resolved.real, list, filter, compare);
}

MPRDMA_HOOK int scandir(const char* restrict path, struct dirent*** restrict list,
                        int (*filter)(const struct dirent*),
                        int (*compare)(const struct dirent**, const struct dirent**)) {
  return scandir64(path, (struct dirent64***)list, (int (*)(const struct dirent64*))filter,
                   (int (*)(const struct dirent64**, const struct dirent64**))compare);
}

MPRDMA_HOOK int chdir(const char* path) {
  struct mprdma_path resolved;
  mprdma_path_resolve(path, &resolved);
  return chdir_real()(resolved.real);
}

MPRDMA_HOOK ssize_t readlink(const char* restrict path, char* restrict buffer, size_t bytes) {
  struct mprdma_path resolved;
  mprdma_path_resolve(path, &resolved);
  return readlink_real()(resolved.real, buffer, bytes);
}

MPRDMA_HOOK ssize_t readlinkat(int directory, const char* restrict path, char* restrict buffer,
                               size_t bytes) {
  struct mprdma_path resolved;
  mprdma_path_resolve(path, &resolved);
  return readlinkat_real()(directory, resolved.real, buffer, bytes);
}

static char* realpath_any(const char* path, char* out) {
  struct mprdma_path resolved;
  mprdma_path_resolve(path, &resolved);
  if (resolved.kind == MPRDMA_PATH_UVERBS || resolved.kind == MPRDMA_PATH_RDMA_CM) {
    /* The path is that of the device, not of the null device behind it. */
    const char* name = mprdma_path_device(resolved.kind);
    char* result = out != NULL ? out : malloc(PATH_MAX);
    if (result != NULL) {
      snprintf(result, PATH_MAX, "/dev/infiniband/%s", name);
    }
    return result;
  }
  char* result = realpath_real()(resolved.real, out);
  if (result != NULL) {
    mprdma_path_unresolve(result);
  }
  return result;
}

MPRDMA_HOOK char* realpath(const char* restrict path, char* restrict out) {
  return realpath_any(path, out);
}

MPRDMA_HOOK char* canonicalize_file_name(const char* path) {
  return realpath_any(path, NULL);
}

char* __realpath_chk(const char* path, char* out, size_t bytes);
MPRDMA_HOOK char* __realpath_chk(const char* path, char* out, size_t bytes) {
  if (bytes < PATH_MAX) {
    abort(); /* what libc's check does: the caller's buffer cannot hold every path */
  }
  return realpath_any(path, out);
}

MPRDMA_HOOK ssize_t getxattr(const char* path, const char* name, void* value, size_t bytes) {
  struct mprdma_path resolved;
  mprdma_path_resolve(path, &resolved);
  return getxattr_real()(resolved.real, name, value, bytes);
}

MPRDMA_HOOK ssize_t lgetxattr(const char* path, const char* name, void* value, size_t bytes) {
  struct mprdma_path resolved;
  mprdma_path_resolve(path, &resolved);
  return lgetxattr_real()(resolved.real, name, value, bytes);
}
