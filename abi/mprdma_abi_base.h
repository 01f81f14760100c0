/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The base of all headers of the queue ABI: its version, its features, and how an entry is held to
 * its size. Included through mprdma_abi.h, whose rules hold here.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
#define MPRDMA_ABI_ASSERT(cond) static_assert(cond, #cond)
#define MPRDMA_ABI_ALIGNED64 alignas(64)
#else
#define MPRDMA_ABI_ASSERT(cond) _Static_assert(cond, #cond)
#define MPRDMA_ABI_ALIGNED64 _Alignas(64)
#endif

#define MPRDMA_ABI_MAJOR 2u
#define MPRDMA_ABI_MINOR 4u

/* Feature bits, mprdma_abi_channel.features. */
#define MPRDMA_ABI_FEATURE_RC (1ull << 0)
#define MPRDMA_ABI_FEATURE_UC (1ull << 1)
#define MPRDMA_ABI_FEATURE_UD (1ull << 2)
#define MPRDMA_ABI_FEATURE_SRQ (1ull << 3)
#define MPRDMA_ABI_FEATURE_ATOMIC (1ull << 4)
#define MPRDMA_ABI_FEATURE_MEMORY_WINDOW (1ull << 5)
#define MPRDMA_ABI_FEATURE_RELAXED_ORDERING (1ull << 6) /* the access flag has an effect */
#define MPRDMA_ABI_FEATURE_SYNCHRONISE (1ull << 7)      /* MPRDMA_ABI_WQE_SYNCHRONISE */
#define MPRDMA_ABI_FEATURE_QP_TRANSPORT (1ull << 8)     /* mprdma_abi_create_qp.transport */
#define MPRDMA_ABI_FEATURE_QP_STATS (1ull << 9)         /* QUERY_QP_STATS */
#define MPRDMA_ABI_FEATURE_RELAXED_ALWAYS (1ull << 10)  /* placement in no order whatever the MR */
#define MPRDMA_ABI_FEATURE_XRC (1ull << 11)             /* XRC queue pairs, domains and SRQs */
#define MPRDMA_ABI_FEATURE_MULTICAST (1ull << 12)       /* ATTACH_MCAST, DETACH_MCAST */
#define MPRDMA_ABI_FEATURE_CQ_MODERATION (1ull << 13)   /* MODIFY_CQ */
#define MPRDMA_ABI_FEATURE_ATOMIC_WRITE (1ull << 14)    /* MPRDMA_ABI_ATOMIC_WRITE */
#define MPRDMA_ABI_FEATURE_ON_DEMAND (1ull << 15)       /* MPRDMA_ABI_MR_ON_DEMAND */
#define MPRDMA_ABI_FEATURE_CM (1ull << 16)              /* CM_OPEN, CM (mprdma_abi_cm.h) */
#define MPRDMA_ABI_FEATURE_GRH_VERSION (1ull << 17)     /* MPRDMA_ABI_CQE_GRH_IPV4 */
#define MPRDMA_ABI_FEATURE_SEND (1ull << 18)            /* mprdma_abi_channel.send */

/* Bytes of the largest message. The standard allows 2^31 (IBTA 9.7.6); at the smallest path MTU
 * that would be 2^23 packets, where packet sequence numbers come round. */
#define MPRDMA_ABI_MESSAGE_BYTES_MAX (1u << 30)
