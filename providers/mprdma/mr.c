/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory regions. Registration proves that the range is there and may be used as asked. */
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "providers/mprdma/mprdma.h"

#ifndef MADV_POPULATE_READ /* since Linux 5.14 */
#define MADV_POPULATE_READ 22
#define MADV_POPULATE_WRITE 23
#endif

static const int kRequiredFlags = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                                  IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;

/* Does one line of /proc/self/maps after the other cover [at, end) with the permissions? */
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
static int probe(const void* addr, size_t length, bool write) {
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

static int check_access(int access) {
  if ((access & ~(kRequiredFlags | IBV_ACCESS_OPTIONAL_RANGE)) != 0) {
    return EOPNOTSUPP;
  }
  bool remote_changes = (access & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)) != 0;
  /* IBTA 11.2.8.1: what a peer may change, we must be able to change. */
  return remote_changes && (access & IBV_ACCESS_LOCAL_WRITE) == 0 ? EINVAL : 0;
}

static int register_range(struct mprdma_mr* mr, struct mprdma_pd* pd, void* addr, size_t length,
                          uint64_t iova, int access) {
  struct mprdma_context* context = to_mprdma_context(pd->ibv.context);
  struct mprdma_abi_reg_mr in = {.addr = (uint64_t)(uintptr_t)addr, .length = length, .iova = iova};
  struct mprdma_abi_reg_mr_out out = {0};
  int error = mprdma_engine_link_connect(context);
  if (error == 0) {
    error = mprdma_pd_handle(pd, &in.pd);
  }
  if (error != 0) {
    return error;
  }
  _Static_assert(IBV_ACCESS_LOCAL_WRITE == MPRDMA_ABI_ACCESS_LOCAL_WRITE &&
                     IBV_ACCESS_REMOTE_WRITE == MPRDMA_ABI_ACCESS_REMOTE_WRITE &&
                     IBV_ACCESS_REMOTE_READ == MPRDMA_ABI_ACCESS_REMOTE_READ &&
                     IBV_ACCESS_REMOTE_ATOMIC == MPRDMA_ABI_ACCESS_REMOTE_ATOMIC &&
                     IBV_ACCESS_RELAXED_ORDERING == MPRDMA_ABI_ACCESS_RELAXED_ORDERING,
                 "access flags are the same bits on both sides");
  in.access = (uint32_t)(access & (kRequiredFlags | IBV_ACCESS_RELAXED_ORDERING));
  error = mprdma_execute(context, MPRDMA_ABI_REG_MR, &in, sizeof(in), &out, sizeof(out));
  if (error != 0) {
    return error;
  }
  mr->handle = out.handle;
  mr->engine_pid = getpid();
  mr->verbs.ibv_mr.handle = out.handle;
  mr->verbs.ibv_mr.lkey = out.lkey;
  mr->verbs.ibv_mr.rkey = out.rkey;
  mr->verbs.mr_type = MPRDMA_VERBS_MR_TYPE_MR;
  mr->verbs.access = access;
  return 0;
}

struct ibv_mr* mprdma_reg_mr(struct ibv_pd* ibv, void* addr, size_t length, uint64_t iova,
                             int access) {
  struct mprdma_pd* pd = to_mprdma_pd(ibv);
  int error = check_access(access);
  if (error == 0 && length > 0) {
    error = probe(addr, length, (access & IBV_ACCESS_LOCAL_WRITE) != 0);
  }
  struct mprdma_mr* mr = error == 0 ? calloc(1, sizeof(*mr)) : NULL;
  if (error == 0) {
    error = mr != NULL ? register_range(mr, pd, addr, length, iova, access) : ENOMEM;
  }
  if (error != 0) {
    free(mr);
    errno = error;
    return NULL;
  }
  __atomic_fetch_add(&pd->users, 1, __ATOMIC_ACQ_REL);
  return &mr->verbs.ibv_mr;
}

int mprdma_dereg_mr(struct verbs_mr* verbs) {
  struct mprdma_mr* mr = to_mprdma_mr(verbs);
  struct mprdma_pd* pd = to_mprdma_pd(verbs->ibv_mr.pd);
  int error = mprdma_execute_handle(to_mprdma_context(verbs->ibv_mr.context), mr->engine_pid,
                                    MPRDMA_ABI_DEREG_MR, mr->handle);
  if (error != 0) {
    return error;
  }
  __atomic_fetch_sub(&pd->users, 1, __ATOMIC_ACQ_REL);
  free(mr);
  return 0;
}
