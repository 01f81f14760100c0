/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The private tree's life in this process: built at the first use of one of our paths, again in a
 * child after fork (the parent may exit first) or when somebody removed it, and removed at exit.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "providers/mprdma/preload/preload.h"

MPRDMA_REAL(int, fstatat64, int, const char*, struct stat64*, int)

static pthread_mutex_t tree_lock = PTHREAD_MUTEX_INITIALIZER;
static struct mprdma_tree tree;
static pid_t tree_pid; /* process that owns tree.root; 0: none */
static bool tree_failed;

_Thread_local int mprdma_unhooked;

static bool exists(const char* path) {
  struct stat64 status;
  return fstatat64_real()(AT_FDCWD, path, &status, AT_SYMLINK_NOFOLLOW) == 0;
}

static bool uverbs_number_taken(unsigned int number) {
  char path[PATH_MAX];
  snprintf(path, sizeof(path), "%s/class/infiniband_verbs/uverbs%u", mprdma_real_sysfs(), number);
  if (exists(path)) {
    return true;
  }
  snprintf(path, sizeof(path), "%s/infiniband/uverbs%u", mprdma_real_dev(), number);
  return exists(path);
}

static int make_in(const char* base, struct mprdma_tree* out) {
  mprdma_tree_remove_stale(base);
  int error = mprdma_tree_name(out->root, sizeof(out->root), base);
  if (error != 0) {
    return error;
  }
  /* The name is unique to this process, so an existing directory is left over from an earlier
   * try. */
  mprdma_tree_remove(out->root);
  /* The tree holds no secret, and a process that gives up its privileges must still read it. */
  if (mkdir(out->root, 0755) != 0) {
    return errno;
  }
  error = mprdma_tree_write(out);
  if (error != 0) {
    mprdma_tree_remove(out->root);
  }
  return error;
}

/* XDG_RUNTIME_DIR may belong to another user (sudo -E), who could replace the tree. */
static bool is_own(const char* directory) {
  struct stat64 status;
  return fstatat64_real()(AT_FDCWD, directory, &status, 0) == 0 && status.st_uid == geteuid();
}

static int build(struct mprdma_tree* out) {
  const char* bases[] = {getenv("XDG_RUNTIME_DIR"), "/dev/shm", "/tmp"};
  unsigned int number = 0;
  while (uverbs_number_taken(number)) {
    number++;
  }
  snprintf(out->uverbs_name, sizeof(out->uverbs_name), "uverbs%u", number);
  out->uverbs_minor = MPRDMA_UVERBS_FIRST_MINOR + number;
  int error = ENOENT;
  for (size_t i = 0; i < sizeof(bases) / sizeof(bases[0]); i++) {
    if (bases[i] != NULL && bases[i][0] == '/' && (i > 0 || is_own(bases[i]))) {
      error = make_in(bases[i], out);
      if (error == 0) {
        return 0;
      }
    }
  }
  return error;
}

static bool still_there(void) {
  struct stat64 status;
  return tree_pid == getpid() && fstatat64_real()(AT_FDCWD, tree.root, &status, 0) == 0;
}

const struct mprdma_tree* mprdma_tree_get(void) {
  if (mprdma_preload_facts() == NULL || mprdma_unhooked > 0) {
    return NULL;
  }
  int saved = errno;
  mprdma_unhooked++;
  pthread_mutex_lock(&tree_lock);
  if (!tree_failed && !still_there()) {
    int error = build(&tree);
    tree_failed = error != 0;
    tree_pid = tree_failed ? 0 : getpid();
    if (tree_failed) {
      fprintf(stderr,
              "mprdma: cannot build the device's sysfs tree in $XDG_RUNTIME_DIR, /dev/shm or /tmp: "
              "%s; this process sees no mprdma device\n",
              strerror(error));
    }
  }
  bool ok = !tree_failed;
  pthread_mutex_unlock(&tree_lock);
  mprdma_unhooked--;
  errno = saved;
  return ok ? &tree : NULL;
}

static void lock_tree(void) {
  pthread_mutex_lock(&tree_lock);
}
static void unlock_tree(void) {
  pthread_mutex_unlock(&tree_lock);
}

/* A fork while another thread builds the tree must not leave the child with a locked mutex. */
__attribute__((constructor)) static void register_fork_handlers(void) {
  fstatat64_real(); /* resolved early, as in hook_fd.c */
  pthread_atfork(lock_tree, unlock_tree, unlock_tree);
}

dev_t mprdma_path_rdev(enum mprdma_path_kind kind) {
  if (kind == MPRDMA_PATH_RDMA_CM) {
    return makedev(MPRDMA_RDMA_CM_MAJOR, MPRDMA_RDMA_CM_MINOR);
  }
  const struct mprdma_tree* current = mprdma_tree_get();
  return makedev(MPRDMA_UVERBS_MAJOR, current != NULL ? current->uverbs_minor : 0);
}

const char* mprdma_path_device(enum mprdma_path_kind kind) {
  return kind == MPRDMA_PATH_RDMA_CM ? "rdma_cm" : tree.uverbs_name;
}

__attribute__((destructor)) static void remove_at_exit(void) {
  if (tree_pid != 0 && tree_pid == getpid()) {
    mprdma_unhooked++;
    mprdma_tree_remove(tree.root);
    tree_pid = 0;
    mprdma_unhooked--;
  }
}
