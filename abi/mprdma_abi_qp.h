/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Commands for queue pairs: what they are made of, their transport, their states; shared receive
 * queues, address handles and multicast groups. Included through mprdma_abi.h, whose rules hold
 * here.
 */
#pragma once

#include "abi/mprdma_abi_base.h"
#include "abi/mprdma_abi_queues.h"

#ifdef __cplusplus
extern "C" {
#endif

enum mprdma_abi_qp_type { /* as enum ibv_qp_type */
                          MPRDMA_ABI_QP_RC = 2,
                          MPRDMA_ABI_QP_UC = 3,
                          MPRDMA_ABI_QP_UD = 4,
                          MPRDMA_ABI_QP_XRC_SEND = 9, /* no receive queue */
                          MPRDMA_ABI_QP_XRC_RECV =
                              10, /* no queues; its SRQs are named by packets */
};

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
  MPRDMA_ABI_MODE_MP = 1,        /* multi-path */
  MPRDMA_ABI_MODE_MP_PAPER = 2,  /* multi-path, to the letter of the paper */
  MPRDMA_ABI_MODE_MP_SINGLE = 3, /* as MP, but on one path */
  MPRDMA_ABI_MODE_IRN = 4,       /* IRN: one path, selective retransmission */
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

#ifdef __cplusplus
}
#endif
