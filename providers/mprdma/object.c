/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The registry of everything that exists in this process. It gives each object the number that the
 * application sees as its handle (ibv_import_pd() and the like ask by it), knows what the engine
 * has to be told when the object goes, and lets a closed context take along what the application
 * left, as a kernel does: all contexts of a process share one connection to the engine, so nothing
 * else would.
 */
#include <unistd.h>

#include "providers/mprdma/operations.h"

static pthread_mutex_t objects_lock = PTHREAD_MUTEX_INITIALIZER;
static struct mprdma_object* objects[MPRDMA_OBJECT_KINDS];
static uint32_t next_number[MPRDMA_OBJECT_KINDS];
static uint32_t counts[MPRDMA_OBJECT_KINDS];

/* A fork must not find the lists half changed. */
static void before_fork(void) {
  pthread_mutex_lock(&objects_lock);
}
static void after_fork_in_parent(void) {
  pthread_mutex_unlock(&objects_lock);
}
static void after_fork_in_child(void) {
  pthread_mutex_init(&objects_lock, NULL);
}
__attribute__((constructor)) static void watch_forks(void) {
  pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
}

void mprdma_object_add_unknown(struct mprdma_object* object, enum mprdma_object_kind kind,
                               struct mprdma_context* context) {
  pthread_mutex_lock(&objects_lock);
  object->kind = kind;
  object->context = context;
  object->handle = 0;
  object->pid = 0;
  do { /* 0: no number; numbers repeat after 2^32 objects */
    object->number = ++next_number[kind];
  } while (object->number == 0);
  object->next = objects[kind];
  object->link = &objects[kind];
  if (object->next != NULL) {
    object->next->link = &object->next;
  }
  objects[kind] = object;
  counts[kind]++;
  pthread_mutex_unlock(&objects_lock);
}

uint32_t mprdma_object_count(enum mprdma_object_kind kind) {
  pthread_mutex_lock(&objects_lock);
  uint32_t count = counts[kind];
  pthread_mutex_unlock(&objects_lock);
  return count;
}

void mprdma_object_known(struct mprdma_object* object, uint32_t handle) {
  pthread_mutex_lock(&objects_lock);
  object->handle = handle;
  object->pid = getpid();
  pthread_mutex_unlock(&objects_lock);
}

void mprdma_object_add(struct mprdma_object* object, enum mprdma_object_kind kind,
                       struct mprdma_context* context, uint32_t handle) {
  mprdma_object_add_unknown(object, kind, context);
  mprdma_object_known(object, handle);
}

bool mprdma_object_is_here(const struct mprdma_object* object) {
  return object->pid == getpid();
}

static void remove_locked(struct mprdma_object* object) {
  *object->link = object->next;
  if (object->next != NULL) {
    object->next->link = object->link;
  }
  object->number = 0;
  object->pid = 0;
  counts[object->kind]--;
}

/* Returns the command that destroys an object; 0: the engine does not know this kind. */
static uint32_t destroy_command(enum mprdma_object_kind kind) {
  static const uint32_t kCommands[MPRDMA_OBJECT_KINDS] = {
      [MPRDMA_OBJECT_QP] = MPRDMA_ABI_DESTROY_QP,  [MPRDMA_OBJECT_SRQ] = MPRDMA_ABI_DESTROY_SRQ,
      [MPRDMA_OBJECT_CQ] = MPRDMA_ABI_DESTROY_CQ,  [MPRDMA_OBJECT_MW] = MPRDMA_ABI_DEALLOC_MW,
      [MPRDMA_OBJECT_MR] = MPRDMA_ABI_DEREG_MR,    [MPRDMA_OBJECT_AH] = MPRDMA_ABI_DESTROY_AH,
      [MPRDMA_OBJECT_XRCD] = MPRDMA_ABI_FREE_XRCD, [MPRDMA_OBJECT_PD] = MPRDMA_ABI_FREE_PD,
  };
  return kCommands[kind];
}

static int tell_engine(const struct mprdma_object* object, uint32_t flags) {
  const struct mprdma_abi_handle in = {.handle = object->handle, .reserved = flags};
  uint32_t command = destroy_command(object->kind);
  bool known =
      command != 0 && mprdma_object_is_here(object) && object->context->engine_pid == object->pid;
  return known ? mprdma_execute(object->context, command, &in, sizeof(in), NULL, 0) : 0;
}

int mprdma_object_destroy(struct mprdma_object* object) {
  int error = tell_engine(object, 0);
  if (error == 0 && object->number != 0) {
    pthread_mutex_lock(&objects_lock);
    remove_locked(object);
    pthread_mutex_unlock(&objects_lock);
  }
  return error;
}

struct mprdma_object* mprdma_object_find(enum mprdma_object_kind kind,
                                         bool (*accept)(struct mprdma_object*, void*),
                                         void* wanted) {
  pthread_mutex_lock(&objects_lock);
  struct mprdma_object* object = objects[kind];
  while (object != NULL && !accept(object, wanted)) {
    object = object->next;
  }
  pthread_mutex_unlock(&objects_lock);
  return object;
}

static struct mprdma_object* pop_leftover(enum mprdma_object_kind kind,
                                          const struct mprdma_context* context,
                                          struct mprdma_object* copy) {
  pthread_mutex_lock(&objects_lock);
  struct mprdma_object* object = objects[kind];
  while (object != NULL && object->context != context) {
    object = object->next;
  }
  if (object != NULL) {
    *copy = *object;
    remove_locked(object);
  }
  pthread_mutex_unlock(&objects_lock);
  return object;
}

void mprdma_object_destroy_leftovers(struct mprdma_context* context,
                                     void (*forget_groups)(struct mprdma_qp*, uint32_t)) {
  struct mprdma_object copy;
  for (int kind = 0; kind < MPRDMA_OBJECT_KINDS; kind++) {
    struct mprdma_object* object;
    while ((object = pop_leftover((enum mprdma_object_kind)kind, context, &copy)) != NULL) {
      /* Another context may have bound windows to the region, over an imported protection
       * domain. */
      int error = tell_engine(&copy, kind == MPRDMA_OBJECT_MR ? MPRDMA_ABI_DEREG_UNBINDS : 0);
      if (error == EBUSY && kind == MPRDMA_OBJECT_QP) { /* attached to groups */
        forget_groups(MPRDMA_CONTAINER(object, struct mprdma_qp, own_object), copy.handle);
        (void)tell_engine(&copy, 0);
      }
    }
  }
}
