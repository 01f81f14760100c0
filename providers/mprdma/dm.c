/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Device memory. Our device's memory is the process's: a mapping of its own, which the application
 * reaches by copying and by regions that count from 0. A device has only so much of it, so a
 * process has too.
 */
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "providers/mprdma/operations.h"

#define COPY_UNIT 4u /* offset and length of a copy, as adapters have it */

static uint64_t bytes_in_use;

static bool reserve(size_t length) {
  uint64_t now = __atomic_load_n(&bytes_in_use, __ATOMIC_RELAXED);
  do {
    if (length > MPRDMA_DM_BYTES_MAX - now) {
      return false;
    }
  } while (!__atomic_compare_exchange_n(&bytes_in_use, &now, now + length, false, __ATOMIC_ACQ_REL,
                                        __ATOMIC_RELAXED));
  return true;
}

bool mprdma_dm_has(const struct mprdma_dm* dm, uint64_t offset, size_t length) {
  return offset <= dm->length && length <= dm->length - offset;
}

static bool good_copy(const struct mprdma_dm* dm, uint64_t offset, size_t length) {
  return mprdma_dm_has(dm, offset, length) && offset % COPY_UNIT == 0 && length % COPY_UNIT == 0;
}

static int copy_to(struct ibv_dm* ibv, uint64_t offset, const void* from, size_t length) {
  const struct mprdma_dm* dm = to_mprdma_dm(ibv);
  if (!good_copy(dm, offset, length)) {
    return EINVAL;
  }
  memcpy(dm->memory + offset, from, length);
  return 0;
}

static int copy_from(void* to, struct ibv_dm* ibv, uint64_t offset, size_t length) {
  const struct mprdma_dm* dm = to_mprdma_dm(ibv);
  if (!good_copy(dm, offset, length)) {
    return EINVAL;
  }
  memcpy(to, dm->memory + offset, length);
  return 0;
}

static int map(struct mprdma_dm* dm, const struct ibv_alloc_dm_attr* attr) {
  size_t page = (size_t)sysconf(_SC_PAGESIZE);
  if (attr->comp_mask != 0 || attr->length == 0 || attr->log_align_req > 12) {
    return EINVAL; /* a mapping is aligned to a page */
  }
  if (!reserve(attr->length)) {
    return ENOMEM;
  }
  size_t bytes = (attr->length + page - 1) / page * page;
  void* memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    __atomic_fetch_sub(&bytes_in_use, attr->length, __ATOMIC_ACQ_REL);
    return ENOMEM;
  }
  dm->memory = memory;
  dm->length = attr->length;
  dm->mapped = bytes;
  return 0;
}

static struct mprdma_dm* make(struct ibv_context* context) {
  struct mprdma_dm* dm = calloc(1, sizeof(*dm));
  if (dm != NULL) {
    dm->references = 1;
    dm->ibv.context = context;
    dm->ibv.memcpy_to_dm = copy_to;
    dm->ibv.memcpy_from_dm = copy_from;
  }
  return dm;
}

struct ibv_dm* mprdma_alloc_dm(struct ibv_context* context, struct ibv_alloc_dm_attr* attr) {
  struct mprdma_dm* dm = make(context);
  int error = dm != NULL ? map(dm, attr) : ENOMEM;
  if (error != 0) {
    free(dm);
    errno = error;
    return NULL;
  }
  mprdma_object_add_unknown(&dm->object, MPRDMA_OBJECT_DM, to_mprdma_context(context));
  dm->ibv.handle = dm->object.number;
  return &dm->ibv;
}

static void release(struct mprdma_dm* dm) {
  if (__atomic_sub_fetch(&dm->references, 1, __ATOMIC_ACQ_REL) == 0) {
    munmap(dm->memory, dm->mapped);
    __atomic_fetch_sub(&bytes_in_use, dm->length, __ATOMIC_ACQ_REL);
    free(dm);
  }
}

int mprdma_free_dm(struct ibv_dm* ibv) {
  struct mprdma_dm* dm = to_mprdma_dm(ibv);
  if (mprdma_in_use(&dm->users)) {
    return EBUSY;
  }
  if (dm->imported_from != NULL) {
    mprdma_unimport_dm(ibv);
    return 0;
  }
  (void)mprdma_object_destroy(&dm->object);
  release(dm);
  return 0;
}

struct mprdma_dm* mprdma_dm_mr_made(struct mprdma_dm* dm) {
  struct mprdma_dm* memory = dm->imported_from != NULL ? dm->imported_from : dm;
  mprdma_count(&memory->users, 1);
  mprdma_count(&memory->references, 1);
  return memory;
}

void mprdma_dm_mr_gone(struct mprdma_dm* dm) {
  mprdma_count(&dm->users, (uint32_t)-1);
  release(dm);
}

static bool take_reference_by_number(struct mprdma_object* object, void* number) {
  bool found = object->number == *(const uint32_t*)number;
  if (found) {
    struct mprdma_dm* dm = MPRDMA_CONTAINER(object, struct mprdma_dm, object);
    __atomic_fetch_add(&dm->references, 1, __ATOMIC_ACQ_REL);
  }
  return found;
}

struct ibv_dm* mprdma_import_dm(struct ibv_context* context, uint32_t number) {
  struct mprdma_dm* dm = make(context);
  struct mprdma_object* object =
      dm != NULL ? mprdma_object_find(MPRDMA_OBJECT_DM, take_reference_by_number, &number) : NULL;
  if (object == NULL) {
    errno = dm != NULL ? ENOENT : ENOMEM;
    free(dm);
    return NULL;
  }
  dm->imported_from = MPRDMA_CONTAINER(object, struct mprdma_dm, object);
  dm->memory = dm->imported_from->memory;
  dm->length = dm->imported_from->length;
  dm->ibv.handle = number;
  return &dm->ibv;
}

void mprdma_unimport_dm(struct ibv_dm* ibv) {
  struct mprdma_dm* dm = to_mprdma_dm(ibv);
  release(dm->imported_from);
  free(dm);
}
