/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The preload's way to the CM agent: a connection to the process's engine of its own, which needs
 * no verbs context. It stays until the process ends, because the agent still answers peers of ended
 * connections for a while. A child of a fork gets a connection of its own.
 */
#include <pthread.h>
#include <unistd.h>

#include "abi/mprdma_abi_cm.h"
#include "providers/mprdma/operations.h"
#include "providers/mprdma/preload_link.h"

static pthread_mutex_t cm_lock = PTHREAD_MUTEX_INITIALIZER;
static struct mprdma_abi_channel cm_channel; /* valid while cm_pid is this process */
static pid_t cm_pid;

/* A thread of the parent may have held the lock. */
static void after_fork_in_child(void) {
  pthread_mutex_init(&cm_lock, NULL);
}

/* Ignores events of the port, which are for verbs contexts. */
static void ignore_event(void* context, const struct mprdma_abi_event* event) {
  (void)context;
  (void)event;
}

static int connect_cm(const struct mprdma_abi_cm_open* open) {
  const struct mprdma_abi_client client = {.abi_major = MPRDMA_ABI_MAJOR,
                                           .abi_minor = MPRDMA_ABI_MINOR,
                                           .context = NULL,
                                           .on_event = ignore_event};
  struct mprdma_abi_channel channel;
  int error = mprdma_engine_link_open(&client, &channel);
  if (error != 0) {
    return error;
  }
  error = (channel.features & MPRDMA_ABI_FEATURE_CM) == 0
              ? EOPNOTSUPP
              : channel.execute(channel.engine, MPRDMA_ABI_CM_OPEN, open, sizeof(*open), NULL, 0);
  if (error != 0) {
    mprdma_engine_link_close(&channel);
    return error;
  }
  cm_channel = channel;
  return 0;
}

static int open_cm(void (*on_event)(void* context, const struct mprdma_abi_cm_event* event),
                   void* context) {
  const struct mprdma_abi_cm_open open = {.context = context, .on_event = on_event};
  if (__atomic_load_n(&cm_pid, __ATOMIC_ACQUIRE) == getpid()) {
    return 0;
  }
  pthread_mutex_lock(&cm_lock);
  int error = cm_pid == getpid() ? 0 : connect_cm(&open);
  if (error == 0) {
    __atomic_store_n(&cm_pid, getpid(), __ATOMIC_RELEASE);
  }
  pthread_mutex_unlock(&cm_lock);
  return error;
}

static int execute_cm(const struct mprdma_abi_cm_command* in, struct mprdma_abi_cm_result* out) {
  return cm_channel.execute(cm_channel.engine, MPRDMA_ABI_CM, in, sizeof(*in), out, sizeof(*out));
}

static const struct mprdma_cm_link kLink = {.open = open_cm, .execute = execute_cm};

__attribute__((constructor)) static void register_link(void) {
  pthread_atfork(NULL, NULL, after_fork_in_child);
  if (mprdma_preload_link_version == NULL || mprdma_preload_set_cm_link == NULL) {
    return; /* without the preload nobody serves /dev/infiniband/rdma_cm */
  }
  if (mprdma_preload_link_version() == MPRDMA_PRELOAD_LINK_VERSION) {
    mprdma_preload_set_cm_link(&kLink);
  }
}
