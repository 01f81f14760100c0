/* SPDX-License-Identifier: BSD-2-Clause */
/* Queue pairs: creation with their rings, destruction with everything that points at them. */
#include <stdlib.h>
#include <unistd.h>

#include "providers/mprdma/mprdmadv.h"
#include "providers/mprdma/operations.h"

#define SQ_STRIDE_UNIT 64u
#define ATOMIC_WRITE_BYTES 8u

/* Sizes both rings: slots are as small as the request allows, so that 64 bytes of WQE and 64 of
 * inline data or four SGEs are two cache lines. Returns the bytes of the receive ring. */
static size_t size_rings(struct mprdma_qp* qp, const struct ibv_qp_init_attr_ex* attr) {
  const struct ibv_qp_cap* cap = &attr->cap;
  uint32_t sge = cap->max_send_sge > 0 ? cap->max_send_sge : 1;
  uint32_t inline_bytes = cap->max_inline_data;
  bool writes_atomically = (attr->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) != 0 &&
                           (attr->send_ops_flags & IBV_QP_EX_WITH_ATOMIC_WRITE) != 0;
  if (writes_atomically && inline_bytes < ATOMIC_WRITE_BYTES) {
    inline_bytes = ATOMIC_WRITE_BYTES; /* the operation brings its data along */
  }
  size_t sge_bytes = sge * sizeof(struct mprdma_abi_sge);
  size_t tail = sge_bytes > inline_bytes ? sge_bytes : inline_bytes;
  size_t slot = sizeof(struct mprdma_abi_send_wqe) + tail;
  if (attr->qp_type != IBV_QPT_XRC_RECV) {
    qp->sq.depth = mprdma_power_of_two(cap->max_send_wr > 0 ? cap->max_send_wr : 1);
    qp->sq.stride = (uint32_t)((slot + SQ_STRIDE_UNIT - 1) / SQ_STRIDE_UNIT * SQ_STRIDE_UNIT);
    qp->sq.max_sge = sge;
    /* Reports the room that a slot has anyway, as adapters do: some programs send inline without
     * having asked (rdma_xclient). */
    struct mprdma_abi_device_info info;
    uint32_t room = qp->sq.stride - (uint32_t)sizeof(struct mprdma_abi_send_wqe);
    uint32_t most = mprdma_engine_link_limits(&info) == 0 ? info.max_inline_bytes : inline_bytes;
    room = room < most ? room : most;
    qp->sq.max_inline = inline_bytes > room ? inline_bytes : room;
  }
  bool receives =
      attr->srq == NULL && attr->qp_type != IBV_QPT_XRC_SEND && attr->qp_type != IBV_QPT_XRC_RECV;
  return receives ? mprdma_size_receives(&qp->rq, cap->max_recv_wr, cap->max_recv_sge) : 0;
}

static int map_rings(struct mprdma_qp* qp, const struct ibv_qp_init_attr_ex* attr) {
  size_t rq_bytes = size_rings(qp, attr);
  size_t sq_bytes = (size_t)qp->sq.depth * qp->sq.stride;
  if (sq_bytes + rq_bytes == 0) {
    return 0;
  }
  int error = mprdma_memory_get(&qp->memory, to_mprdma_pd(attr->pd), MPRDMADV_RES_TYPE_QP,
                                sq_bytes + rq_bytes + 2 * sizeof(struct mprdma_abi_queue_dbr));
  if (error != 0) {
    return error;
  }
  qp->sq.ring = qp->memory.base;
  qp->rq.ring = qp->sq.ring + sq_bytes;
  qp->sq.dbr = (struct mprdma_abi_queue_dbr*)(void*)(qp->rq.ring + rq_bytes);
  qp->rq.dbr = qp->sq.dbr + 1;
  return 0;
}

static bool holds_pd(const struct ibv_qp* ibv) {
  return ibv->pd != NULL && ibv->qp_type != IBV_QPT_XRC_RECV;
}

static uint32_t cq_handle(struct ibv_cq* cq) {
  return cq != NULL ? to_mprdma_cq(cq)->object.handle : 0;
}

static void describe(const struct mprdma_qp* qp, const struct ibv_qp_init_attr_ex* attr,
                     struct mprdma_abi_create_qp* in) {
  _Static_assert((int)IBV_QPT_RC == MPRDMA_ABI_QP_RC && (int)IBV_QPT_UC == MPRDMA_ABI_QP_UC &&
                     (int)IBV_QPT_UD == MPRDMA_ABI_QP_UD &&
                     (int)IBV_QPT_XRC_SEND == MPRDMA_ABI_QP_XRC_SEND &&
                     (int)IBV_QPT_XRC_RECV == MPRDMA_ABI_QP_XRC_RECV,
                 "types of queue pairs are the same numbers on both sides");
  const struct ibv_qp* ibv = &qp->verbs.qp;
  bool blocks_self = (attr->comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS) != 0 &&
                     (attr->create_flags & IBV_QP_CREATE_BLOCK_SELF_MCAST_LB) != 0;
  in->type = (uint32_t)ibv->qp_type;
  in->send_cq = cq_handle(ibv->send_cq);
  in->recv_cq = cq_handle(ibv->recv_cq);
  in->srq = ibv->srq != NULL ? to_mprdma_srq(ibv->srq)->object.handle : 0;
  in->signal_all = attr->sq_sig_all != 0;
  in->xrcd = qp->xrcd != NULL ? qp->xrcd->domain->object.handle : 0;
  in->flags = blocks_self ? MPRDMA_ABI_QP_BLOCK_SELF_MCAST : 0;
  in->cookie = qp->shared != NULL ? (uint64_t)(uintptr_t)qp->shared + MPRDMA_COOKIE_SHARED
                                  : (uint64_t)(uintptr_t)qp;
  in->sq = mprdma_describe_queue(&qp->sq);
  in->rq = mprdma_describe_queue(&qp->rq);
}

static int create_in_engine(struct mprdma_qp* qp, const struct ibv_qp_init_attr_ex* attr,
                            const struct mprdma_abi_qp_transport* transport) {
  struct mprdma_abi_create_qp in = {.transport = *transport};
  struct mprdma_abi_create_qp_out out = {0};
  static const struct mprdma_abi_qp_transport kDefault = {0};
  bool settable = mprdma_has_feature(qp->context, MPRDMA_ABI_FEATURE_QP_TRANSPORT);
  if (!settable && memcmp(transport, &kDefault, sizeof(kDefault)) != 0) {
    return EOPNOTSUPP;
  }
  describe(qp, attr, &in);
  int error = holds_pd(&qp->verbs.qp) ? mprdma_pd_handle(to_mprdma_pd(qp->verbs.qp.pd), &in.pd) : 0;
  if (error == 0) {
    error = mprdma_execute(qp->context, MPRDMA_ABI_CREATE_QP, &in, sizeof(in), &out, sizeof(out));
  }
  if (error != 0) {
    return error;
  }
  mprdma_object_add(qp->object, MPRDMA_OBJECT_QP, qp->context, out.handle);
  qp->doorbell = out.doorbell;
  qp->verbs.qp.qp_num = out.qpn;
  qp->verbs.qp.handle = qp->object->number;
  if (qp->shared != NULL) {
    mprdma_shared_qp_is_made(qp, out.qpn);
  }
  return 0;
}

/* Fills in the members of ibv_qp that libibverbs leaves to the provider. */
void mprdma_qp_init(struct mprdma_qp* qp, const struct ibv_qp_init_attr_ex* attr) {
  struct ibv_qp* ibv = &qp->verbs.qp;
  ibv->context = &qp->context->verbs.context;
  ibv->qp_context = attr->qp_context;
  ibv->state = IBV_QPS_RESET;
  ibv->qp_type = attr->qp_type;
  if (attr->qp_type == IBV_QPT_XRC_RECV) {
    qp->xrcd = to_mprdma_xrcd(attr->xrcd);
    /* The domain is not the queue pair's own, but librdmacm asks for it (rdma_create_srq). */
    ibv->pd = (attr->comp_mask & IBV_QP_INIT_ATTR_PD) != 0 ? attr->pd : NULL;
  } else {
    ibv->pd = attr->pd;
    ibv->send_cq = attr->send_cq;
    ibv->recv_cq = attr->qp_type != IBV_QPT_XRC_SEND ? attr->recv_cq : NULL;
    ibv->srq = attr->srq;
  }
  pthread_mutex_init(&ibv->mutex, NULL);
  pthread_cond_init(&ibv->cond, NULL);
  pthread_spin_init(&qp->sq.lock, PTHREAD_PROCESS_PRIVATE);
  pthread_spin_init(&qp->rq.lock, PTHREAD_PROCESS_PRIVATE);
  qp->object = &qp->own_object;
  qp->attr = &qp->own_attr;
  qp->state = IBV_QPS_RESET;
  qp->always_flags = attr->sq_sig_all ? MPRDMA_ABI_WQE_SIGNALED : 0;
  qp->init = (struct ibv_qp_init_attr){.qp_context = attr->qp_context,
                                       .send_cq = ibv->send_cq,
                                       .recv_cq = ibv->recv_cq,
                                       .srq = ibv->srq,
                                       .qp_type = attr->qp_type,
                                       .sq_sig_all = attr->sq_sig_all};
}

/* Reports the real capacities of the rings, which may exceed the request. */
static struct ibv_qp_cap actual_caps(const struct mprdma_qp* qp) {
  return (struct ibv_qp_cap){.max_send_wr = qp->sq.depth,
                             .max_recv_wr = qp->rq.depth,
                             .max_send_sge = qp->sq.max_sge,
                             .max_recv_sge = qp->rq.max_sge,
                             .max_inline_data = qp->sq.max_inline};
}

static int create(struct mprdma_qp* qp, const struct ibv_qp_init_attr_ex* attr,
                  const struct mprdma_abi_qp_transport* transport) {
  int error = mprdma_engine_link_connect(qp->context);
  if (error == 0) {
    error = mprdma_qp_check_features(qp->context, attr);
  }
  if (error == 0) {
    struct mprdma_abi_device_info info;
    qp->operations = mprdma_qp_operations(qp->context, attr->qp_type);
    qp->ece_options = mprdma_engine_link_limits(&info) == 0 ? info.modes : 0;
    if ((attr->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) != 0) {
      error = mprdma_wr_builder_fill(qp, attr->send_ops_flags);
      qp->verbs.comp_mask |= VERBS_QP_HAS_EX;
    }
  }
  if (error == 0) {
    error = map_rings(qp, attr);
  }
  if (error == 0 && attr->qp_type == IBV_QPT_XRC_RECV) {
    error = mprdma_share_qp(qp);
  }
  if (error == 0) {
    error = create_in_engine(qp, attr, transport);
    if (error != 0 && qp->shared != NULL) {
      mprdma_unshare_qp(qp);
    }
  }
  return error;
}

static void count_cq(struct ibv_cq* cq, uint32_t change) {
  if (cq != NULL) {
    mprdma_count(&to_mprdma_cq(cq)->users, change);
  }
}

void mprdma_qp_count_users(const struct mprdma_qp* qp, uint32_t change) {
  const struct ibv_qp* ibv = &qp->verbs.qp;
  if (holds_pd(ibv)) {
    mprdma_pd_count(to_mprdma_pd(ibv->pd), change);
  }
  count_cq(ibv->send_cq, change);
  count_cq(ibv->recv_cq, change);
  if (ibv->srq != NULL) {
    mprdma_count(&to_mprdma_srq(ibv->srq)->users, change);
  }
  if (qp->xrcd != NULL) {
    mprdma_count(&qp->xrcd->users, change);
  }
}

void mprdma_qp_free(struct mprdma_qp* qp) {
  struct ibv_qp* ibv = &qp->verbs.qp;
  mprdma_memory_put(&qp->memory);
  pthread_spin_destroy(&qp->sq.lock);
  pthread_spin_destroy(&qp->rq.lock);
  pthread_mutex_destroy(&ibv->mutex);
  pthread_cond_destroy(&ibv->cond);
  free(qp);
}

struct ibv_qp* mprdma_create_qp_with(struct ibv_context* ibv, struct ibv_qp_init_attr_ex* attr,
                                     const struct mprdma_abi_qp_transport* transport) {
  int error = mprdma_qp_check_init(attr);
  struct mprdma_qp* qp = error == 0 ? calloc(1, sizeof(*qp)) : NULL;
  if (error == 0 && qp == NULL) {
    error = ENOMEM;
  }
  if (error == 0) {
    qp->context = to_mprdma_context(ibv);
    mprdma_qp_init(qp, attr);
    error = create(qp, attr, transport);
  }
  if (error != 0) {
    if (qp != NULL) {
      mprdma_qp_free(qp);
    }
    errno = error;
    return NULL;
  }
  mprdma_qp_count_users(qp, 1);
  attr->cap = actual_caps(qp);
  qp->init.cap = attr->cap;
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
  struct ibv_cq* send_cq = qp->verbs.qp.send_cq;
  struct ibv_cq* recv_cq = qp->verbs.qp.recv_cq;
  if (send_cq != NULL) {
    mprdma_cq_purge(to_mprdma_cq(send_cq), qp);
  }
  if (recv_cq != NULL && recv_cq != send_cq) {
    mprdma_cq_purge(to_mprdma_cq(recv_cq), qp);
  }
}

int mprdma_destroy_qp(struct ibv_qp* ibv) {
  struct mprdma_qp* qp = to_mprdma_qp(ibv);
  bool is_here = mprdma_object_is_here(qp->object);
  if (is_here && qp->groups != NULL) {
    return EBUSY; /* ibv_detach_mcast(3) */
  }
  int error = qp->shared != NULL ? mprdma_close_shared_qp(qp) : mprdma_object_destroy(qp->object);
  if (error != 0) {
    return error;
  }
  if (is_here) { /* otherwise its rings, and its CQs', stayed in the parent */
    mprdma_qp_purge_completions(qp);
    mprdma_drain_qp_events(qp);
  }
  mprdma_qp_count_users(qp, (uint32_t)-1);
  mprdma_qp_free(qp);
  return 0;
}
