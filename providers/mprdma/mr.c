/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory regions. Registration proves that the range is there and may be used as asked. */
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "providers/mprdma/operations.h"

#ifndef MADV_POPULATE_READ /* since Linux 5.14 */
#define MADV_POPULATE_READ 22
#define MADV_POPULATE_WRITE 23
#endif

/* The engine does not need IBV_ACCESS_HUGETLB, because it uses addresses. */
static const int kAbiFlags = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                             IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC |
                             IBV_ACCESS_MW_BIND | IBV_ACCESS_ZERO_BASED |
                             IBV_ACCESS_RELAXED_ORDERING;
static const int kOurFlags = IBV_ACCESS_ON_DEMAND | IBV_ACCESS_HUGETLB;

/* Checks that lines of /proc/self/maps, one after the other, cover [at, end) with the
 * permissions. */
static int probe_maps(uintptr_t at, uintptr_t end, bool write) {
  FILE* maps = fopen("/proc/self/maps", "re");
  char line[4352];
  if (maps == NULL) {
    return errno;
  }
  while (at < end && fgets(line, sizeof(line), maps) != NULL) {
    unsigned long low = 0;
    unsigned long high = 0;
    char permissions[8] = "";
    if (sscanf(line, "%lx-%lx %7s", &low, &high, permissions) != 3 || high <= at) {
      continue;
    }
    if (low > at || permissions[0] != 'r' || (write && permissions[1] != 'w')) {
      break;
    }
    at = high;
  }
  fclose(maps);
  return at >= end ? 0 : EFAULT;
}

/*
 * Faults the range in, as pinning would: the first access then costs the data path nothing. Where
 * that cannot be done (an old kernel, a device's mapping), the map of the process decides.
 */
int mprdma_probe(const void* addr, size_t length, bool write) {
  uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
  uintptr_t begin = (uintptr_t)addr / page * page;
  uintptr_t end = (uintptr_t)addr + length;
  if (end < (uintptr_t)addr || end > UINTPTR_MAX - page) {
    return EFAULT;
  }
  end = (end + page - 1) / page * page;
  if (madvise((void*)begin, end - begin, write ? MADV_POPULATE_WRITE : MADV_POPULATE_READ) == 0) {
    return 0;
  }
  if (errno == EINVAL || errno == ENOSYS) {
    return probe_maps(begin, end, write);
  }
  return errno == EHWPOISON || errno == ENOMEM ? EFAULT : errno;
}

int mprdma_check_access(int access) {
  if ((access & ~(kAbiFlags | kOurFlags | IBV_ACCESS_OPTIONAL_RANGE)) != 0) {
    return EOPNOTSUPP;
  }
  bool remote_changes = (access & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)) != 0;
  /* IBTA 11.2.8.1: what a peer may change, we must be able to change. */
  return remote_changes && (access & IBV_ACCESS_LOCAL_WRITE) == 0 ? EINVAL : 0;
}

uint32_t mprdma_abi_access(int access) {
  _Static_assert(IBV_ACCESS_LOCAL_WRITE == MPRDMA_ABI_ACCESS_LOCAL_WRITE &&
                     IBV_ACCESS_REMOTE_WRITE == MPRDMA_ABI_ACCESS_REMOTE_WRITE &&
                     IBV_ACCESS_REMOTE_READ == MPRDMA_ABI_ACCESS_REMOTE_READ &&
                     IBV_ACCESS_REMOTE_ATOMIC == MPRDMA_ABI_ACCESS_REMOTE_ATOMIC &&
                     IBV_ACCESS_MW_BIND == MPRDMA_ABI_ACCESS_MW_BIND &&
                     IBV_ACCESS_ZERO_BASED == MPRDMA_ABI_ACCESS_ZERO_BASED &&
                     IBV_ACCESS_RELAXED_ORDERING == MPRDMA_ABI_ACCESS_RELAXED_ORDERING,
                 "access flags are the same bits on both sides");
  return (uint32_t)(access & kAbiFlags);
}

/* Checks flags before the command: an engine that does not know one would refuse it with another
 * error. */
static int check_features(const struct mprdma_context* context,
                          const struct mprdma_abi_reg_mr* in) {
  bool binds = (in->access & MPRDMA_ABI_ACCESS_MW_BIND) != 0;
  bool on_demand = (in->flags & MPRDMA_ABI_MR_ON_DEMAND) != 0;
  bool known = !binds || mprdma_has_feature(context, MPRDMA_ABI_FEATURE_MEMORY_WINDOW);
  known = known && (!on_demand || mprdma_has_feature(context, MPRDMA_ABI_FEATURE_ON_DEMAND));
  return known ? 0 : EOPNOTSUPP;
}

static int register_range(struct mprdma_mr* mr, struct mprdma_pd* pd,
                          struct mprdma_abi_reg_mr* in) {
  struct mprdma_context* context = to_mprdma_context(pd->ibv.context);
  struct mprdma_abi_reg_mr_out out = {0};
  int error = mprdma_engine_link_connect(context);
  if (error == 0) {
    error = check_features(context, in);
  }
  if (error == 0) {
    error = mprdma_pd_handle(pd, &in->pd);
  }
  if (error == 0) {
    error = mprdma_execute(context, MPRDMA_ABI_REG_MR, in, sizeof(*in), &out, sizeof(out));
  }
  if (error == 0) {
    mprdma_object_add(&mr->object, MPRDMA_OBJECT_MR, context, out.handle);
    mr->verbs.ibv_mr.handle = mr->object.number;
    mr->verbs.ibv_mr.lkey = out.lkey;
    mr->verbs.ibv_mr.rkey = out.rkey;
  }
  return error;
}

struct mprdma_mr* mprdma_mr_new(struct mprdma_pd* pd, const struct mprdma_abi_reg_mr* range,
                                enum ibv_mr_type type, int access) {
  struct mprdma_abi_reg_mr in = *range;
  struct mprdma_mr* mr = calloc(1, sizeof(*mr));
  /* ZERO_BASED is a flag of windows; a region expresses it by its iova. */
  in.access = mprdma_abi_access(access) & ~MPRDMA_ABI_ACCESS_ZERO_BASED;
  int error = mr != NULL ? register_range(mr, pd, &in) : ENOMEM;
  if (error != 0) {
    free(mr);
    errno = error;
    return NULL;
  }
  mr->range = in;
  mr->verbs.mr_type = type;
  mr->verbs.access = access;
  mr->verbs.ibv_mr.context = pd->ibv.context;
  mr->verbs.ibv_mr.pd = &pd->ibv;
  mr->verbs.ibv_mr.length = in.length;
  mprdma_pd_count(pd, 1);
  return mr;
}

/* Software pins no memory: it is present when the engine touches it, or not at all. An on-demand
 * region therefore costs nothing and promises nothing, also one of all memory (address 0, length
 * SIZE_MAX). */
struct ibv_mr* mprdma_reg_mr(struct ibv_pd* ibv, void* addr, size_t length, uint64_t iova,
                             int access) {
  bool on_demand = (access & IBV_ACCESS_ON_DEMAND) != 0;
  struct mprdma_abi_reg_mr in = {.addr = (uint64_t)(uintptr_t)addr,
                                 .length = length,
                                 .iova = (access & IBV_ACCESS_ZERO_BASED) != 0 ? 0 : iova,
                                 .flags = on_demand ? MPRDMA_ABI_MR_ON_DEMAND : 0};
  int error = mprdma_check_access(access);
  if (error == 0 && length > 0 && !on_demand) {
    error = mprdma_probe(addr, length, (access & IBV_ACCESS_LOCAL_WRITE) != 0);
  }
  if (error != 0) {
    errno = error;
    return NULL;
  }
  struct mprdma_mr* mr = mprdma_mr_new(to_mprdma_pd(ibv), &in, MPRDMA_VERBS_MR_TYPE_MR, access);
  return mr != NULL ? &mr->verbs.ibv_mr : NULL;
}

void mprdma_unimport_mr(struct ibv_mr* ibv) {
  mprdma_pd_count(to_mprdma_pd(ibv->pd), (uint32_t)-1);
  free(MPRDMA_CONTAINER(ibv, struct mprdma_mr, verbs.ibv_mr));
}

int mprdma_dereg_mr(struct verbs_mr* verbs) {
  struct mprdma_mr* mr = to_mprdma_mr(verbs);
  if (verbs->mr_type == MPRDMA_VERBS_MR_TYPE_IMPORTED) {
    mprdma_unimport_mr(&verbs->ibv_mr);
    return 0;
  }
  int error = mprdma_object_destroy(&mr->object);
  if (error != 0) {
    return error;
  }
  mprdma_pd_count(to_mprdma_pd(verbs->ibv_mr.pd), (uint32_t)-1);
  if (mr->dm != NULL) {
    mprdma_dm_mr_gone(mr->dm);
  }
  mprdma_memory_put(&mr->mapping);
  free(mr);
  return 0;
}
