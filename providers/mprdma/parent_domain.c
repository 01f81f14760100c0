/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Thread domains and parent domains. A thread domain promises that its objects are used by one
 * thread at a time; the locks that it would spare are uncontended then, so it changes nothing here.
 * A parent domain stands for its PD and brings allocators for what its objects need (ring.c).
 */
#include <stdlib.h>

#include "providers/mprdma/operations.h"

struct ibv_td* mprdma_alloc_td(struct ibv_context* context, struct ibv_td_init_attr* attr) {
  struct mprdma_td* td = attr->comp_mask == 0 ? calloc(1, sizeof(*td)) : NULL;
  if (td == NULL) {
    errno = attr->comp_mask == 0 ? ENOMEM : EINVAL;
    return NULL;
  }
  td->ibv.context = context;
  return &td->ibv;
}

int mprdma_dealloc_td(struct ibv_td* ibv) {
  struct mprdma_td* td = to_mprdma_td(ibv);
  if (mprdma_in_use(&td->users)) {
    return EBUSY;
  }
  free(td);
  return 0;
}

static bool good_parent(const struct ibv_context* context,
                        const struct ibv_parent_domain_init_attr* attr) {
  const uint32_t kKnown =
      IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS | IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT;
  bool allocates = (attr->comp_mask & IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS) != 0;
  bool good = (attr->comp_mask & ~kKnown) == 0 && attr->pd != NULL && attr->pd->context == context;
  good = good && (attr->td == NULL || attr->td->context == context);
  return good && (!allocates || (attr->alloc != NULL && attr->free != NULL));
}

struct ibv_pd* mprdma_alloc_parent_domain(struct ibv_context* context,
                                          struct ibv_parent_domain_init_attr* attr) {
  /* A parent of a parent domain has no meaning. */
  bool good = good_parent(context, attr) && to_mprdma_pd(attr->pd)->td == NULL &&
              (to_mprdma_pd(attr->pd)->stands_for == NULL || to_mprdma_pd(attr->pd)->imported);
  struct mprdma_pd* parent = good ? calloc(1, sizeof(*parent)) : NULL;
  if (parent == NULL) {
    errno = good ? ENOMEM : EINVAL;
    return NULL;
  }
  parent->references = 1;
  parent->ibv.context = context;
  parent->ibv.handle = attr->pd->handle;
  parent->stands_for = to_mprdma_pd(attr->pd);
  mprdma_pd_count(parent->stands_for, 1);
  if (attr->td != NULL) {
    parent->td = to_mprdma_td(attr->td);
    mprdma_count(&parent->td->users, 1);
  }
  if ((attr->comp_mask & IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS) != 0) {
    parent->alloc = attr->alloc;
    parent->free = attr->free;
  }
  if ((attr->comp_mask & IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT) != 0) {
    parent->pd_context = attr->pd_context;
  }
  return &parent->ibv;
}
