/* SPDX-License-Identifier: BSD-2-Clause */
/* Commands for memory regions and windows. Included through mprdma_abi.h, whose rules hold here. */
#pragma once

#include "abi/mprdma_abi_base.h"

#ifdef __cplusplus
extern "C" {
#endif

#define MPRDMA_ABI_ACCESS_LOCAL_WRITE (1u << 0)
#define MPRDMA_ABI_ACCESS_REMOTE_WRITE (1u << 1)
#define MPRDMA_ABI_ACCESS_REMOTE_READ (1u << 2)
#define MPRDMA_ABI_ACCESS_REMOTE_ATOMIC (1u << 3)
#define MPRDMA_ABI_ACCESS_MW_BIND (1u << 4)
#define MPRDMA_ABI_ACCESS_ZERO_BASED (1u << 5) /* of a window: addresses count from its start */
#define MPRDMA_ABI_ACCESS_RELAXED_ORDERING (1u << 20)

#define MPRDMA_ABI_MR_NULL (1u << 0) /* no memory: reads zeros, drops writes; any address */
/* The range may be mapped later, or never: it is not looked at before it is used. Address 0 with
 * length UINT64_MAX: all memory of the process. */
#define MPRDMA_ABI_MR_ON_DEMAND (1u << 1)

struct mprdma_abi_reg_mr { /* REG_MR, input */
  uint64_t addr;           /* address in the process */
  uint64_t length;
  uint64_t iova; /* address by which remote and local work requests name it */
  uint32_t pd;
  uint32_t access; /* MPRDMA_ABI_ACCESS_* */
  uint32_t flags;  /* MPRDMA_ABI_MR_* */
  uint32_t reserved;
};
MPRDMA_ABI_ASSERT(sizeof(struct mprdma_abi_reg_mr) == 40);
struct mprdma_abi_reg_mr_out {
  uint32_t handle;
  uint32_t lkey;
  uint32_t rkey;
  uint32_t reserved;
};
MPRDMA_ABI_ASSERT(sizeof(struct mprdma_abi_reg_mr_out) == 16);

/* DEREG_MR, `reserved` of its mprdma_abi_handle. Without: EBUSY while windows are bound to the
 * region. With: they are unbound, because the application has closed the context that the region
 * belongs to. An engine that does not know it says EBUSY. */
#define MPRDMA_ABI_DEREG_UNBINDS (1u << 0)

/* REREG_MR, input; output: mprdma_abi_reg_mr_out with the keys that it had, so that those who know
 * them go on. EBUSY: windows are bound to it. After any error the region stays as it was. */
#define MPRDMA_ABI_REREG_TRANSLATION (1u << 0) /* addr, length, iova */
#define MPRDMA_ABI_REREG_PD (1u << 1)
#define MPRDMA_ABI_REREG_ACCESS (1u << 2)
struct mprdma_abi_rereg_mr {
  uint32_t handle;
  uint32_t what; /* MPRDMA_ABI_REREG_* */
  struct mprdma_abi_reg_mr mr;
};
MPRDMA_ABI_ASSERT(sizeof(struct mprdma_abi_rereg_mr) == 48);

/* ALLOC_MW, input; output: mprdma_abi_mw_out. A window opens nothing before it is bound by a send
 * request. DEREG_MR of a region with bound windows is EBUSY; DEALLOC_MW unbinds. */
enum mprdma_abi_mw_type { /* as enum ibv_mw_type */
                          MPRDMA_ABI_MW_TYPE_1 = 1,
                          MPRDMA_ABI_MW_TYPE_2 = 2,
};
struct mprdma_abi_alloc_mw {
  uint32_t pd;
  uint32_t type; /* enum mprdma_abi_mw_type */
};
MPRDMA_ABI_ASSERT(sizeof(struct mprdma_abi_alloc_mw) == 8);
struct mprdma_abi_mw_out {
  uint32_t handle;
  uint32_t rkey; /* its upper 24 bits stay; the low byte changes with each bind */
};
MPRDMA_ABI_ASSERT(sizeof(struct mprdma_abi_mw_out) == 8);

#ifdef __cplusplus
}
#endif
