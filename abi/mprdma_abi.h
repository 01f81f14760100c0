/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The queue ABI between a verbs provider and an engine (embedded in the process, or a SmartNIC).
 *
 * A provider talks to its engine the way a driver talks to a NIC: it hands over plain memory that
 * holds send, receive and completion rings of fixed-size entries, publishes producer indices in
 * doorbell records, sets bits in a doorbell page, and sends commands for the slow path.
 * Neither side includes a header of the other; both include this one and mprdma_ring.h.
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

#ifdef __cplusplus
extern "C" {
#define MPRDMA_ABI_ASSERT(cond) static_assert(cond, #cond)
#define MPRDMA_ABI_ALIGNED64 alignas(64)
#else
#define MPRDMA_ABI_ASSERT(cond) _Static_assert(cond, #cond)
#define MPRDMA_ABI_ALIGNED64 _Alignas(64)
#endif

#define MPRDMA_ABI_MAJOR 2u
#define MPRDMA_ABI_MINOR 3u

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

/* ---- Send queue ------------------------------------------------------------------------------
 * A slot is one mprdma_abi_send_wqe followed by max_sge mprdma_abi_sge entries or by max_inline
 * bytes of data; the stride is chosen by the provider: a multiple of 64 that holds the larger.
 */
enum mprdma_abi_send_opcode {
  MPRDMA_ABI_SEND = 0,
  MPRDMA_ABI_SEND_IMM = 1,
  MPRDMA_ABI_SEND_INVALIDATE = 2,
  MPRDMA_ABI_WRITE = 3,
  MPRDMA_ABI_WRITE_IMM = 4,
  MPRDMA_ABI_READ = 5,
  MPRDMA_ABI_COMPARE_SWAP = 6,
  MPRDMA_ABI_FETCH_ADD = 7,
  MPRDMA_ABI_LOCAL_INVALIDATE = 8,
  MPRDMA_ABI_BIND_MW = 9,
  MPRDMA_ABI_ATOMIC_WRITE = 10, /* RC, XRC: a WRITE of 8 aligned bytes, which change at once */
};

#define MPRDMA_ABI_WQE_SIGNALED (1u << 0)
#define MPRDMA_ABI_WQE_SOLICITED (1u << 1)
#define MPRDMA_ABI_WQE_FENCE (1u << 2)
#define MPRDMA_ABI_WQE_INLINE (1u << 3)      /* inline_bytes of data follow instead of SGEs */
#define MPRDMA_ABI_WQE_SYNCHRONISE (1u << 4) /* memory is updated after everything before it */

/* LOCAL_INVALIDATE: imm_or_rkey is the key to invalidate.
 * BIND_MW: rkey is the window's key now, imm_or_rkey the one that it gets (type 2: only its low 8
 * bits count, which are the application's), remote_addr and compare_add the range's address and
 * length (0: unbind), swap the lkey of the memory region, remote_qkey the MPRDMA_ABI_ACCESS_* bits.
 */
struct mprdma_abi_send_wqe {
  uint64_t wr_id;
  uint8_t opcode; /* enum mprdma_abi_send_opcode */
  uint8_t num_sge;
  uint16_t flags;        /* MPRDMA_ABI_WQE_* */
  uint32_t imm_or_rkey;  /* immediate data as in verbs (network order), or the rkey to invalidate */
  uint32_t inline_bytes; /* with MPRDMA_ABI_WQE_INLINE */
  uint32_t rkey;
  uint64_t remote_addr;
  uint64_t compare_add;
  uint64_t swap;
  uint32_t ah;         /* UD: handle of the address handle */
  uint32_t remote_qpn; /* UD */
  uint32_t remote_qkey;
  uint32_t xrc_srqn; /* XRC: number of the remote SRQ */
};
MPRDMA_ABI_ASSERT(sizeof(struct mprdma_abi_send_wqe) == 64);

struct mprdma_abi_sge {
  uint64_t addr;
  uint32_t length;
  uint32_t lkey;
};
MPRDMA_ABI_ASSERT(sizeof(struct mprdma_abi_sge) == 16);

/* ---- Receive queue, also a shared one: a slot is this header followed by max_sge SGEs; stride a
 * multiple of 16. */
struct mprdma_abi_recv_wqe {
  uint64_t wr_id;
  uint32_t num_sge;
  uint32_t reserved;
};
MPRDMA_ABI_ASSERT(sizeof(struct mprdma_abi_recv_wqe) == 16);

/* ---- Doorbell record of a send or receive queue, in the provider's memory. --------------------
 * producer: slots written by the provider (store-release after the slot).
 * consumer: slots whose request has completed, with or without a CQE; of a shared receive queue,
 *           slots that a message took. producer - consumer <= depth always.
 */
struct mprdma_abi_queue_dbr {
  MPRDMA_ABI_ALIGNED64 uint32_t producer;
  MPRDMA_ABI_ALIGNED64 uint32_t consumer;
};
MPRDMA_ABI_ASSERT(sizeof(struct mprdma_abi_queue_dbr) == 128);

/* ---- Completion queue ------------------------------------------------------------------------ */

/* Same values as the standard's work completion statuses (IBTA 11.6.2, enum ibv_wc_status). */
enum mprdma_abi_wc_status {
  MPRDMA_ABI_WC_SUCCESS = 0,
  MPRDMA_ABI_WC_LOC_LEN_ERR = 1,
  MPRDMA_ABI_WC_LOC_QP_OP_ERR = 2,
  MPRDMA_ABI_WC_LOC_EEC_OP_ERR = 3,
  MPRDMA_ABI_WC_LOC_PROT_ERR = 4,
  MPRDMA_ABI_WC_WR_FLUSH_ERR = 5,
  MPRDMA_ABI_WC_MW_BIND_ERR = 6,
  MPRDMA_ABI_WC_BAD_RESP_ERR = 7,
  MPRDMA_ABI_WC_LOC_ACCESS_ERR = 8,
  MPRDMA_ABI_WC_REM_INV_REQ_ERR = 9,
  MPRDMA_ABI_WC_REM_ACCESS_ERR = 10,
  MPRDMA_ABI_WC_REM_OP_ERR = 11,
  MPRDMA_ABI_WC_RETRY_EXC_ERR = 12,
  MPRDMA_ABI_WC_RNR_RETRY_EXC_ERR = 13,
  MPRDMA_ABI_WC_REM_ABORT_ERR = 16,
  MPRDMA_ABI_WC_FATAL_ERR = 19,
  MPRDMA_ABI_WC_GENERAL_ERR = 21,
};

enum mprdma_abi_wc_opcode {
  MPRDMA_ABI_WC_SEND = 0,
  MPRDMA_ABI_WC_WRITE = 1,
  MPRDMA_ABI_WC_READ = 2,
  MPRDMA_ABI_WC_COMPARE_SWAP = 3,
  MPRDMA_ABI_WC_FETCH_ADD = 4,
  MPRDMA_ABI_WC_BIND_MW = 5,
  MPRDMA_ABI_WC_LOCAL_INVALIDATE = 6,
  MPRDMA_ABI_WC_ATOMIC_WRITE = 9,
  MPRDMA_ABI_WC_RECV = 128,
  MPRDMA_ABI_WC_RECV_WRITE_IMM = 129,
};

#define MPRDMA_ABI_CQE_GRH (1u << 0)
#define MPRDMA_ABI_CQE_IMM (1u << 1)
#define MPRDMA_ABI_CQE_INVALIDATED (1u << 3)
#define MPRDMA_ABI_CQE_GRH_IPV4 (1u << 4) /* with GRH: an IPv4 header; else an IPv6 one */
#define MPRDMA_ABI_CQE_SOLICITED                                  \
  (1u << 8) /* for the engine's own use: raises a solicited event \
             */

/* One cache line; `sequence` is written last (store-release): the entry at ring index i is valid
 * when sequence == i + 1. */
struct mprdma_abi_cqe {
  uint64_t wr_id;
  uint32_t byte_len;
  uint32_t imm_or_rkey;
  uint32_t qpn; /* local QP */
  uint32_t src_qpn;
  uint8_t status; /* enum mprdma_abi_wc_status */
  uint8_t opcode; /* enum mprdma_abi_wc_opcode */
  uint16_t flags; /* MPRDMA_ABI_CQE_* */
  uint32_t vendor_err;
  uint64_t timestamp_ns;
  uint64_t qp_cookie; /* mprdma_abi_create_qp.cookie */
  uint16_t pkey_index;
  uint16_t reserved0;
  uint32_t reserved1;
  uint32_t reserved2;
  uint32_t sequence;
};
MPRDMA_ABI_ASSERT(sizeof(struct mprdma_abi_cqe) == 64);
MPRDMA_ABI_ASSERT(offsetof(struct mprdma_abi_cqe, sequence) == 60);

/* Doorbell record of a completion queue.
 * consumer: entries taken by the provider. If the ring is full the engine reports a CQ error.
 * arm: (serial << 2) | kind, kind one of MPRDMA_ABI_ARM_*; a new serial asks for one more event.
 *      The engine remembers the serial that it fired last; it never writes here.
 * After storing `arm` the provider calls channel->idle(): the application may now sleep. */
#define MPRDMA_ABI_ARM_NEXT 1u
#define MPRDMA_ABI_ARM_SOLICITED 2u
struct mprdma_abi_cq_dbr {
  MPRDMA_ABI_ALIGNED64 uint32_t consumer;
  uint32_t arm;
};
MPRDMA_ABI_ASSERT(sizeof(struct mprdma_abi_cq_dbr) == 64);

/* ---- Doorbell page: a bit for each QP that has new work, and a summary bit for each word. ----
 * Owned by the engine, one for each channel; see mprdma_abi_ring_doorbell() in mprdma_ring.h. */
#define MPRDMA_ABI_MAX_QPS 16384u
#define MPRDMA_ABI_DOORBELL_WORDS (MPRDMA_ABI_MAX_QPS / 64u)
struct mprdma_abi_doorbell_page {
  MPRDMA_ABI_ALIGNED64 uint64_t summary[MPRDMA_ABI_DOORBELL_WORDS / 64u];
  MPRDMA_ABI_ALIGNED64 uint64_t word[MPRDMA_ABI_DOORBELL_WORDS];
  MPRDMA_ABI_ALIGNED64 uint32_t sleeping; /* engine: nobody runs the worker, call channel->kick */
  uint32_t taken; /* provider: changes whenever completions are taken from a CQ of the channel,
                     since the application then looks for them and not at memory; a hint */
};
MPRDMA_ABI_ASSERT(sizeof(struct mprdma_abi_doorbell_page) == 2176);

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

/* What the provider gives at connect. on_event is called by whatever thread runs the worker, with
 * the worker's lock held: it must not call back into the channel and must not block. */
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

/* Bytes of the largest message. The standard allows 2^31 (IBTA 9.7.6); at the smallest path MTU
 * that would be 2^23 packets, where packet sequence numbers come round. */
#define MPRDMA_ABI_MESSAGE_BYTES_MAX (1u << 30)

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

enum mprdma_abi_qp_type { /* as enum ibv_qp_type */
                          MPRDMA_ABI_QP_RC = 2,
                          MPRDMA_ABI_QP_UC = 3,
                          MPRDMA_ABI_QP_UD = 4,
                          MPRDMA_ABI_QP_XRC_SEND = 9, /* no receive queue */
                          MPRDMA_ABI_QP_XRC_RECV =
                              10, /* no queues; its SRQs are named by packets */
};

struct mprdma_abi_queue { /* a send or receive ring in the provider's memory */
  uint64_t ring;          /* 64-byte aligned */
  uint64_t dbr;           /* struct mprdma_abi_queue_dbr */
  uint32_t depth;         /* power of two; 0: no such queue */
  uint32_t stride;        /* bytes of a slot */
  uint32_t max_sge;
  uint32_t max_inline; /* bytes; 0 for a receive queue */
};
MPRDMA_ABI_ASSERT(sizeof(struct mprdma_abi_queue) == 32);

struct mprdma_abi_create_qp_out {
  uint32_t handle;
  uint32_t qpn;
  uint32_t doorbell; /* bit index in the doorbell page */
  uint32_t reserved;
};
MPRDMA_ABI_ASSERT(sizeof(struct mprdma_abi_create_qp_out) == 16);

/* How a QP's packets travel. The numbers of a preset are the preset's own; those that are not 0
 * here replace them. With DEFAULT everything is as the device was configured. */
enum mprdma_abi_transport_mode {
  MPRDMA_ABI_MODE_DEFAULT = 0,
  MPRDMA_ABI_MODE_MP = 1,        /* multi-path, with its mends */
  MPRDMA_ABI_MODE_MP_PAPER = 2,  /* multi-path, to the letter of the paper */
  MPRDMA_ABI_MODE_MP_SINGLE = 3, /* as MP, but on one path */
  MPRDMA_ABI_MODE_IRN = 4,
  MPRDMA_ABI_MODE_ROCE = 5,
};

struct mprdma_abi_qp_transport {
  uint32_t mode;           /* enum mprdma_abi_transport_mode */
  uint32_t initial_window; /* packets; 0: the preset's, here and below */
  uint32_t window_max;     /* packets */
  uint32_t reorder_delta;  /* packets */
  uint32_t window_slots;   /* slots of the receive window; both peers use the same number */
  uint32_t reserved[3];    /* 0 */
};
MPRDMA_ABI_ASSERT(sizeof(struct mprdma_abi_qp_transport) == 32);

/* CREATE_QP, input. EOPNOTSUPP: a type or a mode that this engine has not; EINVAL: a wrong handle,
 * a number out of range, reserved not 0. */
#define MPRDMA_ABI_QP_BLOCK_SELF_MCAST (1u << 0) /* own multicast packets do not come back */
struct mprdma_abi_create_qp {
  uint32_t type; /* enum mprdma_abi_qp_type */
  uint32_t pd;   /* XRC_RECV: 0 */
  uint32_t send_cq;
  uint32_t recv_cq;
  uint32_t srq;        /* 0: none */
  uint32_t signal_all; /* sq_sig_all */
  uint32_t xrcd;       /* XRC_RECV; else 0 */
  uint32_t flags;      /* MPRDMA_ABI_QP_* creation flags */
  uint64_t cookie;
  struct mprdma_abi_queue sq;
  struct mprdma_abi_queue rq; /* depth 0 with an SRQ */
  struct mprdma_abi_qp_transport transport;
};
MPRDMA_ABI_ASSERT(sizeof(struct mprdma_abi_create_qp) == 136);

/* Shared receive queues. The engine reads the producer index when a message needs a receive, so
 * posting needs no doorbell; `consumer` advances as entries are taken. */
enum mprdma_abi_srq_type { /* as enum ibv_srq_type */
                           MPRDMA_ABI_SRQ_BASIC = 0,
                           MPRDMA_ABI_SRQ_XRC = 1,
};
struct mprdma_abi_create_srq { /* CREATE_SRQ, input */
  uint32_t type;               /* enum mprdma_abi_srq_type */
  uint32_t pd;
  uint32_t recv_cq; /* XRC; else 0 */
  uint32_t xrcd;    /* XRC; else 0 */
  uint32_t limit;   /* 0: no event */
  uint32_t reserved;
  uint64_t cookie;
  struct mprdma_abi_queue rq;
};
MPRDMA_ABI_ASSERT(sizeof(struct mprdma_abi_create_srq) == 64);
struct mprdma_abi_srq_out {
  uint32_t handle;
  uint32_t srqn; /* by which XRC packets name it */
};
MPRDMA_ABI_ASSERT(sizeof(struct mprdma_abi_srq_out) == 8);
/* MODIFY_SRQ. With a ring: entries that were not taken move into it, renumbered from index 0, and
 * it is used from then on: the engine sets the new ring's consumer = 0 and producer = moved
 * entries, and the provider posts from there. EINVAL if they do not fit; then nothing has changed.
 * The provider posts nothing meanwhile. LIMIT: the event is raised once when fewer receives than
 * that are left; then it is disarmed. */
#define MPRDMA_ABI_SRQ_LIMIT (1u << 0)
#define MPRDMA_ABI_SRQ_RING (1u << 1)
struct mprdma_abi_modify_srq {
  uint32_t handle;
  uint32_t mask; /* MPRDMA_ABI_SRQ_* */
  uint32_t limit;
  uint32_t reserved;
  struct mprdma_abi_queue rq;
};
MPRDMA_ABI_ASSERT(sizeof(struct mprdma_abi_modify_srq) == 48);
struct mprdma_abi_srq_info { /* QUERY_SRQ, output; input: mprdma_abi_handle */
  uint32_t limit;            /* 0: not armed */
  uint32_t depth;
};
MPRDMA_ABI_ASSERT(sizeof(struct mprdma_abi_srq_info) == 8);

/* CREATE_AH, input; output: mprdma_abi_handle. */
struct mprdma_abi_create_ah {
  uint32_t pd;
  uint32_t flow_label;
  uint8_t sgid_index;
  uint8_t traffic_class;
  uint8_t hop_limit;
  uint8_t reserved[5];
  uint8_t dgid[16]; /* a multicast group: its Ethernet address follows from it (RFC 1112, 2464) */
};
MPRDMA_ABI_ASSERT(sizeof(struct mprdma_abi_create_ah) == 32);

struct mprdma_abi_mcast { /* ATTACH_MCAST, DETACH_MCAST, input */
  uint32_t qp;            /* handle; UD */
  uint32_t reserved;
  uint8_t mgid[16];
};
MPRDMA_ABI_ASSERT(sizeof(struct mprdma_abi_mcast) == 24);

enum mprdma_abi_qp_state { /* as enum ibv_qp_state */
                           MPRDMA_ABI_QPS_RESET = 0,
                           MPRDMA_ABI_QPS_INIT = 1,
                           MPRDMA_ABI_QPS_RTR = 2,
                           MPRDMA_ABI_QPS_RTS = 3,
                           MPRDMA_ABI_QPS_SQD = 4,
                           MPRDMA_ABI_QPS_SQE = 5,
                           MPRDMA_ABI_QPS_ERR = 6,
};

#define MPRDMA_ABI_QP_STATE (1u << 0)
#define MPRDMA_ABI_QP_ACCESS (1u << 1)
#define MPRDMA_ABI_QP_PATH (1u << 2) /* dgid, dmac, sgid_index, traffic_class, hop_limit */
#define MPRDMA_ABI_QP_PATH_MTU (1u << 3)
#define MPRDMA_ABI_QP_DEST_QPN (1u << 4)
#define MPRDMA_ABI_QP_RQ_PSN (1u << 5)
#define MPRDMA_ABI_QP_SQ_PSN (1u << 6)
#define MPRDMA_ABI_QP_TIMEOUT (1u << 7)
#define MPRDMA_ABI_QP_RETRY_CNT (1u << 8)
#define MPRDMA_ABI_QP_RNR_RETRY (1u << 9)
#define MPRDMA_ABI_QP_MIN_RNR_TIMER (1u << 10)
#define MPRDMA_ABI_QP_MAX_RD_ATOMIC (1u << 11)
#define MPRDMA_ABI_QP_MAX_DEST_RD_ATOMIC (1u << 12)
#define MPRDMA_ABI_QP_SQD_NOTIFY (1u << 13)
#define MPRDMA_ABI_QP_QKEY (1u << 14)

/* The provider checks the standard's mask for each transition; the engine checks values. */
struct mprdma_abi_qp_attr {
  uint32_t mask; /* MPRDMA_ABI_QP_*; QUERY_QP returns all of them */
  uint32_t state;
  uint32_t access;
  uint32_t path_mtu; /* bytes */
  uint32_t dest_qpn;
  uint32_t rq_psn;
  uint32_t sq_psn;
  uint8_t timeout; /* 4.096 us * 2^timeout; 0: for ever */
  uint8_t retry_cnt;
  uint8_t rnr_retry;
  uint8_t min_rnr_timer; /* RNR timer code */
  uint8_t max_rd_atomic;
  uint8_t max_dest_rd_atomic;
  uint8_t sgid_index;
  uint8_t traffic_class;
  uint8_t hop_limit;
  uint8_t sq_draining; /* QUERY_QP */
  uint8_t reserved0[2];
  uint8_t dgid[16];
  uint32_t qkey;       /* UD */
  uint32_t flow_label; /* of the path */
};
MPRDMA_ABI_ASSERT(sizeof(struct mprdma_abi_qp_attr) == 64);

struct mprdma_abi_modify_qp { /* MODIFY_QP, input; QUERY_QP: mprdma_abi_handle -> qp_attr */
  uint32_t handle;
  uint32_t reserved;
  struct mprdma_abi_qp_attr attr;
};
MPRDMA_ABI_ASSERT(sizeof(struct mprdma_abi_modify_qp) == 72);

/* One sending stream of a QP: requests, or the READ data that it sends as responder. */
struct mprdma_abi_stream_stats {
  uint32_t window_q16; /* congestion window, packets in Q16.16 */
  uint32_t in_flight;  /* packets */
  uint64_t srtt_ns;    /* 0: no sample yet */
  uint32_t paths_in_use;
  uint32_t ooo_degree; /* packets from the oldest unacknowledged to the highest selectively acked */
  uint32_t ooo_degree_max;
  uint32_t reserved;
  uint64_t packets_sent;       /* first copies and retransmissions */
  uint64_t retransmitted;      /* packets sent again */
  uint64_t retransmitted_nack; /* marked lost, by cause: not each of them is sent again */
  uint64_t retransmitted_trigger;
  uint64_t retransmitted_early;
  uint64_t retransmitted_rto;
  uint64_t retransmitted_probe;
  uint64_t rto_expired;
  uint64_t ece_received;
  uint64_t acks_pruned;
  uint64_t path_probes;
  uint64_t random_paths;
  uint64_t restarts;
  uint64_t window_reductions;
};
MPRDMA_ABI_ASSERT(sizeof(struct mprdma_abi_stream_stats) == 144);

/* QUERY_QP_STATS: mprdma_abi_handle -> this. Counts begin when the QP connects. A later minor may
 * append: an engine writes the smaller of out_bytes and what it knows, never less than this. */
struct mprdma_abi_qp_stats {
  uint64_t time_ns; /* the engine's monotonic clock when this was read */
  uint32_t qpn;
  uint32_t dest_qpn;
  uint32_t state;     /* enum mprdma_abi_qp_state */
  uint32_t mode;      /* enum mprdma_abi_transport_mode; DEFAULT: not agreed with the peer yet */
  uint8_t dgid[16];   /* the peer; 0 before RTR */
  uint64_t bytes_out; /* payload sent, each byte once; requests and READ data together */
  uint64_t bytes_in;  /* payload placed in memory */
  uint64_t bytes_retransmitted;
  uint32_t sends_outstanding; /* send requests posted and not completed */
  uint32_t path_mtu;          /* bytes */
  struct mprdma_abi_stream_stats requests;
  struct mprdma_abi_stream_stats responses;
};
MPRDMA_ABI_ASSERT(sizeof(struct mprdma_abi_qp_stats) == 360);

/* QUERY_COUNTERS, output: the head, then as many entries as fit into out_bytes, by name. */
struct mprdma_abi_counters {
  uint32_t total;  /* how many there are */
  uint32_t filled; /* how many follow */
};
struct mprdma_abi_counter {
  char name[56]; /* terminated */
  uint64_t value;
};
MPRDMA_ABI_ASSERT(sizeof(struct mprdma_abi_counters) == 8);
MPRDMA_ABI_ASSERT(sizeof(struct mprdma_abi_counter) == 64);

/* What a connected provider holds. Every function may be called by any thread.
 * execute: one command; returns 0 or an errno value. May wait for the worker, never for the wire.
 * progress: runs the worker for one burst if nobody else does; never blocks. Called by poll_cq and
 *           by post_send after its doorbell.
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
};
MPRDMA_ABI_ASSERT(sizeof(struct mprdma_abi_channel) == 64);

#ifdef __cplusplus
}
#endif
