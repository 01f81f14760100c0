/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Opens of the device and their queues of events. The eventfd of a file counts the events in its
 * queue (EFD_SEMAPHORE): who wants one reads first and takes it out then, so a read that was
 * answered may find the event gone (its id was destroyed meanwhile) and has to read again.
 */
#include <fcntl.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/uio.h>
#include <unistd.h>

#include "providers/mprdma/preload/ucma.h"

MPRDMA_REAL(ssize_t, write, int, const void*, size_t)
MPRDMA_REAL(int, close, int)
MPRDMA_REAL(int, dup3, int, int, int)
MPRDMA_REAL(int, fcntl64, int, int, ...)

static pthread_mutex_t ucma_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t ucma_changed = PTHREAD_COND_INITIALIZER;
static struct ucma_table files;

void mprdma_ucma_lock(void) {
  pthread_mutex_lock(&ucma_lock);
}
void mprdma_ucma_unlock(void) {
  pthread_mutex_unlock(&ucma_lock);
}
void mprdma_ucma_wait(void) {
  pthread_cond_wait(&ucma_changed, &ucma_lock);
}
void mprdma_ucma_wake(void) {
  pthread_cond_broadcast(&ucma_changed);
}

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

int mprdma_ucma_open(int flags) {
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
    mprdma_ucma_descriptor_gone((int)file->number, fd);
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
    /* Still the file's: who closes it comes to mprdma_ucma_descriptor_gone(), and waits, before. */
    if (own != NULL) {
      *own = fcntl64_real()(fd, F_DUPFD_CLOEXEC, 0);
    }
  }
  mprdma_ucma_unlock();
  return file;
}

/* Nobody else can reach the file any more. */
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

void mprdma_ucma_file_put(struct ucma_file* file) {
  mprdma_ucma_lock();
  file->commands--;
  drop_if_last(file);
}

bool mprdma_ucma_descriptor_copied(int number) {
  mprdma_ucma_lock();
  struct ucma_file* file = mprdma_ucma_table_find(&files, (uint32_t)number);
  if (file != NULL) {
    file->descriptors++;
  }
  mprdma_ucma_unlock();
  return file != NULL;
}

void mprdma_ucma_descriptor_gone(int number, int fd) {
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

/* ---- Queues */

/* The descriptor may have been closed behind our back, and be something else by now. */
static bool fd_is_ours(const struct ucma_file* file) {
  return file->fd >= 0 && mprdma_fd_kind(file->fd) == MPRDMA_FD_RDMA_CM;
}

static void count_up(const struct ucma_file* file) {
  const uint64_t one = 1;
  if (fd_is_ours(file)) {
    ssize_t written = write_real()(file->fd, &one, sizeof(one));
    (void)written;
  }
}

/* Never waits: where the count is 0, a reader has it in hand and will find nothing, or what came
 * since. */
static bool count_down(const struct ucma_file* file) {
  uint64_t one = 0;
  struct iovec piece = {.iov_base = &one, .iov_len = sizeof(one)};
  return fd_is_ours(file) && preadv2(file->fd, &piece, 1, -1, RWF_NOWAIT) > 0;
}

void mprdma_ucma_settle(const struct ucma_file* file) {
  while (file->first == NULL && count_down(file)) {
  }
}

static void append(struct ucma_file* file, struct ucma_event* event) {
  event->next = NULL;
  *file->last = event;
  file->last = &event->next;
}

void mprdma_ucma_push(struct ucma_file* file, struct ucma_event* event) {
  append(file, event);
  int saved = errno;
  count_up(file);
  errno = saved;
}

struct ucma_event* mprdma_ucma_pop(struct ucma_file* file) {
  struct ucma_event* event = file->first;
  if (event != NULL) {
    file->first = event->next;
    if (file->first == NULL) {
      file->last = &file->first;
    }
  }
  return event;
}

void mprdma_ucma_push_back(struct ucma_file* file, struct ucma_event* event) {
  event->next = file->first;
  if (file->first == NULL) {
    file->last = &event->next;
  }
  file->first = event;
  count_up(file);
}

struct ucma_event* mprdma_ucma_take(struct ucma_file* file, const struct ucma_id* id,
                                    const struct ucma_group* group) {
  struct ucma_event* taken = NULL;
  struct ucma_event** taken_last = &taken;
  struct ucma_event* all = file->first;
  file->first = NULL;
  file->last = &file->first;
  while (all != NULL) {
    struct ucma_event* event = all;
    all = event->next;
    if (event->id == id && (group == NULL || event->group == group)) {
      event->next = NULL;
      *taken_last = event;
      taken_last = &event->next;
      (void)count_down(file);
    } else {
      append(file, event);
    }
  }
  return taken;
}

/* ---- Fork */

static void before_fork(void) {
  mprdma_ucma_lock();
}

static void after_fork_in_parent(void) {
  mprdma_ucma_unlock();
}

/* The descriptor gets an eventfd of the child's own, of the same flags. */
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
  pthread_mutex_init(&ucma_lock, NULL);
  pthread_cond_init(&ucma_changed, NULL);
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
  /* As in hook_fd.c. */
  write_real();
  close_real();
  dup3_real();
  fcntl64_real();
  pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
}
