/* SPDX-License-Identifier: BSD-2-Clause */
/* write() on the device: finds the command, checks that it is complete, and dispatches it. */
#include "providers/mprdma/preload/ucma/ucma.h"

#define BYTES(type) ((uint16_t)sizeof(struct type))
/* The size of a structure in older callers, which do not know its tail from `member` on. */
#define BYTES_UP_TO(type, member) ((uint16_t)offsetof(struct type, member))

struct row {
  int (*handler)(struct ucma_call* call);
  uint16_t in_bytes;  /* the least */
  uint16_t out_bytes; /* the least */
};

/* The least sizes of each command. Commands with more than one size of answer check it
 * themselves. */
static const struct row kRows[] = {
    [RDMA_USER_CM_CMD_CREATE_ID] = {mprdma_ucma_create_id, BYTES(rdma_ucm_create_id),
                                    BYTES(rdma_ucm_create_id_resp)},
    [RDMA_USER_CM_CMD_DESTROY_ID] = {mprdma_ucma_destroy_id, BYTES(rdma_ucm_destroy_id),
                                     BYTES(rdma_ucm_destroy_id_resp)},
    [RDMA_USER_CM_CMD_BIND_IP] = {mprdma_ucma_bind_ip, BYTES(rdma_ucm_bind_ip), 0},
    [RDMA_USER_CM_CMD_RESOLVE_IP] = {mprdma_ucma_resolve_ip, BYTES(rdma_ucm_resolve_ip), 0},
    [RDMA_USER_CM_CMD_RESOLVE_ROUTE] = {mprdma_ucma_resolve_route, BYTES(rdma_ucm_resolve_route),
                                        0},
    [RDMA_USER_CM_CMD_QUERY_ROUTE] = {mprdma_ucma_query_route, BYTES(rdma_ucm_query),
                                      BYTES_UP_TO(rdma_ucm_query_route_resp, ibdev_index)},
    [RDMA_USER_CM_CMD_CONNECT] = {mprdma_ucma_connect, BYTES_UP_TO(rdma_ucm_connect, ece), 0},
    [RDMA_USER_CM_CMD_LISTEN] = {mprdma_ucma_listen, BYTES(rdma_ucm_listen), 0},
    [RDMA_USER_CM_CMD_ACCEPT] = {mprdma_ucma_accept, BYTES_UP_TO(rdma_ucm_accept, ece), 0},
    [RDMA_USER_CM_CMD_REJECT] = {mprdma_ucma_reject, BYTES(rdma_ucm_reject), 0},
    [RDMA_USER_CM_CMD_DISCONNECT] = {mprdma_ucma_disconnect, BYTES(rdma_ucm_disconnect), 0},
    [RDMA_USER_CM_CMD_INIT_QP_ATTR] = {mprdma_ucma_init_qp_attr, BYTES(rdma_ucm_init_qp_attr),
                                       BYTES(ib_uverbs_qp_attr)},
    [RDMA_USER_CM_CMD_GET_EVENT] = {mprdma_ucma_get_event, BYTES(rdma_ucm_get_event),
                                    BYTES_UP_TO(rdma_ucm_event_resp, reserved)},
    [RDMA_USER_CM_CMD_SET_OPTION] = {mprdma_ucma_set_option, BYTES(rdma_ucm_set_option), 0},
    [RDMA_USER_CM_CMD_NOTIFY] = {mprdma_ucma_notify, BYTES(rdma_ucm_notify), 0},
    [RDMA_USER_CM_CMD_JOIN_IP_MCAST] = {mprdma_ucma_join_ip_mcast,
                                        BYTES_UP_TO(rdma_ucm_join_ip_mcast, id) + sizeof(uint32_t),
                                        BYTES(rdma_ucm_create_id_resp)},
    [RDMA_USER_CM_CMD_LEAVE_MCAST] = {mprdma_ucma_leave_mcast, BYTES(rdma_ucm_destroy_id),
                                      BYTES(rdma_ucm_destroy_id_resp)},
    [RDMA_USER_CM_CMD_MIGRATE_ID] = {mprdma_ucma_migrate_id, BYTES(rdma_ucm_migrate_id),
                                     BYTES(rdma_ucm_migrate_resp)},
    [RDMA_USER_CM_CMD_QUERY] = {mprdma_ucma_query, BYTES(rdma_ucm_query), 0},
    [RDMA_USER_CM_CMD_BIND] = {mprdma_ucma_bind, BYTES(rdma_ucm_bind), 0},
    [RDMA_USER_CM_CMD_RESOLVE_ADDR] = {mprdma_ucma_resolve_addr, BYTES(rdma_ucm_resolve_addr), 0},
    [RDMA_USER_CM_CMD_JOIN_MCAST] = {mprdma_ucma_join_mcast, BYTES(rdma_ucm_join_mcast),
                                     BYTES(rdma_ucm_create_id_resp)},
};

MPRDMA_REAL(int, close, int)

/* A waiting command keeps the file open, as a system call does: another thread may close the
 * application's descriptor, and its number may be reused. */
static int execute(const struct row* row, int fd, bool waits, struct ucma_call* call) {
  int own = -1;
  call->file = mprdma_ucma_file_get(fd, waits ? &own : NULL);
  if (call->file == NULL) {
    return EBADF;
  }
  call->fd = own >= 0 ? own : fd;
  int error = row->handler(call);
  mprdma_ucma_file_put(call->file);
  if (own >= 0) {
    close_real()(own);
  }
  return error;
}

static int dispatch(int fd, const void* buffer, size_t bytes) {
  struct rdma_ucm_cmd_hdr header;
  struct ucma_call call;
  if (bytes < sizeof(header)) {
    return EINVAL;
  }
  if (buffer == NULL) {
    return EFAULT;
  }
  memcpy(&header, buffer, sizeof(header));
  if (header.cmd >= sizeof(kRows) / sizeof(kRows[0]) || header.in > bytes - sizeof(header)) {
    return EINVAL;
  }
  const struct row* row = &kRows[header.cmd];
  if (row->handler == NULL) {
    return ENOSYS; /* GET_OPTION, which no kernel has */
  }
  if (header.in < row->in_bytes) {
    return EINVAL;
  }
  if (header.out < row->out_bytes) {
    return ENOSPC;
  }
  memcpy(&call.in, (const char*)buffer + sizeof(header),
         header.in < sizeof(call.in) ? header.in : sizeof(call.in));
  call.out_bytes = header.out;
  return execute(row, fd, header.cmd == RDMA_USER_CM_CMD_GET_EVENT, &call);
}

ssize_t mprdma_ucma_write(int fd, const void* buffer, size_t bytes) {
  int saved = errno;
  int error = dispatch(fd, buffer, bytes);
  errno = error != 0 ? error : saved;
  return error != 0 ? -1 : (ssize_t)bytes;
}
