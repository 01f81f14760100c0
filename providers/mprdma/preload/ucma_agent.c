/* SPDX-License-Identifier: BSD-2-Clause */
/* The way to the CM agent, which the provider gave us. */
#include <pthread.h>
#include <stdatomic.h>

#include "providers/mprdma/preload/ucma.h"

static _Atomic(const struct mprdma_cm_link*) cm_link;

void mprdma_preload_set_cm_link(const struct mprdma_cm_link* link) {
  atomic_store(&cm_link, link);
}

/* Errors that say something of the way to the agent, in the words of rdma_bind_addr() and others.
 */
static int as_seen(int error) {
  switch (error) {
    case EOPNOTSUPP: /* an engine without connection management */
      return ENODEV;
    case ENOTCONN: /* the agent is away */
      return ENETDOWN;
    case ENOENT: /* it has forgotten the id */
      return EIO;
    default:
      return error;
  }
}

static pthread_once_t at_exit_once = PTHREAD_ONCE_INIT;

static void register_at_exit(void) {
  atexit(mprdma_ucma_hang_up);
}

static int execute(const struct mprdma_abi_cm_command* in, struct mprdma_abi_cm_result* out) {
  struct mprdma_abi_cm_result unused;
  const struct mprdma_cm_link* link = atomic_load(&cm_link);
  if (link == NULL) {
    return ENODEV; /* the provider is not loaded: the application has not asked for devices */
  }
  int error = link->open(mprdma_ucma_on_event, NULL);
  if (error != 0) {
    return error == EINVAL ? ENODEV : error; /* what is not valid is the configuration */
  }
  pthread_once(&at_exit_once, register_at_exit);
  memset(&unused, 0, sizeof(unused));
  return link->execute(in, out != NULL ? out : &unused);
}

void mprdma_ucma_drop_agent(uint32_t agent) {
  const struct mprdma_abi_cm_command command = {.op = MPRDMA_ABI_CM_DESTROY, .id = agent};
  execute(&command, NULL);
}

static int need_agent(struct ucma_id* id) {
  const struct mprdma_abi_cm_command command = {
      .op = MPRDMA_ABI_CM_CREATE, .port_space = id->port_space, .cookie = id->cookie};
  struct mprdma_abi_cm_result result;
  if (id->has_agent) {
    return 0;
  }
  memset(&result, 0, sizeof(result));
  int error = execute(&command, &result);
  if (error != 0) {
    return error;
  }
  mprdma_ucma_lock();
  id->agent = result.id;
  id->has_agent = true;
  mprdma_ucma_unlock();
  return mprdma_ucma_apply_options(id);
}

int mprdma_ucma_execute(struct ucma_id* id, struct mprdma_abi_cm_command* in,
                        struct mprdma_abi_cm_result* out) {
  int error = need_agent(id);
  if (error == 0) {
    in->id = id->agent;
    in->cookie = id->cookie;
    in->port_space = id->port_space;
    error = execute(in, out);
  }
  return as_seen(error);
}
