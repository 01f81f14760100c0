/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The queue of events of a file. Its eventfd counts them (EFD_SEMAPHORE). A reader decrements the
 * count first and takes the event then, so it may find that the event is gone (its id was destroyed
 * meanwhile), and has to read again.
 */
#include <sys/uio.h>

#include "providers/mprdma/preload/ucma/ucma.h"

MPRDMA_REAL(ssize_t, write, int, const void*, size_t)

/* Resolved early for signal handlers and fork: see find_early() in hook_fd.c. */
__attribute__((constructor)) static void find_early(void) {
  write_real();
}

/* The application may have closed the descriptor, and its number may stand for another file. */
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

/* Never waits: if the count is 0, a reader has decremented it and will find no event, or a newer
 * one. */
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

int mprdma_ucma_raise(struct ucma_id* id, uint32_t type, struct ucma_group* group) {
  struct ucma_event* event = calloc(1, sizeof(*event));
  if (event == NULL) {
    return ENOMEM;
  }
  event->event.type = type;
  event->id = id;
  event->group = group;
  mprdma_ucma_push(id->file, event);
  return 0;
}
