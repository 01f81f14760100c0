/* SPDX-License-Identifier: BSD-2-Clause */
/* Ids: their numbers, owners and lifetimes. */
#include <sys/random.h>
#include <unistd.h>

#include "providers/mprdma/preload/ucma/ucma.h"

#define UCMA_QPT_RC 2u /* enum ibv_qp_type */
#define UCMA_QPT_UD 4u

static struct ucma_table ids;
static uint64_t last_cookie;

/* ---- Numbers */

static uint32_t random_psn(void) {
  uint32_t psn = 0;
  if (getrandom(&psn, sizeof(psn), GRND_NONBLOCK) != (ssize_t)sizeof(psn)) {
    psn = (uint32_t)getpid() * 2654435761u; /* early at boot any will do */
  }
  return psn & 0xffffffu;
}

static void join_file(struct ucma_id* id, struct ucma_file* file) {
  id->file = file;
  id->link = &file->ids;
  id->next = file->ids;
  if (id->next != NULL) {
    id->next->link = &id->next;
  }
  file->ids = id;
}

struct ucma_id* mprdma_ucma_id_new(struct ucma_file* file, uint16_t port_space, uint8_t qp_type) {
  struct ucma_id* id = calloc(1, sizeof(*id));
  if (id == NULL) {
    return NULL;
  }
  id->handle = mprdma_ucma_table_add(&ids, id);
  if (id->handle == 0) {
    free(id);
    return NULL;
  }
  id->cookie = (++last_cookie << 16) | id->handle;
  id->port_space = port_space;
  id->qp_type = qp_type;
  id->own.psn = random_psn();
  join_file(id, file);
  return id;
}

static void leave_file(struct ucma_id* id) {
  *id->link = id->next;
  if (id->next != NULL) {
    id->next->link = id->link;
  }
}

struct ucma_id* mprdma_ucma_id_of_cookie(uint64_t cookie) {
  struct ucma_id* id = mprdma_ucma_table_find(&ids, (uint32_t)(cookie & UCMA_HANDLE_MAX));
  return id != NULL && id->cookie == cookie ? id : NULL;
}

int mprdma_ucma_id_get(struct ucma_file* file, uint32_t handle, struct ucma_id** out) {
  int error = 0;
  mprdma_ucma_lock();
  struct ucma_id* id = mprdma_ucma_table_find(&ids, handle);
  while (id != NULL && id->file == file && id->busy) {
    mprdma_ucma_wait();
    id = mprdma_ucma_table_find(&ids, handle); /* the id may have been destroyed */
  }
  if (id == NULL) {
    error = ENOENT;
  } else if (id->file != file) {
    error = EINVAL;
  } else {
    id->busy = true;
    *out = id;
  }
  mprdma_ucma_unlock();
  return error;
}

void mprdma_ucma_id_put(struct ucma_id* id) {
  mprdma_ucma_lock();
  id->busy = false;
  mprdma_ucma_wake();
  mprdma_ucma_unlock();
}

void mprdma_ucma_ids_forget(void) {
  for (uint32_t i = 0; i < ids.room; i++) {
    free(ids.slots[i]);
    ids.slots[i] = NULL;
  }
}

/* ---- Life */

static void drop_events(struct ucma_event* event) {
  while (event != NULL) {
    struct ucma_event* next = event->next;
    if (event->event.type == MPRDMA_ABI_CM_EVENT_REQUEST) {
      mprdma_ucma_drop_agent(event->event.id); /* the peer is told that nobody listens */
    }
    free(event);
    event = next;
  }
}

uint32_t mprdma_ucma_id_destroy(struct ucma_id* id) {
  if (id->has_agent) {
    mprdma_ucma_drop_agent(id->agent); /* no event of it after this */
  }
  mprdma_ucma_lock();
  struct ucma_event* events = mprdma_ucma_take(id->file, id, NULL);
  uint32_t reported = id->events_reported;
  mprdma_ucma_groups_free(id);
  leave_file(id);
  mprdma_ucma_table_remove(&ids, id->handle);
  mprdma_ucma_wake();
  mprdma_ucma_unlock();
  drop_events(events);
  free(id);
  return reported;
}

/* Closes the ids of a process that ends, so that its peers are told. The engine is still there when
 * functions of atexit() are called; other threads may be, too, and may execute a command. */
void mprdma_ucma_hang_up(void) {
  for (uint32_t i = 0;; i++) {
    mprdma_ucma_lock();
    if (i >= ids.room) {
      mprdma_ucma_unlock();
      return;
    }
    struct ucma_id* id = ids.slots[i];
    struct ucma_event* waiting = id != NULL ? mprdma_ucma_take(id->file, id, NULL) : NULL;
    bool ends = id != NULL && id->has_agent && !id->busy;
    uint32_t agent = ends ? id->agent : 0;
    mprdma_ucma_unlock();
    if (ends) {
      mprdma_ucma_drop_agent(agent);
    }
    drop_events(waiting);
  }
}

static int qp_type_of(const struct rdma_ucm_create_id* in, uint8_t* out) {
  switch (in->ps) {
    case RDMA_PS_TCP:
      *out = UCMA_QPT_RC;
      return 0;
    case RDMA_PS_UDP:
    case RDMA_PS_IPOIB:
      *out = UCMA_QPT_UD;
      return 0;
    case RDMA_PS_IB:
      *out = in->qp_type;
      return 0;
    default:
      return EINVAL;
  }
}

int mprdma_ucma_create_id(struct ucma_call* call) {
  const struct rdma_ucm_create_id* in = &call->in.create_id;
  struct rdma_ucm_create_id_resp response;
  uint8_t qp_type = 0;
  int error = in->response == 0 ? EFAULT : qp_type_of(in, &qp_type);
  if (error != 0) {
    return error;
  }
  mprdma_ucma_lock();
  struct ucma_id* id = mprdma_ucma_id_new(call->file, in->ps, qp_type);
  if (id != NULL) {
    id->uid = in->uid;
    response.id = id->handle;
  }
  mprdma_ucma_unlock();
  return id == NULL ? ENOMEM : mprdma_ucma_respond(in->response, &response, sizeof(response));
}

int mprdma_ucma_destroy_id(struct ucma_call* call) {
  const struct rdma_ucm_destroy_id* in = &call->in.destroy_id;
  struct ucma_id* id;
  int error = in->response == 0 ? EFAULT : mprdma_ucma_id_get(call->file, in->id, &id);
  if (error != 0) {
    return error;
  }
  const struct rdma_ucm_destroy_id_resp response = {.events_reported = mprdma_ucma_id_destroy(id)};
  return mprdma_ucma_respond(in->response, &response, sizeof(response));
}

void mprdma_ucma_id_move(struct ucma_id* id, struct ucma_file* to) {
  leave_file(id);
  join_file(id, to);
}
