/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The queue ABI between a verbs provider and an engine (embedded in the process, or a SmartNIC).
 *
 * A provider talks to its engine the way a driver talks to a NIC: it hands over plain memory that
 * holds send, receive and completion rings of fixed-size entries, publishes producer indices in
 * doorbell records, sets bits in a doorbell page, and sends commands for the slow path.
 * Neither side includes a header of the other; both include this one and mprdma_ring.h. The parts
 * of this one: mprdma_abi_queues.h (the memory), mprdma_abi_memory.h, mprdma_abi_qp.h and
 * mprdma_abi_stats.h (commands by object); here stand connecting, events, and the device.
 *
 * Rules
 *  - Compiles as C11 and C++20, needs nothing but the language's own headers.
 *  - All integers are host-endian unless said otherwise; sizes in bytes; times in nanoseconds.
 *  - Every struct has its size asserted below; reserved fields are written 0 and ignored when read.
 *  - Ring indices are free-running 32-bit counters; the slot is index & (depth - 1), depth a power
 *    of two.
 *  - MAJOR changes when an entry changes its meaning; MINOR when a command or a feature is added.
 *    A provider refuses an engine with another MAJOR; features say what an engine can do.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "abi/mprdma_abi_base.h"
#include "abi/mprdma_abi_memory.h"
#include "abi/mprdma_abi_qp.h"
#include "abi/mprdma_abi_queues.h"
#include "abi/mprdma_abi_stats.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Events, engine to provider -------------------------------------------------------------- */
enum mprdma_abi_event_type {
  MPRDMA_ABI_EVENT_COMPLETION = 0, /* cookie = mprdma_abi_create_cq.cookie */
  MPRDMA_ABI_EVENT_CQ_ERR = 1,
  MPRDMA_ABI_EVENT_QP_FATAL = 2, /* cookie = mprdma_abi_create_qp.cookie, as for all QP events */
  MPRDMA_ABI_EVENT_QP_REQ_ERR = 3,
  MPRDMA_ABI_EVENT_QP_ACCESS_ERR = 4,
  MPRDMA_ABI_EVENT_COMM_EST = 5,
  MPRDMA_ABI_EVENT_SQ_DRAINED = 6,
  MPRDMA_ABI_EVENT_PORT_ACTIVE = 7, /* cookie = port number */
  MPRDMA_ABI_EVENT_PORT_ERR = 8,
  MPRDMA_ABI_EVENT_DEVICE_FATAL = 9,
  MPRDMA_ABI_EVENT_SRQ_ERR = 10, /* cookie = mprdma_abi_create_srq.cookie */
  MPRDMA_ABI_EVENT_SRQ_LIMIT_REACHED = 11,
  MPRDMA_ABI_EVENT_QP_LAST_WQE_REACHED = 12, /* a QP with an SRQ entered ERR and takes no more */
  MPRDMA_ABI_EVENT_GID_CHANGE = 13,          /* cookie = port number */
};

struct mprdma_abi_event {
  uint32_t type;       /* enum mprdma_abi_event_type */
  uint32_t arm_serial; /* COMPLETION: the serial in `arm` of the request that it answers; else 0 */
  uint64_t cookie;
};
MPRDMA_ABI_ASSERT(sizeof(struct mprdma_abi_event) == 16);

/* Parameters of the provider at connect. on_event is called by whatever thread runs the worker,
 * with the worker's lock held: it must not call back into the channel and must not block. */
struct mprdma_abi_client {
  uint32_t abi_major;
  uint32_t abi_minor;
  void* context;
  void (*on_event)(void* context, const struct mprdma_abi_event* event);
};
MPRDMA_ABI_ASSERT(sizeof(struct mprdma_abi_client) == 24);

/* ---- Commands -------------------------------------------------------------------------------- */
enum mprdma_abi_command {
  MPRDMA_ABI_QUERY_DEVICE = 1,
  MPRDMA_ABI_QUERY_PORT = 2,
  MPRDMA_ABI_ALLOC_PD = 3,
  MPRDMA_ABI_FREE_PD = 4,
  MPRDMA_ABI_REG_MR = 5,
  MPRDMA_ABI_DEREG_MR = 6,
  MPRDMA_ABI_CREATE_CQ = 7,
  MPRDMA_ABI_RESIZE_CQ = 8,
  MPRDMA_ABI_DESTROY_CQ = 9,
  MPRDMA_ABI_CREATE_QP = 10,
  MPRDMA_ABI_MODIFY_QP = 11,
  MPRDMA_ABI_QUERY_QP = 12,
  MPRDMA_ABI_DESTROY_QP = 13,
  MPRDMA_ABI_CREATE_AH = 14,
  MPRDMA_ABI_DESTROY_AH = 15,
  MPRDMA_ABI_QUERY_COUNTERS = 16,
  MPRDMA_ABI_QUERY_QP_STATS = 17,
  MPRDMA_ABI_REREG_MR = 18,
  MPRDMA_ABI_ALLOC_MW = 19,
  MPRDMA_ABI_DEALLOC_MW = 20,
  MPRDMA_ABI_CREATE_SRQ = 21,
  MPRDMA_ABI_MODIFY_SRQ = 22,
  MPRDMA_ABI_QUERY_SRQ = 23,
  MPRDMA_ABI_DESTROY_SRQ = 24,
  MPRDMA_ABI_ALLOC_XRCD = 25, /* no input; output: mprdma_abi_handle */
  MPRDMA_ABI_FREE_XRCD = 26,
  MPRDMA_ABI_ATTACH_MCAST = 27,
  MPRDMA_ABI_DETACH_MCAST = 28,
  MPRDMA_ABI_MODIFY_CQ = 29,
  MPRDMA_ABI_CM_OPEN = 30, /* mprdma_abi_cm_open, in mprdma_abi_cm.h */
  MPRDMA_ABI_CM = 31,      /* mprdma_abi_cm_command; output: mprdma_abi_cm_result */
};

/* What a command without input or output uses; handles are small integers chosen by the engine. */
struct mprdma_abi_handle {
  uint32_t handle;
  uint32_t reserved;
};
MPRDMA_ABI_ASSERT(sizeof(struct mprdma_abi_handle) == 8);

struct mprdma_abi_device_info { /* QUERY_DEVICE, output */
  uint64_t node_guid;           /* network order, as verbs has it */
  uint64_t max_mr_bytes;
  uint32_t max_qps;
  uint32_t max_qp_wr;
  uint32_t max_sge;
  uint32_t max_sge_rd;
  uint32_t max_inline_bytes;
  uint32_t max_cqs;
  uint32_t max_cqe;
  uint32_t max_mrs;
  uint32_t max_pds;
  uint32_t max_rd_atomic; /* per QP, as responder and as initiator */
  uint32_t max_ahs;
  uint32_t modes; /* bit 1 << enum mprdma_abi_transport_mode for each that CREATE_QP takes */
  uint32_t max_srqs;
  uint32_t max_srq_wr;
  uint32_t max_srq_sge;
  uint32_t max_mws;
  uint32_t max_xrcds;
  uint32_t max_mcast_groups;
  uint32_t max_mcast_qps; /* attached to one group */
  uint32_t features; /* MPRDMA_ABI_FEATURE_*, those below 1 << 32: known without a connection */
};
MPRDMA_ABI_ASSERT(sizeof(struct mprdma_abi_device_info) == 96);

struct mprdma_abi_port_info { /* QUERY_PORT, output */
  uint32_t active;            /* 1: link up */
  uint32_t max_mtu;           /* bytes: 256 ... 4096, RoCE path MTU */
  uint32_t active_mtu;
  uint32_t link_mbps; /* what the port reports; 0 unknown */
  uint64_t bad_pkeys;
  uint64_t qkey_violations;
  uint8_t mac[6];
  uint8_t reserved[2];
  uint8_t gid[2][16]; /* index 0: link local of the MAC; 1: the IPv4 address, mapped */
};
MPRDMA_ABI_ASSERT(sizeof(struct mprdma_abi_port_info) == 72);

struct mprdma_abi_create_cq { /* CREATE_CQ, input; output: mprdma_abi_handle */
  uint64_t ring;              /* depth entries, 64-byte aligned, zeroed by the provider */
  uint64_t dbr;               /* struct mprdma_abi_cq_dbr */
  uint64_t cookie;
  uint32_t depth; /* power of two */
  uint32_t reserved;
};
MPRDMA_ABI_ASSERT(sizeof(struct mprdma_abi_create_cq) == 32);

/* MODIFY_CQ: an armed queue raises its event after `count` entries or `period_us` after the first,
 * whichever comes first; what is solicited (if it is armed for that) or an error does not wait.
 * 0 and 1 entries, and 0 us: at once. */
struct mprdma_abi_modify_cq {
  uint32_t handle;
  uint16_t count;
  uint16_t period_us;
};
MPRDMA_ABI_ASSERT(sizeof(struct mprdma_abi_modify_cq) == 8);

/* RESIZE_CQ: the engine moves unread entries into the new ring (renumbered from index 0), after
 * which the provider polls the new ring; the doorbell record is the new one. */
struct mprdma_abi_resize_cq {
  uint32_t handle;
  uint32_t depth;
  uint64_t ring;
  uint64_t dbr;
};
MPRDMA_ABI_ASSERT(sizeof(struct mprdma_abi_resize_cq) == 24);

/* The handle of a connected provider. Every function may be called by any thread.
 * execute: one command; returns 0 or an errno value. May wait for the worker, never for the wire.
 * progress: runs the worker for one burst if nobody else does; never blocks. Called by poll_cq and,
 *           after their doorbell, by posts that do not call send().
 * send: MPRDMA_ABI_FEATURE_SEND: stands for a doorbell of a send queue, progress() and kick(): the
 *       engine takes the requests of this queue pair, and sends what may leave. `doorbell` as in
 *       mprdma_abi_create_qp_out. The producer index is published before the call.
 * kick: wakes the engine's own thread; called after a doorbell, and progress(), when nobody has
 *       taken the doorbell and the page says `sleeping`.
 * idle: the application may stop polling now (it armed a CQ): from here on the engine makes
 *       progress by itself until the next call of progress(). */
struct mprdma_abi_channel {
  uint32_t abi_major;
  uint32_t abi_minor;
  uint64_t features; /* MPRDMA_ABI_FEATURE_* */
  void* engine;
  struct mprdma_abi_doorbell_page* doorbells;
  int (*execute)(void* engine, uint32_t command, const void* in, size_t in_bytes, void* out,
                 size_t out_bytes);
  void (*progress)(void* engine);
  void (*kick)(void* engine);
  void (*idle)(void* engine);
  /* ---- Since minor version 4; not written for a client of an earlier one. */
  void (*send)(void* engine, uint32_t doorbell);
};
MPRDMA_ABI_ASSERT(sizeof(struct mprdma_abi_channel) == 72);

#ifdef __cplusplus
}
#endif
