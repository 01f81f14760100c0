/* SPDX-License-Identifier: BSD-2-Clause */
/* Queue pairs: creation with their rings, destruction with everything that points at them. */
#include "providers/mprdma/mprdma.h"

#include <stdlib.h>
#include <unistd.h>

#define SQ_STRIDE_UNIT 64u
#define RQ_STRIDE_UNIT 16u

static uint32_t round_up(size_t bytes, uint32_t unit) {
  return (uint32_t)((bytes + unit - 1) / unit * unit);
}

static int check_caps(const struct ibv_qp_cap* cap) {
  struct mprdma_abi_device_info info;
  int error = mprdma_engine_link_limits(&info);
  if (error != 0) {
    return error;
  }
  bool fits = cap->max_send_wr <= info.max_qp_wr && cap->max_recv_wr <= info.max_qp_wr &&
              cap->max_send_sge <= info.max_sge && cap->max_recv_sge <= info.max_sge &&
              cap->max_inline_data <= info.max_inline_bytes;
  return fits ? 0 : EINVAL;
}

/* Sizes both rings: slots are as small as the request allows, so that 64 bytes of WQE and 64 of
 * inline data or four SGEs are two cache lines. */
static void size_rings(struct mprdma_qp* qp, const struct ibv_qp_cap* cap) {
  uint32_t sge = cap->max_send_sge > 0 ? cap->max_send_sge : 1;
  size_t sge_bytes = sge * sizeof(struct mprdma_abi_sge);
  size_t tail = sge_bytes > cap->max_inline_data ? sge_bytes : cap->max_inline_data;
  qp->sq.depth = mprdma_power_of_two(cap->max_send_wr > 0 ? cap->max_send_wr : 1);
  qp->sq.stride = round_up(sizeof(struct mprdma_abi_send_wqe) + tail, SQ_STRIDE_UNIT);
  qp->sq.max_sge = sge;
  qp->sq.max_inline = cap->max_inline_data;
  qp->rq.depth = mprdma_power_of_two(cap->max_recv_wr > 0 ? cap->max_recv_wr : 1);
  qp->rq.max_sge = cap->max_recv_sge > 0 ? cap->max_recv_sge : 1;
  qp->rq.stride =
      round_up(sizeof(struct mprdma_abi_recv_wqe) + qp->rq.max_sge * sizeof(struct mprdma_abi_sge),
               RQ_STRIDE_UNIT);
}

static int map_rings(struct mprdma_qp* qp) {
  size_t sq_bytes = (size_t)qp->sq.depth * qp->sq.stride;
  size_t rq_bytes = round_up((size_t)qp->rq.depth * qp->rq.stride, SQ_STRIDE_UNIT);
  int error =
      mprdma_memory_map(&qp->memory, sq_bytes + rq_bytes + 2 * sizeof(struct mprdma_abi_queue_dbr));
  if (error != 0) {
    return error;
  }
  qp->sq.ring = qp->memory.base;
  qp->rq.ring = qp->sq.ring + sq_bytes;
  qp->sq.dbr = (struct mprdma_abi_queue_dbr*)(void*)(qp->rq.ring + rq_bytes);
  qp->rq.dbr = qp->sq.dbr + 1;
  return 0;
}

static struct mprdma_abi_queue describe(const struct mprdma_work_queue* queue) {
  return (struct mprdma_abi_queue){.ring = (uint64_t)(uintptr_t)queue->ring,
                                   .dbr = (uint64_t)(uintptr_t)queue->dbr,
                                   .depth = queue->depth,
                                   .stride = queue->stride,
                                   .max_sge = queue->max_sge,
                                   .max_inline = queue->max_inline};
}

static int create_in_engine(struct mprdma_qp* qp, struct mprdma_pd* pd,
                            const struct ibv_qp_init_attr_ex* attr,
                            const struct mprdma_abi_qp_transport* transport) {
  static const struct mprdma_abi_qp_transport kDefault = {0};
  struct mprdma_abi_create_qp_ex in = {.transport = *transport};
  in.base = (struct mprdma_abi_create_qp){.type = MPRDMA_ABI_QP_RC,
                                          .send_cq = to_mprdma_cq(attr->send_cq)->handle,
                                          .recv_cq = to_mprdma_cq(attr->recv_cq)->handle,
                                          .signal_all = attr->sq_sig_all != 0,
                                          .cookie = (uint64_t)(uintptr_t)qp,
                                          .sq = describe(&qp->sq),
                                          .rq = describe(&qp->rq)};
  struct mprdma_abi_create_qp_out out = {0};
  /* An engine of the first minor version knows the shorter input only. */
  bool longer = (qp->context->channel.features & MPRDMA_ABI_FEATURE_QP_TRANSPORT) != 0;
  if (!longer && memcmp(transport, &kDefault, sizeof(kDefault)) != 0) {
    return EOPNOTSUPP;
  }
  int error = mprdma_pd_handle(pd, &in.base.pd);
  if (error == 0) {
    error = mprdma_execute(qp->context, MPRDMA_ABI_CREATE_QP, &in,
                           longer ? sizeof(in) : sizeof(in.base), &out, sizeof(out));
  }
  if (error == 0) {
    qp->handle = out.handle;
    qp->doorbell = out.doorbell;
    qp->engine_pid = getpid();
    qp->verbs.qp.qp_num = out.qpn;
    qp->verbs.qp.handle = out.handle;
  }
  return error;
}

/* What libibverbs leaves to the provider. */
static void fill_verbs_qp(struct mprdma_qp* qp, struct ibv_pd* pd,
                          const struct ibv_qp_init_attr_ex* attr) {
  struct ibv_qp* ibv = &qp->verbs.qp;
  ibv->context = &qp->context->verbs.context;
  ibv->qp_context = attr->qp_context;
  ibv->pd = pd;
  ibv->send_cq = attr->send_cq;
  ibv->recv_cq = attr->recv_cq;
  ibv->srq = NULL;
  ibv->state = IBV_QPS_RESET;
  ibv->qp_type = attr->qp_type;
  pthread_mutex_init(&ibv->mutex, NULL);
  pthread_cond_init(&ibv->cond, NULL);
  pthread_spin_init(&qp->sq.lock, PTHREAD_PROCESS_PRIVATE);
  pthread_spin_init(&qp->rq.lock, PTHREAD_PROCESS_PRIVATE);
  qp->state = IBV_QPS_RESET;
  qp->always_flags = attr->sq_sig_all ? MPRDMA_ABI_WQE_SIGNALED : 0;
}

/* What the rings really hold, which may be more than was asked for. */
static struct ibv_qp_cap actual_caps(const struct mprdma_qp* qp) {
  return (struct ibv_qp_cap){.max_send_wr = qp->sq.depth,
                             .max_recv_wr = qp->rq.depth,
                             .max_send_sge = qp->sq.max_sge,
                             .max_recv_sge = qp->rq.max_sge,
                             .max_inline_data = qp->sq.max_inline};
}

static int check_init(const struct ibv_qp_init_attr_ex* attr) {
  const uint32_t kMask =
      IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS | IBV_QP_INIT_ATTR_CREATE_FLAGS;
  if ((attr->comp_mask & ~kMask) != 0 || attr->srq != NULL || attr->qp_type != IBV_QPT_RC) {
    return EOPNOTSUPP;
  }
  if ((attr->comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS) != 0 && attr->create_flags != 0) {
    return EOPNOTSUPP;
  }
  if ((attr->comp_mask & IBV_QP_INIT_ATTR_PD) == 0 || attr->pd == NULL || attr->send_cq == NULL ||
      attr->recv_cq == NULL) {
    return EINVAL;
  }
  /* A CQ made before a fork lives in the parent: here its handle may name another. */
  if (to_mprdma_cq(attr->send_cq)->engine_pid != getpid() ||
      to_mprdma_cq(attr->recv_cq)->engine_pid != getpid()) {
    return EINVAL;
  }
  return check_caps(&attr->cap);
}

static int create(struct mprdma_qp* qp, struct ibv_qp_init_attr_ex* attr,
                  const struct mprdma_abi_qp_transport* transport) {
  int error = mprdma_engine_link_connect(qp->context);
  if (error == 0 && (attr->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) != 0) {
    error = mprdma_wr_builder_fill(qp, attr->send_ops_flags);
    qp->verbs.comp_mask |= VERBS_QP_HAS_EX;
  }
  if (error == 0) {
    size_rings(qp, &attr->cap);
    error = map_rings(qp);
  }
  if (error == 0) {
    fill_verbs_qp(qp, attr->pd, attr);
    error = create_in_engine(qp, to_mprdma_pd(attr->pd), attr, transport);
  }
  return error;
}

static void count_users(const struct mprdma_qp* qp, uint32_t change) {
  const struct ibv_qp* ibv = &qp->verbs.qp;
  __atomic_fetch_add(&to_mprdma_pd(ibv->pd)->users, change, __ATOMIC_ACQ_REL);
  __atomic_fetch_add(&to_mprdma_cq(ibv->send_cq)->users, change, __ATOMIC_ACQ_REL);
  __atomic_fetch_add(&to_mprdma_cq(ibv->recv_cq)->users, change, __ATOMIC_ACQ_REL);
}

struct ibv_qp* mprdma_create_qp_with(struct ibv_context* ibv, struct ibv_qp_init_attr_ex* attr,
                                     const struct mprdma_abi_qp_transport* transport) {
  int error = check_init(attr);
  struct mprdma_qp* qp = error == 0 ? calloc(1, sizeof(*qp)) : NULL;
  if (error == 0 && qp == NULL) {
    error = ENOMEM;
  }
  if (error == 0) {
    qp->context = to_mprdma_context(ibv);
    error = create(qp, attr, transport);
  }
  if (error != 0) {
    if (qp != NULL) {
      mprdma_memory_unmap(&qp->memory);
      free(qp);
    }
    errno = error;
    return NULL;
  }
  count_users(qp, 1);
  attr->cap = actual_caps(qp);
  qp->init = (struct ibv_qp_init_attr){.qp_context = attr->qp_context,
                                       .send_cq = attr->send_cq,
                                       .recv_cq = attr->recv_cq,
                                       .cap = attr->cap,
                                       .qp_type = attr->qp_type,
                                       .sq_sig_all = attr->sq_sig_all};
  return &qp->verbs.qp;
}

struct ibv_qp* mprdma_create_qp_ex(struct ibv_context* ibv, struct ibv_qp_init_attr_ex* attr) {
  static const struct mprdma_abi_qp_transport kDefault = {0};
  return mprdma_create_qp_with(ibv, attr, &kDefault);
}

struct ibv_qp* mprdma_create_qp(struct ibv_pd* pd, struct ibv_qp_init_attr* attr) {
  struct ibv_qp_init_attr_ex ex = {.qp_context = attr->qp_context,
                                   .send_cq = attr->send_cq,
                                   .recv_cq = attr->recv_cq,
                                   .srq = attr->srq,
                                   .cap = attr->cap,
                                   .qp_type = attr->qp_type,
                                   .sq_sig_all = attr->sq_sig_all,
                                   .comp_mask = IBV_QP_INIT_ATTR_PD,
                                   .pd = pd};
  struct ibv_qp* qp = mprdma_create_qp_ex(pd->context, &ex);
  if (qp != NULL) {
    attr->cap = ex.cap;
  }
  return qp;
}

void mprdma_qp_purge_completions(struct mprdma_qp* qp) {
  mprdma_cq_purge(to_mprdma_cq(qp->verbs.qp.send_cq), qp);
  if (qp->verbs.qp.recv_cq != qp->verbs.qp.send_cq) {
    mprdma_cq_purge(to_mprdma_cq(qp->verbs.qp.recv_cq), qp);
  }
}

int mprdma_destroy_qp(struct ibv_qp* ibv) {
  struct mprdma_qp* qp = to_mprdma_qp(ibv);
  int error = mprdma_execute_handle(qp->context, qp->engine_pid, MPRDMA_ABI_DESTROY_QP, qp->handle);
  if (error != 0) {
    return error;
  }
  if (qp->engine_pid == getpid()) { /* else its rings, and its CQs', stayed in the parent */
    mprdma_qp_purge_completions(qp);
    mprdma_drain_qp_events(qp);
  }
  count_users(qp, (uint32_t)-1);
  mprdma_memory_unmap(&qp->memory);
  pthread_spin_destroy(&qp->sq.lock);
  pthread_spin_destroy(&qp->rq.lock);
  pthread_mutex_destroy(&ibv->mutex);
  pthread_cond_destroy(&ibv->cond);
  free(qp);
  return 0;
}

/*
 * Is the data of a WRITE or READ placed in order? Yes, unless the engine was configured to place as
 * packets arrive. The question names no memory region: one that was registered with
 * IBV_ACCESS_RELAXED_ORDERING asked for no order, and gets none. SENDs are always placed in order.
 */
int mprdma_query_qp_data_in_order(struct ibv_qp* ibv, enum ibv_wr_opcode op, uint32_t flags) {
  const uint64_t features = to_mprdma_qp(ibv)->context->channel.features;
  if (flags != 0) {
    return 0;
  }
  switch (op) {
    case IBV_WR_SEND:
    case IBV_WR_SEND_WITH_IMM:
      return 1;
    case IBV_WR_RDMA_WRITE:
    case IBV_WR_RDMA_WRITE_WITH_IMM:
    case IBV_WR_RDMA_READ:
      return (features & MPRDMA_ABI_FEATURE_RELAXED_ALWAYS) == 0;
    default: /* not offered */
      return 0;
  }
}
