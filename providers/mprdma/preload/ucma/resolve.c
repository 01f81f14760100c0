/* SPDX-License-Identifier: BSD-2-Clause */
/* The commands that resolve the address of a peer, and the route to it. */
#include "providers/mprdma/preload/ucma/ucma.h"

static struct mprdma_abi_cm_address own_address(void) {
  struct mprdma_abi_cm_address own;
  memset(&own, 0, sizeof(own));
  memcpy(own.ip, mprdma_preload_facts()->gid[1], sizeof(own.ip));
  return own;
}

struct route {
  uint16_t local_family; /* 0: not given */
  uint16_t remote_family;
  uint32_t timeout_ms;
  struct mprdma_abi_cm_address local;
  struct mprdma_abi_cm_address remote;
};

/* A group needs no neighbour: its Ethernet address follows from it. The id is bound to the device,
 * and resolved. */
static int resolve_group(struct ucma_id* id, const struct route* route) {
  struct mprdma_abi_cm_address local = route->local;
  int error = 0;
  if (id->state == UCMA_IDLE) {
    if (mprdma_ucma_is_any(&local)) {
      local = own_address();
      local.port = route->local.port;
    }
    error = mprdma_ucma_bind_to(id, route->remote_family, local);
  }
  if (error != 0) {
    return error;
  }
  mprdma_ucma_lock();
  if (mprdma_ucma_is_any(&id->local)) {
    const uint16_t port = id->local.port;
    id->local = own_address();
    id->local.port = port;
  }
  id->state = UCMA_ADDRESS_RESOLVED;
  error = mprdma_ucma_raise(id, MPRDMA_ABI_CM_EVENT_ADDRESS_RESOLVED, NULL);
  mprdma_ucma_unlock();
  return error;
}

static int resolve_peer(struct ucma_id* id, const struct route* route) {
  struct mprdma_abi_cm_command command = {.op = MPRDMA_ABI_CM_RESOLVE,
                                          .local = route->local,
                                          .remote = route->remote,
                                          .timeout_ms = route->timeout_ms};
  struct mprdma_abi_cm_result result = {.local = route->local};
  const enum ucma_state before = id->state;
  /* The state changes before the command, whose event may come before it returns. */
  mprdma_ucma_lock();
  id->state = UCMA_ADDRESS_QUERY;
  mprdma_ucma_unlock();
  int error = mprdma_ucma_execute(id, &command, &result);
  mprdma_ucma_lock();
  if (error != 0) {
    id->state = before;
  } else {
    id->local = result.local;
    id->local_family = mprdma_ucma_family_of(&id->local);
  }
  mprdma_ucma_unlock();
  return error;
}

static int resolve(struct ucma_id* id, struct route* route) {
  if (id->state != UCMA_IDLE && id->state != UCMA_BOUND) {
    return EINVAL;
  }
  if (id->state == UCMA_BOUND) {
    route->local = id->local;
  } else if (route->local_family == 0) {
    route->local = mprdma_ucma_any(route->remote_family);
  } else if (route->local_family != route->remote_family) {
    return EINVAL;
  }
  if (mprdma_ucma_is_any(&route->remote)) { /* ourselves, as Linux has it */
    const uint16_t port = route->remote.port;
    route->remote = own_address();
    route->remote.port = port;
    route->remote_family = AF_INET;
  }
  mprdma_ucma_lock();
  id->remote = route->remote;
  id->remote_family = route->remote_family;
  mprdma_ucma_unlock();
  return mprdma_ucma_is_multicast(&route->remote) ? resolve_group(id, route)
                                                  : resolve_peer(id, route);
}

static int resolve_id(struct ucma_call* call, uint32_t handle, struct route* route) {
  struct ucma_id* id;
  int error = mprdma_ucma_id_get(call->file, handle, &id);
  if (error == 0) {
    error = resolve(id, route);
    mprdma_ucma_id_put(id);
  }
  return error;
}

/* An absent source has family 0, or no bytes. */
static int read_route(const void* source, size_t source_bytes, const void* destination,
                      size_t destination_bytes, struct route* out) {
  memset(out, 0, sizeof(*out));
  if (!mprdma_ucma_from_sockaddr(destination, destination_bytes, &out->remote_family,
                                 &out->remote)) {
    return EINVAL;
  }
  if (source_bytes == 0 ||
      mprdma_ucma_from_sockaddr(source, source_bytes, &out->local_family, &out->local)) {
    return 0;
  }
  return out->local_family == 0 ? 0 : EINVAL;
}

int mprdma_ucma_resolve_ip(struct ucma_call* call) {
  const struct rdma_ucm_resolve_ip* in = &call->in.resolve_ip;
  struct route route;
  int error =
      read_route(&in->src_addr, sizeof(in->src_addr), &in->dst_addr, sizeof(in->dst_addr), &route);
  route.timeout_ms = in->timeout_ms;
  return error != 0 ? error : resolve_id(call, in->id, &route);
}

int mprdma_ucma_resolve_addr(struct ucma_call* call) {
  const struct rdma_ucm_resolve_addr* in = &call->in.resolve_addr;
  struct route route;
  if (in->reserved != 0 || in->src_size > sizeof(in->src_addr) ||
      in->dst_size > sizeof(in->dst_addr)) {
    return EINVAL;
  }
  int error = read_route(&in->src_addr, in->src_size, &in->dst_addr, in->dst_size, &route);
  route.timeout_ms = in->timeout_ms;
  return error != 0 ? error : resolve_id(call, in->id, &route);
}

/* The route is one hop and needs no subnet administrator: the address is enough. */
int mprdma_ucma_resolve_route(struct ucma_call* call) {
  struct ucma_id* id;
  int error = mprdma_ucma_id_get(call->file, call->in.resolve_route.id, &id);
  if (error != 0) {
    return error;
  }
  mprdma_ucma_lock();
  if (id->state != UCMA_ADDRESS_RESOLVED) {
    error = EINVAL;
  } else {
    error = mprdma_ucma_raise(id, UCMA_EVENT_ROUTE_RESOLVED, NULL);
    if (error == 0) {
      id->state = UCMA_ROUTE_RESOLVED;
    }
  }
  mprdma_ucma_unlock();
  mprdma_ucma_id_put(id);
  return error;
}
