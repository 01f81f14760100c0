/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Protection domains. The engine's domain is made when an object first needs it, so that a process
 * that only opens the device and then forks its workers starts no engine of its own. The number
 * that the application sees, and may import, is the registry's.
 */
#include <stdlib.h>
#include <unistd.h>

#include "providers/mprdma/operations.h"

/* One lock for all domains: a domain enters the engine once, and a fork has one lock to initialise
   again. */
static pthread_mutex_t pds_lock = PTHREAD_MUTEX_INITIALIZER;

/* A thread of the parent may have held the lock. */
static void after_fork_in_child(void) {
  pthread_mutex_init(&pds_lock, NULL);
}
__attribute__((constructor)) static void watch_forks(void) {
  pthread_atfork(NULL, NULL, after_fork_in_child);
}

/* Checks the limit here, because the engine may learn of the domain much later. */
static bool is_one_too_many(void) {
  struct mprdma_abi_device_info limits;
  return mprdma_engine_link_limits(&limits) == 0 &&
         mprdma_object_count(MPRDMA_OBJECT_PD) >= limits.max_pds;
}

struct ibv_pd* mprdma_alloc_pd(struct ibv_context* context) {
  struct mprdma_pd* pd = is_one_too_many() ? NULL : calloc(1, sizeof(*pd));
  if (pd == NULL) {
    errno = ENOMEM;
    return NULL;
  }
  pd->references = 1;
  pd->ibv.context = context;
  mprdma_object_add_unknown(&pd->object, MPRDMA_OBJECT_PD, to_mprdma_context(context));
  pd->ibv.handle = pd->object.number;
  return &pd->ibv;
}

int mprdma_pd_handle(struct mprdma_pd* pd, uint32_t* handle) {
  struct mprdma_abi_handle out = {0};
  int error = 0;
  while (pd->stands_for != NULL) {
    pd = pd->stands_for;
  }
  struct mprdma_context* context = pd->object.context;
  pthread_mutex_lock(&pds_lock);
  if (pd->gone || pd->object.number == 0) {
    error = EINVAL; /* or its context was closed while an import remains */
  } else if (!mprdma_object_is_here(&pd->object)) {
    error = mprdma_engine_link_connect(context); /* an import's may be connected already */
    if (error == 0) {
      error = mprdma_execute(context, MPRDMA_ABI_ALLOC_PD, NULL, 0, &out, sizeof(out));
    }
    if (error == 0) {
      mprdma_object_known(&pd->object, out.handle);
    }
  }
  *handle = pd->object.handle;
  pthread_mutex_unlock(&pds_lock);
  return error;
}

static void release(struct mprdma_pd* pd) {
  if (__atomic_sub_fetch(&pd->references, 1, __ATOMIC_ACQ_REL) == 0) {
    if (pd->imported) {
      release(pd->stands_for);
    }
    free(pd);
  }
}

void mprdma_pd_count(struct mprdma_pd* pd, uint32_t change) {
  mprdma_count(&pd->users, change);
  if (change == 1) {
    mprdma_count(&pd->references, 1);
  } else {
    release(pd);
  }
}

/* A parent domain holds its PD and thread domain; the PD stays the application's. Objects that were
 * made on an import may outlive it (pyverbs does that), and hold it. */
static void free_stand_in(struct mprdma_pd* pd) {
  if (!pd->imported) {
    mprdma_pd_count(pd->stands_for, (uint32_t)-1);
  }
  if (pd->td != NULL) {
    mprdma_count(&pd->td->users, (uint32_t)-1);
  }
  release(pd);
}

int mprdma_dealloc_pd(struct ibv_pd* ibv) {
  struct mprdma_pd* pd = to_mprdma_pd(ibv);
  if (mprdma_in_use(&pd->users)) {
    return EBUSY;
  }
  if (pd->stands_for != NULL) {
    free_stand_in(pd);
    return 0;
  }
  pthread_mutex_lock(&pds_lock);
  int error = mprdma_object_destroy(&pd->object);
  pd->gone = error == 0;
  pthread_mutex_unlock(&pds_lock);
  if (error == 0) {
    release(pd);
  }
  return error;
}

static bool take_reference_by_number(struct mprdma_object* object, void* number) {
  bool found = object->number == *(const uint32_t*)number;
  if (found) {
    struct mprdma_pd* pd = MPRDMA_CONTAINER(object, struct mprdma_pd, object);
    __atomic_fetch_add(&pd->references, 1, __ATOMIC_ACQ_REL);
  }
  return found;
}

struct ibv_pd* mprdma_import_pd(struct ibv_context* context, uint32_t number) {
  struct mprdma_pd* pd = calloc(1, sizeof(*pd));
  struct mprdma_object* object =
      pd != NULL ? mprdma_object_find(MPRDMA_OBJECT_PD, take_reference_by_number, &number) : NULL;
  if (object == NULL) {
    errno = pd != NULL ? ENOENT : ENOMEM;
    free(pd);
    return NULL;
  }
  pd->references = 1;
  pd->stands_for = MPRDMA_CONTAINER(object, struct mprdma_pd, object);
  pd->imported = true;
  pd->ibv.context = context;
  pd->ibv.handle = number;
  return &pd->ibv;
}

void mprdma_unimport_pd(struct ibv_pd* ibv) {
  free_stand_in(to_mprdma_pd(ibv));
}
