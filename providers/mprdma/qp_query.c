/* SPDX-License-Identifier: BSD-2-Clause */
/* Queries of a queue pair: attributes, order of its data, ECE options. */
#include "providers/mprdma/operations.h"

int mprdma_qp_query_engine(struct mprdma_qp* qp, struct mprdma_abi_qp_attr* out) {
  const struct mprdma_abi_handle in = {.handle = qp->object->handle};
  if (!mprdma_object_is_here(qp->object)) {
    return EINVAL; /* a queue pair from before a fork lives in the parent */
  }
  return mprdma_execute(qp->context, MPRDMA_ABI_QUERY_QP, &in, sizeof(in), out, sizeof(*out));
}

int mprdma_query_qp(struct ibv_qp* ibv, struct ibv_qp_attr* attr, int mask,
                    struct ibv_qp_init_attr* init) {
  struct mprdma_qp* qp = to_mprdma_qp(ibv);
  struct mprdma_abi_qp_attr now;
  (void)mask; /* more than was asked for is allowed, ibv_query_qp(3) */
  int error = mprdma_qp_query_engine(qp, &now);
  if (error != 0) {
    return error;
  }
  *attr = *qp->attr;
  attr->qp_state = (enum ibv_qp_state)now.state;
  attr->cur_qp_state = attr->qp_state;
  attr->path_mig_state = IBV_MIG_MIGRATED;
  attr->qp_access_flags = now.access;
  if (now.path_mtu != 0) {
    attr->path_mtu = mprdma_mtu_to_enum(now.path_mtu);
  }
  attr->qkey = now.qkey;
  attr->dest_qp_num = now.dest_qpn;
  attr->rq_psn = now.rq_psn;
  attr->sq_psn = now.sq_psn;
  attr->timeout = now.timeout;
  attr->retry_cnt = now.retry_cnt;
  attr->rnr_retry = now.rnr_retry;
  attr->min_rnr_timer = now.min_rnr_timer;
  attr->max_rd_atomic = now.max_rd_atomic;
  attr->max_dest_rd_atomic = now.max_dest_rd_atomic;
  attr->sq_draining = now.sq_draining;
  attr->cap = qp->init.cap;
  *init = qp->init;
  init->qp_context = ibv->qp_context;
  return 0;
}

/*
 * Is the data of an operation placed in order? Yes, unless the engine was configured to place as
 * packets arrive. The question names no memory region: one that was registered with
 * IBV_ACCESS_RELAXED_ORDERING asked for no order, and gets none. SENDs are always placed in order,
 * and an atomic changes its eight bytes at once.
 */
int mprdma_query_qp_data_in_order(struct ibv_qp* ibv, enum ibv_wr_opcode op, uint32_t flags) {
  const struct mprdma_qp* qp = to_mprdma_qp(ibv);
  const uint32_t kAtomics = 1u << MPRDMA_ABI_COMPARE_SWAP | 1u << MPRDMA_ABI_FETCH_ADD;
  if (flags != 0 || qp->operations == 0) {
    return 0;
  }
  switch (op) {
    case IBV_WR_SEND:
    case IBV_WR_SEND_WITH_IMM:
      return 1;
    case IBV_WR_SEND_WITH_INV:
      return (qp->operations & 1u << MPRDMA_ABI_SEND_INVALIDATE) != 0;
    case IBV_WR_ATOMIC_CMP_AND_SWP:
    case IBV_WR_ATOMIC_FETCH_AND_ADD:
      return (qp->operations & kAtomics) == kAtomics;
    case IBV_WR_RDMA_READ:
      return (qp->operations & 1u << MPRDMA_ABI_READ) != 0 &&
             !mprdma_has_feature(qp->context, MPRDMA_ABI_FEATURE_RELAXED_ALWAYS);
    case IBV_WR_RDMA_WRITE:
    case IBV_WR_RDMA_WRITE_WITH_IMM:
      return (qp->operations & 1u << MPRDMA_ABI_WRITE) != 0 &&
             !mprdma_has_feature(qp->context, MPRDMA_ABI_FEATURE_RELAXED_ALWAYS);
    default: /* not offered, or without data */
      return 0;
  }
}

/* ---- Enhanced connection establishment: what two connection managers tell each other about their
 * devices. Ours is a bit for each mode of the transport; the mode itself the engines agree on. ----
 */

enum { kVendorId = 0x024d52 }; /* as ibv_query_device() has it */

int mprdma_set_ece(struct ibv_qp* ibv, struct ibv_ece* ece) {
  struct mprdma_qp* qp = to_mprdma_qp(ibv);
  struct mprdma_abi_device_info info;
  if (ece->comp_mask != 0) {
    return EOPNOTSUPP;
  }
  if (ece->vendor_id != kVendorId) {
    return EINVAL;
  }
  int error = mprdma_engine_link_limits(&info);
  if (error == 0) {
    qp->ece_options = ece->options & info.modes; /* never more than both have */
  }
  return error;
}

int mprdma_query_ece(struct ibv_qp* ibv, struct ibv_ece* ece) {
  ece->vendor_id = kVendorId;
  ece->options = to_mprdma_qp(ibv)->ece_options;
  ece->comp_mask = 0;
  return 0;
}
