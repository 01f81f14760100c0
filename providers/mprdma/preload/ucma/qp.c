/* SPDX-License-Identifier: BSD-2-Clause */
/* How the queue pair of an id is to be modified (rdma_init_qp_attr), with the masks of the kernel's
 * ib_cm and cma: what the two sides said of each other in REQ and REP, and the path between them.
 */
#include "providers/mprdma/preload/ucma/ucma.h"

enum { /* enum ibv_qp_type, enum ibv_qp_state, enum ibv_access_flags */
       QPT_RC = 2,
       QPT_UC = 3,
       QPT_UD = 4,
       QPT_XRC_SEND = 9,
       QPT_XRC_RECV = 10,
       QPS_INIT = 1,
       QPS_RTR = 2,
       QPS_RTS = 3,
       ACCESS_REMOTE_WRITE = 1 << 1,
       ACCESS_REMOTE_READ = 1 << 2,
       ACCESS_REMOTE_ATOMIC = 1 << 3,
};

enum { /* enum ibv_qp_attr_mask */
       MASK_STATE = 1 << 0,
       MASK_ACCESS = 1 << 3,
       MASK_PKEY = 1 << 4,
       MASK_PORT = 1 << 5,
       MASK_QKEY = 1 << 6,
       MASK_AV = 1 << 7,
       MASK_PATH_MTU = 1 << 8,
       MASK_TIMEOUT = 1 << 9,
       MASK_RETRY = 1 << 10,
       MASK_RNR_RETRY = 1 << 11,
       MASK_RQ_PSN = 1 << 12,
       MASK_MAX_RD_ATOMIC = 1 << 13,
       MASK_RNR_TIMER = 1 << 15,
       MASK_SQ_PSN = 1 << 16,
       MASK_MAX_DEST_RD_ATOMIC = 1 << 17,
       MASK_DEST_QPN = 1 << 20,
};

uint8_t mprdma_ucma_traffic_class(const struct ucma_id* id) {
  return (id->options_set & 1u << MPRDMA_ABI_CM_OPTION_TOS) != 0
             ? (uint8_t)id->options[MPRDMA_ABI_CM_OPTION_TOS]
             : 0;
}

uint8_t mprdma_ucma_ack_timeout(const struct ucma_id* id) {
  return (id->options_set & 1u << MPRDMA_ABI_CM_OPTION_ACK_TIMEOUT) != 0
             ? (uint8_t)id->options[MPRDMA_ABI_CM_OPTION_ACK_TIMEOUT]
             : UCMA_ACK_TIMEOUT;
}

/* The path MTU as enum ibv_mtu: 1024, 2048, 4096 bytes are 3, 4, 5. Both sides send at most what
 * REQ said. */
uint8_t mprdma_ucma_path_mtu(const struct ucma_id* id) {
  uint8_t own = mprdma_preload_facts()->mtu_bytes == 4096   ? 5
                : mprdma_preload_facts()->mtu_bytes == 2048 ? 4
                                                            : 3;
  bool smaller = id->is_passive && id->peer.path_mtu > 0 && id->peer.path_mtu < own;
  return smaller ? id->peer.path_mtu : own;
}

void mprdma_ucma_ah_attr(const struct ucma_id* id, const uint8_t gid[16],
                         struct ib_uverbs_ah_attr* out) {
  const struct mprdma_device_facts* facts = mprdma_preload_facts();
  memset(out, 0, sizeof(*out));
  memcpy(out->grh.dgid, gid, sizeof(out->grh.dgid));
  bool link_local = memcmp(id->local.ip, facts->gid[0], sizeof(id->local.ip)) == 0;
  out->grh.sgid_index = link_local ? 0 : 1;
  out->grh.hop_limit = UCMA_HOP_LIMIT;
  out->grh.traffic_class = id->is_passive ? id->peer.traffic_class : mprdma_ucma_traffic_class(id);
  out->is_global = 1;
  out->port_num = UCMA_PORT;
}

static bool has_responder(uint8_t type) {
  return type == QPT_RC || type == QPT_XRC_RECV;
}
static bool has_requester(uint8_t type) {
  return type == QPT_RC || type == QPT_XRC_SEND;
}

static void to_init(const struct ucma_id* id, struct ib_uverbs_qp_attr* out) {
  out->qp_attr_mask = MASK_STATE | MASK_PKEY | MASK_PORT;
  out->port_num = UCMA_PORT;
  if (id->qp_type == QPT_UD) {
    out->qkey = UCMA_QKEY;
    out->qp_attr_mask |= MASK_QKEY;
    return;
  }
  out->qp_attr_mask |= MASK_ACCESS;
  /* Before the peer's parameters are known, no access is open. */
  if (id->has_peer) {
    out->qp_access_flags = ACCESS_REMOTE_WRITE;
    if (id->peer.initiator_depth > 0) {
      out->qp_access_flags |= ACCESS_REMOTE_READ | ACCESS_REMOTE_ATOMIC;
    }
  }
}

/* The initial PSN is the one that this side asked for (IBTA 12.6.5). */
static void to_rtr(const struct ucma_id* id, struct ib_uverbs_qp_attr* out) {
  out->qp_attr_mask = MASK_STATE | MASK_AV | MASK_PATH_MTU | MASK_RQ_PSN | MASK_DEST_QPN;
  mprdma_ucma_ah_attr(id, id->remote.ip, &out->ah_attr);
  out->path_mtu = mprdma_ucma_path_mtu(id);
  out->rq_psn = id->own.psn;
  out->dest_qp_num = id->peer.qpn;
  if (has_responder(id->qp_type)) {
    out->qp_attr_mask |= MASK_MAX_DEST_RD_ATOMIC | MASK_RNR_TIMER;
    out->max_dest_rd_atomic = id->peer.initiator_depth;
    out->min_rnr_timer = UCMA_RNR_TIMER;
  }
}

/* The retries of both sides are those of REQ; each side names its own RNR retries. */
static void to_rts(const struct ucma_id* id, struct ib_uverbs_qp_attr* out) {
  const struct mprdma_abi_cm_params* request = id->is_passive ? &id->peer : &id->own;
  out->qp_attr_mask = MASK_STATE | MASK_SQ_PSN;
  out->sq_psn = id->peer.psn;
  if (has_requester(id->qp_type)) {
    out->qp_attr_mask |= MASK_RETRY | MASK_RNR_RETRY | MASK_MAX_RD_ATOMIC;
    out->retry_cnt = request->retry_count;
    out->rnr_retry = id->peer.rnr_retry_count;
    out->max_rd_atomic = id->peer.responder_resources;
  }
  if (has_requester(id->qp_type) || has_responder(id->qp_type)) {
    out->qp_attr_mask |= MASK_TIMEOUT;
    out->timeout = request->ack_timeout != 0 ? request->ack_timeout : UCMA_ACK_TIMEOUT;
  }
}

static int fill(const struct ucma_id* id, uint32_t state, struct ib_uverbs_qp_attr* out) {
  memset(out, 0, sizeof(*out));
  if (!mprdma_ucma_has_device(id)) {
    return EINVAL;
  }
  out->qp_state = out->cur_qp_state = state;
  if (state == QPS_INIT) {
    to_init(id, out);
    return 0;
  }
  if ((state != QPS_RTR && state != QPS_RTS) || (id->qp_type != QPT_UD && !id->has_peer)) {
    return EINVAL;
  }
  if (id->qp_type == QPT_UD) {
    out->sq_psn = id->own.psn;
    out->qp_attr_mask = state == QPS_RTR ? MASK_STATE : MASK_STATE | MASK_SQ_PSN;
  } else if (state == QPS_RTR) {
    to_rtr(id, out);
  } else {
    to_rts(id, out);
  }
  return 0;
}

int mprdma_ucma_init_qp_attr(struct ucma_call* call) {
  const struct rdma_ucm_init_qp_attr* in = &call->in.init_qp_attr;
  struct ib_uverbs_qp_attr response;
  struct ucma_id* id;
  int error = mprdma_ucma_id_get(call->file, in->id, &id);
  if (error != 0) {
    return error;
  }
  mprdma_ucma_lock();
  error = fill(id, in->qp_state, &response);
  mprdma_ucma_unlock();
  mprdma_ucma_id_put(id);
  return error != 0 ? error : mprdma_ucma_respond(in->response, &response, sizeof(response));
}
