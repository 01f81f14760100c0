/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory windows of types 1 and 2B (IBTA 10.6.7): their life, and what a request to bind one says.
 */
#include <stdlib.h>

#include "providers/mprdma/operations.h"

static int alloc(struct mprdma_mw* mw, struct mprdma_pd* pd, enum ibv_mw_type type) {
  struct mprdma_context* context = to_mprdma_context(pd->ibv.context);
  _Static_assert(
      (int)IBV_MW_TYPE_1 == MPRDMA_ABI_MW_TYPE_1 && (int)IBV_MW_TYPE_2 == MPRDMA_ABI_MW_TYPE_2,
      "types of windows are the same numbers on both sides");
  struct mprdma_abi_alloc_mw in = {.type = (uint32_t)type};
  struct mprdma_abi_mw_out out = {0};
  int error = mprdma_engine_link_connect(context);
  if (error == 0) {
    error = mprdma_pd_handle(pd, &in.pd);
  }
  if (error == 0) {
    error = mprdma_execute(context, MPRDMA_ABI_ALLOC_MW, &in, sizeof(in), &out, sizeof(out));
  }
  if (error == 0) {
    mprdma_object_add(&mw->object, MPRDMA_OBJECT_MW, context, out.handle);
    mw->ibv = (struct ibv_mw){.context = pd->ibv.context,
                              .pd = &pd->ibv,
                              .rkey = out.rkey,
                              .handle = mw->object.number,
                              .type = type};
  }
  return error;
}

struct ibv_mw* mprdma_alloc_mw(struct ibv_pd* ibv, enum ibv_mw_type type) {
  struct mprdma_pd* pd = to_mprdma_pd(ibv);
  int error = type == IBV_MW_TYPE_1 || type == IBV_MW_TYPE_2 ? 0 : EINVAL;
  struct mprdma_mw* mw = error == 0 ? calloc(1, sizeof(*mw)) : NULL;
  if (error == 0) {
    error = mw != NULL ? alloc(mw, pd, type) : ENOMEM;
  }
  if (error != 0) {
    free(mw);
    errno = error;
    return NULL;
  }
  mprdma_pd_count(pd, 1);
  return &mw->ibv;
}

int mprdma_dealloc_mw(struct ibv_mw* ibv) {
  struct mprdma_mw* mw = to_mprdma_mw(ibv);
  int error = mprdma_object_destroy(&mw->object);
  if (error == 0) {
    mprdma_pd_count(to_mprdma_pd(ibv->pd), (uint32_t)-1);
    free(mw);
  }
  return error;
}

/* A window opens memory to peers, so flags of local access are ignored. */
static uint32_t window_access(unsigned int access) {
  return mprdma_abi_access((int)access) &
         (MPRDMA_ABI_ACCESS_REMOTE_WRITE | MPRDMA_ABI_ACCESS_REMOTE_READ |
          MPRDMA_ABI_ACCESS_REMOTE_ATOMIC | MPRDMA_ABI_ACCESS_ZERO_BASED);
}

/* The application chooses the low 8 bits of the new key; the upper 24 stay those of the window,
 * whatever was passed (IBTA 10.6.7.2.4). mw->rkey is the new key from the post on, as with adapters
 * (irdma). */
int mprdma_put_bind(struct mprdma_abi_send_wqe* wqe, struct ibv_mw* mw, uint32_t rkey,
                    const struct ibv_mw_bind_info* info) {
  if (mw == NULL || (info->mr == NULL && info->length != 0)) {
    return EINVAL;
  }
  /* IBTA 10.6.7.2.2: only a window of type 2 may be zero based. */
  bool zero_based = (info->mw_access_flags & IBV_ACCESS_ZERO_BASED) != 0;
  if (zero_based && mw->type == IBV_MW_TYPE_1) {
    return EINVAL;
  }
  rkey = (mw->rkey & ~0xffu) | (rkey & 0xffu);
  wqe->rkey = mw->rkey;
  wqe->imm_or_rkey = rkey;
  wqe->remote_addr = info->addr;
  wqe->compare_add = info->length;
  wqe->swap = info->mr != NULL ? info->mr->lkey : 0;
  wqe->remote_qkey = window_access(info->mw_access_flags);
  mw->rkey = rkey;
  return 0;
}
