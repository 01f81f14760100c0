/* SPDX-License-Identifier: BSD-2-Clause */
/* The commands that bind an id to an address of the device. */
#include "providers/mprdma/preload/ucma/ucma.h"

int mprdma_ucma_bind_to(struct ucma_id* id, uint16_t family, struct mprdma_abi_cm_address local) {
  struct mprdma_abi_cm_command command = {.op = MPRDMA_ABI_CM_BIND, .local = local};
  struct mprdma_abi_cm_result result = {.local = local};
  if (id->state != UCMA_IDLE) {
    return EINVAL;
  }
  int error = mprdma_ucma_execute(id, &command, &result);
  if (error == 0) {
    mprdma_ucma_lock();
    id->local_family = family;
    id->local = result.local;
    id->state = UCMA_BOUND;
    mprdma_ucma_unlock();
  }
  return error;
}

static int bind_id(struct ucma_call* call, uint32_t handle, const void* sockaddr, size_t bytes) {
  uint16_t family;
  struct mprdma_abi_cm_address local;
  struct ucma_id* id;
  int error = mprdma_ucma_id_get(call->file, handle, &id);
  if (error != 0) {
    return error;
  }
  /* Addresses of other families are refused, AF_IB among them, with which librdmacm tests for its
   * support. */
  error = mprdma_ucma_from_sockaddr(sockaddr, bytes, &family, &local)
              ? mprdma_ucma_bind_to(id, family, local)
              : EINVAL;
  mprdma_ucma_id_put(id);
  return error;
}

int mprdma_ucma_bind_ip(struct ucma_call* call) {
  const struct rdma_ucm_bind_ip* in = &call->in.bind_ip;
  return bind_id(call, in->id, &in->addr, sizeof(in->addr));
}

int mprdma_ucma_bind(struct ucma_call* call) {
  const struct rdma_ucm_bind* in = &call->in.bind;
  if (in->reserved != 0 || in->addr_size > sizeof(in->addr)) {
    return EINVAL;
  }
  return bind_id(call, in->id, &in->addr, in->addr_size);
}
