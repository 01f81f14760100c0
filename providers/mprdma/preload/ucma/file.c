/* SPDX-License-Identifier: BSD-2-Clause */
/* Opens of the device: their descriptors, their life, and what a fork leaves of them. */
#include <fcntl.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "providers/mprdma/preload/ucma/ucma.h"

MPRDMA_REAL(int, close, int)
MPRDMA_REAL(int, dup3, int, int, int)
MPRDMA_REAL(int, fcntl64, int, int, ...)

static struct ucma_table files;

static struct ucma_file* new_file(int fd) {
  struct ucma_file* file = calloc(1, sizeof(*file));
  if (file == NULL) {
    return NULL;
  }
  file->fd = fd;
  file->descriptors = 1;
  file->last = &file->first;
  mprdma_ucma_lock();
  file->number = mprdma_ucma_table_add(&files, file);
  mprdma_ucma_unlock();
  if (file->number == 0) {
    free(file);
    return NULL;
  }
  return file;
}

static int new_eventfd(bool blocks) {
  int fd = eventfd(0, EFD_SEMAPHORE | EFD_CLOEXEC | (blocks ? 0 : EFD_NONBLOCK));
  if (fd >= 0 && fcntl64_real()(fd, F_SETSIG, MPRDMA_RDMA_CM_MARK) != 0) {
    close_real()(fd);
    return -1;
  }
  return fd;
}

/* Ends the file, which no other thread can reach any more. */
static void end_file(struct ucma_file* file) {
  while (file->ids != NULL) {
    mprdma_ucma_id_destroy(file->ids);
  }
  free(file);
}

static void drop_if_last(struct ucma_file* file) {
  bool last = file->descriptors == 0 && file->commands == 0;
  if (last) {
    mprdma_ucma_table_remove(&files, file->number);
  }
  mprdma_ucma_unlock();
  if (last) {
    end_file(file);
  }
}

static bool descriptor_copied(int number) {
  mprdma_ucma_lock();
  struct ucma_file* file = mprdma_ucma_table_find(&files, (uint32_t)number);
  if (file != NULL) {
    file->descriptors++;
  }
  mprdma_ucma_unlock();
  return file != NULL;
}

static void descriptor_gone(int number, int fd) {
  mprdma_ucma_lock();
  struct ucma_file* file = mprdma_ucma_table_find(&files, (uint32_t)number);
  if (file == NULL) {
    mprdma_ucma_unlock();
    return;
  }
  file->descriptors--;
  if (file->fd == fd) {
    file->fd = file->descriptors > 0 ? mprdma_fd_find(MPRDMA_FD_RDMA_CM, number) : -1;
  }
  drop_if_last(file);
}

/* Registers the callbacks of the lower layers: no descriptor of ours and no command of the agent
 * exists before the first open. */
static void serve(void) {
  static const struct mprdma_fd_files kFiles = {.copied = descriptor_copied,
                                                .gone = descriptor_gone};
  static const struct ucma_agent_client kClient = {.on_event = mprdma_ucma_on_event,
                                                   .at_exit = mprdma_ucma_hang_up};
  mprdma_fd_serve(&kFiles);
  mprdma_ucma_agent_serve(&kClient);
}

int mprdma_ucma_open(int flags) {
  serve();
  int fd = new_eventfd((flags & O_NONBLOCK) == 0);
  if (fd < 0) {
    return -1;
  }
  if ((flags & O_CLOEXEC) == 0) {
    fcntl64_real()(fd, F_SETFD, 0);
  }
  struct ucma_file* file = new_file(fd);
  if (file != NULL && mprdma_fd_set(fd, MPRDMA_FD_RDMA_CM, (int)file->number)) {
    return fd;
  }
  if (file != NULL) {
    descriptor_gone((int)file->number, fd);
  }
  close_real()(fd);
  errno = file != NULL ? EMFILE : ENOMEM;
  return -1;
}

struct ucma_file* mprdma_ucma_file_get(int fd, int* own) {
  struct ucma_file* file = NULL;
  mprdma_ucma_lock();
  if (mprdma_fd_kind(fd) == MPRDMA_FD_RDMA_CM) {
    file = mprdma_ucma_table_find(&files, (uint32_t)mprdma_fd_extra(fd));
  }
  if (file != NULL) {
    file->commands++;
    /* The descriptor still belongs to the file: closing it passes through descriptor_gone(), which
     * waits. */
    if (own != NULL) {
      *own = fcntl64_real()(fd, F_DUPFD_CLOEXEC, 0);
    }
  }
  mprdma_ucma_unlock();
  return file;
}

void mprdma_ucma_file_put(struct ucma_file* file) {
  mprdma_ucma_lock();
  file->commands--;
  drop_if_last(file);
}

/* ---- Fork */

static void before_fork(void) {
  mprdma_ucma_lock();
}

static void after_fork_in_parent(void) {
  mprdma_ucma_unlock();
}

/* Gives the descriptor an eventfd of the child's own, with the same flags. */
static void renew(int fd, int number) {
  struct ucma_file* file = mprdma_ucma_table_find(&files, (uint32_t)number);
  int descriptor_flags = fcntl64_real()(fd, F_GETFD);
  int status_flags = fcntl64_real()(fd, F_GETFL);
  if (file == NULL || descriptor_flags < 0 || mprdma_fd_kind(fd) != MPRDMA_FD_RDMA_CM) {
    return;
  }
  bool first = file->descriptors == 0;
  int made = first ? new_eventfd((status_flags & O_NONBLOCK) == 0) : file->fd;
  if (made < 0) {
    return;
  }
  dup3_real()(made, fd, (descriptor_flags & FD_CLOEXEC) != 0 ? O_CLOEXEC : 0);
  if (first) {
    close_real()(made);
    file->fd = fd;
  }
  file->descriptors++;
}

static void after_fork_in_child(void) {
  mprdma_ucma_lock_anew();
  bool any = false;
  for (uint32_t i = 0; i < files.room; i++) {
    struct ucma_file* file = files.slots[i];
    if (file == NULL) {
      continue;
    }
    any = true;
    file->descriptors = 0;
    file->commands = 0;
    file->ids = NULL;
    for (struct ucma_event* event; (event = mprdma_ucma_pop(file)) != NULL;) {
      free(event);
    }
  }
  mprdma_ucma_groups_forget();
  mprdma_ucma_ids_forget();
  if (any) {
    mprdma_fd_each(MPRDMA_FD_RDMA_CM, renew);
  }
}

__attribute__((constructor)) static void register_fork_handlers(void) {
  /* The hooked functions are resolved early, as in hook_fd.c. */
  close_real();
  dup3_real();
  fcntl64_real();
  pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
}
