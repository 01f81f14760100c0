/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory regions beyond ibv_reg_mr(): registered again, of a dma-buf, of device memory, without
 * memory, imported; and advice about on-demand ones. */
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "providers/mprdma/operations.h"

/* ---- ibv_rereg_mr(3) ---- */

static int check_rereg(const struct mprdma_mr* mr, const struct mprdma_abi_rereg_mr* in,
                       const struct ibv_pd* pd, int access) {
  const struct ibv_mr* ibv = &mr->verbs.ibv_mr;
  bool moves_pd = (in->what & MPRDMA_ABI_REREG_PD) != 0;
  bool moves = (in->what & MPRDMA_ABI_REREG_TRANSLATION) != 0;
  if (!mprdma_object_is_here(&mr->object) ||
      (moves_pd && (pd == NULL || pd->context != ibv->context))) {
    return EINVAL;
  }
  int error = mprdma_check_access(access);
  bool more = (access & IBV_ACCESS_LOCAL_WRITE & ~mr->verbs.access) != 0;
  if (error == 0 && (moves || more) && (access & IBV_ACCESS_ON_DEMAND) == 0) {
    void* addr = moves ? (void*)(uintptr_t)in->mr.addr : ibv->addr;
    size_t length = moves ? in->mr.length : ibv->length;
    error = mprdma_probe(addr, length, (access & IBV_ACCESS_LOCAL_WRITE) != 0);
  }
  return error;
}

struct renewed {
  const struct mprdma_object* object;
  const struct mprdma_abi_rereg_mr* in;
  const struct mprdma_abi_reg_mr_out* out;
  int access;
};

/* Requires the registry's lock, under which judge() reads these fields for another thread's
 * ibv_advise_mr. */
static bool renew(struct mprdma_object* object, void* opaque) {
  const struct renewed* renewed = opaque;
  if (object != renewed->object) {
    return false;
  }
  struct mprdma_mr* mr = MPRDMA_CONTAINER(object, struct mprdma_mr, object);
  mr->verbs.ibv_mr.lkey = renewed->out->lkey;
  mr->verbs.ibv_mr.rkey = renewed->out->rkey;
  mr->verbs.access = renewed->access;
  if ((renewed->in->what & MPRDMA_ABI_REREG_TRANSLATION) != 0) {
    mr->range = renewed->in->mr;
  }
  return true;
}

int mprdma_rereg_mr(struct verbs_mr* verbs, int flags, struct ibv_pd* pd, void* addr, size_t length,
                    int access) {
  struct mprdma_mr* mr = to_mprdma_mr(verbs);
  struct mprdma_abi_reg_mr_out out = {0};
  _Static_assert((int)IBV_REREG_MR_CHANGE_TRANSLATION == MPRDMA_ABI_REREG_TRANSLATION &&
                     (int)IBV_REREG_MR_CHANGE_PD == MPRDMA_ABI_REREG_PD &&
                     (int)IBV_REREG_MR_CHANGE_ACCESS == MPRDMA_ABI_REREG_ACCESS,
                 "what changes is the same bit on both sides");
  int effective = (flags & IBV_REREG_MR_CHANGE_ACCESS) != 0 ? access : verbs->access;
  struct mprdma_abi_rereg_mr in = {.handle = mr->object.handle, .what = (uint32_t)flags};
  in.mr.addr = in.mr.iova = (uint64_t)(uintptr_t)addr;
  in.mr.length = length;
  in.mr.access = mprdma_abi_access(effective) & ~MPRDMA_ABI_ACCESS_ZERO_BASED;
  in.mr.flags = (effective & IBV_ACCESS_ON_DEMAND) != 0 ? MPRDMA_ABI_MR_ON_DEMAND : 0;
  if ((effective & IBV_ACCESS_ZERO_BASED) != 0) {
    in.mr.iova = 0;
  }
  int error = check_rereg(mr, &in, pd, effective);
  if (error == 0 && (flags & IBV_REREG_MR_CHANGE_PD) != 0) {
    error = mprdma_pd_handle(to_mprdma_pd(pd), &in.mr.pd);
  }
  if (error == 0) {
    error =
        mprdma_execute(mr->object.context, MPRDMA_ABI_REREG_MR, &in, sizeof(in), &out, sizeof(out));
  }
  if (error != 0) {
    errno = error;
    return error;
  }
  struct renewed renewed = {&mr->object, &in, &out, effective};
  mprdma_object_find(MPRDMA_OBJECT_MR, renew, &renewed);
  if ((flags & IBV_REREG_MR_CHANGE_PD) != 0) { /* libibverbs sets the pointer when we return */
    mprdma_pd_count(to_mprdma_pd(pd), 1);
    mprdma_pd_count(to_mprdma_pd(verbs->ibv_mr.pd), (uint32_t)-1);
  }
  return 0;
}

/* ---- Of a dma-buf: whatever it is, it can be mapped, and then it is memory ---- */

/* Finds the size of the buffer: a dma-buf reports it by seeking, a file by its status. */
static int size_of(int fd, uint64_t* bytes) {
  struct stat status;
  if (fstat(fd, &status) != 0) {
    return EBADF;
  }
  off_t size = S_ISREG(status.st_mode) ? status.st_size : lseek(fd, 0, SEEK_END);
  *bytes = (uint64_t)size;
  return size < 0 ? EINVAL : 0;
}

static int map_buffer(struct mprdma_memory* memory, int fd, uint64_t offset, size_t length,
                      int access, char** at) {
  uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
  uint64_t begin = offset / page * page;
  uint64_t bytes = 0;
  int error = size_of(fd, &bytes);
  if (error == 0 && (offset > bytes || length > bytes - offset)) {
    error = EINVAL; /* touching what is beyond its end would kill the process */
  }
  if (error != 0 || length == 0) {
    return error;
  }
  bool write = (access & IBV_ACCESS_LOCAL_WRITE) != 0;
  size_t mapped = length + (size_t)(offset - begin);
  void* base = mmap(NULL, mapped, write ? PROT_READ | PROT_WRITE : PROT_READ,
                    MAP_SHARED | MAP_POPULATE, fd, (off_t)begin);
  if (base == MAP_FAILED) {
    return errno;
  }
  *memory = (struct mprdma_memory){.base = base, .bytes = mapped, .pid = getpid()};
  *at = (char*)base + (offset - begin);
  return 0;
}

struct ibv_mr* mprdma_reg_dmabuf_mr(struct ibv_pd* pd, uint64_t offset, size_t length,
                                    uint64_t iova, int fd, int access) {
  struct mprdma_memory mapping = {0};
  char* at = NULL;
  int error = mprdma_check_access(access);
  if (error == 0) {
    error = map_buffer(&mapping, fd, offset, length, access, &at);
  }
  if (error != 0) {
    errno = error;
    return NULL;
  }
  const struct mprdma_abi_reg_mr in = {
      .addr = (uint64_t)(uintptr_t)at, .length = length, .iova = iova};
  struct mprdma_mr* mr = mprdma_mr_new(to_mprdma_pd(pd), &in, MPRDMA_VERBS_MR_TYPE_DMABUF, access);
  if (mr == NULL) {
    error = errno;
    mprdma_memory_put(&mapping);
    errno = error;
    return NULL;
  }
  mr->mapping = mapping;
  return &mr->verbs.ibv_mr;
}

/* ---- Of device memory ---- */

struct ibv_mr* mprdma_reg_dm_mr(struct ibv_pd* pd, struct ibv_dm* ibv, uint64_t offset,
                                size_t length, unsigned int access) {
  struct mprdma_dm* dm = to_mprdma_dm(ibv);
  /* The address stays private: regions of device memory count from 0, as the kernel demands. */
  bool zero_based = (access & IBV_ACCESS_ZERO_BASED) != 0;
  int error =
      zero_based && mprdma_dm_has(dm, offset, length) ? mprdma_check_access((int)access) : EINVAL;
  if (error != 0) {
    errno = error;
    return NULL;
  }
  const struct mprdma_abi_reg_mr in = {.addr = (uint64_t)(uintptr_t)(dm->memory + offset),
                                       .length = length};
  struct mprdma_mr* mr =
      mprdma_mr_new(to_mprdma_pd(pd), &in, MPRDMA_VERBS_MR_TYPE_DMABUF, (int)access);
  if (mr == NULL) {
    return NULL;
  }
  mr->dm = mprdma_dm_mr_made(dm);
  return &mr->verbs.ibv_mr;
}

/* ---- Without memory ---- */

struct ibv_mr* mprdma_alloc_null_mr(struct ibv_pd* pd) {
  const struct mprdma_abi_reg_mr in = {.length = SIZE_MAX, .flags = MPRDMA_ABI_MR_NULL};
  struct mprdma_mr* mr =
      mprdma_mr_new(to_mprdma_pd(pd), &in, MPRDMA_VERBS_MR_TYPE_NULL, IBV_ACCESS_LOCAL_WRITE);
  return mr != NULL ? &mr->verbs.ibv_mr : NULL;
}

/* ---- Imported: a second name of a region of this process ---- */

struct wanted_mr {
  uint32_t number;
  struct ibv_mr copy;
};

static bool copy_by_number(struct mprdma_object* object, void* opaque) {
  struct wanted_mr* wanted = opaque;
  bool found = object->number == wanted->number && mprdma_object_is_here(object);
  if (found) {
    wanted->copy = MPRDMA_CONTAINER(object, struct mprdma_mr, object)->verbs.ibv_mr;
  }
  return found;
}

struct ibv_mr* mprdma_import_mr(struct ibv_pd* pd, uint32_t number) {
  struct wanted_mr wanted = {.number = number};
  struct mprdma_mr* mr = calloc(1, sizeof(*mr));
  if (mr == NULL || mprdma_object_find(MPRDMA_OBJECT_MR, copy_by_number, &wanted) == NULL) {
    errno = mr != NULL ? ENOENT : ENOMEM;
    free(mr);
    return NULL;
  }
  mr->verbs.mr_type = MPRDMA_VERBS_MR_TYPE_IMPORTED;
  mr->verbs.ibv_mr = wanted.copy;
  mr->verbs.ibv_mr.context = pd->context;
  mr->verbs.ibv_mr.pd = pd;
  mr->verbs.ibv_mr.addr = NULL; /* as the kernel does: the importer may be another process */
  mprdma_pd_count(to_mprdma_pd(pd), 1);
  return &mr->verbs.ibv_mr;
}

/* ---- ibv_advise_mr(3) ---- */

struct advised {
  const struct ibv_sge* sge;
  const struct ibv_pd* pd;
  bool write;
  int error;
  uint64_t address; /* in the process */
};

static bool judge(struct mprdma_object* object, void* opaque) {
  struct advised* advised = opaque;
  const struct mprdma_mr* mr = MPRDMA_CONTAINER(object, struct mprdma_mr, object);
  const struct ibv_mr* ibv = &mr->verbs.ibv_mr;
  const struct ibv_sge* sge = advised->sge;
  if (!mprdma_object_is_here(object) || ibv->lkey != sge->lkey) {
    return false;
  }
  uint64_t at = sge->addr - mr->range.iova;
  bool inside =
      sge->addr >= mr->range.iova && at <= mr->range.length && sge->length <= mr->range.length - at;
  if (ibv->pd != advised->pd ||
      (advised->write && (mr->verbs.access & IBV_ACCESS_LOCAL_WRITE) == 0)) {
    advised->error = EPERM;
  } else if ((mr->verbs.access & IBV_ACCESS_ON_DEMAND) == 0) {
    advised->error = EINVAL;
  } else {
    advised->error = inside ? 0 : EFAULT;
  }
  advised->address = mr->range.addr + at;
  return true;
}

/* Faults the pages in now, as the first access would. If asked not to fault, there is nothing to
 * do, because no translation is kept that could be renewed. */
static int prefetch(const struct ibv_sge* sge, const struct ibv_pd* pd,
                    enum ibv_advise_mr_advice advice) {
  bool write = advice == IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE;
  struct advised advised = {.sge = sge, .pd = pd, .write = write, .error = ENOENT};
  mprdma_object_find(MPRDMA_OBJECT_MR, judge, &advised);
  if (advised.error != 0 || sge->length == 0 || advice == IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT) {
    return advised.error;
  }
  return mprdma_probe((const void*)(uintptr_t)advised.address, sge->length, write);
}

int mprdma_advise_mr(struct ibv_pd* pd, enum ibv_advise_mr_advice advice, uint32_t flags,
                     struct ibv_sge* list, uint32_t count) {
  if (advice != IBV_ADVISE_MR_ADVICE_PREFETCH && advice != IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE &&
      advice != IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT) {
    return EOPNOTSUPP;
  }
  if ((flags & ~(uint32_t)IBV_ADVISE_MR_FLAG_FLUSH) != 0 || count == 0) {
    return EINVAL;
  }
  for (uint32_t i = 0; i < count; i++) {
    int error = prefetch(&list[i], pd, advice);
    if (error != 0) {
      return error;
    }
  }
  return 0;
}
