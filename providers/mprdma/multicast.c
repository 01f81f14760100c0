/* SPDX-License-Identifier: BSD-2-Clause */
/* Multicast groups of UD queue pairs (IBTA 10.5). Each group is attached once, however often the
 * application asks; a queue pair that is still attached cannot be destroyed. */
#include <stdlib.h>

#include "providers/mprdma/operations.h"

/* True for an IPv6 group, or an IPv4 group as an IPv4-mapped address. */
static bool is_group(const union ibv_gid* gid) {
  static const uint8_t kMapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  bool ipv4 = memcmp(gid->raw, kMapped, sizeof(kMapped)) == 0 && (gid->raw[12] & 0xf0) == 0xe0;
  return gid->raw[0] == 0xff || ipv4;
}

static int tell_engine_of(const struct mprdma_qp* qp, uint32_t handle, uint32_t command,
                          const union ibv_gid* gid) {
  struct mprdma_abi_mcast in = {.qp = handle};
  memcpy(in.mgid, gid->raw, sizeof(in.mgid));
  return mprdma_execute(qp->context, command, &in, sizeof(in), NULL, 0);
}

static int tell_engine(const struct mprdma_qp* qp, uint32_t command, const union ibv_gid* gid) {
  return tell_engine_of(qp, qp->object->handle, command, gid);
}

/* Finds the link that points at the group, or the end of the list. Requires sq.lock. */
static struct mprdma_group** find(struct mprdma_qp* qp, const union ibv_gid* gid) {
  struct mprdma_group** link = &qp->groups;
  while (*link != NULL && memcmp((*link)->gid.raw, gid->raw, sizeof(gid->raw)) != 0) {
    link = &(*link)->next;
  }
  return link;
}

int mprdma_attach_mcast(struct ibv_qp* ibv, const union ibv_gid* gid, uint16_t lid) {
  struct mprdma_qp* qp = to_mprdma_qp(ibv);
  (void)lid; /* RoCE has none */
  if (ibv->qp_type != IBV_QPT_UD || !is_group(gid) || !mprdma_object_is_here(qp->object)) {
    return EINVAL;
  }
  struct mprdma_group* group = calloc(1, sizeof(*group));
  if (group == NULL) {
    return ENOMEM;
  }
  group->gid = *gid;
  pthread_spin_lock(&qp->sq.lock);
  struct mprdma_group** link = find(qp, gid);
  bool is_new = *link == NULL;
  if (is_new) {
    *link = group;
  }
  pthread_spin_unlock(&qp->sq.lock);
  int error = is_new ? tell_engine(qp, MPRDMA_ABI_ATTACH_MCAST, gid) : 0;
  if (is_new && error != 0) {
    pthread_spin_lock(&qp->sq.lock);
    link = find(qp, gid);
    if (*link == group) {
      *link = group->next;
    }
    pthread_spin_unlock(&qp->sq.lock);
  }
  if (!is_new || error != 0) {
    free(group);
  }
  return error;
}

int mprdma_detach_mcast(struct ibv_qp* ibv, const union ibv_gid* gid, uint16_t lid) {
  struct mprdma_qp* qp = to_mprdma_qp(ibv);
  (void)lid;
  pthread_spin_lock(&qp->sq.lock);
  struct mprdma_group** link = find(qp, gid);
  struct mprdma_group* group = *link;
  if (group != NULL) {
    *link = group->next;
  }
  pthread_spin_unlock(&qp->sq.lock);
  if (group == NULL) {
    return EINVAL;
  }
  free(group);
  return mprdma_object_is_here(qp->object) ? tell_engine(qp, MPRDMA_ABI_DETACH_MCAST, gid) : 0;
}

void mprdma_forget_groups(struct mprdma_qp* qp, uint32_t handle) {
  while (qp->groups != NULL) {
    struct mprdma_group* group = qp->groups;
    qp->groups = group->next;
    (void)tell_engine_of(qp, handle, MPRDMA_ABI_DETACH_MCAST, &group->gid);
    free(group);
  }
}
