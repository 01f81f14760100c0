/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The commands of multicast groups. On Ethernet nobody administers them: the group's identifier
 * follows from its IP address (as the kernel's cma has it for RoCE v2: an IPv4 one is mapped), and
 * the queue pair is attached to it by librdmacm when the event comes.
 */
#include "providers/mprdma/preload/ucma/ucma.h"

#define UCMA_QPT_UD 4u /* enum ibv_qp_type */

/* Joins a group. Requires the lock. */
static int join(struct ucma_id* id, uint64_t uid, const uint8_t mgid[16], uint32_t* handle) {
  if (id->qp_type != UCMA_QPT_UD || !mprdma_ucma_has_device(id) ||
      (id->state != UCMA_BOUND && id->state != UCMA_ADDRESS_RESOLVED &&
       id->state != UCMA_ROUTE_RESOLVED)) {
    return EINVAL;
  }
  struct ucma_group* group = mprdma_ucma_group_new(id, uid, mgid);
  if (group == NULL) {
    return ENOMEM;
  }
  int error = mprdma_ucma_raise(id, UCMA_EVENT_MULTICAST_JOIN, group);
  if (error != 0) {
    mprdma_ucma_group_free(group);
    return error;
  }
  *handle = group->handle;
  return 0;
}

/* Send-only members are treated like others, because librdmacm attaches the queue pair. */
static int join_call(struct ucma_call* call, const struct rdma_ucm_join_mcast* in) {
  struct mprdma_abi_cm_address address;
  uint16_t family;
  struct rdma_ucm_create_id_resp response;
  struct ucma_id* id;
  if (in->response == 0) {
    return EFAULT;
  }
  if (in->join_flags >= RDMA_MC_JOIN_FLAG_RESERVED || in->addr_size > sizeof(in->addr) ||
      !mprdma_ucma_from_sockaddr(&in->addr, in->addr_size, &family, &address) ||
      !mprdma_ucma_is_multicast(&address)) {
    return EINVAL;
  }
  int error = mprdma_ucma_id_get(call->file, in->id, &id);
  if (error != 0) {
    return error;
  }
  mprdma_ucma_lock();
  error = join(id, in->uid, address.ip, &response.id);
  mprdma_ucma_unlock();
  mprdma_ucma_id_put(id);
  return error != 0 ? error : mprdma_ucma_respond(in->response, &response, sizeof(response));
}

int mprdma_ucma_join_ip_mcast(struct ucma_call* call) {
  const struct rdma_ucm_join_ip_mcast* in = &call->in.join_ip_mcast;
  struct rdma_ucm_join_mcast join = {.response = in->response,
                                     .uid = in->uid,
                                     .id = in->id,
                                     .addr_size = sizeof(in->addr),
                                     .join_flags = RDMA_MC_JOIN_FLAG_FULLMEMBER};
  memcpy(&join.addr, &in->addr, sizeof(in->addr));
  return join_call(call, &join);
}

int mprdma_ucma_join_mcast(struct ucma_call* call) {
  return join_call(call, &call->in.join_mcast);
}

/* Another command may use the id meanwhile; no command but these touches groups. */
int mprdma_ucma_leave_mcast(struct ucma_call* call) {
  const struct rdma_ucm_destroy_id* in = &call->in.destroy_id;
  struct rdma_ucm_destroy_id_resp response;
  struct ucma_event* events = NULL;
  int error = 0;
  if (in->response == 0) {
    return EFAULT;
  }
  mprdma_ucma_lock();
  struct ucma_group* group = mprdma_ucma_group_find(in->id);
  if (group == NULL) {
    error = ENOENT;
  } else if (group->id->file != call->file) {
    error = EINVAL;
  } else {
    response.events_reported = group->events_reported;
    events = mprdma_ucma_take(call->file, group->id, group);
    mprdma_ucma_group_free(group);
  }
  mprdma_ucma_unlock();
  while (events != NULL) {
    struct ucma_event* next = events->next;
    free(events);
    events = next;
  }
  return error != 0 ? error : mprdma_ucma_respond(in->response, &response, sizeof(response));
}
