/* SPDX-License-Identifier: BSD-2-Clause */
/* Queries of an id's addresses, in the forms of librdmacm with and without AF_IB. */
#include "providers/mprdma/preload/ucma/ucma.h"

#define UCMA_AF_IB 27u
#define RATE_100_GBPS 16u /* IBTA 13.6: as the port's sysfs file says */
#define EXACTLY 2u        /* selector of a path record */

/* The kernel's struct sockaddr_ib. */
struct ib_address {
  uint16_t family;
  uint16_t pkey; /* network order */
  uint32_t flow;
  uint8_t gid[16];
  uint64_t service; /* network order */
  uint64_t service_mask;
  uint64_t scope;
};
_Static_assert(sizeof(struct ib_address) == 48, "as struct sockaddr_ib");

/* A path record on the wire (IBTA 15.2.5.16). */
struct wire_path {
  uint64_t service;
  uint8_t dgid[16];
  uint8_t sgid[16];
  uint16_t dlid;
  uint16_t slid;
  uint32_t flow_hop;
  uint8_t traffic_class;
  uint8_t reversible_paths;
  uint16_t pkey;
  uint16_t qos_sl;
  uint8_t mtu;
  uint8_t rate;
  uint8_t life_time;
  uint8_t preference;
  uint8_t reserved[6];
};
_Static_assert(sizeof(struct wire_path) == sizeof(((struct ib_path_rec_data*)0)->path_rec),
               "as struct ib_path_rec_data");

static uint32_t paths_of(const struct ucma_id* id) {
  return id->state >= UCMA_ROUTE_RESOLVED ? 1 : 0;
}

static uint64_t node_guid(const struct ucma_id* id) {
  uint64_t guid = 0; /* network order; 0: bound to no device */
  if (mprdma_ucma_has_device(id)) {
    memcpy(&guid, mprdma_preload_facts()->node_guid, sizeof(guid));
  }
  return guid;
}

static uint8_t life_time(const struct ucma_id* id) {
  uint8_t timeout = mprdma_ucma_ack_timeout(id); /* twice the life time, IBTA 9.7.6.1.3 */
  return timeout > 0 ? (uint8_t)(timeout - 1) : 0;
}

static void put_route(const struct ucma_id* id, struct rdma_ucm_query_route_resp* out) {
  struct ib_user_path_rec* path = &out->ib_route[0];
  memset(out, 0, sizeof(*out));
  mprdma_ucma_to_sockaddr(id->local_family, &id->local, &out->src_addr);
  mprdma_ucma_to_sockaddr(id->remote_family, &id->remote, &out->dst_addr);
  out->node_guid = node_guid(id);
  if (out->node_guid == 0) {
    return;
  }
  out->port_num = UCMA_PORT;
  out->num_paths = paths_of(id);
  memcpy(path->dgid, id->remote.ip, sizeof(path->dgid));
  memcpy(path->sgid, id->local.ip, sizeof(path->sgid));
  path->pkey = htons(UCMA_PKEY);
  if (out->num_paths == 0) {
    return;
  }
  path->reversible = 1;
  path->mtu = mprdma_ucma_path_mtu(id);
  path->hop_limit = UCMA_HOP_LIMIT;
  path->traffic_class = mprdma_ucma_traffic_class(id);
  path->numb_path = 1;
  path->mtu_selector = EXACTLY;
  path->rate_selector = EXACTLY;
  path->rate = RATE_100_GBPS;
  path->packet_life_time_selector = EXACTLY;
  path->packet_life_time = life_time(id);
}

int mprdma_ucma_query_route(struct ucma_call* call) {
  const struct rdma_ucm_query* in = &call->in.query;
  struct rdma_ucm_query_route_resp response;
  struct ucma_id* id;
  int error = mprdma_ucma_id_get(call->file, in->id, &id);
  if (error != 0) {
    return error;
  }
  mprdma_ucma_lock();
  put_route(id, &response);
  mprdma_ucma_unlock();
  mprdma_ucma_id_put(id);
  /* The index of the device, at the end, keeps the caller's value, unknown: sysfs does not have
   * it. */
  return mprdma_ucma_respond(in->response, &response,
                             offsetof(struct rdma_ucm_query_route_resp, ibdev_index));
}

static void put_device(const struct ucma_id* id, struct rdma_ucm_query_addr_resp* out) {
  memset(out, 0, sizeof(*out));
  out->node_guid = node_guid(id);
  if (out->node_guid != 0) {
    out->port_num = UCMA_PORT;
    out->pkey = htons(UCMA_PKEY);
  }
}

static void put_address(const struct ucma_id* id, struct rdma_ucm_query_addr_resp* out) {
  put_device(id, out);
  out->src_size = (uint16_t)mprdma_ucma_to_sockaddr(id->local_family, &id->local, &out->src_addr);
  out->dst_size = (uint16_t)mprdma_ucma_to_sockaddr(id->remote_family, &id->remote, &out->dst_addr);
}

static void put_ib_address(const struct ucma_id* id, const struct mprdma_abi_cm_address* address,
                           void* out) {
  struct ib_address ib = {.family = UCMA_AF_IB, .pkey = htons(UCMA_PKEY)};
  const uint8_t service[8] = {0,
                              0,
                              0,
                              0,
                              (uint8_t)(id->port_space >> 8),
                              (uint8_t)id->port_space,
                              (uint8_t)(address->port >> 8),
                              (uint8_t)address->port};
  memcpy(ib.gid, address->ip, sizeof(ib.gid));
  memcpy(&ib.service, service, sizeof(service));
  memcpy(out, &ib, sizeof(ib));
}

static void put_gid(const struct ucma_id* id, struct rdma_ucm_query_addr_resp* out) {
  put_device(id, out);
  out->src_size = out->dst_size = sizeof(struct ib_address);
  put_ib_address(id, &id->local, &out->src_addr);
  put_ib_address(id, &id->remote, &out->dst_addr);
}

static void put_path(const struct ucma_id* id, struct ib_path_rec_data* out) {
  struct wire_path path = {.flow_hop = htonl(UCMA_HOP_LIMIT),
                           .traffic_class = mprdma_ucma_traffic_class(id),
                           .reversible_paths = 1u << 7 | 1u,
                           .pkey = htons(UCMA_PKEY),
                           .mtu = (uint8_t)(EXACTLY << 6 | mprdma_ucma_path_mtu(id)),
                           .rate = EXACTLY << 6 | RATE_100_GBPS,
                           .life_time = (uint8_t)(EXACTLY << 6 | life_time(id))};
  memcpy(path.dgid, id->remote.ip, sizeof(path.dgid));
  memcpy(path.sgid, id->local.ip, sizeof(path.sgid));
  memset(out, 0, sizeof(*out));
  out->flags = IB_PATH_GMP | IB_PATH_PRIMARY | IB_PATH_BIDIRECTIONAL;
  memcpy(out->path_rec, &path, sizeof(path));
}

/* struct rdma_ucm_query_path_resp with room for the one path. */
struct paths {
  uint32_t count;
  uint32_t reserved;
  struct ib_path_rec_data path;
};
_Static_assert(offsetof(struct paths, path) == sizeof(struct rdma_ucm_query_path_resp), "as there");

static int answer(const struct ucma_id* id, const struct ucma_call* call) {
  const struct rdma_ucm_query* in = &call->in.query;
  struct rdma_ucm_query_addr_resp address;
  struct paths paths = {.count = paths_of(id)};
  const size_t head_bytes = offsetof(struct paths, path);
  const size_t address_bytes = offsetof(struct rdma_ucm_query_addr_resp, ibdev_index);
  switch (in->option) {
    case RDMA_USER_CM_QUERY_ADDR:
    case RDMA_USER_CM_QUERY_GID:
      if (call->out_bytes < address_bytes) {
        return ENOSPC;
      }
      (in->option == RDMA_USER_CM_QUERY_ADDR ? put_address : put_gid)(id, &address);
      return mprdma_ucma_respond(in->response, &address, address_bytes);
    case RDMA_USER_CM_QUERY_PATH:
      if (call->out_bytes < head_bytes) {
        return ENOSPC;
      }
      if (paths.count == 0 || call->out_bytes < sizeof(paths)) {
        return mprdma_ucma_respond(in->response, &paths, head_bytes);
      }
      put_path(id, &paths.path);
      return mprdma_ucma_respond(in->response, &paths, sizeof(paths));
    default:
      return ENOSYS;
  }
}

int mprdma_ucma_query(struct ucma_call* call) {
  struct ucma_id* id;
  int error = mprdma_ucma_id_get(call->file, call->in.query.id, &id);
  if (error == 0) {
    mprdma_ucma_lock();
    error = answer(id, call);
    mprdma_ucma_unlock();
    mprdma_ucma_id_put(id);
  }
  return error;
}
