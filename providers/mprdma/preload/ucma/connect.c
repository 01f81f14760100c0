/* SPDX-License-Identifier: BSD-2-Clause */
/* Connections: connect, listen, accept, reject, disconnect. */
#include "providers/mprdma/preload/ucma/ucma.h"

#define COMM_EST 4u              /* enum ibv_event_type: IBV_EVENT_COMM_EST */
#define REJECT_CONSUMER 28u      /* IBTA 12.6.7.2 */
#define REJECT_VENDOR_OPTION 35u /* the reason that ECE uses */
#define RETRY_MAX 7u             /* 3 bits on the wire */

static uint8_t at_most(uint8_t value, uint8_t limit) {
  return value < limit ? value : limit;
}

/* Fills in the application's parameters; the others are the device's. */
static int fill(const struct ucma_id* id, const struct rdma_ucm_conn_param* from,
                const struct rdma_ucm_ece* ece, struct mprdma_abi_cm_params* out) {
  if (from->private_data_len > sizeof(out->private_data)) {
    return EINVAL;
  }
  memset(out, 0, sizeof(*out));
  out->qpn = from->qp_num;
  out->psn = id->own.psn;
  out->qkey = UCMA_QKEY; /* the kernel takes a key from the application with AF_IB only */
  out->ece_vendor = ece->vendor_id;
  out->ece_options = ece->attr_mod;
  out->qp_type = id->qp_type;
  out->srq = from->srq;
  out->responder_resources = from->responder_resources;
  out->initiator_depth = from->initiator_depth;
  out->flow_control = from->flow_control;
  out->retry_count = at_most(from->retry_count, RETRY_MAX);
  out->rnr_retry_count = at_most(from->rnr_retry_count, RETRY_MAX);
  out->path_mtu = mprdma_ucma_path_mtu(id);
  out->ack_timeout = mprdma_ucma_ack_timeout(id);
  out->traffic_class = mprdma_ucma_traffic_class(id);
  out->private_bytes = from->private_data_len;
  memcpy(out->private_data, from->private_data, from->private_data_len);
  return 0;
}

static void set_own(struct ucma_id* id, const struct mprdma_abi_cm_params* own,
                    enum ucma_state state) {
  mprdma_ucma_lock();
  id->own = *own;
  id->state = state;
  mprdma_ucma_unlock();
}

static int connect_id(struct ucma_id* id, const struct rdma_ucm_connect* in) {
  struct mprdma_abi_cm_command command = {.op = MPRDMA_ABI_CM_CONNECT, .remote = id->remote};
  const struct mprdma_abi_cm_params before = id->own;
  int error = id->state == UCMA_ROUTE_RESOLVED
                  ? fill(id, &in->conn_param, &in->ece, &command.params)
                  : EINVAL;
  if (error != 0) {
    return error;
  }
  set_own(id, &command.params, UCMA_CONNECTING);
  error = mprdma_ucma_execute(id, &command, NULL);
  if (error != 0) {
    set_own(id, &before, UCMA_ROUTE_RESOLVED);
  }
  return error;
}

int mprdma_ucma_connect(struct ucma_call* call) {
  const struct rdma_ucm_connect* in = &call->in.connect;
  struct ucma_id* id;
  int error = in->conn_param.valid != 0 ? mprdma_ucma_id_get(call->file, in->id, &id) : EINVAL;
  if (error == 0) {
    error = connect_id(id, in);
    mprdma_ucma_id_put(id);
  }
  return error;
}

static int listen_id(struct ucma_id* id, uint32_t backlog) {
  int error = 0;
  if (id->state == UCMA_IDLE) {
    error = mprdma_ucma_bind_to(id, AF_INET, mprdma_ucma_any(AF_INET));
  }
  struct mprdma_abi_cm_command command = {
      .op = MPRDMA_ABI_CM_LISTEN,
      .backlog = backlog > 0 && backlog < UCMA_BACKLOG_MAX ? backlog : UCMA_BACKLOG_MAX};
  if (error == 0) {
    error = id->state == UCMA_BOUND ? mprdma_ucma_execute(id, &command, NULL) : EINVAL;
  }
  if (error == 0) {
    mprdma_ucma_lock();
    id->state = UCMA_LISTENING;
    mprdma_ucma_unlock();
  }
  return error;
}

int mprdma_ucma_listen(struct ucma_call* call) {
  const struct rdma_ucm_listen* in = &call->in.listen;
  struct ucma_id* id;
  int error = mprdma_ucma_id_get(call->file, in->id, &id);
  if (error == 0) {
    error = listen_id(id, in->backlog);
    mprdma_ucma_id_put(id);
  }
  return error;
}

/* Accepts a request. The id has its owner from here on, because the peer may confirm before the
 * command returns. */
static int answer(struct ucma_id* id, const struct rdma_ucm_accept* in) {
  struct mprdma_abi_cm_command command = {.op = MPRDMA_ABI_CM_ACCEPT};
  const uint64_t uid = id->uid;
  const struct mprdma_abi_cm_params before = id->own;
  int error = fill(id, &in->conn_param, &in->ece, &command.params);
  if (error != 0) {
    return error;
  }
  mprdma_ucma_lock();
  id->uid = in->uid;
  id->own = command.params;
  mprdma_ucma_unlock();
  error = mprdma_ucma_execute(id, &command, NULL);
  if (error != 0) {
    mprdma_ucma_lock();
    id->uid = uid;
    id->own = before;
    mprdma_ucma_unlock();
  }
  return error;
}

static int simple(struct ucma_id* id, uint32_t op) {
  struct mprdma_abi_cm_command command = {.op = op};
  return id->has_agent ? mprdma_ucma_execute(id, &command, NULL) : EINVAL;
}

/* Accepts a request or, without parameters, tells the peer that the active side's queue pair is
 * ready. */
int mprdma_ucma_accept(struct ucma_call* call) {
  const struct rdma_ucm_accept* in = &call->in.accept;
  struct ucma_id* id;
  int error = mprdma_ucma_id_get(call->file, in->id, &id);
  if (error != 0) {
    return error;
  }
  if (id->is_passive != (in->conn_param.valid != 0)) {
    error = EINVAL;
  } else {
    error = id->is_passive ? answer(id, in) : simple(id, MPRDMA_ABI_CM_ESTABLISH);
  }
  mprdma_ucma_id_put(id);
  return error;
}

int mprdma_ucma_reject(struct ucma_call* call) {
  const struct rdma_ucm_reject* in = &call->in.reject;
  struct mprdma_abi_cm_command command = {.op = MPRDMA_ABI_CM_REJECT,
                                          .reason = in->reason != 0 ? in->reason : REJECT_CONSUMER};
  struct ucma_id* id;
  if (in->private_data_len > sizeof(command.params.private_data) ||
      (command.reason != REJECT_CONSUMER && command.reason != REJECT_VENDOR_OPTION)) {
    return EINVAL;
  }
  command.params.private_bytes = in->private_data_len;
  memcpy(command.params.private_data, in->private_data, in->private_data_len);
  int error = mprdma_ucma_id_get(call->file, in->id, &id);
  if (error == 0) {
    command.params.qp_type = id->qp_type;
    error = id->has_agent ? mprdma_ucma_execute(id, &command, NULL) : EINVAL;
    mprdma_ucma_id_put(id);
  }
  return error;
}

static int simple_call(struct ucma_call* call, uint32_t handle, uint32_t op) {
  struct ucma_id* id;
  int error = mprdma_ucma_id_get(call->file, handle, &id);
  if (error == 0) {
    error = simple(id, op);
    mprdma_ucma_id_put(id);
  }
  return error;
}

int mprdma_ucma_disconnect(struct ucma_call* call) {
  return simple_call(call, call->in.disconnect.id, MPRDMA_ABI_CM_DISCONNECT);
}

/* Kernels know path migration as another event; here there is no second path. */
int mprdma_ucma_notify(struct ucma_call* call) {
  const struct rdma_ucm_notify* in = &call->in.notify;
  return in->event == COMM_EST ? simple_call(call, in->id, MPRDMA_ABI_CM_NOTIFY) : EINVAL;
}
