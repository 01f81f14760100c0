/* SPDX-License-Identifier: BSD-2-Clause */
/* Events: from the agent into the queue of a file, and from there to the application. */
#include <unistd.h>

#include "providers/mprdma/preload/ucma/ucma.h"

#define UCMA_QPT_UD 4u /* enum ibv_qp_type */
#define UCMA_QPT_XRC_SEND 9u
#define UCMA_QPT_XRC_RECV 10u

/* Stores the parts of the event that the application's next commands need. */
static void note(struct ucma_id* id, const struct mprdma_abi_cm_event* event) {
  switch (event->type) {
    case MPRDMA_ABI_CM_EVENT_ADDRESS_RESOLVED:
      id->state = UCMA_ADDRESS_RESOLVED;
      id->local = event->local;
      id->local_family = mprdma_ucma_family_of(&event->local);
      id->remote = event->remote; /* for a loopback address, the device's own */
      id->remote_family = mprdma_ucma_family_of(&event->remote);
      break;
    case MPRDMA_ABI_CM_EVENT_ADDRESS_ERROR:
      id->state = UCMA_BOUND; /* it may be resolved again */
      break;
    case MPRDMA_ABI_CM_EVENT_RESPONSE:
      id->peer = event->params;
      id->has_peer = true;
      break;
    default:
      break;
  }
}

static void enqueue(struct ucma_id* id, const struct mprdma_abi_cm_event* from) {
  struct ucma_event* event = calloc(1, sizeof(*event));
  if (event != NULL) { /* otherwise it is lost, as in a kernel without memory */
    event->event = *from;
    event->id = id;
    mprdma_ucma_push(id->file, event);
  }
}

/* Queues an event. The application hears of a request only that it came; later events of a request
 * that is not accepted are dropped, and accepting it then fails. */
void mprdma_ucma_on_event(void* context, const struct mprdma_abi_cm_event* event) {
  (void)context;
  mprdma_ucma_lock();
  struct ucma_id* id = mprdma_ucma_id_of_cookie(event->cookie);
  if (id != NULL && event->type == MPRDMA_ABI_CM_EVENT_REQUEST) {
    enqueue(id, event);
  } else if (id != NULL && id->has_agent && id->agent == event->id && id->uid != 0) {
    note(id, event);
    enqueue(id, event);
  }
  mprdma_ucma_unlock();
}

/* Makes the id of a request. Requires the lock. */
static struct ucma_id* adopt(const struct ucma_event* event) {
  const struct mprdma_abi_cm_event* request = &event->event;
  uint8_t qp_type =
      request->params.qp_type == UCMA_QPT_XRC_SEND ? UCMA_QPT_XRC_RECV : request->params.qp_type;
  struct ucma_id* id = mprdma_ucma_id_new(event->id->file, event->id->port_space,
                                          qp_type != 0 ? qp_type : event->id->qp_type);
  if (id == NULL) {
    return NULL;
  }
  id->has_agent = true;
  id->agent = request->id;
  id->state = UCMA_CONNECTING;
  id->is_passive = true;
  id->has_peer = true;
  id->peer = request->params;
  id->local = request->local;
  id->remote = request->remote;
  id->local_family = mprdma_ucma_family_of(&id->local);
  id->remote_family = mprdma_ucma_family_of(&id->remote);
  return id;
}

static uint8_t private_bytes(const struct mprdma_abi_cm_params* from) {
  return from->private_bytes < sizeof(from->private_data) ? from->private_bytes
                                                          : (uint8_t)sizeof(from->private_data);
}

/* Fills the parameters from the application's side: the requests that the peer may have outstanding
 * are our responder resources (as in ib_cm). */
static void put_conn(const struct mprdma_abi_cm_params* from, struct rdma_ucm_conn_param* out) {
  out->qp_num = from->qpn;
  out->qkey = from->qkey;
  out->private_data_len = private_bytes(from);
  memcpy(out->private_data, from->private_data, out->private_data_len);
  out->srq = from->srq;
  out->responder_resources = from->initiator_depth;
  out->initiator_depth = from->responder_resources;
  out->flow_control = from->flow_control;
  out->retry_count = from->retry_count;
  out->rnr_retry_count = from->rnr_retry_count;
}

static void put_ud(const struct ucma_event* event, struct rdma_ucm_ud_param* out) {
  const struct mprdma_abi_cm_params* from = &event->event.params;
  if (event->group != NULL) {
    out->qp_num = 0xffffffu; /* IBTA 10.5.2: the number of every group */
    out->qkey = UCMA_QKEY;
    mprdma_ucma_ah_attr(event->id, event->group->mgid, &out->ah_attr);
    return;
  }
  out->qp_num = from->qpn;
  out->qkey = from->qkey;
  out->private_data_len = private_bytes(from);
  memcpy(out->private_data, from->private_data, out->private_data_len);
  if (event->event.type == MPRDMA_ABI_CM_EVENT_ESTABLISHED) {
    mprdma_ucma_ah_attr(event->id, event->id->remote.ip, &out->ah_attr);
  }
}

/* Fills the response. Requires the lock. `child`: the id of a request. */
static void put_response(const struct ucma_event* event, const struct ucma_id* child,
                         struct rdma_ucm_event_resp* out) {
  const struct ucma_id* whose = child != NULL ? child : event->id;
  memset(out, 0, sizeof(*out));
  out->uid = event->group != NULL ? event->group->uid : event->id->uid;
  out->id = event->group != NULL ? event->group->handle : whose->handle;
  out->event = event->event.type;
  out->status = (uint32_t)event->event.status;
  if (whose->qp_type == UCMA_QPT_UD) {
    put_ud(event, &out->param.ud);
  } else {
    put_conn(&event->event.params, &out->param.conn);
  }
  out->ece.vendor_id = event->event.params.ece_vendor;
  out->ece.attr_mod = event->event.params.ece_options;
}

/* Delivers an event. EAGAIN: there was none after all. */
static int deliver(struct ucma_file* file, struct rdma_ucm_event_resp* out) {
  struct ucma_event* event = mprdma_ucma_pop(file);
  struct ucma_id* child = NULL;
  mprdma_ucma_settle(file);
  if (event == NULL) {
    return EAGAIN;
  }
  if (event->event.type == MPRDMA_ABI_CM_EVENT_REQUEST) {
    child = adopt(event);
    if (child == NULL) {
      mprdma_ucma_push_back(file, event);
      return ENOMEM;
    }
  }
  put_response(event, child, out);
  event->id->events_reported++;
  if (event->group != NULL) {
    event->group->events_reported++;
  }
  free(event);
  return 0;
}

int mprdma_ucma_get_event(struct ucma_call* call) {
  struct rdma_ucm_event_resp response;
  if (call->in.get_event.response == 0) {
    return EFAULT;
  }
  int error;
  do {
    uint64_t one;
    if (read(call->fd, &one, sizeof(one)) < 0) {
      return errno;
    }
    mprdma_ucma_lock();
    error = deliver(call->file, &response);
    mprdma_ucma_unlock();
  } while (error == EAGAIN);
  if (error != 0) {
    return error;
  }
  size_t bytes = call->out_bytes < sizeof(response) ? call->out_bytes : sizeof(response);
  return mprdma_ucma_respond(call->in.get_event.response, &response, bytes);
}
