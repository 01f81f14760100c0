/* SPDX-License-Identifier: BSD-2-Clause */
/* The connection to the CM agent, which the provider gave us. */
#include <pthread.h>
#include <stdatomic.h>

#include "providers/mprdma/preload/ucma/ucma.h"

static _Atomic(const struct mprdma_cm_link*) cm_link;
static _Atomic(const struct ucma_agent_client*) client;

void mprdma_preload_set_cm_link(const struct mprdma_cm_link* link) {
  atomic_store(&cm_link, link);
}

void mprdma_ucma_agent_serve(const struct ucma_agent_client* the_client) {
  atomic_store(&client, the_client);
}

/* Converts errors of the connection to the agent to those of rdma_bind_addr() and others. */
static int as_seen(int error) {
  switch (error) {
    case EOPNOTSUPP: /* an engine without connection management */
      return ENODEV;
    case ENOTCONN: /* the agent is away */
      return ENETDOWN;
    case ENOENT: /* the agent has forgotten the id */
      return EIO;
    default:
      return error;
  }
}

static pthread_once_t at_exit_once = PTHREAD_ONCE_INIT;

static void register_at_exit(void) {
  atexit(atomic_load(&client)->at_exit);
}

static int execute(const struct mprdma_abi_cm_command* in, struct mprdma_abi_cm_result* out) {
  struct mprdma_abi_cm_result unused;
  const struct mprdma_cm_link* link = atomic_load(&cm_link);
  if (link == NULL) {
    return ENODEV; /* the provider is not loaded: the application has not asked for devices */
  }
  int error = link->open(atomic_load(&client)->on_event, NULL);
  if (error != 0) {
    return error == EINVAL ? ENODEV : error; /* the configuration is not valid */
  }
  pthread_once(&at_exit_once, register_at_exit);
  memset(&unused, 0, sizeof(unused));
  return link->execute(in, out != NULL ? out : &unused);
}

void mprdma_ucma_drop_agent(uint32_t agent) {
  const struct mprdma_abi_cm_command command = {.op = MPRDMA_ABI_CM_DESTROY, .id = agent};
  execute(&command, NULL);
}

/* Sends the options that were set before the agent knew the id. */
static int apply_options(struct ucma_id* id) {
  int error = 0;
  for (uint32_t option = 0; option < 4 && error == 0; option++) {
    if ((id->options_set & 1u << option) != 0) {
      error = mprdma_ucma_tell_option(id, option);
    }
  }
  return error;
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
  return apply_options(id);
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

int mprdma_ucma_tell_option(struct ucma_id* id, uint32_t option) {
  struct mprdma_abi_cm_command command = {
      .op = MPRDMA_ABI_CM_SET_OPTION, .option = option, .value = id->options[option]};
  return mprdma_ucma_execute(id, &command, NULL);
}
