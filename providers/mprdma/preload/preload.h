/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Inside the preload: the emulated kernel of one process. Links only libc. Any thread may be in any
 * of these functions at any time; hooks keep errno as the real call leaves it.
 *
 * A hook redirects a path (paths.c) into a private copy of the sysfs tree (tree.c), or recognises a
 * descriptor (fd_table.c) that stands for /dev/infiniband/uverbsN, on which ioctl is answered by a
 * mini-uverbs (uverbs.c), or for /dev/infiniband/rdma_cm, on which write is answered by a mini-ucma
 * (ucma.h). Everything else goes straight to libc.
 */
#pragma once

#include <dlfcn.h>
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "providers/mprdma/device_facts.h"

#define MPRDMA_HOOK __attribute__((visibility("default")))

/* Defines name_real(), which returns the next definition of a libc function. */
#define MPRDMA_REAL(ret, name, ...)                         \
  static ret (*name##_real(void))(__VA_ARGS__) {            \
    static ret (*cached)(__VA_ARGS__);                      \
    ret (*function)(__VA_ARGS__);                           \
    __atomic_load(&cached, &function, __ATOMIC_RELAXED);    \
    if (function == NULL) {                                 \
      void* symbol = mprdma_next_symbol(#name);             \
      memcpy(&function, &symbol, sizeof(function));         \
      __atomic_store(&cached, &function, __ATOMIC_RELAXED); \
    }                                                       \
    return function;                                        \
  }

/* real.c: aborts with a message when libc has no such symbol, which cannot be survived. */
void* mprdma_next_symbol(const char* name);

/* ---- facts.c: the device, read from the environment once. NULL: no device, be inert. */
const struct mprdma_device_facts* mprdma_preload_facts(void);
/* Network interface shown for the device ("" when there is none) and its index (0). */
const char* mprdma_preload_netdev(void);
unsigned int mprdma_preload_netdev_index(void);

/* ---- paths.c */
enum mprdma_path_kind {
  MPRDMA_PATH_PLAIN,  /* not ours: use the path as given */
  MPRDMA_PATH_TREE,   /* `real` names a file or directory of the private tree (or a test's sysfs) */
  MPRDMA_PATH_UVERBS, /* our character device: `real` is /dev/null, numbers must be forged */
  MPRDMA_PATH_RDMA_CM, /* likewise */
};
struct mprdma_path {
  enum mprdma_path_kind kind;
  const char* real; /* what to hand to libc */
  char buffer[PATH_MAX];
};
/* Classifies `path` (may be NULL or relative: plain). Cheap unless it is ours. */
void mprdma_path_resolve(const char* path, struct mprdma_path* out);
/* Turns a name inside the private tree back into the name that the application knows. In place. */
void mprdma_path_unresolve(char* path);

/* ---- tree.c: the private copy of sysfs and of /dev/infiniband, built at first use in a process
 * (again after a fork), removed at exit; leftovers of killed processes are removed by the next. */
struct mprdma_tree {
  char root[PATH_MAX / 4]; /* <root>/sys/class/..., <root>/dev/infiniband */
  char uverbs_name[32];    /* "uverbs0": a number that no real device uses */
  unsigned int uverbs_minor;
};
/* While above zero, this thread sees the host's real files (it builds the tree from them). */
extern _Thread_local int mprdma_unhooked;
/* NULL: no device, or no place to build it (said once on standard error). */
const struct mprdma_tree* mprdma_tree_get(void);
/* The device number of MPRDMA_PATH_UVERBS and of MPRDMA_PATH_RDMA_CM. */
dev_t mprdma_path_rdev(enum mprdma_path_kind kind);
/* Name of the device file in /dev/infiniband. */
const char* mprdma_path_device(enum mprdma_path_kind kind);
/* host_trees.c: where the host's own trees are: "/sys" and "/dev"; tests point them elsewhere with
 * MPRDMA_REAL_SYSFS and MPRDMA_REAL_DEV. */
const char* mprdma_real_sysfs(void);
const char* mprdma_real_dev(void);

/* tree_life.c: a tree is named <base>/mprdma-tree.<uid>.<pid namespace>.<pid>.<start ticks>, so
 * that anyone can tell whether its owner lives, without a descriptor that an application might
 * close. */
#define MPRDMA_TREE_PREFIX "mprdma-tree."
int mprdma_tree_name(char* out, size_t bytes, const char* base);
void mprdma_tree_remove(const char* root);
void mprdma_tree_remove_stale(const char* base);

/* tree_files.c: writes everything below tree->root. Returns 0 or an errno value. */
int mprdma_tree_write(const struct mprdma_tree* tree);

#define MPRDMA_UVERBS_MAJOR 231u /* as the kernel's first 32 uverbs devices */
#define MPRDMA_UVERBS_FIRST_MINOR 192u
#define MPRDMA_RDMA_CM_MAJOR 10u /* miscellaneous devices */
#define MPRDMA_RDMA_CM_MINOR 58u /* of those that Linux gives out as modules come */

/* ---- fd_table.c: which descriptors are ours. Descriptors above the table are never ours. */
enum mprdma_fd_kind {
  MPRDMA_FD_PLAIN = 0,
  MPRDMA_FD_UVERBS = 1,  /* backed by /dev/null */
  MPRDMA_FD_CHANNEL = 2, /* read end of a completion channel's pipe; extra = write end */
  MPRDMA_FD_RDMA_CM = 3, /* an eventfd with the mark; extra = number of the file (ucma/file.c) */
};
/* By what an eventfd is known to be ours: the signal of F_SETSIG, which no eventfd ever sends. It
 * belongs to the open file, so duplicates have it too. */
#define MPRDMA_RDMA_CM_MARK 64
enum mprdma_fd_kind mprdma_fd_kind(int fd);
int mprdma_fd_extra(int fd);
/* Returns false when fd does not fit the table. */
bool mprdma_fd_set(int fd, enum mprdma_fd_kind kind, int extra);
/* To be called before fd is closed or replaced: forgets it, closes what belongs to it. */
void mprdma_fd_forget(int fd);
int mprdma_fd_close(int fd); /* forgets it and closes it, as close(2) */
void mprdma_fd_forget_range(unsigned int first, unsigned int last); /* both inclusive */
/* After dup: new_fd is what old_fd is (a channel is not copied, only the original is one). */
void mprdma_fd_copy(int old_fd, int new_fd);
/* A descriptor of a kind with that extra, -1: none. */
int mprdma_fd_find(enum mprdma_fd_kind kind, int extra);
void mprdma_fd_each(enum mprdma_fd_kind kind, void (*call)(int fd, int extra));
/* The files of the connection manager's device, which are counted by their descriptors. */
struct mprdma_fd_files {
  bool (*copied)(int number);       /* a descriptor of the file was made; false: no such file */
  void (*gone)(int number, int fd); /* `fd` is one no more */
};
/* To be called before the first descriptor of the kind MPRDMA_FD_RDMA_CM is set; for ever. */
void mprdma_fd_serve(const struct mprdma_fd_files* files);

/* ---- uverbs.c: RDMA_VERBS_IOCTL on a uverbs descriptor; as ioctl(2). */
int mprdma_uverbs_ioctl(void* argument);

/* ---- ucma/file.c, ucma/commands.c: as open(2) and write(2), of the connection manager's device.
 */
int mprdma_ucma_open(int flags);
ssize_t mprdma_ucma_write(int fd, const void* buffer, size_t bytes);
