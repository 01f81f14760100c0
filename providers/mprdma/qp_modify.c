/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Queue pair states. The provider checks which attributes a transition must and may carry
 * (qp_states.c) and whether they can be represented; the engine judges the rest.
 */
#include "providers/mprdma/operations.h"

static int check_values(const struct mprdma_context* context, const struct ibv_qp_attr* attr,
                        int mask) {
  struct mprdma_abi_device_info info;
  int error = mprdma_engine_link_limits(&info);
  uint32_t mtu = mprdma_mtu_to_bytes(attr->path_mtu);
  if (error != 0) {
    return error;
  }
  bool good = true;
  good = good && ((mask & IBV_QP_PORT) == 0 || attr->port_num == MPRDMA_PORT);
  good = good && ((mask & IBV_QP_PKEY_INDEX) == 0 || attr->pkey_index == 0);
  good = good && ((mask & IBV_QP_AV) == 0 || mprdma_check_address(&attr->ah_attr) == 0);
  good = good && ((mask & IBV_QP_PATH_MTU) == 0 || (mtu > 0 && mtu <= context->facts.mtu_bytes));
  good = good && ((mask & IBV_QP_DEST_QPN) == 0 || attr->dest_qp_num <= 0xffffff);
  good = good && ((mask & IBV_QP_TIMEOUT) == 0 || attr->timeout < 32);
  good = good && ((mask & IBV_QP_RETRY_CNT) == 0 || attr->retry_cnt < 8);
  good = good && ((mask & IBV_QP_RNR_RETRY) == 0 || attr->rnr_retry < 8);
  good = good && ((mask & IBV_QP_MIN_RNR_TIMER) == 0 || attr->min_rnr_timer < 32);
  good =
      good && ((mask & IBV_QP_MAX_QP_RD_ATOMIC) == 0 || attr->max_rd_atomic <= info.max_rd_atomic);
  good = good && ((mask & IBV_QP_MAX_DEST_RD_ATOMIC) == 0 ||
                  attr->max_dest_rd_atomic <= info.max_rd_atomic);
  return good ? 0 : EINVAL;
}

static const int kAccessMask = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                               IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;

static void put_address(const struct ibv_ah_attr* from, struct mprdma_abi_qp_attr* to) {
  memcpy(to->dgid, from->grh.dgid.raw, sizeof(to->dgid));
  to->sgid_index = from->grh.sgid_index;
  to->traffic_class = from->grh.traffic_class;
  to->hop_limit = mprdma_hop_limit(from);
  to->flow_label = from->grh.flow_label & 0xfffff;
}

static void to_abi(const struct ibv_qp_attr* from, int mask, struct mprdma_abi_qp_attr* to) {
  static const struct {
    int verbs;
    uint32_t abi;
  } kMasks[] = {{IBV_QP_STATE, MPRDMA_ABI_QP_STATE},
                {IBV_QP_ACCESS_FLAGS, MPRDMA_ABI_QP_ACCESS},
                {IBV_QP_AV, MPRDMA_ABI_QP_PATH},
                {IBV_QP_PATH_MTU, MPRDMA_ABI_QP_PATH_MTU},
                {IBV_QP_DEST_QPN, MPRDMA_ABI_QP_DEST_QPN},
                {IBV_QP_RQ_PSN, MPRDMA_ABI_QP_RQ_PSN},
                {IBV_QP_SQ_PSN, MPRDMA_ABI_QP_SQ_PSN},
                {IBV_QP_TIMEOUT, MPRDMA_ABI_QP_TIMEOUT},
                {IBV_QP_RETRY_CNT, MPRDMA_ABI_QP_RETRY_CNT},
                {IBV_QP_RNR_RETRY, MPRDMA_ABI_QP_RNR_RETRY},
                {IBV_QP_MIN_RNR_TIMER, MPRDMA_ABI_QP_MIN_RNR_TIMER},
                {IBV_QP_MAX_QP_RD_ATOMIC, MPRDMA_ABI_QP_MAX_RD_ATOMIC},
                {IBV_QP_MAX_DEST_RD_ATOMIC, MPRDMA_ABI_QP_MAX_DEST_RD_ATOMIC},
                {IBV_QP_QKEY, MPRDMA_ABI_QP_QKEY}};
  memset(to, 0, sizeof(*to));
  for (size_t i = 0; i < sizeof(kMasks) / sizeof(kMasks[0]); i++) {
    to->mask |= (mask & kMasks[i].verbs) != 0 ? kMasks[i].abi : 0;
  }
  if ((mask & IBV_QP_EN_SQD_ASYNC_NOTIFY) != 0 && from->en_sqd_async_notify) {
    to->mask |= MPRDMA_ABI_QP_SQD_NOTIFY;
  }
  to->state = (uint32_t)from->qp_state;
  to->access = (uint32_t)from->qp_access_flags & (uint32_t)kAccessMask;
  to->path_mtu = mprdma_mtu_to_bytes(from->path_mtu);
  to->dest_qpn = from->dest_qp_num;
  to->rq_psn = from->rq_psn & 0xffffff;
  to->sq_psn = from->sq_psn & 0xffffff;
  to->timeout = from->timeout;
  to->retry_cnt = from->retry_cnt;
  to->rnr_retry = from->rnr_retry;
  to->min_rnr_timer = from->min_rnr_timer;
  to->max_rd_atomic = from->max_rd_atomic;
  to->max_dest_rd_atomic = from->max_dest_rd_atomic;
  to->qkey = from->qkey;
  if ((mask & IBV_QP_AV) != 0) {
    put_address(&from->ah_attr, to);
  }
}

/* Keeps attributes for ibv_query_qp() that the engine does not use. */
static void remember(struct mprdma_qp* qp, const struct ibv_qp_attr* attr, int mask) {
  if ((mask & IBV_QP_PORT) != 0) {
    qp->attr->port_num = attr->port_num;
  }
  if ((mask & IBV_QP_AV) != 0) {
    qp->attr->ah_attr = attr->ah_attr;
  }
}

static void entered_state(struct mprdma_qp* qp, enum ibv_qp_state state) {
  __atomic_store_n(&qp->state, (uint32_t)state, __ATOMIC_RELEASE);
  if (state == IBV_QPS_ERR) {
    __atomic_store_n(&qp->in_error, 1, __ATOMIC_RELEASE);
  }
  if (state == IBV_QPS_RESET) { /* only RESET ends an error, which may come right after RTS */
    __atomic_store_n(&qp->in_error, 0, __ATOMIC_RELEASE);
    /* The engine has dropped all posted requests: it moved its consumer indices to our
     * producers. */
    mprdma_qp_purge_completions(qp);
    memset(qp->attr, 0, sizeof(*qp->attr));
  }
}

int mprdma_modify_qp(struct ibv_qp* ibv, struct ibv_qp_attr* attr, int mask) {
  struct mprdma_qp* qp = to_mprdma_qp(ibv);
  struct mprdma_abi_qp_attr now;
  struct mprdma_abi_modify_qp in = {.handle = qp->object->handle};
  int error = mprdma_qp_query_engine(qp, &now);
  if (error != 0) {
    return error;
  }
  enum ibv_qp_state from = (enum ibv_qp_state)now.state;
  if ((mask & IBV_QP_CUR_STATE) != 0 && attr->cur_qp_state != from) {
    return EINVAL;
  }
  enum ibv_qp_state to = (mask & IBV_QP_STATE) != 0 ? attr->qp_state : from;
  error = mprdma_qp_check_mask(ibv->qp_type, from, to, mask);
  if (error == 0) {
    error = check_values(qp->context, attr, mask);
  }
  if (error != 0) {
    return error;
  }
  to_abi(attr, mask, &in.attr);
  error = mprdma_execute(qp->context, MPRDMA_ABI_MODIFY_QP, &in, sizeof(in), NULL, 0);
  if (error != 0) {
    return error;
  }
  remember(qp, attr, mask);
  if ((mask & IBV_QP_STATE) != 0) {
    entered_state(qp, to);
  }
  return 0;
}
