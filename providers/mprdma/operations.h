/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The verbs, one group for each file, and what those files need of each other. C only. Functions
 * that return int return 0 or an errno value unless they say otherwise; those that are a context's
 * operation (context_ops.c) behave as libibverbs wants its provider to.
 */
#pragma once

#include "providers/mprdma/mprdma.h"

/* ---- provider.c */
bool mprdma_is_our_device(struct ibv_device* device);
/* ---- context.c */
/* Allocates a context without its operations. NULL and errno; cmd_fd is the context's, or closed.
 */
struct mprdma_context* mprdma_context_new(struct ibv_device* device, int cmd_fd, bool imported);
void mprdma_free_context(struct ibv_context* context);
/* ---- context_ops.c */
const struct verbs_context_ops* mprdma_context_ops(void);
/* The error number that a verb returns stands in errno, too. */
static inline int mprdma_reported(int error) {
  if (error != 0) {
    errno = error;
  }
  return error;
}

/* ---- object.c */
/* Enters the object, as one that the engine of this process knows by `handle`. */
void mprdma_object_add(struct mprdma_object* object, enum mprdma_object_kind kind,
                       struct mprdma_context* context, uint32_t handle);
/* Enters an object that the engine does not know yet (or never will). */
void mprdma_object_add_unknown(struct mprdma_object* object, enum mprdma_object_kind kind,
                               struct mprdma_context* context);
/* How many objects of a kind the process has. */
uint32_t mprdma_object_count(enum mprdma_object_kind kind);
void mprdma_object_known(struct mprdma_object* object, uint32_t handle);
/* True if the engine of this process knows the object; false in the child after a fork. */
bool mprdma_object_is_here(const struct mprdma_object* object);
/* Tells the engine, if it knows it, and takes the object out of the registry. On an error it is
 * left as it was. */
int mprdma_object_destroy(struct mprdma_object* object);
/* Calls `accept` for the objects of a kind until it returns true; the registry is locked meanwhile.
 * Returns that object or NULL. */
struct mprdma_object* mprdma_object_find(enum mprdma_object_kind kind,
                                         bool (*accept)(struct mprdma_object*, void*),
                                         void* wanted);
/* Destroys in the engine what a closed context left; the application's objects stay with it.
 * `forget_groups` takes a queue pair, by the engine's handle, out of its multicast groups. */
void mprdma_object_destroy_leftovers(struct mprdma_context* context,
                                     void (*forget_groups)(struct mprdma_qp*, uint32_t));

/* ---- ring.c */
int mprdma_memory_get(struct mprdma_memory* memory, struct mprdma_pd* from, uint64_t type,
                      size_t bytes);
void mprdma_memory_put(struct mprdma_memory* memory);
uint32_t mprdma_power_of_two(uint32_t at_least); /* 1 <= at_least <= 2^31 */
/* Bytes of a ring of receive slots; sizes the queue for at least so many entries. */
size_t mprdma_size_receives(struct mprdma_work_queue* rq, uint32_t wr, uint32_t sge);
struct mprdma_abi_queue mprdma_describe_queue(const struct mprdma_work_queue* queue);

/* ---- engine_link.c: the engine's library and this process's connection to it. */
/* Reads the limits without starting an engine. 0 or errno (the library is missing: said once). */
int mprdma_engine_link_limits(struct mprdma_abi_device_info* info);
/* Connects if this process is not connected yet. */
int mprdma_engine_link_connect(struct mprdma_context* context);
void mprdma_engine_link_disconnect(struct mprdma_context* context);
/* A connection of its own to the engine of this process, for a client without a verbs context. */
int mprdma_engine_link_open(const struct mprdma_abi_client* client,
                            struct mprdma_abi_channel* channel);
void mprdma_engine_link_close(struct mprdma_abi_channel* channel);
/* One command over a connected context. */
int mprdma_execute(struct mprdma_context* context, uint32_t command, const void* in,
                   size_t in_bytes, void* out, size_t out_bytes);
static inline bool mprdma_has_feature(const struct mprdma_context* context, uint64_t feature) {
  return (context->channel.features & feature) != 0;
}

/* ---- query.c */
int mprdma_query_device_ex(struct ibv_context* context,
                           const struct ibv_query_device_ex_input* input,
                           struct ibv_device_attr_ex* attr, size_t attr_size);
int mprdma_query_port(struct ibv_context* context, uint8_t port, struct ibv_port_attr* attr);
int mprdma_query_rt_values(struct ibv_context* context, struct ibv_values_ex* values);
enum ibv_mtu mprdma_mtu_to_enum(uint32_t bytes);
uint32_t mprdma_mtu_to_bytes(enum ibv_mtu mtu); /* 0: not a path MTU */

/* ---- event.c */
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

/* ---- engine_event.c */
void mprdma_on_event(void* unused, const struct mprdma_abi_event* event);
/* Starts, or stops, the events of port and device for the context. */
void mprdma_port_events_begin(struct mprdma_context* context);
void mprdma_port_events_end(struct mprdma_context* context);
void mprdma_port_events_forget_all(void); /* in a child: the parent's contexts are its own */
void mprdma_async_event(struct ibv_context* context, struct ibv_async_event* event);
void mprdma_cq_event(struct ibv_cq* cq);
/* The channel object of `ibv`, made at its first CQ. */
int mprdma_comp_channel_get(struct mprdma_context* context, const struct ibv_comp_channel* ibv,
                            struct mprdma_comp_channel** out);
void mprdma_comp_channel_put(struct mprdma_context* context, struct mprdma_comp_channel* channel);
/* The engine has promised no further event for the object: takes back those that nobody read, and
 * waits until those that were read are acknowledged. */
void mprdma_drain_cq_events(struct mprdma_cq* cq);
void mprdma_drain_qp_events(struct mprdma_qp* qp);
void mprdma_drain_srq_events(struct mprdma_srq* srq);

/* ---- pd.c */
struct ibv_pd* mprdma_alloc_pd(struct ibv_context* context);
int mprdma_dealloc_pd(struct ibv_pd* pd);
struct ibv_pd* mprdma_import_pd(struct ibv_context* context, uint32_t number);
void mprdma_unimport_pd(struct ibv_pd* pd);
/* The engine's handle of the PD, allocated if need be; the context must be connected. */
int mprdma_pd_handle(struct mprdma_pd* pd, uint32_t* handle);
/* Counts an object created on the PD (1) or destroyed (-1), which may free an import that the
   application deallocated. */
void mprdma_pd_count(struct mprdma_pd* pd, uint32_t change);
/* ---- parent_domain.c */
struct ibv_td* mprdma_alloc_td(struct ibv_context* context, struct ibv_td_init_attr* attr);
int mprdma_dealloc_td(struct ibv_td* td);
struct ibv_pd* mprdma_alloc_parent_domain(struct ibv_context* context,
                                          struct ibv_parent_domain_init_attr* attr);

/* ---- mr.c */
struct ibv_mr* mprdma_reg_mr(struct ibv_pd* pd, void* addr, size_t length, uint64_t iova,
                             int access);
int mprdma_dereg_mr(struct verbs_mr* mr);
int mprdma_check_access(int access);
/* Faults the range in, or finds out that it cannot be: EFAULT. */
int mprdma_probe(const void* addr, size_t length, bool write);
/* A region in the engine, counted as a user of its PD; errno and NULL. */
struct mprdma_mr* mprdma_mr_new(struct mprdma_pd* pd, const struct mprdma_abi_reg_mr* range,
                                enum ibv_mr_type type, int access);
uint32_t mprdma_abi_access(int access);
void mprdma_unimport_mr(struct ibv_mr* mr);
/* ---- mr_more.c */
int mprdma_rereg_mr(struct verbs_mr* mr, int flags, struct ibv_pd* pd, void* addr, size_t length,
                    int access);
struct ibv_mr* mprdma_reg_dmabuf_mr(struct ibv_pd* pd, uint64_t offset, size_t length,
                                    uint64_t iova, int fd, int access);
struct ibv_mr* mprdma_alloc_null_mr(struct ibv_pd* pd);
struct ibv_mr* mprdma_reg_dm_mr(struct ibv_pd* pd, struct ibv_dm* dm, uint64_t offset,
                                size_t length, unsigned int access);
struct ibv_mr* mprdma_import_mr(struct ibv_pd* pd, uint32_t number);
int mprdma_advise_mr(struct ibv_pd* pd, enum ibv_advise_mr_advice advice, uint32_t flags,
                     struct ibv_sge* list, uint32_t count);
/* ---- dm.c */
#define MPRDMA_DM_BYTES_MAX (256u * 1024u) /* of a process, all together */
struct ibv_dm* mprdma_alloc_dm(struct ibv_context* context, struct ibv_alloc_dm_attr* attr);
int mprdma_free_dm(struct ibv_dm* dm);
struct ibv_dm* mprdma_import_dm(struct ibv_context* context, uint32_t number);
void mprdma_unimport_dm(struct ibv_dm* dm);
bool mprdma_dm_has(const struct mprdma_dm* dm, uint64_t offset, size_t length);
/* Counts a new region of the device memory, and returns the memory, which outlives an import. */
struct mprdma_dm* mprdma_dm_mr_made(struct mprdma_dm* dm);
void mprdma_dm_mr_gone(struct mprdma_dm* dm); /* a region of the device memory was deregistered */
/* ---- mw.c */
struct ibv_mw* mprdma_alloc_mw(struct ibv_pd* pd, enum ibv_mw_type type);
int mprdma_dealloc_mw(struct ibv_mw* mw);
int mprdma_put_bind(struct mprdma_abi_send_wqe* wqe, struct ibv_mw* mw, uint32_t rkey,
                    const struct ibv_mw_bind_info* info);
/* ---- ah.c */
struct ibv_ah* mprdma_create_ah(struct ibv_pd* pd, struct ibv_ah_attr* attr);
int mprdma_destroy_ah(struct ibv_ah* ah);
int mprdma_check_address(const struct ibv_ah_attr* attr);
uint8_t mprdma_hop_limit(const struct ibv_ah_attr* attr);
/* ---- multicast.c */
int mprdma_attach_mcast(struct ibv_qp* qp, const union ibv_gid* gid, uint16_t lid);
int mprdma_detach_mcast(struct ibv_qp* qp, const union ibv_gid* gid, uint16_t lid);
/* Detaches the QP of a closed context from all groups, by the engine's handle. */
void mprdma_forget_groups(struct mprdma_qp* qp, uint32_t handle);

/* ---- cq.c, cq_ex.c */
/* NULL and errno. `channel` and `parent_domain` may be NULL. */
struct mprdma_cq* mprdma_cq_new(struct ibv_context* context, int cqe,
                                const struct ibv_comp_channel* channel, int comp_vector,
                                struct ibv_pd* parent_domain);
struct ibv_cq* mprdma_create_cq(struct ibv_context* context, int cqe,
                                struct ibv_comp_channel* channel, int comp_vector);
struct ibv_cq_ex* mprdma_create_cq_ex(struct ibv_context* context,
                                      struct ibv_cq_init_attr_ex* attr);
int mprdma_destroy_cq(struct ibv_cq* cq);
int mprdma_resize_cq(struct ibv_cq* cq, int cqe);
int mprdma_modify_cq(struct ibv_cq* cq, struct ibv_modify_cq_attr* attr);
int mprdma_poll_cq(struct ibv_cq* cq, int num_entries, struct ibv_wc* wc);
int mprdma_req_notify_cq(struct ibv_cq* cq, int solicited_only);
/* The entry at the consumer index, past purged ones, or NULL. cq->lock held. */
const struct mprdma_abi_cqe* mprdma_cq_peek(struct mprdma_cq* cq);
/* Tells the engine how far the ring was read. cq->lock held. */
void mprdma_cq_publish(struct mprdma_cq* cq);
/* The value of ibv_wc.sl. */
uint8_t mprdma_cqe_sl(const struct mprdma_cq* cq, const struct mprdma_abi_cqe* cqe);
/* Notes what an entry says about its QP. */
void mprdma_cq_note(const struct mprdma_abi_cqe* cqe);
/* Removes the unread entries of a QP that was destroyed or reset. */
void mprdma_cq_purge(struct mprdma_cq* cq, const struct mprdma_qp* qp);

/* ---- srq.c */
struct ibv_srq* mprdma_create_srq(struct ibv_pd* pd, struct ibv_srq_init_attr* attr);
struct ibv_srq* mprdma_create_srq_ex(struct ibv_context* context,
                                     struct ibv_srq_init_attr_ex* attr);
int mprdma_modify_srq(struct ibv_srq* srq, struct ibv_srq_attr* attr, int mask);
int mprdma_query_srq(struct ibv_srq* srq, struct ibv_srq_attr* attr);
int mprdma_destroy_srq(struct ibv_srq* srq);
int mprdma_get_srq_num(struct ibv_srq* srq, uint32_t* srq_num);
int mprdma_post_srq_recv(struct ibv_srq* srq, struct ibv_recv_wr* wr, struct ibv_recv_wr** bad_wr);

/* ---- xrc.c */
struct ibv_xrcd* mprdma_open_xrcd(struct ibv_context* context, struct ibv_xrcd_init_attr* attr);
int mprdma_close_xrcd(struct ibv_xrcd* xrcd);
/* The context is about to go: domains and shared QPs that other contexts opened, too, stay. */
void mprdma_xrc_leave(struct mprdma_context* context);
/* Makes the QP, which has no object of its own yet, the first handle of a shared one; and the
 * opposite, for one that the engine then refused. */
int mprdma_share_qp(struct mprdma_qp* qp);
void mprdma_unshare_qp(struct mprdma_qp* qp);
/* The engine has made it. */
void mprdma_shared_qp_is_made(struct mprdma_qp* qp, uint32_t qpn);
/* Makes `qp` one more handle of the QP of the domain that has this number; EINVAL: there is none.
 */
int mprdma_join_shared_qp(struct mprdma_qp* qp, const struct mprdma_xrc_domain* domain,
                          uint32_t qpn);
/* Removes this handle; the last one destroys the QP. */
int mprdma_close_shared_qp(struct mprdma_qp* qp);

/* ---- qp.c */
struct ibv_qp* mprdma_create_qp(struct ibv_pd* pd, struct ibv_qp_init_attr* attr);
struct ibv_qp* mprdma_create_qp_ex(struct ibv_context* context, struct ibv_qp_init_attr_ex* attr);
struct ibv_qp* mprdma_create_qp_with(struct ibv_context* context, struct ibv_qp_init_attr_ex* attr,
                                     const struct mprdma_abi_qp_transport* transport);
int mprdma_destroy_qp(struct ibv_qp* qp);
/* The parts of a QP that have nothing to do with the engine. */
void mprdma_qp_init(struct mprdma_qp* qp, const struct ibv_qp_init_attr_ex* attr);
void mprdma_qp_count_users(const struct mprdma_qp* qp, uint32_t change);
void mprdma_qp_free(struct mprdma_qp* qp);
void mprdma_qp_purge_completions(struct mprdma_qp* qp);
/* ---- qp_open.c */
struct ibv_qp* mprdma_open_qp(struct ibv_context* context, struct ibv_qp_open_attr* attr);
/* ---- qp_check.c: what may be created. */
int mprdma_qp_check_init(const struct ibv_qp_init_attr_ex* attr);
/* Requires a connected context. EOPNOTSUPP: the engine lacks a feature. */
int mprdma_qp_check_features(const struct mprdma_context* context,
                             const struct ibv_qp_init_attr_ex* attr);
/* 1 << enum mprdma_abi_send_opcode for each that a QP of this type may post. */
uint32_t mprdma_qp_operations(const struct mprdma_context* context, enum ibv_qp_type type);
/* ---- qp_states.c */
int mprdma_qp_check_mask(enum ibv_qp_type type, enum ibv_qp_state from, enum ibv_qp_state to,
                         int mask);
/* ---- qp_modify.c, qp_query.c */
int mprdma_modify_qp(struct ibv_qp* qp, struct ibv_qp_attr* attr, int attr_mask);
int mprdma_qp_query_engine(struct mprdma_qp* qp, struct mprdma_abi_qp_attr* out);
int mprdma_query_qp(struct ibv_qp* qp, struct ibv_qp_attr* attr, int attr_mask,
                    struct ibv_qp_init_attr* init_attr);
int mprdma_query_qp_data_in_order(struct ibv_qp* qp, enum ibv_wr_opcode op, uint32_t flags);
int mprdma_set_ece(struct ibv_qp* qp, struct ibv_ece* ece);
int mprdma_query_ece(struct ibv_qp* qp, struct ibv_ece* ece);

/* ---- post.c, wr_builder.c */
int mprdma_post_send(struct ibv_qp* qp, struct ibv_send_wr* wr, struct ibv_send_wr** bad_wr);
int mprdma_bind_mw(struct ibv_qp* qp, struct ibv_mw* mw, struct ibv_mw_bind* bind);
int mprdma_post_recv(struct ibv_qp* qp, struct ibv_recv_wr* wr, struct ibv_recv_wr** bad_wr);
/* A list of receives into a ring, whose lock is held; publishes them. */
int mprdma_put_receives(struct mprdma_work_queue* rq, struct ibv_recv_wr* wr,
                        struct ibv_recv_wr** bad_wr);
/* Verbs send flags, and MPRDMADV_SEND_SYNCHRONISE, as the queue ABI has them. */
uint16_t mprdma_send_flags(const struct mprdma_qp* qp, unsigned int flags);
/* Checks whether the operation may be posted. 0; EOPNOTSUPP: the engine lacks it; EINVAL: not to a
   QP of this type. */
int mprdma_check_send(const struct mprdma_qp* qp, enum mprdma_abi_send_opcode opcode,
                      unsigned int flags);
/* True if an operation carries data that may be inline. */
bool mprdma_takes_inline(enum mprdma_abi_send_opcode opcode);
/* Sets the destination of a datagram. */
int mprdma_put_destination(struct mprdma_abi_send_wqe* wqe, struct ibv_ah* ah, uint32_t remote_qpn,
                           uint32_t remote_qkey);
/* Checks whether a QP in this state accepts requests. 0 or errno. */
int mprdma_qp_may_send(const struct mprdma_qp* qp);
/* The next free send slot, or NULL: full. sq.lock held. */
struct mprdma_abi_send_wqe* mprdma_sq_slot(struct mprdma_work_queue* sq, uint32_t producer);
/* Publishes the producer index. sq.lock held. */
void mprdma_sq_publish(struct mprdma_qp* qp, uint32_t producer);
/* Has the engine take what was published; call it after sq.lock is released. */
void mprdma_sq_send(struct mprdma_qp* qp);
/* Lets the engine work, after a doorbell. */
void mprdma_engine_poke(struct mprdma_qp* qp);
/* Fills the builder's function pointers. 0 or EOPNOTSUPP for an operation we do not have. */
int mprdma_wr_builder_fill(struct mprdma_qp* qp, uint64_t send_ops);
