/* SPDX-License-Identifier: BSD-2-Clause */
/* The pipes from which libibverbs reads events, with a list for what a pipe has no room for. */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/uio.h>
#include <unistd.h>

#include "providers/mprdma/operations.h"

int mprdma_event_queue_init(struct mprdma_event_queue* queue, int read_fd, int write_fd,
                            size_t record_bytes) {
  memset(queue, 0, sizeof(*queue));
  queue->read_fd = read_fd;
  queue->write_fd = write_fd;
  queue->record_bytes = record_bytes;
  return pthread_mutex_init(&queue->lock, NULL);
}

void mprdma_event_queue_close(struct mprdma_event_queue* queue) {
  close(queue->read_fd);
  close(queue->write_fd);
  free(queue->backlog);
  pthread_mutex_destroy(&queue->lock);
}

static bool write_record(const struct mprdma_event_queue* queue, const void* record) {
  ssize_t written;
  do {
    written = write(queue->write_fd, record, queue->record_bytes);
  } while (written < 0 && errno == EINTR);
  return written == (ssize_t)queue->record_bytes;
}

static char* backlog_at(const struct mprdma_event_queue* queue, size_t i) {
  return queue->backlog + i * queue->record_bytes;
}

static bool backlog_append(struct mprdma_event_queue* queue, const void* record) {
  if (queue->backlog_records == queue->backlog_room) {
    size_t room = queue->backlog_room == 0 ? 64 : queue->backlog_room * 2;
    char* bigger = realloc(queue->backlog, room * queue->record_bytes);
    if (bigger == NULL) {
      return false;
    }
    queue->backlog = bigger;
    queue->backlog_room = room;
  }
  memcpy(backlog_at(queue, queue->backlog_records++), record, queue->record_bytes);
  return true;
}

static void flush_locked(struct mprdma_event_queue* queue) {
  size_t moved = 0;
  while (moved < queue->backlog_records && write_record(queue, backlog_at(queue, moved))) {
    moved++;
  }
  if (moved > 0) {
    queue->backlog_records -= moved;
    memmove(queue->backlog, backlog_at(queue, moved), queue->backlog_records * queue->record_bytes);
  }
}

void mprdma_event_queue_push(struct mprdma_event_queue* queue, const void* record,
                             uint32_t* written) {
  pthread_mutex_lock(&queue->lock);
  flush_locked(queue); /* keeps the order */
  bool kept = queue->backlog_records == 0 && write_record(queue, record);
  if (!kept) {
    kept = backlog_append(queue, record);
  }
  if (kept && written != NULL) {
    ++*written;
  }
  pthread_mutex_unlock(&queue->lock);
}

void mprdma_event_queue_flush(struct mprdma_event_queue* queue) {
  pthread_mutex_lock(&queue->lock);
  flush_locked(queue);
  pthread_mutex_unlock(&queue->lock);
}

/* Linux before 6.4 has no RWF_NOWAIT for pipes (EOPNOTSUPP): there the pipe is opened once more,
 * which gives a description whose O_NONBLOCK is ours alone. */
static ssize_t read_reopened(const struct mprdma_event_queue* queue, void* record) {
  char path[64];
  snprintf(path, sizeof(path), "/proc/self/fd/%d", queue->read_fd);
  int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0) {
    return -1;
  }
  ssize_t bytes = read(fd, record, queue->record_bytes);
  close(fd);
  return bytes;
}

/* Takes one record out of the pipe without ever waiting, whatever the descriptor's mode. */
static bool read_record(const struct mprdma_event_queue* queue, void* record) {
  struct iovec part = {.iov_base = record, .iov_len = queue->record_bytes};
  ssize_t bytes = preadv2(queue->read_fd, &part, 1, -1, RWF_NOWAIT);
  if (bytes < 0 && (errno == EOPNOTSUPP || errno == ENOSYS)) {
    bytes = read_reopened(queue, record);
  }
  return bytes == (ssize_t)queue->record_bytes;
}

uint32_t mprdma_event_queue_purge(struct mprdma_event_queue* queue, uint64_t element,
                                  bool (*is_match)(const void* record)) {
  uint32_t purged = 0;
  char record[sizeof(struct mprdma_async_record)];
  pthread_mutex_lock(&queue->lock);
  /* All records pass through a list in order: those in the pipe are older than the backlog. */
  struct mprdma_event_queue old = *queue;
  queue->backlog = NULL;
  queue->backlog_records = 0;
  queue->backlog_room = 0;
  size_t from_backlog = 0;
  for (;;) {
    if (!read_record(queue, record)) {
      if (from_backlog == old.backlog_records) {
        break;
      }
      memcpy(record, backlog_at(&old, from_backlog++), queue->record_bytes);
    }
    uint64_t found;
    memcpy(&found, record, sizeof(found));
    if (found == element && (is_match == NULL || is_match(record))) {
      purged++;
    } else {
      backlog_append(queue, record);
    }
  }
  free(old.backlog);
  flush_locked(queue);
  pthread_mutex_unlock(&queue->lock);
  return purged;
}
