/* SPDX-License-Identifier: BSD-2-Clause */
/* Posting: work requests into ring slots, one producer update and one doorbell for each list. */
#include "providers/mprdma/mprdmadv.h"
#include "providers/mprdma/operations.h"

struct mprdma_abi_send_wqe* mprdma_sq_slot(struct mprdma_work_queue* sq, uint32_t producer) {
  if (producer - sq->consumer_seen >= sq->depth) {
    sq->consumer_seen = mprdma_abi_load_acquire(&sq->dbr->consumer);
    if (producer - sq->consumer_seen >= sq->depth) {
      return NULL;
    }
  }
  return mprdma_abi_send_slot(sq->ring, sq->depth, sq->stride, producer);
}

void mprdma_sq_publish(struct mprdma_qp* qp, uint32_t producer) {
  if (producer != qp->sq.producer) {
    qp->sq.producer = producer;
    mprdma_abi_store_release(&qp->sq.dbr->producer, producer);
  }
}

void mprdma_sq_send(struct mprdma_qp* qp) {
  const struct mprdma_abi_channel* channel = &qp->context->channel;
  if (mprdma_has_feature(qp->context, MPRDMA_ABI_FEATURE_SEND)) {
    channel->send(channel->engine, qp->doorbell);
  } else {
    mprdma_abi_ring_doorbell(channel->doorbells, qp->doorbell);
    mprdma_engine_poke(qp);
  }
}

/* The posting thread runs the engine if no other thread does. If the doorbell is still set
 * afterwards (another thread is just leaving the engine) and the engine sleeps, its thread is
 * woken. */
void mprdma_engine_poke(struct mprdma_qp* qp) {
  const struct mprdma_abi_channel* channel = &qp->context->channel;
  channel->progress(channel->engine);
  if (mprdma_abi_doorbell_waits(channel->doorbells, qp->doorbell) &&
      mprdma_abi_engine_sleeps(channel->doorbells)) {
    channel->kick(channel->engine);
  }
}

int mprdma_qp_may_send(const struct mprdma_qp* qp) {
  uint32_t state = __atomic_load_n(&qp->state, __ATOMIC_ACQUIRE);
  if (qp->sq.depth == 0) {
    return EINVAL;
  }
  /* IBTA 10.3.1: a post before RTS is an error; in ERR the request is accepted and flushed. */
  return state == IBV_QPS_RESET || state == IBV_QPS_INIT || state == IBV_QPS_RTR ? EINVAL : 0;
}

/* Converts an opcode of the verbs; -1: not offered. */
static int send_opcode(enum ibv_wr_opcode opcode) {
  switch (opcode) {
    case IBV_WR_RDMA_WRITE:
      return MPRDMA_ABI_WRITE;
    case IBV_WR_RDMA_WRITE_WITH_IMM:
      return MPRDMA_ABI_WRITE_IMM;
    case IBV_WR_SEND:
      return MPRDMA_ABI_SEND;
    case IBV_WR_SEND_WITH_IMM:
      return MPRDMA_ABI_SEND_IMM;
    case IBV_WR_SEND_WITH_INV:
      return MPRDMA_ABI_SEND_INVALIDATE;
    case IBV_WR_RDMA_READ:
      return MPRDMA_ABI_READ;
    case IBV_WR_ATOMIC_CMP_AND_SWP:
      return MPRDMA_ABI_COMPARE_SWAP;
    case IBV_WR_ATOMIC_FETCH_AND_ADD:
      return MPRDMA_ABI_FETCH_ADD;
    case IBV_WR_LOCAL_INV:
      return MPRDMA_ABI_LOCAL_INVALIDATE;
    case IBV_WR_BIND_MW:
      return MPRDMA_ABI_BIND_MW;
    case IBV_WR_ATOMIC_WRITE:
      return MPRDMA_ABI_ATOMIC_WRITE;
    default:
      return -1;
  }
}

uint16_t mprdma_send_flags(const struct mprdma_qp* qp, unsigned int flags) {
  uint16_t out = qp->always_flags;
  out |= (flags & IBV_SEND_SIGNALED) != 0 ? MPRDMA_ABI_WQE_SIGNALED : 0;
  out |= (flags & IBV_SEND_SOLICITED) != 0 ? MPRDMA_ABI_WQE_SOLICITED : 0;
  out |= (flags & IBV_SEND_FENCE) != 0 ? MPRDMA_ABI_WQE_FENCE : 0;
  out |= (flags & MPRDMADV_SEND_SYNCHRONISE) != 0 ? MPRDMA_ABI_WQE_SYNCHRONISE : 0;
  return out;
}

int mprdma_check_send(const struct mprdma_qp* qp, enum mprdma_abi_send_opcode opcode,
                      unsigned int flags) {
  bool synchronises = (flags & MPRDMADV_SEND_SYNCHRONISE) != 0;
  if (synchronises && !mprdma_has_feature(qp->context, MPRDMA_ABI_FEATURE_SYNCHRONISE)) {
    return EOPNOTSUPP;
  }
  if ((qp->operations & 1u << opcode) != 0) {
    return 0;
  }
  /* The error tells whether only this type of queue pair lacks the operation, or every type. */
  return (mprdma_qp_operations(qp->context, IBV_QPT_RC) & 1u << opcode) != 0 ? EINVAL : EOPNOTSUPP;
}

bool mprdma_takes_inline(enum mprdma_abi_send_opcode opcode) {
  switch (opcode) {
    case MPRDMA_ABI_SEND:
    case MPRDMA_ABI_SEND_IMM:
    case MPRDMA_ABI_SEND_INVALIDATE:
    case MPRDMA_ABI_WRITE:
    case MPRDMA_ABI_WRITE_IMM:
    case MPRDMA_ABI_ATOMIC_WRITE:
      return true;
    default:
      return false;
  }
}

static int put_inline(const struct mprdma_qp* qp, struct mprdma_abi_send_wqe* wqe,
                      const struct ibv_send_wr* wr) {
  char* data = (char*)(wqe + 1);
  uint32_t used = 0;
  if (wr->num_sge < 0 || !mprdma_takes_inline((enum mprdma_abi_send_opcode)wqe->opcode)) {
    return EINVAL;
  }
  for (int i = 0; i < wr->num_sge; i++) {
    uint32_t length = wr->sg_list[i].length;
    if (length > qp->sq.max_inline - used) {
      return EINVAL;
    }
    memcpy(data + used, (const void*)(uintptr_t)wr->sg_list[i].addr, length);
    used += length;
  }
  wqe->flags |= MPRDMA_ABI_WQE_INLINE;
  wqe->inline_bytes = used;
  wqe->num_sge = 0;
  return 0;
}

static int put_sges(const struct mprdma_qp* qp, struct mprdma_abi_send_wqe* wqe,
                    const struct ibv_send_wr* wr) {
  struct mprdma_abi_sge* sge = (struct mprdma_abi_sge*)(void*)(wqe + 1);
  uint64_t total = 0;
  if (wr->num_sge < 0 || (uint32_t)wr->num_sge > qp->sq.max_sge) {
    return EINVAL;
  }
  for (int i = 0; i < wr->num_sge; i++) {
    sge[i].addr = wr->sg_list[i].addr;
    sge[i].length = wr->sg_list[i].length;
    sge[i].lkey = wr->sg_list[i].lkey;
    total += sge[i].length;
  }
  wqe->num_sge = (uint8_t)wr->num_sge;
  return total <= MPRDMA_ABI_MESSAGE_BYTES_MAX ? 0 : EINVAL;
}

int mprdma_put_destination(struct mprdma_abi_send_wqe* wqe, struct ibv_ah* ah, uint32_t remote_qpn,
                           uint32_t remote_qkey) {
  if (ah == NULL || !mprdma_object_is_here(&to_mprdma_ah(ah)->object)) {
    return EINVAL;
  }
  wqe->ah = to_mprdma_ah(ah)->object.handle;
  wqe->remote_qpn = remote_qpn & 0xffffff;
  wqe->remote_qkey = remote_qkey;
  return 0;
}

/* Fills the fields of an operation besides its data. */
static int put_operands(struct mprdma_abi_send_wqe* wqe, const struct ibv_send_wr* wr) {
  switch (wqe->opcode) {
    case MPRDMA_ABI_WRITE:
    case MPRDMA_ABI_WRITE_IMM:
    case MPRDMA_ABI_READ:
    case MPRDMA_ABI_ATOMIC_WRITE:
      wqe->remote_addr = wr->wr.rdma.remote_addr;
      wqe->rkey = wr->wr.rdma.rkey;
      return 0;
    case MPRDMA_ABI_COMPARE_SWAP:
    case MPRDMA_ABI_FETCH_ADD:
      wqe->remote_addr = wr->wr.atomic.remote_addr;
      wqe->rkey = wr->wr.atomic.rkey;
      wqe->compare_add = wr->wr.atomic.compare_add;
      wqe->swap = wr->wr.atomic.swap;
      return 0;
    case MPRDMA_ABI_BIND_MW:
      return mprdma_put_bind(wqe, wr->bind_mw.mw, wr->bind_mw.rkey, &wr->bind_mw.bind_info);
    default:
      return 0;
  }
}

/* An atomic write has 8 bytes in one piece (inline: in any pieces); another length would be an
 * error of the queue pair. */
static int check_atomic_write(const struct mprdma_abi_send_wqe* wqe, const struct ibv_send_wr* wr) {
  bool is_inline = (wqe->flags & MPRDMA_ABI_WQE_INLINE) != 0;
  if (is_inline) {
    return wqe->inline_bytes == sizeof(uint64_t) ? 0 : EINVAL;
  }
  return wqe->num_sge == 1 && wr->sg_list[0].length == sizeof(uint64_t) ? 0 : EINVAL;
}

static int put_send(const struct mprdma_qp* qp, struct mprdma_abi_send_wqe* wqe,
                    const struct ibv_send_wr* wr) {
  int opcode = send_opcode(wr->opcode);
  int error = opcode < 0
                  ? EOPNOTSUPP
                  : mprdma_check_send(qp, (enum mprdma_abi_send_opcode)opcode, wr->send_flags);
  if (error != 0) {
    return error;
  }
  memset(wqe, 0, sizeof(*wqe));
  wqe->wr_id = wr->wr_id;
  wqe->opcode = (uint8_t)opcode;
  wqe->flags = mprdma_send_flags(qp, wr->send_flags);
  wqe->imm_or_rkey = wr->imm_data;
  error = put_operands(wqe, wr);
  if (qp->verbs.qp.qp_type == IBV_QPT_XRC_SEND) {
    wqe->xrc_srqn = wr->qp_type.xrc.remote_srqn;
  } else if (qp->verbs.qp.qp_type == IBV_QPT_UD && error == 0) {
    error = mprdma_put_destination(wqe, wr->wr.ud.ah, wr->wr.ud.remote_qpn, wr->wr.ud.remote_qkey);
  }
  bool no_data = opcode == MPRDMA_ABI_BIND_MW || opcode == MPRDMA_ABI_LOCAL_INVALIDATE;
  if (error != 0 || no_data) {
    return error;
  }
  bool is_inline = (wr->send_flags & IBV_SEND_INLINE) != 0;
  error = is_inline ? put_inline(qp, wqe, wr) : put_sges(qp, wqe, wr);
  return error == 0 && opcode == MPRDMA_ABI_ATOMIC_WRITE ? check_atomic_write(wqe, wr) : error;
}

int mprdma_post_send(struct ibv_qp* ibv, struct ibv_send_wr* wr, struct ibv_send_wr** bad_wr) {
  struct mprdma_qp* qp = to_mprdma_qp(ibv);
  int error = mprdma_qp_may_send(qp);
  if (error != 0) {
    *bad_wr = wr;
    return mprdma_reported(error);
  }
  pthread_spin_lock(&qp->sq.lock);
  uint32_t producer = qp->sq.producer;
  for (; wr != NULL; wr = wr->next) {
    struct mprdma_abi_send_wqe* wqe = mprdma_sq_slot(&qp->sq, producer);
    error = wqe != NULL ? put_send(qp, wqe, wr) : ENOMEM;
    if (error != 0) {
      *bad_wr = wr;
      break;
    }
    producer++;
  }
  mprdma_sq_publish(qp, producer);
  pthread_spin_unlock(&qp->sq.lock);
  mprdma_sq_send(qp);
  return mprdma_reported(error);
}

/* Binds a window of type 1 by a request that the verb posts. */
int mprdma_bind_mw(struct ibv_qp* qp, struct ibv_mw* mw, struct ibv_mw_bind* bind) {
  struct ibv_send_wr wr = {
      .wr_id = bind->wr_id,
      .opcode = IBV_WR_BIND_MW,
      .send_flags = bind->send_flags,
      .bind_mw = {.mw = mw, .rkey = ibv_inc_rkey(mw->rkey), .bind_info = bind->bind_info}};
  struct ibv_send_wr* bad = NULL;
  return mprdma_post_send(qp, &wr, &bad);
}

static int put_recv(const struct mprdma_work_queue* rq, struct mprdma_abi_recv_wqe* wqe,
                    const struct ibv_recv_wr* wr) {
  struct mprdma_abi_sge* sge = (struct mprdma_abi_sge*)(void*)(wqe + 1);
  if (wr->num_sge < 0 || (uint32_t)wr->num_sge > rq->max_sge) {
    return EINVAL;
  }
  wqe->wr_id = wr->wr_id;
  wqe->num_sge = (uint32_t)wr->num_sge;
  wqe->reserved = 0;
  for (int i = 0; i < wr->num_sge; i++) {
    sge[i].addr = wr->sg_list[i].addr;
    sge[i].length = wr->sg_list[i].length;
    sge[i].lkey = wr->sg_list[i].lkey;
  }
  return 0;
}

static bool rq_has_room(struct mprdma_work_queue* rq, uint32_t producer) {
  if (producer - rq->consumer_seen < rq->depth) {
    return true;
  }
  rq->consumer_seen = mprdma_abi_load_acquire(&rq->dbr->consumer);
  return producer - rq->consumer_seen < rq->depth;
}

int mprdma_put_receives(struct mprdma_work_queue* rq, struct ibv_recv_wr* wr,
                        struct ibv_recv_wr** bad_wr) {
  uint32_t producer = rq->producer;
  int error = 0;
  for (; wr != NULL; wr = wr->next) {
    error = rq_has_room(rq, producer)
                ? put_recv(rq, mprdma_abi_recv_slot(rq->ring, rq->depth, rq->stride, producer), wr)
                : ENOMEM;
    if (error != 0) {
      *bad_wr = wr;
      break;
    }
    producer++;
  }
  rq->producer = producer;
  mprdma_abi_store_release(&rq->dbr->producer, producer);
  return mprdma_reported(error);
}

int mprdma_post_recv(struct ibv_qp* ibv, struct ibv_recv_wr* wr, struct ibv_recv_wr** bad_wr) {
  struct mprdma_qp* qp = to_mprdma_qp(ibv);
  bool has_queue = qp->rq.depth != 0; /* or a shared queue, or none */
  if (!has_queue || __atomic_load_n(&qp->state, __ATOMIC_ACQUIRE) == IBV_QPS_RESET) {
    *bad_wr = wr;
    return mprdma_reported(EINVAL);
  }
  pthread_spin_lock(&qp->rq.lock);
  int error = mprdma_put_receives(&qp->rq, wr, bad_wr);
  pthread_spin_unlock(&qp->rq.lock);
  mprdma_abi_ring_doorbell(qp->context->channel.doorbells, qp->doorbell);
  /* A message wakes the engine, which looks at doorbells first. In ERR no message comes, so the
   * engine has to be woken to flush the receive. */
  if (__atomic_load_n(&qp->in_error, __ATOMIC_ACQUIRE)) {
    mprdma_engine_poke(qp);
  }
  return mprdma_reported(error);
}
