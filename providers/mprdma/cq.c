/* SPDX-License-Identifier: BSD-2-Clause */
/* Completion queues: creation, polling, notification, resizing, destruction. */
#include "providers/mprdma/operations.h"

#include <stdlib.h>
#include <unistd.h>

#include "providers/mprdma/mprdmadv.h"

/* Entries of a QP that is gone or was reset are skipped, not moved. */
#define PURGED_COOKIE 0u

static size_t ring_bytes(uint32_t depth) {
  return (size_t)depth * sizeof(struct mprdma_abi_cqe);
}

/* Ring and doorbell record in one piece of memory. */
static int map_ring(struct mprdma_memory* memory, struct mprdma_pd* from, uint32_t depth,
                    struct mprdma_abi_cqe** ring, struct mprdma_abi_cq_dbr** dbr) {
  int error =
      mprdma_memory_get(memory, from, MPRDMADV_RES_TYPE_CQ, ring_bytes(depth) + sizeof(**dbr));
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
  if (error == 0) {
    mprdma_object_add(&cq->object, MPRDMA_OBJECT_CQ, cq->context, out.handle);
  }
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
    error = map_ring(&cq->memory, cq->parent_domain, cq->depth, &cq->ring, &cq->dbr);
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
    cq->verbs.cq.handle = cq->object.number;
    if (cq->parent_domain != NULL) {
      mprdma_pd_count(cq->parent_domain, 1);
    }
    return 0;
  }
  if (cq->comp_channel != NULL) {
    mprdma_comp_channel_put(cq->context, cq->comp_channel);
  }
  mprdma_memory_put(&cq->memory);
  return error;
}

struct mprdma_cq* mprdma_cq_new(struct ibv_context* ibv, int cqe,
                                const struct ibv_comp_channel* channel, int comp_vector,
                                struct ibv_pd* parent_domain) {
  struct mprdma_cq* cq = calloc(1, sizeof(*cq));
  if (cq == NULL) {
    errno = ENOMEM;
    return NULL;
  }
  cq->context = to_mprdma_context(ibv);
  cq->parent_domain = parent_domain != NULL ? to_mprdma_pd(parent_domain) : NULL;
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
  struct mprdma_cq* cq = mprdma_cq_new(ibv, cqe, channel, comp_vector, NULL);
  return cq != NULL ? &cq->verbs.cq : NULL;
}

int mprdma_destroy_cq(struct ibv_cq* ibv) {
  struct mprdma_cq* cq = to_mprdma_cq(ibv);
  bool is_here = mprdma_object_is_here(&cq->object);
  if (mprdma_in_use(&cq->users)) {
    return EBUSY;
  }
  int error = mprdma_object_destroy(&cq->object);
  if (error != 0) {
    return error;
  }
  if (is_here) { /* else the events, too, are the parent's */
    mprdma_drain_cq_events(cq);
  }
  if (cq->comp_channel != NULL) {
    mprdma_comp_channel_put(cq->context, cq->comp_channel);
  }
  mprdma_memory_put(&cq->memory);
  if (cq->parent_domain != NULL) {
    mprdma_pd_count(cq->parent_domain, (uint32_t)-1);
  }
  pthread_spin_destroy(&cq->lock);
  free(cq);
  return 0;
}

/* Requires cq->lock: the engine must not find the ring half read while it moves the entries. */
static int resize_locked(struct mprdma_cq* cq, uint32_t depth, struct mprdma_memory* memory,
                         struct mprdma_abi_cqe* ring, struct mprdma_abi_cq_dbr* dbr) {
  mprdma_cq_publish(cq);
  dbr->arm = cq->dbr->arm;
  const struct mprdma_abi_resize_cq in = {.handle = cq->object.handle,
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
  int error = mprdma_object_is_here(&cq->object) ? check_depth(cqe, &depth) : EINVAL;
  if (error == 0) {
    error = map_ring(&memory, cq->parent_domain, depth, &ring, &dbr);
  }
  if (error == 0) {
    /* The engine runs first, so that entries that are about to arrive count against the new
     * size. */
    cq->context->channel.progress(cq->context->channel.engine);
    pthread_spin_lock(&cq->lock);
    error = resize_locked(cq, depth, &memory, ring, dbr);
    pthread_spin_unlock(&cq->lock);
  }
  mprdma_memory_put(&memory); /* the old ring, or the new one if that failed */
  return error;
}

int mprdma_modify_cq(struct ibv_cq* ibv, struct ibv_modify_cq_attr* attr) {
  struct mprdma_cq* cq = to_mprdma_cq(ibv);
  if (attr->attr_mask != IBV_CQ_ATTR_MODERATE || !mprdma_object_is_here(&cq->object)) {
    return EINVAL;
  }
  if (!mprdma_has_feature(cq->context, MPRDMA_ABI_FEATURE_CQ_MODERATION)) {
    return EOPNOTSUPP;
  }
  const struct mprdma_abi_modify_cq in = {.handle = cq->object.handle,
                                          .count = attr->moderate.cq_count,
                                          .period_us = attr->moderate.cq_period};
  return mprdma_execute(cq->context, MPRDMA_ABI_MODIFY_CQ, &in, sizeof(in), NULL, 0);
}

const struct mprdma_abi_cqe* mprdma_cq_peek(struct mprdma_cq* cq) {
  for (;;) {
    const struct mprdma_abi_cqe* cqe = mprdma_abi_peek_cqe(cq->ring, cq->depth, cq->consumer);
    if (cqe == NULL || cqe->qp_cookie != PURGED_COOKIE) {
      return cqe;
    }
    cq->consumer++;
    mprdma_cq_publish(cq); /* otherwise a ring full of such entries would stay full */
  }
}

void mprdma_cq_publish(struct mprdma_cq* cq) {
  mprdma_abi_store_release(&cq->dbr->consumer, cq->consumer);
  mprdma_abi_note_taken(cq->context->channel.doorbells);
}

/* The cookie of a shared QP is not used: the QP posts nothing, and its completions may outlive
 * it. */
void mprdma_cq_note(const struct mprdma_abi_cqe* cqe) {
  if (cqe->status != MPRDMA_ABI_WC_SUCCESS && (cqe->qp_cookie & MPRDMA_COOKIE_SHARED) == 0) {
    struct mprdma_qp* qp = (struct mprdma_qp*)(uintptr_t)cqe->qp_cookie;
    __atomic_store_n(&qp->in_error, 1, __ATOMIC_RELEASE);
  }
}

/* RoCE has no service levels. Adapters report the type of the packet there instead, where it came
 * with a GRH (mlx5: bit 3 UDP, bits 2..0 the network header, 1 IPv6, 2 IPv4), and UCX reads from it
 * how much of the GRH is an address. */
uint8_t mprdma_cqe_sl(const struct mprdma_cq* cq, const struct mprdma_abi_cqe* cqe) {
  enum { kUdp = 1u << 3, kIpv6 = 1, kIpv4 = 2 };
  if ((cqe->flags & MPRDMA_ABI_CQE_GRH) == 0 ||
      !mprdma_has_feature(cq->context, MPRDMA_ABI_FEATURE_GRH_VERSION)) {
    return 0;
  }
  return (cqe->flags & MPRDMA_ABI_CQE_GRH_IPV4) != 0 ? kUdp | kIpv4 : kUdp | kIpv6;
}

static void to_wc(const struct mprdma_cq* cq, const struct mprdma_abi_cqe* cqe, struct ibv_wc* wc) {
  _Static_assert((int)IBV_WC_RDMA_READ == MPRDMA_ABI_WC_READ &&
                     (int)IBV_WC_BIND_MW == MPRDMA_ABI_WC_BIND_MW &&
                     (int)IBV_WC_LOCAL_INV == MPRDMA_ABI_WC_LOCAL_INVALIDATE &&
                     (int)IBV_WC_ATOMIC_WRITE == MPRDMA_ABI_WC_ATOMIC_WRITE &&
                     (int)IBV_WC_COMP_SWAP == MPRDMA_ABI_WC_COMPARE_SWAP &&
                     (int)IBV_WC_FETCH_ADD == MPRDMA_ABI_WC_FETCH_ADD &&
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
  wc->sl = mprdma_cqe_sl(cq, cqe);
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
    to_wc(cq, cqe, &wc[taken++]);
    cq->consumer++;
  }
  if (cq->consumer != before) {
    mprdma_cq_publish(cq);
  }
  pthread_spin_unlock(&cq->lock);
  return taken;
}

/* A poll of an empty ring runs the engine: the application polls, so it has a core to spare. */
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
  /* IBTA 11.4.2.2: a request for a solicited event takes back no request for any event. */
  bool next = !solicited_only || __atomic_load_n(&cq->next_armed, __ATOMIC_ACQUIRE) != 0;
  uint32_t kind = next ? MPRDMA_ABI_ARM_NEXT : MPRDMA_ABI_ARM_SOLICITED;
  uint32_t arm = (++cq->arm_serial << 2) | kind;
  __atomic_store_n(&cq->next_armed, next ? arm : 0, __ATOMIC_RELEASE);
  mprdma_abi_store_release(&cq->dbr->arm, arm);
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
