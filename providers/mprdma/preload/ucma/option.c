/* SPDX-License-Identifier: BSD-2-Clause */
/* rdma_set_option(). agent.c sends the options that are set before the agent knows the id. */
#include "providers/mprdma/preload/ucma/ucma.h"

#define ACK_TIMEOUT_MAX 31u /* 5 bits */
#define UCMA_QPT_RC 2u      /* enum ibv_qp_type */
#define UCMA_QPT_XRC_SEND 9u

/* Reads the application's value: a byte or an int, depending on the option. */
static int read_value(const struct rdma_ucm_set_option* in, uint32_t* value) {
  const bool is_byte =
      in->optname == RDMA_OPTION_ID_TOS || in->optname == RDMA_OPTION_ID_ACK_TIMEOUT;
  if (in->optname > RDMA_OPTION_ID_ACK_TIMEOUT) {
    return ENOSYS;
  }
  if (in->optlen != (is_byte ? sizeof(uint8_t) : sizeof(int))) {
    return EINVAL;
  }
  if (in->optval == 0) {
    return EFAULT;
  }
  uint8_t byte = 0;
  int number = 0;
  memcpy(is_byte ? (void*)&byte : (void*)&number, (const void*)(uintptr_t)in->optval, in->optlen);
  *value = is_byte ? byte : number != 0;
  return in->optname == RDMA_OPTION_ID_ACK_TIMEOUT && byte > ACK_TIMEOUT_MAX ? EINVAL : 0;
}

/* Tells whether the option may be set on this id in its state. */
static bool may_set(const struct ucma_id* id, uint32_t option, uint32_t value) {
  switch (option) {
    case RDMA_OPTION_ID_REUSEADDR:
      return value != 0 || id->state == UCMA_IDLE;
    case RDMA_OPTION_ID_AFONLY:
      return id->state == UCMA_IDLE || id->state == UCMA_BOUND;
    case RDMA_OPTION_ID_ACK_TIMEOUT:
      return id->qp_type == UCMA_QPT_RC || id->qp_type == UCMA_QPT_XRC_SEND;
    default:
      return true;
  }
}

_Static_assert((int)RDMA_OPTION_ID_TOS == (int)MPRDMA_ABI_CM_OPTION_TOS &&
                   (int)RDMA_OPTION_ID_REUSEADDR == (int)MPRDMA_ABI_CM_OPTION_REUSEADDR &&
                   (int)RDMA_OPTION_ID_AFONLY == (int)MPRDMA_ABI_CM_OPTION_AFONLY &&
                   (int)RDMA_OPTION_ID_ACK_TIMEOUT == (int)MPRDMA_ABI_CM_OPTION_ACK_TIMEOUT,
               "the agent's options are the kernel's");

static int set(struct ucma_id* id, uint32_t option, uint32_t value) {
  if (!may_set(id, option, value)) {
    return EINVAL;
  }
  mprdma_ucma_lock();
  id->options[option] = value;
  id->options_set |= 1u << option;
  mprdma_ucma_unlock();
  return id->has_agent ? mprdma_ucma_tell_option(id, option) : 0;
}

int mprdma_ucma_set_option(struct ucma_call* call) {
  const struct rdma_ucm_set_option* in = &call->in.set_option;
  uint32_t value = 0;
  struct ucma_id* id;
  /* Options of level IB set path records of a subnet administrator; there is none, so they are
   * unknown. */
  int error = in->level == RDMA_OPTION_ID ? read_value(in, &value) : ENOSYS;
  if (error != 0) {
    return error;
  }
  error = mprdma_ucma_id_get(call->file, in->id, &id);
  if (error == 0) {
    error = set(id, in->optname, value);
    mprdma_ucma_id_put(id);
  }
  return error;
}
