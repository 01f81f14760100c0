/* SPDX-License-Identifier: BSD-2-Clause */
/* rdma_migrate_id(): the id and its queued events move to the file of the call. */
#include "providers/mprdma/preload/ucma/ucma.h"

static uint32_t migrate(struct ucma_id* id, struct ucma_file* to) {
  mprdma_ucma_lock();
  if (id->file != to) {
    struct ucma_event* event = mprdma_ucma_take(id->file, id, NULL);
    mprdma_ucma_id_move(id, to);
    while (event != NULL) {
      struct ucma_event* next = event->next;
      mprdma_ucma_push(to, event);
      event = next;
    }
  }
  uint32_t reported = id->events_reported;
  mprdma_ucma_unlock();
  return reported;
}

int mprdma_ucma_migrate_id(struct ucma_call* call) {
  const struct rdma_ucm_migrate_id* in = &call->in.migrate_id;
  struct rdma_ucm_migrate_resp response;
  struct ucma_id* id;
  if (in->response == 0) {
    return EFAULT;
  }
  struct ucma_file* from = mprdma_ucma_file_get((int)in->fd, NULL);
  if (from == NULL) {
    return ENOENT;
  }
  int error = mprdma_ucma_id_get(from, in->id, &id);
  if (error == 0) {
    response.events_reported = migrate(id, call->file);
    mprdma_ucma_id_put(id);
    error = mprdma_ucma_respond(in->response, &response, sizeof(response));
  }
  mprdma_ucma_file_put(from);
  return error;
}
