/* SPDX-License-Identifier: BSD-2-Clause */
/* Completion queues: creation, polling, notification, resizing, destruction. */
#include "providers/mprdma/mprdma.h"

#include <stdlib.h>
#include <unistd.h>

/* Entries of a QP that is gone or was reset are skipped, not moved. */
#define PURGED_COOKIE 0u

static size_t ring_bytes(uint32_t depth) {
  return (size_t)depth * sizeof(struct mprdma_abi_cqe);
}

/* Ring and doorbell record in one mapping. */
static int map_ring(struct mprdma_memory* memory, uint32_t depth, struct mprdma_abi_cqe** ring,
                    struct mprdma_abi_cq_dbr** dbr) {
  int error = mprdma_memory_map(memory, ring_bytes(depth) + sizeof(**dbr));
  if (error == 0) {
    *ring = memory->base;
    *dbr = (struct mprdma_abi_cq_dbr*)(void*)((char*)memory->base + ring_bytes(depth));
  }
  return error;
}

static int check_depth(int cqe, uint32_t* depth) {
  struct mprdma_abi_device_info info;
  int error = mprdma_engine_link_limits(&info);
  if (error == 0 && (cqe < 1 || (uint32_t)cqe > info.max_cqe)) {
    error = EINVAL;
  }
  if (error == 0) {
    *depth = mprdma_power_of_two((uint32_t)cqe);
  }
  return error;
}

static int create_in_engine(struct mprdma_cq* cq) {
  const struct mprdma_abi_create_cq in = {.ring = (uint64_t)(uintptr_t)cq->ring,
                                          .dbr = (uint64_t)(uintptr_t)cq->dbr,
                                          .cookie = (uint64_t)(uintptr_t)cq,
                                          .depth = cq->depth};
  struct mprdma_abi_handle out = {0};
  int error = mprdma_execute(cq->context, MPRDMA_ABI_CREATE_CQ, &in, sizeof(in), &out, sizeof(out));
  cq->handle = out.handle;
  cq->engine_pid = getpid();
  return error;
}

static int create(struct mprdma_cq* cq, int cqe, const struct ibv_comp_channel* channel,
                  int comp_vector) {
  if (comp_vector != 0) {
    return EINVAL;
  }
  int error = check_depth(cqe, &cq->depth);
  if (error == 0) {
    error = mprdma_engine_link_connect(cq->context);
  }
  if (error == 0) {
    error = map_ring(&cq->memory, cq->depth, &cq->ring, &cq->dbr);
  }
  if (error == 0 && channel != NULL) {
    error = mprdma_comp_channel_get(cq->context, channel, &cq->comp_channel);
  }
  if (error == 0) {
    error = create_in_engine(cq);
  }
  if (error == 0) {
    pthread_spin_init(&cq->lock, PTHREAD_PROCESS_PRIVATE);
    cq->verbs.cq.cqe = (int)cq->depth;
    cq->verbs.cq.handle = cq->handle;
    return 0;
  }
  if (cq->comp_channel != NULL) {
    mprdma_comp_channel_put(cq->context, cq->comp_channel);
  }
  mprdma_memory_unmap(&cq->memory);
  return error;
}

static struct mprdma_cq* create_or_errno(struct ibv_context* ibv, int cqe,
                                         const struct ibv_comp_channel* channel, int comp_vector) {
  struct mprdma_cq* cq = calloc(1, sizeof(*cq));
  if (cq == NULL) {
    errno = ENOMEM;
    return NULL;
  }
  cq->context = to_mprdma_context(ibv);
  int error = create(cq, cqe, channel, comp_vector);
  if (error != 0) {
    free(cq);
    errno = error;
    return NULL;
  }
  return cq;
}

struct ibv_cq* mprdma_create_cq(struct ibv_context* ibv, int cqe, struct ibv_comp_channel* channel,
                                int comp_vector) {
  struct mprdma_cq* cq = create_or_errno(ibv, cqe, channel, comp_vector);
  return cq != NULL ? &cq->verbs.cq : NULL;
}

struct ibv_cq_ex* mprdma_create_cq_ex(struct ibv_context* ibv, struct ibv_cq_init_attr_ex* attr) {
  const uint64_t kFlags = IBV_WC_STANDARD_FLAGS; /* no timestamps, VLAN, flow or tag matching */
  const uint32_t kAttrFlags =
      IBV_CREATE_CQ_ATTR_SINGLE_THREADED | IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN;
  bool known = (attr->comp_mask & ~(uint32_t)IBV_CQ_INIT_ATTR_MASK_FLAGS) == 0 &&
               (attr->wc_flags & ~kFlags) == 0;
  if (known && (attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS) != 0) {
    known = (attr->flags & ~kAttrFlags) == 0;
  }
  if (!known || attr->cqe > INT32_MAX) {
    errno = known ? EINVAL : EOPNOTSUPP;
    return NULL;
  }
  struct mprdma_cq* cq =
      create_or_errno(ibv, (int)attr->cqe, attr->channel, (int)attr->comp_vector);
  if (cq == NULL) {
    return NULL;
  }
  mprdma_cq_fill_ex(cq, attr->wc_flags);
  return &cq->verbs.cq_ex;
}

int mprdma_destroy_cq(struct ibv_cq* ibv) {
  struct mprdma_cq* cq = to_mprdma_cq(ibv);
  if (__atomic_load_n(&cq->users, __ATOMIC_ACQUIRE) != 0) {
    return EBUSY;
  }
  int error = mprdma_execute_handle(cq->context, cq->engine_pid, MPRDMA_ABI_DESTROY_CQ, cq->handle);
  if (error != 0) {
    return error;
  }
  if (cq->engine_pid == getpid()) { /* else the events, too, are the parent's */
    mprdma_drain_cq_events(cq);
  }
  if (cq->comp_channel != NULL) {
    mprdma_comp_channel_put(cq->context, cq->comp_channel);
  }
  mprdma_memory_unmap(&cq->memory);
  pthread_spin_destroy(&cq->lock);
  free(cq);
  return 0;
}

/* cq->lock held: the engine must not find the ring half read while it moves the entries. */
static int resize_locked(struct mprdma_cq* cq, uint32_t depth, struct mprdma_memory* memory,
                         struct mprdma_abi_cqe* ring, struct mprdma_abi_cq_dbr* dbr) {
  mprdma_cq_publish(cq);
  dbr->arm = cq->dbr->arm;
  const struct mprdma_abi_resize_cq in = {.handle = cq->handle,
                                          .depth = depth,
                                          .ring = (uint64_t)(uintptr_t)ring,
                                          .dbr = (uint64_t)(uintptr_t)dbr};
  int error = mprdma_execute(cq->context, MPRDMA_ABI_RESIZE_CQ, &in, sizeof(in), NULL, 0);
  if (error == 0) {
    struct mprdma_memory old = cq->memory;
    cq->memory = *memory;
    *memory = old;
    cq->ring = ring;
    cq->dbr = dbr;
    cq->depth = depth;
    cq->consumer = 0;
    cq->verbs.cq.cqe = (int)depth;
  }
  return error;
}

int mprdma_resize_cq(struct ibv_cq* ibv, int cqe) {
  struct mprdma_cq* cq = to_mprdma_cq(ibv);
  struct mprdma_memory memory = {0};
  struct mprdma_abi_cqe* ring = NULL;
  struct mprdma_abi_cq_dbr* dbr = NULL;
  uint32_t depth = 0;
  int error = cq->engine_pid == getpid() ? check_depth(cqe, &depth) : EINVAL;
  if (error == 0) {
    error = map_ring(&memory, depth, &ring, &dbr);
  }
  if (error == 0) {
    pthread_spin_lock(&cq->lock);
    error = resize_locked(cq, depth, &memory, ring, dbr);
    pthread_spin_unlock(&cq->lock);
  }
  mprdma_memory_unmap(&memory); /* the old ring, or the new one if that failed */
  return error;
}

const struct mprdma_abi_cqe* mprdma_cq_peek(struct mprdma_cq* cq) {
  for (;;) {
    const struct mprdma_abi_cqe* cqe = mprdma_abi_peek_cqe(cq->ring, cq->depth, cq->consumer);
    if (cqe == NULL || cqe->qp_cookie != PURGED_COOKIE) {
      return cqe;
    }
    cq->consumer++;
    mprdma_cq_publish(cq); /* or a ring full of such entries would stay full */
  }
}

void mprdma_cq_publish(struct mprdma_cq* cq) {
  mprdma_abi_store_release(&cq->dbr->consumer, cq->consumer);
}

void mprdma_cq_note(const struct mprdma_abi_cqe* cqe) {
  if (cqe->status != MPRDMA_ABI_WC_SUCCESS) {
    struct mprdma_qp* qp = (struct mprdma_qp*)(uintptr_t)cqe->qp_cookie;
    __atomic_store_n(&qp->in_error, 1, __ATOMIC_RELEASE);
  }
}

static void to_wc(const struct mprdma_abi_cqe* cqe, struct ibv_wc* wc) {
  _Static_assert((int)IBV_WC_RDMA_READ == MPRDMA_ABI_WC_READ &&
                     (int)IBV_WC_LOCAL_INV == MPRDMA_ABI_WC_LOCAL_INVALIDATE &&
                     (int)IBV_WC_RECV == MPRDMA_ABI_WC_RECV &&
                     (int)IBV_WC_RECV_RDMA_WITH_IMM == MPRDMA_ABI_WC_RECV_WRITE_IMM,
                 "opcodes of completions are the same numbers on both sides");
  _Static_assert((int)IBV_WC_GENERAL_ERR == MPRDMA_ABI_WC_GENERAL_ERR &&
                     (int)IBV_WC_RNR_RETRY_EXC_ERR == MPRDMA_ABI_WC_RNR_RETRY_EXC_ERR &&
                     (int)IBV_WC_REM_ABORT_ERR == MPRDMA_ABI_WC_REM_ABORT_ERR,
                 "statuses of completions are the same numbers on both sides");
  _Static_assert((int)IBV_WC_GRH == MPRDMA_ABI_CQE_GRH &&
                     (int)IBV_WC_WITH_IMM == MPRDMA_ABI_CQE_IMM &&
                     (int)IBV_WC_WITH_INV == MPRDMA_ABI_CQE_INVALIDATED,
                 "flags of completions are the same bits on both sides");
  wc->wr_id = cqe->wr_id;
  wc->status = (enum ibv_wc_status)cqe->status;
  wc->opcode = (enum ibv_wc_opcode)cqe->opcode;
  wc->vendor_err = cqe->vendor_err;
  wc->byte_len = cqe->byte_len;
  wc->imm_data = cqe->imm_or_rkey;
  wc->qp_num = cqe->qpn;
  wc->src_qp = cqe->src_qpn;
  wc->wc_flags = cqe->flags & (IBV_WC_GRH | IBV_WC_WITH_IMM | IBV_WC_WITH_INV);
  wc->pkey_index = cqe->pkey_index;
  wc->slid = 0;
  wc->sl = 0;
  wc->dlid_path_bits = 0;
}

static int take(struct mprdma_cq* cq, int num_entries, struct ibv_wc* wc) {
  int taken = 0;
  pthread_spin_lock(&cq->lock);
  const uint32_t before = cq->consumer;
  while (taken < num_entries) {
    const struct mprdma_abi_cqe* cqe = mprdma_cq_peek(cq);
    if (cqe == NULL) {
      break;
    }
    mprdma_cq_note(cqe);
    to_wc(cqe, &wc[taken++]);
    cq->consumer++;
  }
  if (cq->consumer != before) {
    mprdma_cq_publish(cq);
  }
  pthread_spin_unlock(&cq->lock);
  return taken;
}

/* An empty ring is what drives the engine: the application polls, so it has a core to spare. */
int mprdma_poll_cq(struct ibv_cq* ibv, int num_entries, struct ibv_wc* wc) {
  struct mprdma_cq* cq = to_mprdma_cq(ibv);
  int taken = take(cq, num_entries, wc);
  if (taken == 0 && num_entries > 0) {
    cq->context->channel.progress(cq->context->channel.engine);
    taken = take(cq, num_entries, wc);
  }
  return taken;
}

int mprdma_req_notify_cq(struct ibv_cq* ibv, int solicited_only) {
  struct mprdma_cq* cq = to_mprdma_cq(ibv);
  pthread_spin_lock(&cq->lock);
  /* IBTA 11.4.2.2: asking for a solicited one takes back no request for any. */
  bool next = !solicited_only || __atomic_load_n(&cq->next_armed, __ATOMIC_ACQUIRE) != 0;
  uint32_t kind = next ? MPRDMA_ABI_ARM_NEXT : MPRDMA_ABI_ARM_SOLICITED;
  __atomic_store_n(&cq->next_armed, next, __ATOMIC_RELEASE);
  cq->arm_serial++;
  mprdma_abi_store_release(&cq->dbr->arm, (cq->arm_serial << 2) | kind);
  pthread_spin_unlock(&cq->lock);
  cq->context->channel.idle(cq->context->channel.engine);
  return 0;
}

void mprdma_cq_purge(struct mprdma_cq* cq, const struct mprdma_qp* qp) {
  pthread_spin_lock(&cq->lock);
  for (uint32_t i = cq->consumer; i - cq->consumer < cq->depth; i++) {
    if (mprdma_abi_peek_cqe(cq->ring, cq->depth, i) == NULL) {
      break;
    }
    struct mprdma_abi_cqe* cqe = &cq->ring[i & (cq->depth - 1u)];
    if (cqe->qp_cookie == (uint64_t)(uintptr_t)qp) {
      cqe->qp_cookie = PURGED_COOKIE;
    }
  }
  pthread_spin_unlock(&cq->lock);
}
