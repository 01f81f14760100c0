/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Completion and asynchronous events: from the engine's callback into the pipes that libibverbs
 * reads. A kernel takes back the queued events of an object that is destroyed and then waits until
 * those that were read are acknowledged; so does this file, or an application would be handed a
 * pointer to freed memory (IBTA 11.2.8.2; ibv_destroy_cq(3), ibv_ack_async_event(3)).
 */
#include <stdlib.h>
#include <unistd.h>

#include "providers/mprdma/operations.h"
#include "providers/mprdma/preload_link.h"

/* ---- Who gets the events of port and device: every context of the process ---- */

static pthread_mutex_t contexts_lock = PTHREAD_MUTEX_INITIALIZER;
static struct mprdma_context* contexts;

void mprdma_port_events_begin(struct mprdma_context* context) {
  pthread_mutex_lock(&contexts_lock);
  context->next = contexts;
  context->link = &contexts;
  if (context->next != NULL) {
    context->next->link = &context->next;
  }
  contexts = context;
  pthread_mutex_unlock(&contexts_lock);
}

void mprdma_port_events_end(struct mprdma_context* context) {
  pthread_mutex_lock(&contexts_lock);
  *context->link = context->next;
  if (context->next != NULL) {
    context->next->link = context->link;
  }
  pthread_mutex_unlock(&contexts_lock);
}

void mprdma_port_events_forget_all(void) {
  pthread_mutex_init(&contexts_lock, NULL); /* nobody else can be in here: there is no engine yet */
  contexts = NULL;
}

/* ---- The engine's callback ---- */

static void push_async(struct mprdma_context* context, uint64_t element, enum ibv_event_type type,
                       uint32_t* written) {
  const struct mprdma_async_record record = {.element = element, .type = (uint32_t)type};
  mprdma_event_queue_push(&context->async, &record, written);
}

static void push_handle(struct mprdma_qp* qp, enum ibv_event_type type) {
  push_async(qp->context, (uint64_t)(uintptr_t)&qp->verbs.qp, type, &qp->async_events_written);
}

static void push_qp(uint64_t cookie, enum ibv_event_type type) {
  if ((cookie & MPRDMA_COOKIE_SHARED) != 0) {
    struct mprdma_shared_qp* shared =
        (struct mprdma_shared_qp*)(uintptr_t)(cookie - MPRDMA_COOKIE_SHARED);
    pthread_mutex_lock(&shared->lock);
    for (struct mprdma_qp* qp = shared->handles; qp != NULL; qp = qp->next_handle) {
      push_handle(qp, type);
    }
    pthread_mutex_unlock(&shared->lock);
    return;
  }
  struct mprdma_qp* qp = (struct mprdma_qp*)(uintptr_t)cookie;
  if (type != IBV_EVENT_COMM_EST && type != IBV_EVENT_SQ_DRAINED) {
    __atomic_store_n(&qp->in_error, 1, __ATOMIC_RELEASE);
  }
  push_handle(qp, type);
}

static void push_cq(uint64_t cookie, enum ibv_event_type type) {
  struct mprdma_cq* cq = (struct mprdma_cq*)(uintptr_t)cookie;
  push_async(cq->context, (uint64_t)(uintptr_t)&cq->verbs.cq, type, &cq->async_events_written);
}

static void push_srq(uint64_t cookie, enum ibv_event_type type) {
  struct mprdma_srq* srq = (struct mprdma_srq*)(uintptr_t)cookie;
  push_async(srq->context, (uint64_t)(uintptr_t)&srq->verbs.srq, type, &srq->async_events_written);
}

static void push_port(uint64_t port, enum ibv_event_type type) {
  pthread_mutex_lock(&contexts_lock);
  for (struct mprdma_context* context = contexts; context != NULL; context = context->next) {
    if (type == IBV_EVENT_PORT_ERR || type == IBV_EVENT_PORT_ACTIVE) {
      __atomic_store_n(&context->port_down, type == IBV_EVENT_PORT_ERR, __ATOMIC_RELEASE);
    }
    push_async(context, port, type, NULL);
  }
  pthread_mutex_unlock(&contexts_lock);
}

static void push_completion(const struct mprdma_abi_event* event) {
  struct mprdma_cq* cq = (struct mprdma_cq*)(uintptr_t)event->cookie;
  uint64_t element = (uint64_t)(uintptr_t)&cq->verbs.cq;
  /* Only the request that this event answers is cleared; a newer one stands. */
  uint32_t answered = (event->arm_serial << 2) | MPRDMA_ABI_ARM_NEXT;
  __atomic_compare_exchange_n(&cq->next_armed, &answered, 0, false, __ATOMIC_ACQ_REL,
                              __ATOMIC_RELAXED);
  if (cq->comp_channel != NULL) {
    mprdma_event_queue_push(&cq->comp_channel->events, &element, &cq->comp_events_written);
  }
}

void mprdma_on_event(void* unused, const struct mprdma_abi_event* event) {
  static const struct {
    void (*push)(uint64_t cookie, enum ibv_event_type type);
    enum ibv_event_type type;
  } kEvents[] = {
      [MPRDMA_ABI_EVENT_CQ_ERR] = {push_cq, IBV_EVENT_CQ_ERR},
      [MPRDMA_ABI_EVENT_QP_FATAL] = {push_qp, IBV_EVENT_QP_FATAL},
      [MPRDMA_ABI_EVENT_QP_REQ_ERR] = {push_qp, IBV_EVENT_QP_REQ_ERR},
      [MPRDMA_ABI_EVENT_QP_ACCESS_ERR] = {push_qp, IBV_EVENT_QP_ACCESS_ERR},
      [MPRDMA_ABI_EVENT_COMM_EST] = {push_qp, IBV_EVENT_COMM_EST},
      [MPRDMA_ABI_EVENT_SQ_DRAINED] = {push_qp, IBV_EVENT_SQ_DRAINED},
      [MPRDMA_ABI_EVENT_PORT_ACTIVE] = {push_port, IBV_EVENT_PORT_ACTIVE},
      [MPRDMA_ABI_EVENT_PORT_ERR] = {push_port, IBV_EVENT_PORT_ERR},
      [MPRDMA_ABI_EVENT_DEVICE_FATAL] = {push_port, IBV_EVENT_DEVICE_FATAL},
      [MPRDMA_ABI_EVENT_SRQ_ERR] = {push_srq, IBV_EVENT_SRQ_ERR},
      [MPRDMA_ABI_EVENT_SRQ_LIMIT_REACHED] = {push_srq, IBV_EVENT_SRQ_LIMIT_REACHED},
      [MPRDMA_ABI_EVENT_QP_LAST_WQE_REACHED] = {push_qp, IBV_EVENT_QP_LAST_WQE_REACHED},
      [MPRDMA_ABI_EVENT_GID_CHANGE] = {push_port, IBV_EVENT_GID_CHANGE},
  };
  (void)unused;
  if (event->type == MPRDMA_ABI_EVENT_COMPLETION) {
    push_completion(event);
  } else if (event->type < sizeof(kEvents) / sizeof(kEvents[0])) {
    kEvents[event->type].push(event->cookie, kEvents[event->type].type);
  } /* other types come from an engine of a later minor version */
}

/* libibverbs calls these functions after it took a record, so the pipe has room again. */
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
  pthread_mutex_lock(&context->comp_lock);
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
  pthread_mutex_unlock(&context->comp_lock);
  return error;
}

void mprdma_comp_channel_put(struct mprdma_context* context, struct mprdma_comp_channel* channel) {
  pthread_mutex_lock(&context->comp_lock);
  if (--channel->references == 0) {
    struct mprdma_comp_channel** link = &context->comp_channels;
    while (*link != channel) {
      link = &(*link)->next;
    }
    *link = channel->next;
    mprdma_event_queue_close(&channel->events);
    free(channel);
  }
  pthread_mutex_unlock(&context->comp_lock);
}

/* ---- Destruction: the engine has promised no further event for the object ---- */

static uint32_t type_of(const void* record) {
  return ((const struct mprdma_async_record*)record)->type;
}

/* An element is the address of an object or the number of a port, which never coincide. The type
 * distinguishes objects that had the same address in succession. */
static bool is_cq_record(const void* record) {
  return type_of(record) == IBV_EVENT_CQ_ERR;
}

static bool is_srq_record(const void* record) {
  return type_of(record) == IBV_EVENT_SRQ_ERR || type_of(record) == IBV_EVENT_SRQ_LIMIT_REACHED;
}

static bool is_qp_record(const void* record) {
  return !is_cq_record(record) && !is_srq_record(record);
}

/* Waits until the application has acknowledged the events that it has read. */
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

void mprdma_drain_srq_events(struct mprdma_srq* srq) {
  struct ibv_srq* ibv = &srq->verbs.srq;
  uint32_t purged =
      mprdma_event_queue_purge(&srq->context->async, (uint64_t)(uintptr_t)ibv, is_srq_record);
  wait_acknowledged(&ibv->mutex, &ibv->cond, &ibv->events_completed,
                    srq->async_events_written - purged);
}
