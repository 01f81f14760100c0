/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Protection domains. The engine's domain is made when an object first needs it, so that a process
 * that only opens the device and then forks its workers starts no engine of its own.
 */
#include <stdlib.h>
#include <unistd.h>

#include "providers/mprdma/mprdma.h"

struct ibv_pd* mprdma_alloc_pd(struct ibv_context* context) {
  (void)context;
  struct mprdma_pd* pd = calloc(1, sizeof(*pd));
  if (pd == NULL) {
    errno = ENOMEM;
    return NULL;
  }
  pthread_mutex_init(&pd->lock, NULL);
  return &pd->ibv;
}

int mprdma_pd_handle(struct mprdma_pd* pd, uint32_t* handle) {
  struct mprdma_context* context = to_mprdma_context(pd->ibv.context);
  struct mprdma_abi_handle out = {0};
  int error = 0;
  pthread_mutex_lock(&pd->lock);
  if (pd->engine_pid != getpid()) {
    error = mprdma_execute(context, MPRDMA_ABI_ALLOC_PD, NULL, 0, &out, sizeof(out));
    if (error == 0) {
      pd->handle = out.handle;
      pd->ibv.handle = out.handle;
      pd->engine_pid = getpid();
    }
  }
  *handle = pd->handle;
  pthread_mutex_unlock(&pd->lock);
  return error;
}

int mprdma_dealloc_pd(struct ibv_pd* ibv) {
  struct mprdma_pd* pd = to_mprdma_pd(ibv);
  if (__atomic_load_n(&pd->users, __ATOMIC_ACQUIRE) != 0) {
    return EBUSY;
  }
  int error = mprdma_execute_handle(to_mprdma_context(ibv->context), pd->engine_pid,
                                    MPRDMA_ABI_FREE_PD, pd->handle);
  if (error != 0) {
    return error;
  }
  pthread_mutex_destroy(&pd->lock);
  free(pd);
  return 0;
}
