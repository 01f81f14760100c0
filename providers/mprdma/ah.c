/* SPDX-License-Identifier: BSD-2-Clause */
/* Address handles. RoCE has no local identifiers: an address is a GID (IBTA annex A17). */
#include <stdlib.h>

#include "providers/mprdma/operations.h"

/* The service level has 4 bits (IBTA 7.7.5) and no meaning here; ibv_init_ah_from_wc() puts there
 * what a completion has, the packet's type (mprdma_cqe_sl()). */
int mprdma_check_address(const struct ibv_ah_attr* attr) {
  bool good = attr->is_global == 1 && attr->grh.sgid_index < MPRDMA_FACTS_GIDS &&
              attr->port_num == MPRDMA_PORT && attr->sl < 16;
  return good ? 0 : EINVAL;
}

/* 0 is "not said" (ibv_rc_pingpong); the kernel fills in its default likewise. */
uint8_t mprdma_hop_limit(const struct ibv_ah_attr* attr) {
  return attr->grh.hop_limit != 0 ? attr->grh.hop_limit : 64;
}

static int create(struct mprdma_ah* ah, struct mprdma_pd* pd, const struct ibv_ah_attr* attr) {
  struct mprdma_context* context = to_mprdma_context(pd->ibv.context);
  struct mprdma_abi_create_ah in = {.flow_label = attr->grh.flow_label & 0xfffff,
                                    .sgid_index = attr->grh.sgid_index,
                                    .traffic_class = attr->grh.traffic_class,
                                    .hop_limit = mprdma_hop_limit(attr)};
  struct mprdma_abi_handle out = {0};
  memcpy(in.dgid, attr->grh.dgid.raw, sizeof(in.dgid));
  int error = mprdma_engine_link_connect(context);
  if (error == 0) {
    error = mprdma_pd_handle(pd, &in.pd);
  }
  if (error == 0) {
    error = mprdma_execute(context, MPRDMA_ABI_CREATE_AH, &in, sizeof(in), &out, sizeof(out));
  }
  if (error == 0) {
    mprdma_object_add(&ah->object, MPRDMA_OBJECT_AH, context, out.handle);
    ah->ibv.handle = ah->object.number;
  }
  return error;
}

struct ibv_ah* mprdma_create_ah(struct ibv_pd* ibv, struct ibv_ah_attr* attr) {
  struct mprdma_pd* pd = to_mprdma_pd(ibv);
  int error = mprdma_check_address(attr);
  struct mprdma_ah* ah = error == 0 ? calloc(1, sizeof(*ah)) : NULL;
  if (error == 0) {
    error = ah != NULL ? create(ah, pd, attr) : ENOMEM;
  }
  if (error != 0) {
    free(ah);
    errno = error;
    return NULL;
  }
  mprdma_pd_count(pd, 1);
  return &ah->ibv;
}

int mprdma_destroy_ah(struct ibv_ah* ibv) {
  struct mprdma_ah* ah = to_mprdma_ah(ibv);
  int error = mprdma_object_destroy(&ah->object);
  if (error == 0) {
    mprdma_pd_count(to_mprdma_pd(ibv->pd), (uint32_t)-1);
    free(ah);
  }
  return error;
}
