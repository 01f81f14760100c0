/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The ibv_wr_* way of posting, ibv_wr_post(3): wr_start locks the send queue, each operation opens
 * a slot, the setters fill it, wr_complete publishes the batch. The first error in a batch sticks
 * and makes wr_complete fail with nothing posted.
 */
#include "providers/mprdma/operations.h"

static void wr_start(struct ibv_qp_ex* ibv) {
  struct mprdma_qp* qp = to_mprdma_qp_ex(ibv);
  pthread_spin_lock(&qp->sq.lock);
  qp->batch_producer = qp->sq.producer;
  qp->batch_error = mprdma_qp_may_send(qp);
  qp->batch_wqe = NULL;
}

static int wr_complete(struct ibv_qp_ex* ibv) {
  struct mprdma_qp* qp = to_mprdma_qp_ex(ibv);
  int error = qp->batch_error;
  if (error == 0) {
    mprdma_sq_publish(qp, qp->batch_producer);
  }
  qp->batch_wqe = NULL;
  pthread_spin_unlock(&qp->sq.lock);
  if (error == 0) {
    mprdma_sq_send(qp);
  }
  return mprdma_reported(error);
}

static void wr_abort(struct ibv_qp_ex* ibv) {
  struct mprdma_qp* qp = to_mprdma_qp_ex(ibv);
  qp->batch_wqe = NULL; /* the producer index was not published, so the slots do not count */
  pthread_spin_unlock(&qp->sq.lock);
}

static void fail(struct mprdma_qp* qp, int error) {
  if (qp->batch_error == 0) {
    qp->batch_error = error;
  }
  qp->batch_wqe = NULL;
}

/* Opens the next slot; NULL after an error. */
static struct mprdma_abi_send_wqe* open_slot(struct ibv_qp_ex* ibv,
                                             enum mprdma_abi_send_opcode opcode) {
  struct mprdma_qp* qp = to_mprdma_qp_ex(ibv);
  if (qp->batch_error != 0) {
    return NULL;
  }
  int error = mprdma_check_send(qp, opcode, ibv->wr_flags);
  struct mprdma_abi_send_wqe* wqe = error == 0 ? mprdma_sq_slot(&qp->sq, qp->batch_producer) : NULL;
  if (wqe == NULL) {
    fail(qp, error != 0 ? error : ENOMEM);
    return NULL;
  }
  memset(wqe, 0, sizeof(*wqe));
  wqe->wr_id = ibv->wr_id;
  wqe->opcode = (uint8_t)opcode;
  wqe->flags = mprdma_send_flags(qp, ibv->wr_flags);
  qp->batch_producer++;
  qp->batch_wqe = wqe;
  return wqe;
}

static void open_rdma(struct ibv_qp_ex* ibv, enum mprdma_abi_send_opcode opcode, uint32_t rkey,
                      uint64_t remote_addr, uint32_t imm) {
  struct mprdma_abi_send_wqe* wqe = open_slot(ibv, opcode);
  if (wqe != NULL) {
    wqe->rkey = rkey;
    wqe->remote_addr = remote_addr;
    wqe->imm_or_rkey = imm;
  }
}

static void wr_rdma_write(struct ibv_qp_ex* ibv, uint32_t rkey, uint64_t remote_addr) {
  open_rdma(ibv, MPRDMA_ABI_WRITE, rkey, remote_addr, 0);
}

static void wr_rdma_write_imm(struct ibv_qp_ex* ibv, uint32_t rkey, uint64_t remote_addr,
                              __be32 imm) {
  open_rdma(ibv, MPRDMA_ABI_WRITE_IMM, rkey, remote_addr, imm);
}

static void wr_rdma_read(struct ibv_qp_ex* ibv, uint32_t rkey, uint64_t remote_addr) {
  open_rdma(ibv, MPRDMA_ABI_READ, rkey, remote_addr, 0);
}

static void wr_send(struct ibv_qp_ex* ibv) {
  open_slot(ibv, MPRDMA_ABI_SEND);
}

static void wr_send_imm(struct ibv_qp_ex* ibv, __be32 imm) {
  struct mprdma_abi_send_wqe* wqe = open_slot(ibv, MPRDMA_ABI_SEND_IMM);
  if (wqe != NULL) {
    wqe->imm_or_rkey = imm;
  }
}

static void wr_send_inv(struct ibv_qp_ex* ibv, uint32_t rkey) {
  struct mprdma_abi_send_wqe* wqe = open_slot(ibv, MPRDMA_ABI_SEND_INVALIDATE);
  if (wqe != NULL) {
    wqe->imm_or_rkey = rkey;
  }
}

static void wr_local_inv(struct ibv_qp_ex* ibv, uint32_t rkey) {
  struct mprdma_abi_send_wqe* wqe = open_slot(ibv, MPRDMA_ABI_LOCAL_INVALIDATE);
  if (wqe != NULL) {
    wqe->imm_or_rkey = rkey;
  }
}

static void wr_bind_mw(struct ibv_qp_ex* ibv, struct ibv_mw* mw, uint32_t rkey,
                       const struct ibv_mw_bind_info* info) {
  struct mprdma_abi_send_wqe* wqe = open_slot(ibv, MPRDMA_ABI_BIND_MW);
  int error = wqe != NULL ? mprdma_put_bind(wqe, mw, rkey, info) : 0;
  if (error != 0) {
    fail(to_mprdma_qp_ex(ibv), error);
  }
}

static void wr_set_ud_addr(struct ibv_qp_ex* ibv, struct ibv_ah* ah, uint32_t remote_qpn,
                           uint32_t remote_qkey) {
  struct mprdma_qp* qp = to_mprdma_qp_ex(ibv);
  int error = 0;
  if (qp->batch_wqe != NULL) {
    error = mprdma_put_destination(qp->batch_wqe, ah, remote_qpn, remote_qkey);
  }
  if (error != 0) {
    fail(qp, error);
  }
}

static void wr_set_xrc_srqn(struct ibv_qp_ex* ibv, uint32_t remote_srqn) {
  struct mprdma_qp* qp = to_mprdma_qp_ex(ibv);
  if (qp->batch_wqe != NULL) {
    qp->batch_wqe->xrc_srqn = remote_srqn;
  }
}

static void open_atomic(struct ibv_qp_ex* ibv, enum mprdma_abi_send_opcode opcode, uint32_t rkey,
                        uint64_t remote_addr, uint64_t compare_add, uint64_t swap) {
  struct mprdma_abi_send_wqe* wqe = open_slot(ibv, opcode);
  if (wqe != NULL) {
    wqe->rkey = rkey;
    wqe->remote_addr = remote_addr;
    wqe->compare_add = compare_add;
    wqe->swap = swap;
  }
}

static void wr_atomic_cmp_swp(struct ibv_qp_ex* ibv, uint32_t rkey, uint64_t remote_addr,
                              uint64_t compare, uint64_t swap) {
  open_atomic(ibv, MPRDMA_ABI_COMPARE_SWAP, rkey, remote_addr, compare, swap);
}

static void wr_atomic_fetch_add(struct ibv_qp_ex* ibv, uint32_t rkey, uint64_t remote_addr,
                                uint64_t add) {
  open_atomic(ibv, MPRDMA_ABI_FETCH_ADD, rkey, remote_addr, add, 0);
}

static void wr_set_sge_list(struct ibv_qp_ex* ibv, size_t num_sge, const struct ibv_sge* list) {
  struct mprdma_qp* qp = to_mprdma_qp_ex(ibv);
  uint64_t total = 0;
  if (qp->batch_wqe == NULL) {
    return;
  }
  if (num_sge > qp->sq.max_sge) {
    fail(qp, EINVAL);
    return;
  }
  struct mprdma_abi_sge* sge = (struct mprdma_abi_sge*)(void*)(qp->batch_wqe + 1);
  for (size_t i = 0; i < num_sge; i++) {
    sge[i].addr = list[i].addr;
    sge[i].length = list[i].length;
    sge[i].lkey = list[i].lkey;
    total += list[i].length;
  }
  qp->batch_wqe->num_sge = (uint8_t)num_sge;
  if (total > MPRDMA_ABI_MESSAGE_BYTES_MAX) {
    fail(qp, EINVAL);
  }
}

static void wr_set_sge(struct ibv_qp_ex* ibv, uint32_t lkey, uint64_t addr, uint32_t length) {
  const struct ibv_sge sge = {.addr = addr, .length = length, .lkey = lkey};
  wr_set_sge_list(ibv, 1, &sge);
}

static void wr_set_inline_data_list(struct ibv_qp_ex* ibv, size_t num_buf,
                                    const struct ibv_data_buf* list) {
  struct mprdma_qp* qp = to_mprdma_qp_ex(ibv);
  struct mprdma_abi_send_wqe* wqe = qp->batch_wqe;
  size_t used = 0;
  if (wqe == NULL) {
    return;
  }
  if (!mprdma_takes_inline((enum mprdma_abi_send_opcode)wqe->opcode)) {
    fail(qp, EINVAL);
    return;
  }
  for (size_t i = 0; i < num_buf; i++) {
    if (list[i].length > qp->sq.max_inline - used) {
      fail(qp, EINVAL);
      return;
    }
    memcpy((char*)(wqe + 1) + used, list[i].addr, list[i].length);
    used += list[i].length;
  }
  wqe->flags |= MPRDMA_ABI_WQE_INLINE;
  wqe->inline_bytes = (uint32_t)used;
}

static void wr_set_inline_data(struct ibv_qp_ex* ibv, void* addr, size_t length) {
  const struct ibv_data_buf buffer = {.addr = addr, .length = length};
  wr_set_inline_data_list(ibv, 1, &buffer);
}

static void wr_atomic_write(struct ibv_qp_ex* ibv, uint32_t rkey, uint64_t remote_addr,
                            const void* data) {
  const struct ibv_data_buf buffer = {.addr = (void*)(uintptr_t)data, .length = sizeof(uint64_t)};
  open_rdma(ibv, MPRDMA_ABI_ATOMIC_WRITE, rkey, remote_addr, 0);
  wr_set_inline_data_list(ibv, 1, &buffer);
}

/* The operation that each flag asks for. */
static const struct {
  uint64_t flag;
  enum mprdma_abi_send_opcode opcode;
} kBuilders[] = {
    {IBV_QP_EX_WITH_RDMA_WRITE, MPRDMA_ABI_WRITE},
    {IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM, MPRDMA_ABI_WRITE_IMM},
    {IBV_QP_EX_WITH_SEND, MPRDMA_ABI_SEND},
    {IBV_QP_EX_WITH_SEND_WITH_IMM, MPRDMA_ABI_SEND_IMM},
    {IBV_QP_EX_WITH_RDMA_READ, MPRDMA_ABI_READ},
    {IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP, MPRDMA_ABI_COMPARE_SWAP},
    {IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD, MPRDMA_ABI_FETCH_ADD},
    {IBV_QP_EX_WITH_LOCAL_INV, MPRDMA_ABI_LOCAL_INVALIDATE},
    {IBV_QP_EX_WITH_BIND_MW, MPRDMA_ABI_BIND_MW},
    {IBV_QP_EX_WITH_SEND_WITH_INV, MPRDMA_ABI_SEND_INVALIDATE},
    {IBV_QP_EX_WITH_ATOMIC_WRITE, MPRDMA_ABI_ATOMIC_WRITE},
};

static uint64_t offered_by(const struct mprdma_qp* qp) {
  uint64_t offered = 0;
  for (size_t i = 0; i < sizeof(kBuilders) / sizeof(kBuilders[0]); i++) {
    offered |= (qp->operations & 1u << kBuilders[i].opcode) != 0 ? kBuilders[i].flag : 0;
  }
  return offered;
}

int mprdma_wr_builder_fill(struct mprdma_qp* qp, uint64_t send_ops) {
  struct ibv_qp_ex* ex = &qp->verbs.qp_ex;
  if ((send_ops & ~offered_by(qp)) != 0) {
    return EOPNOTSUPP;
  }
  ex->wr_start = wr_start;
  ex->wr_complete = wr_complete;
  ex->wr_abort = wr_abort;
  ex->wr_set_sge = wr_set_sge;
  ex->wr_set_sge_list = wr_set_sge_list;
  ex->wr_set_inline_data = wr_set_inline_data;
  ex->wr_set_inline_data_list = wr_set_inline_data_list;
  ex->wr_set_ud_addr = qp->verbs.qp.qp_type == IBV_QPT_UD ? wr_set_ud_addr : NULL;
  ex->wr_set_xrc_srqn = qp->verbs.qp.qp_type == IBV_QPT_XRC_SEND ? wr_set_xrc_srqn : NULL;
#define FILL(flag, member) ex->member = (send_ops & IBV_QP_EX_WITH_##flag) != 0 ? member : NULL
  FILL(RDMA_WRITE, wr_rdma_write);
  FILL(RDMA_WRITE_WITH_IMM, wr_rdma_write_imm);
  FILL(SEND, wr_send);
  FILL(SEND_WITH_IMM, wr_send_imm);
  FILL(RDMA_READ, wr_rdma_read);
  FILL(ATOMIC_CMP_AND_SWP, wr_atomic_cmp_swp);
  FILL(ATOMIC_FETCH_AND_ADD, wr_atomic_fetch_add);
  FILL(LOCAL_INV, wr_local_inv);
  FILL(BIND_MW, wr_bind_mw);
  FILL(SEND_WITH_INV, wr_send_inv);
  FILL(ATOMIC_WRITE, wr_atomic_write);
#undef FILL
  return 0;
}
