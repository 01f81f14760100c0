/* SPDX-License-Identifier: BSD-2-Clause */
/* Names of private trees, and the removal of those whose process is gone. */
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "providers/mprdma/preload/preload.h"

MPRDMA_REAL(int, openat64, int, const char*, int, ...)
MPRDMA_REAL(int, fstatat64, int, const char*, struct stat64*, int)
MPRDMA_REAL(int, fstat64, int, struct stat64*)
MPRDMA_REAL(DIR*, opendir, const char*)

/* Resolved early (see find_early() in hook_fd.c): a child builds its tree between fork and exec,
   too. */
__attribute__((constructor)) static void find_early(void) {
  openat64_real();
  fstatat64_real();
  fstat64_real();
  opendir_real();
}

/* Reads the start of a process, field 22 of /proc/<pid>/stat (proc(5)); 0: unknown. A process id
 * that is used again has another start. */
static unsigned long long process_start_ticks(pid_t pid) {
  char path[64];
  char text[1024];
  snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
  int fd = openat64_real()(AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) {
    return 0;
  }
  ssize_t bytes = read(fd, text, sizeof(text) - 1);
  mprdma_fd_close(fd);
  if (bytes <= 0) {
    return 0;
  }
  text[bytes] = '\0';
  const char* field = strrchr(text, ')'); /* the command's name may hold spaces */
  for (int i = 2; field != NULL && i < 22; i++) {
    field = strchr(field + 1, ' ');
  }
  return field != NULL ? strtoull(field, NULL, 10) : 0;
}

/* The number of our pid namespace. Processes of another one that shares the directory cannot be
 * judged here. */
static unsigned long long pid_namespace(void) {
  struct stat64 status;
  int error = fstatat64_real()(AT_FDCWD, "/proc/self/ns/pid", &status, 0);
  return error == 0 ? (unsigned long long)status.st_ino : 0;
}

int mprdma_tree_name(char* out, size_t bytes, const char* base) {
  pid_t pid = getpid();
  int length =
      snprintf(out, bytes, "%s/" MPRDMA_TREE_PREFIX "%u.%llu.%d.%llu", base,
               (unsigned int)geteuid(), pid_namespace(), (int)pid, process_start_ticks(pid));
  return length > 0 && (size_t)length < bytes ? 0 : ENAMETOOLONG;
}

/* In a public directory another user may make a tree with a name like ours. It is left alone: its
 * owner could fill it for as long as we empty it. */
static bool is_own(int fd) {
  struct stat64 status;
  return fstat64_real()(fd, &status) == 0 && status.st_uid == geteuid();
}

/* Our trees are less than 8 deep; symbolic links are unlinked, never followed. */
static void remove_below(int parent, const char* name, int depth) {
  int fd = openat64_real()(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  DIR* dir = fd >= 0 && is_own(fd) ? fdopendir(fd) : NULL;
  if (dir == NULL) {
    if (fd >= 0) {
      mprdma_fd_close(fd);
    }
    return;
  }
  const struct dirent* entry;
  while ((entry = readdir(dir)) != NULL) {
    if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) {
      continue;
    }
    if (unlinkat(dirfd(dir), entry->d_name, 0) != 0 && depth < 16) {
      remove_below(dirfd(dir), entry->d_name, depth + 1);
    }
  }
  closedir(dir);
  unlinkat(parent, name, AT_REMOVEDIR);
}

void mprdma_tree_remove(const char* root) {
  remove_below(AT_FDCWD, root, 0);
}

static bool owner_is_gone(const char* name) {
  unsigned int uid = 0;
  unsigned long long namespace = 0;
  int pid = 0;
  unsigned long long start = 0;
  if (sscanf(name, MPRDMA_TREE_PREFIX "%u.%llu.%d.%llu", &uid, &namespace, &pid, &start) != 4) {
    return false;
  }
  if (uid != (unsigned int)geteuid() || namespace != pid_namespace() || pid <= 0) {
    return false;
  }
  if (kill(pid, 0) != 0 && errno == ESRCH) {
    return true;
  }
  /* A start is 0 if its maker, or we, could not read it (no descriptor left, no /proc). The process
   * may then be alive. */
  unsigned long long now = process_start_ticks(pid);
  return start != 0 && now != 0 && now != start;
}

void mprdma_tree_remove_stale(const char* base) {
  DIR* dir = opendir_real()(base);
  if (dir == NULL) {
    return;
  }
  const struct dirent* entry;
  while ((entry = readdir(dir)) != NULL) {
    if (owner_is_gone(entry->d_name)) {
      remove_below(dirfd(dir), entry->d_name, 0);
    }
  }
  closedir(dir);
}
