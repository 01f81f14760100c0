/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Descriptors that stand for our kernel objects. An application may close descriptors behind our
 * back (close_range, a raw system call), so a stale entry must do no harm: whoever acts on an entry
 * asks the kernel whether the descriptor still is what the entry says.
 */
#include <fcntl.h>
#include <pthread.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "providers/mprdma/preload/preload.h"

#define TABLE_SIZE 65536

MPRDMA_REAL(int, close, int)
MPRDMA_REAL(int, fstat64, int, struct stat64*)
MPRDMA_REAL(int, fcntl64, int, int, ...)

static uint8_t kinds[TABLE_SIZE]; /* enum mprdma_fd_kind */
static int extras[TABLE_SIZE];
static uint64_t pipes[TABLE_SIZE]; /* a channel's inode: both numbers may be another pipe by now */

static bool in_table(int fd) {
  return fd >= 0 && fd < TABLE_SIZE;
}

/* The process whose descriptors the table describes. A child of vfork runs in our memory but has
 * descriptors of its own, so the table must not follow what it closes and duplicates before
 * exec. */
static pid_t table_pid;

static void note_process(void) {
  table_pid = getpid();
}

__attribute__((constructor)) static void start_table(void) {
  note_process();
  close_real(); /* resolved early, as in hook_fd.c */
  pthread_atfork(NULL, NULL, note_process);
}

/* Owner of the files behind descriptors of the kind MPRDMA_FD_RDMA_CM. */
static const struct mprdma_fd_files* cm_files;

void mprdma_fd_serve(const struct mprdma_fd_files* files) {
  __atomic_store_n(&cm_files, files, __ATOMIC_RELEASE);
}

static const struct mprdma_fd_files* files_of_cm(void) {
  return __atomic_load_n(&cm_files, __ATOMIC_ACQUIRE);
}

static enum mprdma_fd_kind entry(int fd) {
  return in_table(fd) ? (enum mprdma_fd_kind)__atomic_load_n(&kinds[fd], __ATOMIC_ACQUIRE)
                      : MPRDMA_FD_PLAIN;
}

/* Returns the inode of a pipe's end, 0 for anything else. */
static uint64_t pipe_inode(int fd) {
  struct stat64 status;
  return fstat64_real()(fd, &status) == 0 && S_ISFIFO(status.st_mode) ? status.st_ino : 0;
}

/* Both ends of one pipe have the same inode, and no other pipe has it. */
static bool is_channel(int read_fd) {
  uint64_t inode = __atomic_load_n(&pipes[read_fd], __ATOMIC_RELAXED);
  return inode != 0 && pipe_inode(read_fd) == inode && pipe_inode(extras[read_fd]) == inode;
}

static bool is_null_device(int fd) {
  struct stat64 status;
  return fstat64_real()(fd, &status) == 0 && S_ISCHR(status.st_mode) &&
         status.st_rdev == makedev(1, 3);
}

static bool is_what_it_was(int fd, enum mprdma_fd_kind kind) {
  switch (kind) {
    case MPRDMA_FD_UVERBS:
      return is_null_device(fd);
    case MPRDMA_FD_RDMA_CM:
      return fcntl64_real()(fd, F_GETSIG) == MPRDMA_RDMA_CM_MARK;
    default:
      return is_channel(fd);
  }
}

enum mprdma_fd_kind mprdma_fd_kind(int fd) {
  enum mprdma_fd_kind kind = entry(fd);
  if (kind == MPRDMA_FD_PLAIN) {
    return kind;
  }
  int saved = errno;
  bool valid = is_what_it_was(fd, kind);
  errno = saved;
  return valid ? kind : MPRDMA_FD_PLAIN;
}

int mprdma_fd_extra(int fd) {
  return in_table(fd) ? __atomic_load_n(&extras[fd], __ATOMIC_RELAXED) : -1;
}

bool mprdma_fd_set(int fd, enum mprdma_fd_kind kind, int extra) {
  if (!in_table(fd) || table_pid != getpid()) {
    return false;
  }
  __atomic_store_n(&extras[fd], extra, __ATOMIC_RELAXED);
  __atomic_store_n(&pipes[fd], kind == MPRDMA_FD_CHANNEL ? pipe_inode(fd) : 0, __ATOMIC_RELAXED);
  __atomic_store_n(&kinds[fd], (uint8_t)kind, __ATOMIC_RELEASE);
  return true;
}

void mprdma_fd_forget(int fd) {
  enum mprdma_fd_kind noted = entry(fd);
  if (noted == MPRDMA_FD_PLAIN) {
    return;
  }
  enum mprdma_fd_kind kind = mprdma_fd_kind(fd);
  int extra = mprdma_fd_extra(fd);
  if (table_pid != getpid()) {
    return;
  }
  bool taken = __atomic_exchange_n(&kinds[fd], MPRDMA_FD_PLAIN, __ATOMIC_ACQ_REL) != 0;
  if (taken && kind == MPRDMA_FD_CHANNEL) {
    mprdma_fd_close(extra);
  }
  if (taken && noted == MPRDMA_FD_RDMA_CM) {
    files_of_cm()->gone(extra, fd);
  }
}

int mprdma_fd_close(int fd) {
  mprdma_fd_forget(fd);
  return close_real()(fd);
}

void mprdma_fd_forget_range(unsigned int first, unsigned int last) {
  for (unsigned int fd = first; fd <= last && fd < TABLE_SIZE; fd++) {
    mprdma_fd_forget((int)fd);
  }
}

void mprdma_fd_copy(int old_fd, int new_fd) {
  enum mprdma_fd_kind kind = mprdma_fd_kind(old_fd);
  if (kind == MPRDMA_FD_UVERBS) {
    mprdma_fd_set(new_fd, MPRDMA_FD_UVERBS, -1);
  } else if (kind == MPRDMA_FD_RDMA_CM) {
    int file = mprdma_fd_extra(old_fd);
    if (mprdma_fd_set(new_fd, MPRDMA_FD_RDMA_CM, file) && !files_of_cm()->copied(file)) {
      __atomic_store_n(&kinds[new_fd], MPRDMA_FD_PLAIN, __ATOMIC_RELEASE);
    }
  }
}

int mprdma_fd_find(enum mprdma_fd_kind kind, int extra) {
  for (int fd = 0; fd < TABLE_SIZE; fd++) {
    if (entry(fd) == kind && mprdma_fd_extra(fd) == extra) {
      return fd;
    }
  }
  return -1;
}

void mprdma_fd_each(enum mprdma_fd_kind kind, void (*call)(int fd, int extra)) {
  for (int fd = 0; fd < TABLE_SIZE; fd++) {
    if (entry(fd) == kind) {
      call(fd, mprdma_fd_extra(fd));
    }
  }
}
