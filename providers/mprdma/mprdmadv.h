/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Direct verbs of the mprdma device, installed as <infiniband/mprdmadv.h>: what a program may ask
 * of it beyond libibverbs. Link with -lmprdma -libverbs (pkg-config libmprdma). Pages: mprdmadv(7).
 *
 * A program that uses nothing of this header runs over mprdma all the same.
 *
 * Rules
 *  - C99 and C++11. Any thread may call any function.
 *  - Functions that return int return 0 or an errno value; those that return a pointer set errno.
 *  - Structures grow at their end. What a caller fills has a comp_mask that says which members
 * count; an unknown bit is EOPNOTSUPP. What the library fills takes the caller's size, and no more
 * than that is written.
 *  - Packets are counted whole; windows are packets in Q16.16 (divide by 65536); times are
 *    nanoseconds, sizes bytes.
 */
#pragma once

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Send flag, beside enum ibv_send_flags: in ibv_send_wr.send_flags for ibv_post_send(), and in
 * ibv_qp_ex.wr_flags for ibv_wr_*(). The operation updates the peer's memory only after everything
 * that was posted before it on the same QP has. Of use where the peer's memory was registered with
 * IBV_ACCESS_RELAXED_ORDERING (elsewhere every operation behaves like that): data without the flag,
 * then the word that says "it is all there" with it. Operations posted later may overtake it,
 * unless they have the flag as well. EOPNOTSUPP: the engine does not know it.
 */
#define MPRDMADV_SEND_SYNCHRONISE (1u << 30)

/* True for a device of this library's provider. Every other function returns EOPNOTSUPP for other
 * devices. */
bool mprdmadv_is_supported(struct ibv_device* device);

/* The resource_type that the allocator of a parent domain is asked for: the rings of one object.
 * The provider clears the memory, and returns it when the object is destroyed or resized. */
enum mprdmadv_res_type {
  MPRDMADV_RES_TYPE_QP = 1,
  MPRDMADV_RES_TYPE_SRQ = 2,
  MPRDMADV_RES_TYPE_CQ = 3,
};

/* ---- The transport of a QP ------------------------------------------------------------------- */

enum mprdmadv_mode {
  MPRDMADV_MODE_DEFAULT = 0,   /* as the device was configured */
  MPRDMADV_MODE_MP = 1,        /* MP-RDMA over all paths */
  MPRDMADV_MODE_MP_PAPER = 2,  /* MP-RDMA to the letter of the paper, for comparison */
  MPRDMADV_MODE_MP_SINGLE = 3, /* as MP, confined to one path */
  MPRDMADV_MODE_IRN = 4,       /* IRN: selective retransmission on one path, for comparison */
  MPRDMADV_MODE_ROCE = 5,      /* RoCEv2 by the standard: what adapters and Soft-RoCE speak */
};

/* "default", "mp", "mp-paper", ...; "unknown". Never NULL. */
const char* mprdmadv_mode_str(enum mprdmadv_mode mode);

enum mprdmadv_device_attr_caps {
  MPRDMADV_DEVICE_ATTR_CAPS_SYNCHRONISE = 1 << 0,    /* MPRDMADV_SEND_SYNCHRONISE */
  MPRDMADV_DEVICE_ATTR_CAPS_QP_MODE = 1 << 1,        /* modes other than the default */
  MPRDMADV_DEVICE_ATTR_CAPS_QP_STATS = 1 << 2,       /* mprdmadv_query_qp_stats() */
  MPRDMADV_DEVICE_ATTR_CAPS_RELAXED_ALWAYS = 1 << 3, /* configured: every MR has relaxed ordering */
};

struct mprdmadv_device_attr {
  uint64_t comp_mask; /* out: reserved, 0 */
  uint32_t device_caps;
  uint32_t modes;     /* bit 1 << mode for each mode that a QP can be made with */
  uint32_t abi_major; /* of the queue ABI that the engine speaks */
  uint32_t abi_minor;
};

/*
 * Fills the first `size` bytes of *attr. Starts the process's engine if it does not run yet.
 * EINVAL: size is smaller than the structure's first version; EOPNOTSUPP: not our device; or what
 * starting the engine gave.
 */
int mprdmadv_query_device(struct ibv_context* context, struct mprdmadv_device_attr* attr,
                          size_t size);

enum mprdmadv_qp_init_attr_mask {
  MPRDMADV_QP_INIT_ATTR_MODE = 1 << 0,
  MPRDMADV_QP_INIT_ATTR_INITIAL_WINDOW = 1 << 1,
  MPRDMADV_QP_INIT_ATTR_WINDOW_MAX = 1 << 2,
  MPRDMADV_QP_INIT_ATTR_REORDER_DELTA = 1 << 3,
  MPRDMADV_QP_INIT_ATTR_WINDOW_SLOTS = 1 << 4,
};

/* Members whose bit is not in comp_mask are not read. A number of 0 selects the mode's default. */
struct mprdmadv_qp_init_attr {
  uint64_t comp_mask;      /* enum mprdmadv_qp_init_attr_mask */
  uint32_t mode;           /* enum mprdmadv_mode */
  uint32_t initial_window; /* packets, 1 .. window_slots: one bandwidth-delay product */
  uint32_t window_max;     /* packets, 1 .. 4096 (ROCE: 65536): two of them */
  uint32_t reorder_delta; /* packets, 8 .. window_slots: how far a path may lag and still be used */
  uint32_t window_slots;  /* of the receiver, a power of two, 8 .. 2048; the same at both ends */
  uint32_t reserved;      /* 0 */
};

/*
 * Creates a QP as ibv_create_qp_ex() does, with a mode and parameters; `mprdma_attr` may be NULL.
 * NULL and errno:
 *   EINVAL      no such mode, a number out of range or at odds with another, reserved not 0; and
 *               what is EINVAL in ibv_create_qp_ex()
 *   EOPNOTSUPP  a mode, a bit of comp_mask or a type of QP that is not built; not our device
 */
struct ibv_qp* mprdmadv_create_qp(struct ibv_context* context, struct ibv_qp_init_attr_ex* attr,
                                  const struct mprdmadv_qp_init_attr* mprdma_attr);

/* ---- Statistics of a QP ---------------------------------------------------------------------- */

/* One sending stream. Counts begin when the QP connects and start again when it is reset. */
struct mprdmadv_stream_stats {
  uint32_t window_q16;     /* congestion window now, packets in Q16.16 */
  uint32_t in_flight;      /* packets sent, not acknowledged and not known lost */
  uint64_t srtt_ns;        /* smoothed round-trip time; 0: no sample yet */
  uint32_t paths_in_use;   /* virtual paths of the last round trips: an estimate, <= 64 */
  uint32_t ooo_degree;     /* from the oldest unacknowledged packet to the newest known arrived */
  uint32_t ooo_degree_max; /* the largest that was seen */
  uint32_t reserved;
  uint64_t packets_sent;  /* first copies and retransmissions */
  uint64_t retransmitted; /* packets retransmitted */
  /* Packets marked lost, by cause. A packet that is acknowledged before its copy leaves is not
   * retransmitted. */
  uint64_t retransmitted_nack;    /* a negative acknowledgement named it */
  uint64_t retransmitted_trigger; /* far below the newest that is known to have arrived */
  uint64_t retransmitted_early;   /* below the newest known arrived, and older than 5/4 SRTT */
  uint64_t retransmitted_rto;     /* retransmission timeout */
  uint64_t retransmitted_probe;   /* tail probes, and questions to a receiver that was not ready */
  uint64_t rto_expired;           /* timeouts */
  uint64_t ece_received;          /* acknowledgements that echo congestion experienced */
  uint64_t acks_pruned;           /* acknowledgements too late for their path to be used again */
  uint64_t path_probes;           /* packets that explored a new path */
  uint64_t random_paths;          /* packets whose path was drawn at random */
  uint64_t restarts;              /* restarts with the initial window after idleness */
  uint64_t window_reductions;     /* acknowledgements that found nothing to send */
};

struct mprdmadv_qp_stats {
  uint64_t comp_mask; /* out: reserved, 0 */
  uint64_t time_ns;   /* CLOCK_MONOTONIC when these were read */
  uint32_t qp_num;
  uint32_t dest_qp_num;
  uint32_t qp_state;       /* enum ibv_qp_state */
  uint32_t mode;           /* enum mprdmadv_mode; DEFAULT: not agreed with the peer yet */
  union ibv_gid dgid;      /* the peer; all zero before RTR */
  uint64_t bytes_sent;     /* payload, each byte once: requests, and READ data for the peer */
  uint64_t bytes_received; /* payload placed in our memory, each byte once */
  uint64_t bytes_retransmitted;
  uint32_t sends_outstanding;             /* send requests posted and not completed */
  uint32_t path_mtu;                      /* bytes */
  struct mprdmadv_stream_stats requests;  /* SEND, WRITE, READ requests */
  struct mprdmadv_stream_stats responses; /* READ data that this QP sends as responder */
};

/* The size of the structure's first version: the least that mprdmadv_query_qp_stats() takes. */
#define MPRDMADV_QP_STATS_SIZE_1_0 368u

/*
 * Fills the first `size` bytes of *stats; what this library does not know yet is 0. One consistent
 * picture, taken under the engine's lock: cheap, but not meant for each packet.
 * EINVAL: size below MPRDMADV_QP_STATS_SIZE_1_0; EOPNOTSUPP: not our QP, or an engine without
 * statistics; ENODEV: the QP belongs to the parent of a fork.
 */
int mprdmadv_query_qp_stats(struct ibv_qp* qp, struct mprdmadv_qp_stats* stats, size_t size);

#ifdef __cplusplus
}
#endif
