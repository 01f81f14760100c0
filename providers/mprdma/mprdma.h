/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The provider's objects: each embeds the verbs object it stands for and has one converter.
 * C only (rdma_core_private.h).
 *
 * Locks, in the order in which they may be taken together:
 *   context.engine_lock  connecting to the engine
 *   cq.lock              one completion ring's consumer side
 *   sq.lock, rq.lock     one work queue's producer side
 *   event_queue.lock     one event descriptor; the engine's on_event callback takes only this one
 * No lock but engine_lock and cq.lock (resize) is held across a call into the engine.
 */
#pragma once

#include <pthread.h>
#include <stdint.h>
#include <sys/types.h>

#include "abi/mprdma_abi.h"
#include "abi/mprdma_ring.h"
#include "dataplane/engine.h"
#include "providers/mprdma/device_facts.h"
#include "providers/mprdma/rdma_core_private.h"

#define MPRDMA_PORT 1u
#define MPRDMA_PKEY_DEFAULT 0xffffu

/* ---- Memory that the engine reads and writes: never shared with a forked child (ring.c). */
struct mprdma_memory {
  void* base;
  size_t bytes;
  pid_t pid; /* owner: a child must not unmap what it never had */
};
int mprdma_memory_map(struct mprdma_memory* memory, size_t bytes); /* zeroed; 0 or errno */
void mprdma_memory_unmap(struct mprdma_memory* memory);
uint32_t mprdma_power_of_two(uint32_t at_least); /* 1 <= at_least <= 2^31 */

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
int mprdma_event_queue_init(struct mprdma_event_queue* queue, int read_fd, int write_fd,
                            size_t record_bytes);
void mprdma_event_queue_close(struct mprdma_event_queue* queue);
/* Adds a record and counts it in *written, under the queue's lock. Never blocks for long. */
void mprdma_event_queue_push(struct mprdma_event_queue* queue, const void* record,
                             uint32_t* written);
void mprdma_event_queue_flush(struct mprdma_event_queue* queue); /* backlog into the pipe */
/* Removes the records whose first 8 bytes are `element` and that `is_match` accepts (NULL: all);
 * returns how many. */
uint32_t mprdma_event_queue_purge(struct mprdma_event_queue* queue, uint64_t element,
                                  bool (*is_match)(const void* record));

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
  pthread_mutex_t engine_lock;
  struct mprdma_abi_channel channel; /* valid while engine_pid is this process */
  pid_t engine_pid;                  /* 0: not connected */
  uint32_t port_down;                /* set and cleared by port events */
  struct mprdma_event_queue async;   /* records: struct mprdma_async_record */
  struct mprdma_comp_channel* comp_channels;
};

struct mprdma_async_record { /* what ibv_get_async_event() reads */
  uint64_t element;
  uint32_t type; /* enum ibv_event_type */
  uint32_t reserved;
};

struct mprdma_pd {
  struct ibv_pd ibv;
  uint32_t users; /* MRs and QPs */
  pthread_mutex_t lock;
  uint32_t handle; /* of the engine of `engine_pid`; allocated at first use */
  pid_t engine_pid;
};

struct mprdma_mr {
  struct verbs_mr verbs;
  uint32_t handle;
  pid_t engine_pid;
};

struct mprdma_cq {
  struct verbs_cq verbs;
  struct mprdma_context* context;
  pthread_spinlock_t lock;
  struct mprdma_abi_cqe* ring;
  struct mprdma_abi_cq_dbr* dbr;
  uint32_t depth;
  uint32_t consumer;
  uint32_t arm_serial;
  uint32_t next_armed; /* a request for any next completion stands: it covers a solicited one */
  uint32_t handle;
  pid_t engine_pid;
  struct mprdma_memory memory;
  const struct mprdma_abi_cqe* current; /* extended polling: the entry being looked at */
  uint32_t users;                       /* QPs, counted once for each of the two roles */
  struct mprdma_comp_channel* comp_channel;
  uint32_t comp_events_written;  /* under comp_channel->events.lock */
  uint32_t async_events_written; /* under context->async.lock */
};

struct mprdma_work_queue {
  pthread_spinlock_t lock;
  char* ring;
  struct mprdma_abi_queue_dbr* dbr;
  uint32_t depth;
  uint32_t stride;
  uint32_t max_sge;
  uint32_t max_inline;
  uint32_t producer;
  uint32_t consumer_seen; /* last value of dbr->consumer, so that the line is rarely read */
};

struct mprdma_qp {
  struct verbs_qp verbs;
  struct mprdma_context* context;
  struct mprdma_work_queue sq;
  struct mprdma_work_queue rq;
  uint32_t doorbell;
  uint32_t handle;
  pid_t engine_pid;
  uint16_t always_flags; /* MPRDMA_ABI_WQE_SIGNALED if sq_sig_all */
  uint32_t state;        /* enum ibv_qp_state; what the provider was last told */
  uint32_t in_error;     /* an error was seen: posted receives must be flushed at once */
  /* ibv_wr_*: the batch under construction, under sq.lock */
  uint32_t batch_producer;
  int batch_error;
  struct mprdma_abi_send_wqe* batch_wqe;
  struct mprdma_memory memory;
  struct ibv_qp_attr attr; /* what modify_qp set and the engine does not keep */
  struct ibv_qp_init_attr init;
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
static inline struct mprdma_mr* to_mprdma_mr(struct verbs_mr* mr) {
  return MPRDMA_CONTAINER(mr, struct mprdma_mr, verbs);
}
static inline struct mprdma_cq* to_mprdma_cq(struct ibv_cq* cq) {
  return MPRDMA_CONTAINER(cq, struct mprdma_cq, verbs.cq);
}
static inline struct mprdma_cq* to_mprdma_cq_ex(struct ibv_cq_ex* cq) {
  return MPRDMA_CONTAINER(cq, struct mprdma_cq, verbs.cq_ex);
}
static inline struct mprdma_qp* to_mprdma_qp(struct ibv_qp* qp) {
  return MPRDMA_CONTAINER(qp, struct mprdma_qp, verbs.qp);
}
static inline struct mprdma_qp* to_mprdma_qp_ex(struct ibv_qp_ex* qp) {
  return MPRDMA_CONTAINER(qp, struct mprdma_qp, verbs.qp_ex);
}

/* ---- mprdma.c */
bool mprdma_is_our_device(struct ibv_device* device);

/* ---- engine_link.c: the engine's library and this context's connection to it. */
/* Limits without starting an engine. 0 or errno (the library is missing: said once). */
int mprdma_engine_link_limits(struct mprdma_abi_device_info* info);
/* Connects if this process is not connected yet. 0 or errno. */
int mprdma_engine_link_connect(struct mprdma_context* context);
void mprdma_engine_link_disconnect(struct mprdma_context* context);
/* One command over a connected context. 0 or errno. */
int mprdma_execute(struct mprdma_context* context, uint32_t command, const void* in,
                   size_t in_bytes, void* out, size_t out_bytes);
/* A command whose input is a handle of the engine of `engine_pid`; nothing if that is another
 * process (the object was made before a fork). */
int mprdma_execute_handle(struct mprdma_context* context, pid_t engine_pid, uint32_t command,
                          uint32_t handle);

/* ---- query.c */
int mprdma_query_device_ex(struct ibv_context* context,
                           const struct ibv_query_device_ex_input* input,
                           struct ibv_device_attr_ex* attr, size_t attr_size);
int mprdma_query_port(struct ibv_context* context, uint8_t port, struct ibv_port_attr* attr);
enum ibv_mtu mprdma_mtu_to_enum(uint32_t bytes);
uint32_t mprdma_mtu_to_bytes(enum ibv_mtu mtu); /* 0: not a path MTU */

/* ---- event.c */
void mprdma_on_event(void* context, const struct mprdma_abi_event* event);
void mprdma_async_event(struct ibv_context* context, struct ibv_async_event* event);
void mprdma_cq_event(struct ibv_cq* cq);
/* The channel object of `ibv`, made at its first CQ. 0 or errno. */
int mprdma_comp_channel_get(struct mprdma_context* context, const struct ibv_comp_channel* ibv,
                            struct mprdma_comp_channel** out);
void mprdma_comp_channel_put(struct mprdma_context* context, struct mprdma_comp_channel* channel);
void mprdma_drain_cq_events(struct mprdma_cq* cq);
void mprdma_drain_qp_events(struct mprdma_qp* qp);

/* ---- pd.c, mr.c */
struct ibv_pd* mprdma_alloc_pd(struct ibv_context* context);
int mprdma_dealloc_pd(struct ibv_pd* pd);
/* The engine's handle of the PD, allocated if need be; the context must be connected. */
int mprdma_pd_handle(struct mprdma_pd* pd, uint32_t* handle);
struct ibv_mr* mprdma_reg_mr(struct ibv_pd* pd, void* addr, size_t length, uint64_t iova,
                             int access);
int mprdma_dereg_mr(struct verbs_mr* mr);

/* ---- cq.c, cq_ex.c */
struct ibv_cq* mprdma_create_cq(struct ibv_context* context, int cqe,
                                struct ibv_comp_channel* channel, int comp_vector);
struct ibv_cq_ex* mprdma_create_cq_ex(struct ibv_context* context,
                                      struct ibv_cq_init_attr_ex* attr);
int mprdma_destroy_cq(struct ibv_cq* cq);
int mprdma_resize_cq(struct ibv_cq* cq, int cqe);
int mprdma_poll_cq(struct ibv_cq* cq, int num_entries, struct ibv_wc* wc);
int mprdma_req_notify_cq(struct ibv_cq* cq, int solicited_only);
void mprdma_cq_fill_ex(struct mprdma_cq* cq, uint64_t wc_flags);
/* The entry at the consumer index, past purged ones, or NULL. cq->lock held. */
const struct mprdma_abi_cqe* mprdma_cq_peek(struct mprdma_cq* cq);
/* Tells the engine how far the ring was read. cq->lock held. */
void mprdma_cq_publish(struct mprdma_cq* cq);
/* Notes what an entry says about its QP. */
void mprdma_cq_note(const struct mprdma_abi_cqe* cqe);
/* Takes back the unread entries of a QP that is gone or was reset. */
void mprdma_cq_purge(struct mprdma_cq* cq, const struct mprdma_qp* qp);

/* ---- qp.c, qp_modify.c, post.c, wr_builder.c */
struct ibv_qp* mprdma_create_qp(struct ibv_pd* pd, struct ibv_qp_init_attr* attr);
struct ibv_qp* mprdma_create_qp_ex(struct ibv_context* context, struct ibv_qp_init_attr_ex* attr);
struct ibv_qp* mprdma_create_qp_with(struct ibv_context* context, struct ibv_qp_init_attr_ex* attr,
                                     const struct mprdma_abi_qp_transport* transport);
int mprdma_destroy_qp(struct ibv_qp* qp);
void mprdma_qp_purge_completions(struct mprdma_qp* qp);
int mprdma_modify_qp(struct ibv_qp* qp, struct ibv_qp_attr* attr, int attr_mask);
int mprdma_query_qp(struct ibv_qp* qp, struct ibv_qp_attr* attr, int attr_mask,
                    struct ibv_qp_init_attr* init_attr);
int mprdma_query_qp_data_in_order(struct ibv_qp* qp, enum ibv_wr_opcode op, uint32_t flags);
int mprdma_post_send(struct ibv_qp* qp, struct ibv_send_wr* wr, struct ibv_send_wr** bad_wr);
int mprdma_post_recv(struct ibv_qp* qp, struct ibv_recv_wr* wr, struct ibv_recv_wr** bad_wr);
/* Verbs send flags, and MPRDMADV_SEND_SYNCHRONISE, as the queue ABI has them. */
uint16_t mprdma_send_flags(const struct mprdma_qp* qp, unsigned int flags);
/* May a request with these flags be posted? 0, or EOPNOTSUPP for one that the engine has not. */
int mprdma_check_send_flags(const struct mprdma_qp* qp, unsigned int flags);
/* May this state be posted to? 0 or errno. */
int mprdma_qp_may_send(const struct mprdma_qp* qp);
/* The next free send slot, or NULL: full. sq.lock held. */
struct mprdma_abi_send_wqe* mprdma_sq_slot(struct mprdma_work_queue* sq, uint32_t producer);
/* Publishes the producer index and rings. sq.lock held. */
void mprdma_sq_publish(struct mprdma_qp* qp, uint32_t producer);
/* After sq.lock is dropped: lets the engine work. */
void mprdma_engine_poke(struct mprdma_qp* qp);
/* Fills the builder's function pointers. 0 or EOPNOTSUPP for an operation we do not have. */
int mprdma_wr_builder_fill(struct mprdma_qp* qp, uint64_t send_ops);
