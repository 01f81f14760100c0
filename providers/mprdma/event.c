/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Completion and asynchronous events: from the engine's callback into the pipes that libibverbs
 * reads. A kernel takes back the queued events of an object that is destroyed and then waits until
 * those that were read are acknowledged; so does this file, or an application would be handed a
 * pointer to freed memory (IBTA 11.2.8.2; ibv_destroy_cq(3), ibv_ack_async_event(3)).
 */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/uio.h>
#include <unistd.h>

#include "providers/mprdma/mprdma.h"
#include "providers/mprdma/preload_link.h"

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
  /* Everything goes through a list in order: the pipe's records are older than the backlog's. */
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

/* ---- The engine's callback ---- */

static void push_async(struct mprdma_context* context, uint64_t element, enum ibv_event_type type,
                       uint32_t* written) {
  const struct mprdma_async_record record = {.element = element, .type = (uint32_t)type};
  mprdma_event_queue_push(&context->async, &record, written);
}

static void push_qp(struct mprdma_context* context, uint64_t cookie, enum ibv_event_type type) {
  struct mprdma_qp* qp = (struct mprdma_qp*)(uintptr_t)cookie;
  if (type != IBV_EVENT_COMM_EST && type != IBV_EVENT_SQ_DRAINED) {
    __atomic_store_n(&qp->in_error, 1, __ATOMIC_RELEASE);
  }
  push_async(context, (uint64_t)(uintptr_t)&qp->verbs.qp, type, &qp->async_events_written);
}

static void push_port(struct mprdma_context* context, uint64_t port, bool down) {
  __atomic_store_n(&context->port_down, down, __ATOMIC_RELEASE);
  push_async(context, port, down ? IBV_EVENT_PORT_ERR : IBV_EVENT_PORT_ACTIVE, NULL);
}

void mprdma_on_event(void* opaque, const struct mprdma_abi_event* event) {
  struct mprdma_context* context = opaque;
  struct mprdma_cq* cq = (struct mprdma_cq*)(uintptr_t)event->cookie;
  uint64_t element;
  switch (event->type) {
    case MPRDMA_ABI_EVENT_COMPLETION:
      __atomic_store_n(&cq->next_armed, 0, __ATOMIC_RELEASE);
      if (cq->comp_channel != NULL) {
        element = (uint64_t)(uintptr_t)&cq->verbs.cq;
        mprdma_event_queue_push(&cq->comp_channel->events, &element, &cq->comp_events_written);
      }
      break;
    case MPRDMA_ABI_EVENT_CQ_ERR:
      push_async(context, (uint64_t)(uintptr_t)&cq->verbs.cq, IBV_EVENT_CQ_ERR,
                 &cq->async_events_written);
      break;
    case MPRDMA_ABI_EVENT_QP_FATAL:
      push_qp(context, event->cookie, IBV_EVENT_QP_FATAL);
      break;
    case MPRDMA_ABI_EVENT_QP_REQ_ERR:
      push_qp(context, event->cookie, IBV_EVENT_QP_REQ_ERR);
      break;
    case MPRDMA_ABI_EVENT_QP_ACCESS_ERR:
      push_qp(context, event->cookie, IBV_EVENT_QP_ACCESS_ERR);
      break;
    case MPRDMA_ABI_EVENT_COMM_EST:
      push_qp(context, event->cookie, IBV_EVENT_COMM_EST);
      break;
    case MPRDMA_ABI_EVENT_SQ_DRAINED:
      push_qp(context, event->cookie, IBV_EVENT_SQ_DRAINED);
      break;
    case MPRDMA_ABI_EVENT_PORT_ACTIVE:
      push_port(context, event->cookie, false);
      break;
    case MPRDMA_ABI_EVENT_PORT_ERR:
      push_port(context, event->cookie, true);
      break;
    case MPRDMA_ABI_EVENT_DEVICE_FATAL:
      push_async(context, 0, IBV_EVENT_DEVICE_FATAL, NULL);
      break;
    default: /* an engine of a later minor version */
      break;
  }
}

/* libibverbs calls these after it took a record: there is room again. */
void mprdma_async_event(struct ibv_context* context, struct ibv_async_event* event) {
  (void)event;
  mprdma_event_queue_flush(&to_mprdma_context(context)->async);
}

void mprdma_cq_event(struct ibv_cq* cq) {
  struct mprdma_comp_channel* channel = to_mprdma_cq(cq)->comp_channel;
  if (channel != NULL) {
    mprdma_event_queue_flush(&channel->events);
  }
}

/* ---- Completion channels ---- */

static int channel_new(const struct ibv_comp_channel* ibv, struct mprdma_comp_channel** out) {
  int fds[2];
  if (mprdma_preload_dup_event_pipe == NULL) {
    return EOPNOTSUPP;
  }
  int error = mprdma_preload_dup_event_pipe(ibv->fd, fds);
  if (error != 0) {
    return error;
  }
  struct mprdma_comp_channel* channel = calloc(1, sizeof(*channel));
  if (channel == NULL) {
    close(fds[0]);
    close(fds[1]);
    return ENOMEM;
  }
  mprdma_event_queue_init(&channel->events, fds[0], fds[1], sizeof(uint64_t));
  channel->ibv = ibv;
  *out = channel;
  return 0;
}

int mprdma_comp_channel_get(struct mprdma_context* context, const struct ibv_comp_channel* ibv,
                            struct mprdma_comp_channel** out) {
  int error = 0;
  pthread_mutex_lock(&context->engine_lock);
  struct mprdma_comp_channel* channel = context->comp_channels;
  while (channel != NULL && channel->ibv != ibv) {
    channel = channel->next;
  }
  if (channel == NULL) {
    error = channel_new(ibv, &channel);
    if (error == 0) {
      channel->next = context->comp_channels;
      context->comp_channels = channel;
    }
  }
  if (error == 0) {
    channel->references++;
    *out = channel;
  }
  pthread_mutex_unlock(&context->engine_lock);
  return error;
}

void mprdma_comp_channel_put(struct mprdma_context* context, struct mprdma_comp_channel* channel) {
  pthread_mutex_lock(&context->engine_lock);
  if (--channel->references == 0) {
    struct mprdma_comp_channel** link = &context->comp_channels;
    while (*link != channel) {
      link = &(*link)->next;
    }
    *link = channel->next;
    mprdma_event_queue_close(&channel->events);
    free(channel);
  }
  pthread_mutex_unlock(&context->engine_lock);
}

/* ---- Destruction: the engine has promised no further event for the object ---- */

static bool is_cq_record(const void* record) {
  const struct mprdma_async_record* async = record;
  return async->type == IBV_EVENT_CQ_ERR;
}

static bool is_qp_record(const void* record) {
  const struct mprdma_async_record* async = record;
  return async->type != IBV_EVENT_CQ_ERR && async->type != IBV_EVENT_PORT_ACTIVE &&
         async->type != IBV_EVENT_PORT_ERR && async->type != IBV_EVENT_DEVICE_FATAL;
}

/* Purges, then waits until the application acknowledged what it has read. */
static void wait_acknowledged(pthread_mutex_t* mutex, pthread_cond_t* cond,
                              const uint32_t* completed, uint32_t expected) {
  pthread_mutex_lock(mutex);
  while (*completed != expected) {
    pthread_cond_wait(cond, mutex);
  }
  pthread_mutex_unlock(mutex);
}

void mprdma_drain_cq_events(struct mprdma_cq* cq) {
  struct ibv_cq* ibv = &cq->verbs.cq;
  uint64_t element = (uint64_t)(uintptr_t)ibv;
  if (cq->comp_channel != NULL) {
    uint32_t purged = mprdma_event_queue_purge(&cq->comp_channel->events, element, NULL);
    wait_acknowledged(&ibv->mutex, &ibv->cond, &ibv->comp_events_completed,
                      cq->comp_events_written - purged);
  }
  uint32_t purged = mprdma_event_queue_purge(&cq->context->async, element, is_cq_record);
  wait_acknowledged(&ibv->mutex, &ibv->cond, &ibv->async_events_completed,
                    cq->async_events_written - purged);
}

void mprdma_drain_qp_events(struct mprdma_qp* qp) {
  struct ibv_qp* ibv = &qp->verbs.qp;
  uint32_t purged =
      mprdma_event_queue_purge(&qp->context->async, (uint64_t)(uintptr_t)ibv, is_qp_record);
  wait_acknowledged(&ibv->mutex, &ibv->cond, &ibv->events_completed,
                    qp->async_events_written - purged);
}
