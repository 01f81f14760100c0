/* SPDX-License-Identifier: BSD-2-Clause */
/* Extended completion queues, ibv_create_cq_ex(3), and their polling, ibv_start_poll(3): the entry
 * is read in place, between start and end the CQ is locked. */
#include <time.h>

#include "providers/mprdma/operations.h"

static void look_at(struct mprdma_cq* cq, const struct mprdma_abi_cqe* cqe) {
  mprdma_cq_note(cqe);
  cq->current = cqe;
  cq->verbs.cq_ex.wr_id = cqe->wr_id;
  cq->verbs.cq_ex.status = (enum ibv_wc_status)cqe->status;
}

static int start_poll(struct ibv_cq_ex* ibv, struct ibv_poll_cq_attr* attr) {
  struct mprdma_cq* cq = to_mprdma_cq_ex(ibv);
  if (attr->comp_mask != 0) {
    return mprdma_reported(EINVAL);
  }
  pthread_spin_lock(&cq->lock);
  const struct mprdma_abi_cqe* cqe = mprdma_cq_peek(cq);
  if (cqe == NULL) {
    pthread_spin_unlock(&cq->lock);
    cq->context->channel.progress(cq->context->channel.engine);
    pthread_spin_lock(&cq->lock);
    cqe = mprdma_cq_peek(cq);
  }
  if (cqe == NULL) {
    pthread_spin_unlock(&cq->lock);
    return ENOENT;
  }
  look_at(cq, cqe);
  return 0;
}

/* A caller that polls again after ENOENT, as adapters permit, waits for a future entry. */
static int next_poll(struct ibv_cq_ex* ibv) {
  struct mprdma_cq* cq = to_mprdma_cq_ex(ibv);
  if (cq->current != NULL) {
    cq->consumer++;
    cq->current = NULL;
    mprdma_cq_publish(cq);
  } else {
    pthread_spin_unlock(&cq->lock);
    cq->context->channel.progress(cq->context->channel.engine);
    pthread_spin_lock(&cq->lock);
  }
  const struct mprdma_abi_cqe* cqe = mprdma_cq_peek(cq);
  if (cqe == NULL) {
    return ENOENT;
  }
  look_at(cq, cqe);
  return 0;
}

static void end_poll(struct ibv_cq_ex* ibv) {
  struct mprdma_cq* cq = to_mprdma_cq_ex(ibv);
  if (cq->current != NULL) {
    cq->consumer++;
    cq->current = NULL;
  }
  mprdma_cq_publish(cq);
  pthread_spin_unlock(&cq->lock);
}

static const struct mprdma_abi_cqe* current(struct ibv_cq_ex* ibv) {
  return to_mprdma_cq_ex(ibv)->current;
}

static enum ibv_wc_opcode read_opcode(struct ibv_cq_ex* ibv) {
  return (enum ibv_wc_opcode)current(ibv)->opcode;
}
static uint32_t read_vendor_err(struct ibv_cq_ex* ibv) {
  return current(ibv)->vendor_err;
}
static uint32_t read_byte_len(struct ibv_cq_ex* ibv) {
  return current(ibv)->byte_len;
}
static __be32 read_imm_data(struct ibv_cq_ex* ibv) {
  return current(ibv)->imm_or_rkey;
}
static uint32_t read_qp_num(struct ibv_cq_ex* ibv) {
  return current(ibv)->qpn;
}
static uint32_t read_src_qp(struct ibv_cq_ex* ibv) {
  return current(ibv)->src_qpn;
}
static unsigned int read_wc_flags(struct ibv_cq_ex* ibv) {
  return current(ibv)->flags & (IBV_WC_GRH | IBV_WC_WITH_IMM | IBV_WC_WITH_INV);
}
static uint8_t read_sl(struct ibv_cq_ex* ibv) {
  return mprdma_cqe_sl(to_mprdma_cq_ex(ibv), current(ibv));
}
/* RoCE has no local identifiers to report. */
static uint32_t read_slid(struct ibv_cq_ex* ibv) {
  (void)ibv;
  return 0;
}
static uint8_t read_zero(struct ibv_cq_ex* ibv) {
  (void)ibv;
  return 0;
}

static int64_t clock_ns(clockid_t clock) {
  struct timespec now;
  clock_gettime(clock, &now);
  return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* The time at which the engine wrote the entry: CLOCK_MONOTONIC in nanoseconds. */
static uint64_t read_timestamp(struct ibv_cq_ex* ibv) {
  return current(ibv)->timestamp_ns;
}
/* The time of day at which the engine wrote the entry. Both clocks are compared once a batch, so
 * that completions in order have times in order. */
static uint64_t read_wallclock(struct ibv_cq_ex* ibv) {
  return current(ibv)->timestamp_ns + (uint64_t)to_mprdma_cq_ex(ibv)->realtime_offset_ns;
}

/* Compares the clocks. The offset changes only by a step of the time of day, not by the few
 * nanoseconds between two comparisons. Of four comparisons the quickest counts, unless the core was
 * lost in each and there is an offset already. */
static void compare_clocks(struct mprdma_cq* cq) {
  const int64_t kApart = 10000; /* ns */
  const int64_t kStep = 100000; /* ns */
  int64_t narrowest = INT64_MAX;
  int64_t offset = 0;
  for (int attempt = 0; attempt < 4 && narrowest > kApart; attempt++) {
    int64_t before = clock_ns(CLOCK_MONOTONIC);
    int64_t found = clock_ns(CLOCK_REALTIME) - before;
    int64_t apart = clock_ns(CLOCK_MONOTONIC) - before;
    if (apart < narrowest) {
      narrowest = apart;
      offset = found;
    }
  }
  int64_t change = offset - cq->realtime_offset_ns;
  bool known = cq->realtime_offset_ns != 0;
  if (!known || (narrowest <= kApart && (change > kStep || change < -kStep))) {
    cq->realtime_offset_ns = offset;
  }
}

static int start_poll_with_wallclock(struct ibv_cq_ex* ibv, struct ibv_poll_cq_attr* attr) {
  int error = start_poll(ibv, attr);
  if (error == 0) {
    compare_clocks(to_mprdma_cq_ex(ibv));
  }
  return error;
}

static void fill(struct mprdma_cq* cq, uint64_t wc_flags) {
  struct ibv_cq_ex* ex = &cq->verbs.cq_ex;
  bool wallclock = (wc_flags & IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK) != 0;
  ex->start_poll = wallclock ? start_poll_with_wallclock : start_poll;
  ex->next_poll = next_poll;
  ex->end_poll = end_poll;
  ex->read_opcode = read_opcode;
  ex->read_vendor_err = read_vendor_err;
  ex->read_wc_flags = read_wc_flags;
  ex->read_byte_len = (wc_flags & IBV_WC_EX_WITH_BYTE_LEN) != 0 ? read_byte_len : NULL;
  ex->read_imm_data = (wc_flags & IBV_WC_EX_WITH_IMM) != 0 ? read_imm_data : NULL;
  ex->read_qp_num = (wc_flags & IBV_WC_EX_WITH_QP_NUM) != 0 ? read_qp_num : NULL;
  ex->read_src_qp = (wc_flags & IBV_WC_EX_WITH_SRC_QP) != 0 ? read_src_qp : NULL;
  ex->read_slid = (wc_flags & IBV_WC_EX_WITH_SLID) != 0 ? read_slid : NULL;
  ex->read_sl = (wc_flags & IBV_WC_EX_WITH_SL) != 0 ? read_sl : NULL;
  ex->read_dlid_path_bits = (wc_flags & IBV_WC_EX_WITH_DLID_PATH_BITS) != 0 ? read_zero : NULL;
  ex->read_completion_ts =
      (wc_flags & IBV_WC_EX_WITH_COMPLETION_TIMESTAMP) != 0 ? read_timestamp : NULL;
  ex->read_completion_wallclock_ns = wallclock ? read_wallclock : NULL;
}

/* Beside the standard fields the engine's clock, also as the time of day; no VLAN, flow or tag
 * matching. What is asked for and not known is EOPNOTSUPP; so is IGNORE_OVERRUN, for an overrun
 * always ends the queue pairs. */
static int check_ex(const struct ibv_cq_init_attr_ex* attr) {
  const uint64_t kFields = IBV_WC_STANDARD_FLAGS | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP |
                           IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK;
  const uint32_t kMask = IBV_CQ_INIT_ATTR_MASK_FLAGS | IBV_CQ_INIT_ATTR_MASK_PD;
  const uint32_t kFlags = IBV_CREATE_CQ_ATTR_SINGLE_THREADED;
  uint32_t flags = (attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS) != 0 ? attr->flags : 0;
  if ((attr->comp_mask & ~kMask) != 0 || (attr->wc_flags & ~kFields) != 0 ||
      (flags & ~kFlags) != 0) {
    return EOPNOTSUPP;
  }
  bool stands_in =
      (attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_PD) == 0 ||
      (attr->parent_domain != NULL && to_mprdma_pd(attr->parent_domain)->stands_for != NULL);
  return attr->cqe <= INT32_MAX && stands_in ? 0 : EINVAL;
}

struct ibv_cq_ex* mprdma_create_cq_ex(struct ibv_context* ibv, struct ibv_cq_init_attr_ex* attr) {
  int error = check_ex(attr);
  if (error != 0) {
    errno = error;
    return NULL;
  }
  bool has_pd = (attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_PD) != 0;
  struct mprdma_cq* cq = mprdma_cq_new(ibv, (int)attr->cqe, attr->channel, (int)attr->comp_vector,
                                       has_pd ? attr->parent_domain : NULL);
  if (cq == NULL) {
    return NULL;
  }
  fill(cq, attr->wc_flags);
  return &cq->verbs.cq_ex;
}
