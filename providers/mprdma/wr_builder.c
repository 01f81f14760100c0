/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The ibv_wr_* way of posting, ibv_wr_post(3): wr_start locks the send queue, each operation opens
 * a slot, the setters fill it, wr_complete publishes the batch. The first error in a batch sticks
 * and makes wr_complete fail with nothing posted.
 */
#include "providers/mprdma/mprdma.h"

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
    mprdma_engine_poke(qp);
  }
  return error;
}

static void wr_abort(struct ibv_qp_ex* ibv) {
  struct mprdma_qp* qp = to_mprdma_qp_ex(ibv);
  qp->batch_wqe = NULL; /* the producer index was not published: the slots never were */
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
  int error = mprdma_check_send_flags(qp, ibv->wr_flags);
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
  bool has_data = wqe->opcode <= MPRDMA_ABI_WRITE_IMM; /* SEND and WRITE, the first five opcodes */
  if (!has_data) {
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

int mprdma_wr_builder_fill(struct mprdma_qp* qp, uint64_t send_ops) {
  const uint64_t kAtomics = IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD;
  uint64_t offered = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM |
                     IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM | IBV_QP_EX_WITH_RDMA_READ;
  if ((qp->context->channel.features & MPRDMA_ABI_FEATURE_ATOMIC) != 0) {
    offered |= kAtomics;
  }
  if ((send_ops & ~offered) != 0) {
    return EOPNOTSUPP;
  }
  struct ibv_qp_ex* ex = &qp->verbs.qp_ex;
  ex->wr_start = wr_start;
  ex->wr_complete = wr_complete;
  ex->wr_abort = wr_abort;
  ex->wr_set_sge = wr_set_sge;
  ex->wr_set_sge_list = wr_set_sge_list;
  ex->wr_set_inline_data = wr_set_inline_data;
  ex->wr_set_inline_data_list = wr_set_inline_data_list;
  ex->wr_rdma_write = (send_ops & IBV_QP_EX_WITH_RDMA_WRITE) != 0 ? wr_rdma_write : NULL;
  ex->wr_rdma_write_imm =
      (send_ops & IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM) != 0 ? wr_rdma_write_imm : NULL;
  ex->wr_send = (send_ops & IBV_QP_EX_WITH_SEND) != 0 ? wr_send : NULL;
  ex->wr_send_imm = (send_ops & IBV_QP_EX_WITH_SEND_WITH_IMM) != 0 ? wr_send_imm : NULL;
  ex->wr_rdma_read = (send_ops & IBV_QP_EX_WITH_RDMA_READ) != 0 ? wr_rdma_read : NULL;
  ex->wr_atomic_cmp_swp =
      (send_ops & IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP) != 0 ? wr_atomic_cmp_swp : NULL;
  ex->wr_atomic_fetch_add =
      (send_ops & IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD) != 0 ? wr_atomic_fetch_add : NULL;
  return 0;
}
