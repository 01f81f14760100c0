/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The provider's objects: each embeds the verbs object it stands for and has one converter.
 * C only (rdma_core_private.h). The operations are declared in operations.h.
 *
 * Locks, in the order in which they may be taken together:
 *   - pds lock (pd.c): whether the engine knows a domain
 *   - link lock (engine_link.c): connecting to the engine, the process's list of contexts
 *   - xrc lock (xrc.c): XRC domains and their shared QPs
 *   - objects lock (object.c): the registry of everything that exists; no call into the engine
 *   - cq.lock: one completion ring's consumer side
 *   - srq.lock, sq.lock, rq.lock: one work queue's producer side
 *   - shared_qp.lock: the handles of one shared QP
 *   - contexts lock (engine_event.c): who gets port events
 *   - event_queue.lock: one event descriptor
 *
 * The engine's on_event callback takes only the last three. No lock but pds lock, link lock,
 * xrc lock, and cq.lock and srq.lock (resize) is held across a call into the engine.
 */
#pragma once

#include <pthread.h>
#include <stdint.h>
#include <sys/types.h>

#include "abi/mprdma_abi.h"
#include "abi/mprdma_ring.h"
#include "dataplane/engine/engine.h"
#include "providers/mprdma/device_facts.h"
#include "providers/mprdma/rdma_core_private.h"

#define MPRDMA_PORT 1u
#define MPRDMA_PKEY_DEFAULT 0xffffu

struct mprdma_context;
struct mprdma_pd;

/* ---- Memory that the engine reads and writes (ring.c): zeroed; from the allocator of the parent
 * domain if there is one; else never shared with a forked child. */
struct mprdma_memory {
  void* base;
  size_t bytes;
  pid_t pid;              /* owner: a child must not unmap memory that it never mapped */
  struct mprdma_pd* from; /* parent domain whose allocator gave it; NULL: our own mapping */
  uint64_t type;          /* what it was asked for, enum mprdmadv_res_type */
};

/* ---- Everything that exists (object.c). The number is what the application sees as handle and may
 * import; it is unique among the objects of one kind in this process. What the engine knows of it
 * is `handle`, of the engine of process `pid` (0: nothing yet). */
enum mprdma_object_kind { /* in the order in which a closed context's leftovers go */
                          MPRDMA_OBJECT_QP = 0,
                          MPRDMA_OBJECT_SRQ,
                          MPRDMA_OBJECT_CQ,
                          MPRDMA_OBJECT_MW,
                          MPRDMA_OBJECT_MR,
                          MPRDMA_OBJECT_AH,
                          MPRDMA_OBJECT_XRCD,
                          MPRDMA_OBJECT_PD,
                          MPRDMA_OBJECT_DM,
                          MPRDMA_OBJECT_KINDS,
};
struct mprdma_object {
  enum mprdma_object_kind kind;
  uint32_t number; /* 0: not in the registry */
  uint32_t handle;
  pid_t pid;
  struct mprdma_context* context;
  struct mprdma_object* next;
  struct mprdma_object** link;
};

/* ---- A pipe with fixed-size event records, of which the application has the read end (event.c).
 */
struct mprdma_event_queue {
  pthread_mutex_t lock;
  int read_fd; /* ours, to purge; the application's may be another descriptor of the same pipe */
  int write_fd;
  size_t record_bytes;
  char* backlog; /* records that the pipe had no room for, oldest first */
  size_t backlog_records;
  size_t backlog_room;
};

/* One for each ibv_comp_channel that has a CQ of ours. */
struct mprdma_comp_channel {
  struct mprdma_event_queue events; /* records: u64 = struct ibv_cq* */
  const struct ibv_comp_channel* ibv;
  uint32_t references;
  struct mprdma_comp_channel* next;
};

struct mprdma_context {
  struct verbs_context verbs;
  struct mprdma_device_facts facts;
  pthread_mutex_t comp_lock;         /* the list of completion channels */
  struct mprdma_abi_channel channel; /* the process's; valid while engine_pid is this process */
  pid_t engine_pid;                  /* 0: not connected */
  uint32_t port_down;                /* set and cleared by port events */
  /* Records: struct mprdma_async_record. read_fd < 0: imported, not opened yet. */
  struct mprdma_event_queue async;
  struct mprdma_comp_channel* comp_channels;
  struct mprdma_context* next; /* of the contexts that get port events */
  struct mprdma_context** link;
};

struct mprdma_async_record { /* what ibv_get_async_event() reads */
  uint64_t element;
  uint32_t type; /* enum ibv_event_type */
  uint32_t reserved;
};

/* A protection domain; a parent domain, which stands for one; or one imported from its number. */
struct mprdma_pd {
  struct ibv_pd ibv;
  struct mprdma_object object;
  uint32_t users;               /* objects that name it */
  uint32_t references;          /* the application's, of each import, and of each user */
  bool gone;                    /* deallocated; only imports hold it still */
  struct mprdma_pd* stands_for; /* parent domains and imports */
  bool imported;
  struct mprdma_td* td;
  void* (*alloc)(struct ibv_pd* pd, void* pd_context, size_t size, size_t alignment, uint64_t type);
  void (*free)(struct ibv_pd* pd, void* pd_context, void* ptr, uint64_t type);
  void* pd_context;
};

struct mprdma_td {
  struct ibv_td ibv;
  uint32_t users;
};

struct mprdma_mr {
  struct verbs_mr verbs;
  struct mprdma_object object;
  struct mprdma_abi_reg_mr range; /* as the engine was told */
  struct mprdma_memory mapping;   /* of a dma-buf */
  struct mprdma_dm* dm;
};

struct mprdma_mw {
  struct ibv_mw ibv;
  struct mprdma_object object;
};

struct mprdma_dm {
  struct ibv_dm ibv;
  struct mprdma_object object;
  struct mprdma_dm* imported_from;
  uint32_t references; /* the application's, and one for each import and each MR */
  uint32_t users;      /* MRs, also those made on an import */
  char* memory;
  size_t length;
  size_t mapped;
};

struct mprdma_ah {
  struct ibv_ah ibv;
  struct mprdma_object object;
};

struct mprdma_cq {
  struct verbs_cq verbs;
  struct mprdma_object object;
  struct mprdma_context* context;
  pthread_spinlock_t lock;
  struct mprdma_abi_cqe* ring;
  struct mprdma_abi_cq_dbr* dbr;
  uint32_t depth;
  uint32_t consumer;
  uint32_t arm_serial;
  uint32_t next_armed; /* the request (dbr.arm) for any next completion that stands, or 0: it covers
                        * a solicited one */
  struct mprdma_memory memory;
  const struct mprdma_abi_cqe* current; /* extended polling: the entry being looked at */
  int64_t realtime_offset_ns;           /* extended polling: CLOCK_REALTIME less CLOCK_MONOTONIC */
  uint32_t users;                       /* QPs, once for each of the two roles, and XRC SRQs */
  struct mprdma_pd* parent_domain;
  struct mprdma_comp_channel* comp_channel;
  uint32_t comp_events_written;  /* under comp_channel->events.lock */
  uint32_t async_events_written; /* under context->async.lock */
};

struct mprdma_work_queue {
  pthread_spinlock_t lock;
  char* ring;
  struct mprdma_abi_queue_dbr* dbr;
  uint32_t depth; /* 0: no such queue */
  uint32_t stride;
  uint32_t max_sge;
  uint32_t max_inline;
  uint32_t producer;
  uint32_t consumer_seen; /* last value of dbr->consumer, so that the line is rarely read */
};

struct mprdma_srq {
  struct verbs_srq verbs;
  struct mprdma_object object;
  struct mprdma_context* context;
  struct mprdma_work_queue rq;
  struct mprdma_memory memory;
  struct mprdma_xrcd* xrcd;
  uint32_t users;                /* QPs */
  uint32_t async_events_written; /* under context->async.lock */
};

/* An XRC domain of this process, by the file that names it; an open of it. */
struct mprdma_xrc_domain {
  struct mprdma_object object;
  bool has_inode; /* else nobody else can open it */
  dev_t device;
  ino_t inode;
  struct mprdma_xrcd* opens; /* under xrc_lock */
  struct mprdma_shared_qp* qps;
};
struct mprdma_xrcd {
  struct ibv_xrcd ibv;
  struct mprdma_xrc_domain* domain;
  struct mprdma_xrcd* next_open;
  uint32_t users; /* QPs and SRQs */
};

/* A multicast group that a QP is attached to. */
struct mprdma_group {
  union ibv_gid gid;
  struct mprdma_group* next;
};

/* An XRC_RECV QP, which every open of its domain may open too: what the handles have in common.
 * The engine's cookie is its address + MPRDMA_COOKIE_SHARED. */
struct mprdma_shared_qp {
  struct mprdma_object object;
  pthread_mutex_t lock;
  struct mprdma_qp* handles;
  struct ibv_qp_attr attr;
  uint32_t qpn;
  struct mprdma_xrc_domain* domain;
  struct mprdma_shared_qp* next;
};
#define MPRDMA_COOKIE_SHARED 1u

struct mprdma_qp {
  struct verbs_qp verbs;
  struct mprdma_object own_object;
  struct mprdma_object* object; /* own_object, or the one that the handles share */
  struct mprdma_context* context;
  struct mprdma_work_queue sq;
  struct mprdma_work_queue rq;
  uint32_t doorbell;
  uint16_t always_flags; /* MPRDMA_ABI_WQE_SIGNALED if sq_sig_all */
  uint32_t state;        /* enum ibv_qp_state; what the provider was last told */
  uint32_t in_error;     /* an error was seen: posted receives must be flushed at once */
  uint32_t operations;   /* 1 << enum mprdma_abi_send_opcode for each that may be posted */
  /* ibv_wr_*: the batch under construction, under sq.lock */
  uint32_t batch_producer;
  int batch_error;
  struct mprdma_abi_send_wqe* batch_wqe;
  struct mprdma_memory memory;
  struct ibv_qp_attr own_attr; /* values of modify_qp that the engine does not keep */
  struct ibv_qp_attr* attr;    /* own_attr, or the one that the handles share */
  struct ibv_qp_init_attr init;
  struct mprdma_xrcd* xrcd;        /* XRC_RECV */
  struct mprdma_shared_qp* shared; /* XRC_RECV */
  struct mprdma_qp* next_handle;   /* XRC_RECV */
  struct mprdma_group* groups;     /* UD, under sq.lock */
  uint32_t ece_options;
  uint32_t async_events_written; /* under context->async.lock */
};

#define MPRDMA_CONTAINER(pointer, type, member) \
  ((type*)(void*)((char*)(pointer)-offsetof(type, member)))

static inline struct mprdma_context* to_mprdma_context(struct ibv_context* context) {
  return MPRDMA_CONTAINER(context, struct mprdma_context, verbs.context);
}
static inline struct mprdma_pd* to_mprdma_pd(struct ibv_pd* pd) {
  return MPRDMA_CONTAINER(pd, struct mprdma_pd, ibv);
}
static inline struct mprdma_td* to_mprdma_td(struct ibv_td* td) {
  return MPRDMA_CONTAINER(td, struct mprdma_td, ibv);
}
static inline struct mprdma_mr* to_mprdma_mr(struct verbs_mr* mr) {
  return MPRDMA_CONTAINER(mr, struct mprdma_mr, verbs);
}
static inline struct mprdma_mw* to_mprdma_mw(struct ibv_mw* mw) {
  return MPRDMA_CONTAINER(mw, struct mprdma_mw, ibv);
}
static inline struct mprdma_dm* to_mprdma_dm(struct ibv_dm* dm) {
  return MPRDMA_CONTAINER(dm, struct mprdma_dm, ibv);
}
static inline struct mprdma_ah* to_mprdma_ah(struct ibv_ah* ah) {
  return MPRDMA_CONTAINER(ah, struct mprdma_ah, ibv);
}
static inline struct mprdma_cq* to_mprdma_cq(struct ibv_cq* cq) {
  return MPRDMA_CONTAINER(cq, struct mprdma_cq, verbs.cq);
}
static inline struct mprdma_cq* to_mprdma_cq_ex(struct ibv_cq_ex* cq) {
  return MPRDMA_CONTAINER(cq, struct mprdma_cq, verbs.cq_ex);
}
static inline struct mprdma_srq* to_mprdma_srq(struct ibv_srq* srq) {
  return MPRDMA_CONTAINER(srq, struct mprdma_srq, verbs.srq);
}
static inline struct mprdma_xrcd* to_mprdma_xrcd(struct ibv_xrcd* xrcd) {
  return MPRDMA_CONTAINER(xrcd, struct mprdma_xrcd, ibv);
}
static inline struct mprdma_qp* to_mprdma_qp(struct ibv_qp* qp) {
  return MPRDMA_CONTAINER(qp, struct mprdma_qp, verbs.qp);
}
static inline struct mprdma_qp* to_mprdma_qp_ex(struct ibv_qp_ex* qp) {
  return MPRDMA_CONTAINER(qp, struct mprdma_qp, verbs.qp_ex);
}

/* Counts of users are only ever compared with 0. */
static inline void mprdma_count(uint32_t* users, uint32_t change) {
  __atomic_fetch_add(users, change, __ATOMIC_ACQ_REL);
}
static inline bool mprdma_in_use(const uint32_t* users) {
  return __atomic_load_n(users, __ATOMIC_ACQUIRE) != 0;
}
