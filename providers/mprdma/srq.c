/* SPDX-License-Identifier: BSD-2-Clause */
/* Shared receive queues, plain ones and those of an XRC domain. The engine looks at the producer
 * index when a message needs a receive: posting rings no doorbell. */
#include "providers/mprdma/operations.h"

#include <stdlib.h>
#include <unistd.h>

#include "providers/mprdma/mprdmadv.h"

static int map_ring(struct mprdma_memory* memory, struct mprdma_work_queue* rq,
                    struct mprdma_pd* from, const struct ibv_srq_attr* attr) {
  size_t bytes = mprdma_size_receives(rq, attr->max_wr, attr->max_sge);
  int error = mprdma_memory_get(memory, from, MPRDMADV_RES_TYPE_SRQ, bytes + sizeof(*rq->dbr));
  if (error == 0) {
    rq->ring = memory->base;
    rq->dbr = (struct mprdma_abi_queue_dbr*)(void*)(rq->ring + bytes);
  }
  return error;
}

static int check_size(const struct ibv_srq_attr* attr) {
  struct mprdma_abi_device_info info;
  int error = mprdma_engine_link_limits(&info);
  if (error != 0) {
    return error;
  }
  bool good =
      attr->max_wr > 0 && attr->max_wr <= info.max_srq_wr && attr->max_sge <= info.max_srq_sge;
  return good ? 0 : EINVAL;
}

static int create_in_engine(struct mprdma_srq* srq, const struct ibv_srq_init_attr_ex* attr) {
  _Static_assert((int)IBV_SRQT_XRC == MPRDMA_ABI_SRQ_XRC, "types of SRQs are the same numbers");
  struct mprdma_abi_create_srq in = {.type = (uint32_t)attr->srq_type,
                                     .limit = attr->attr.srq_limit,
                                     .cookie = (uint64_t)(uintptr_t)srq,
                                     .rq = mprdma_describe_queue(&srq->rq)};
  struct mprdma_abi_srq_out out = {0};
  if (attr->srq_type == IBV_SRQT_XRC) {
    in.recv_cq = to_mprdma_cq(attr->cq)->object.handle;
    in.xrcd = to_mprdma_xrcd(attr->xrcd)->domain->object.handle;
  }
  int error = mprdma_pd_handle(to_mprdma_pd(attr->pd), &in.pd);
  if (error == 0) {
    error = mprdma_execute(srq->context, MPRDMA_ABI_CREATE_SRQ, &in, sizeof(in), &out, sizeof(out));
  }
  if (error == 0) {
    mprdma_object_add(&srq->object, MPRDMA_OBJECT_SRQ, srq->context, out.handle);
    srq->verbs.srq.handle = srq->object.number;
    srq->verbs.srq_num = out.srqn;
  }
  return error;
}

static int create(struct mprdma_srq* srq, const struct ibv_srq_init_attr_ex* attr) {
  uint64_t feature =
      attr->srq_type == IBV_SRQT_XRC ? MPRDMA_ABI_FEATURE_XRC : MPRDMA_ABI_FEATURE_SRQ;
  int error = mprdma_engine_link_connect(srq->context);
  if (error == 0 && !mprdma_has_feature(srq->context, feature)) {
    error = EOPNOTSUPP;
  }
  if (error == 0) {
    error = check_size(&attr->attr);
  }
  if (error == 0) {
    error = map_ring(&srq->memory, &srq->rq, to_mprdma_pd(attr->pd), &attr->attr);
  }
  if (error == 0) {
    pthread_spin_init(&srq->rq.lock, PTHREAD_PROCESS_PRIVATE);
    error = create_in_engine(srq, attr);
  }
  return error;
}

static void count_users(const struct mprdma_srq* srq, const struct ibv_pd* pd, uint32_t change) {
  mprdma_pd_count(to_mprdma_pd((struct ibv_pd*)pd), change);
  if (srq->verbs.cq != NULL) {
    mprdma_count(&to_mprdma_cq(srq->verbs.cq)->users, change);
  }
  if (srq->xrcd != NULL) {
    mprdma_count(&srq->xrcd->users, change);
  }
}

/* Initialises fields that libibverbs sets for ibv_create_srq() but leaves to the provider for the
   extended call. */
static void fill_verbs_srq(struct mprdma_srq* srq, const struct ibv_srq_init_attr_ex* attr) {
  struct ibv_srq* ibv = &srq->verbs.srq;
  ibv->context = &srq->context->verbs.context;
  ibv->srq_context = attr->srq_context;
  ibv->pd = attr->pd;
  pthread_mutex_init(&ibv->mutex, NULL);
  pthread_cond_init(&ibv->cond, NULL);
  srq->verbs.srq_type = attr->srq_type;
  if (attr->srq_type == IBV_SRQT_XRC) {
    srq->verbs.cq = attr->cq;
    srq->xrcd = to_mprdma_xrcd(attr->xrcd);
  }
}

static struct ibv_srq* create_or_errno(struct ibv_context* context,
                                       struct ibv_srq_init_attr_ex* attr) {
  struct mprdma_srq* srq = calloc(1, sizeof(*srq));
  if (srq == NULL) {
    errno = ENOMEM;
    return NULL;
  }
  srq->context = to_mprdma_context(context);
  fill_verbs_srq(srq, attr);
  int error = create(srq, attr);
  if (error != 0) {
    mprdma_memory_put(&srq->memory);
    free(srq);
    errno = error;
    return NULL;
  }
  count_users(srq, attr->pd, 1);
  attr->attr.max_wr = srq->rq.depth;
  attr->attr.max_sge = srq->rq.max_sge;
  return &srq->verbs.srq;
}

struct ibv_srq* mprdma_create_srq(struct ibv_pd* pd, struct ibv_srq_init_attr* attr) {
  struct ibv_srq_init_attr_ex ex = {
      .srq_context = attr->srq_context, .attr = attr->attr, .srq_type = IBV_SRQT_BASIC, .pd = pd};
  struct ibv_srq* srq = create_or_errno(pd->context, &ex);
  if (srq != NULL) {
    attr->attr = ex.attr;
  }
  return srq;
}

static int check_init(const struct ibv_srq_init_attr_ex* attr) {
  const uint32_t kXrc = IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ;
  const uint32_t kKnown = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | kXrc;
  if ((attr->comp_mask & ~kKnown) != 0 || attr->srq_type == IBV_SRQT_TM) {
    return EOPNOTSUPP;
  }
  bool good = (attr->comp_mask & IBV_SRQ_INIT_ATTR_PD) != 0 && attr->pd != NULL;
  if (attr->srq_type == IBV_SRQT_XRC) {
    good = good && (attr->comp_mask & kXrc) == kXrc && attr->cq != NULL && attr->xrcd != NULL;
    /* Objects from before a fork live in the parent. */
    good = good && mprdma_object_is_here(&to_mprdma_cq(attr->cq)->object) &&
           mprdma_object_is_here(&to_mprdma_xrcd(attr->xrcd)->domain->object);
  } else {
    good = good && attr->srq_type == IBV_SRQT_BASIC;
  }
  return good ? 0 : EINVAL;
}

struct ibv_srq* mprdma_create_srq_ex(struct ibv_context* context,
                                     struct ibv_srq_init_attr_ex* attr) {
  struct ibv_srq_init_attr_ex full = *attr;
  if ((attr->comp_mask & IBV_SRQ_INIT_ATTR_TYPE) == 0) {
    full.srq_type = IBV_SRQT_BASIC;
  }
  int error = check_init(&full);
  if (error != 0) {
    errno = error;
    return NULL;
  }
  struct ibv_srq* srq = create_or_errno(context, &full);
  attr->attr = full.attr;
  return srq;
}

/* Resizes the ring; the engine moves the receives that were not taken yet into the new ring, from
 * its index 0 on. */
static int resize(struct mprdma_srq* srq, uint32_t max_wr) {
  struct mprdma_memory memory;
  struct mprdma_work_queue bigger = srq->rq;
  const struct ibv_srq_attr attr = {.max_wr = max_wr, .max_sge = srq->rq.max_sge};
  int error = check_size(&attr);
  if (error == 0) {
    error = map_ring(&memory, &bigger, to_mprdma_pd(srq->verbs.srq.pd), &attr);
  }
  if (error != 0) {
    return error;
  }
  const struct mprdma_abi_modify_srq in = {.handle = srq->object.handle,
                                           .mask = MPRDMA_ABI_SRQ_RING,
                                           .rq = mprdma_describe_queue(&bigger)};
  pthread_spin_lock(&srq->rq.lock);
  error = mprdma_execute(srq->context, MPRDMA_ABI_MODIFY_SRQ, &in, sizeof(in), NULL, 0);
  if (error == 0) {
    /* The old record tells how many receives had been taken when the rest moved. */
    uint32_t taken = mprdma_abi_load_acquire(&srq->rq.dbr->consumer);
    struct mprdma_memory old = srq->memory;
    srq->memory = memory;
    memory = old;
    srq->rq.ring = bigger.ring;
    srq->rq.dbr = bigger.dbr;
    srq->rq.depth = bigger.depth;
    srq->rq.producer -= taken;
    srq->rq.consumer_seen = 0;
    mprdma_abi_store_release(&srq->rq.dbr->producer, srq->rq.producer);
  }
  pthread_spin_unlock(&srq->rq.lock);
  mprdma_memory_put(&memory); /* the old ring, or the new one if that failed */
  return error;
}

int mprdma_modify_srq(struct ibv_srq* ibv, struct ibv_srq_attr* attr, int mask) {
  struct mprdma_srq* srq = to_mprdma_srq(ibv);
  int error = 0;
  bool known = (mask & ~(IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT)) == 0;
  if (!known || !mprdma_object_is_here(&srq->object)) {
    return EINVAL;
  }
  if ((mask & IBV_SRQ_LIMIT) != 0) {
    uint32_t depth = (mask & IBV_SRQ_MAX_WR) != 0 ? attr->max_wr : srq->rq.depth;
    error = attr->srq_limit <= depth ? 0 : EINVAL;
  }
  if (error == 0 && (mask & IBV_SRQ_MAX_WR) != 0) {
    error = resize(srq, attr->max_wr);
  }
  if (error == 0 && (mask & IBV_SRQ_LIMIT) != 0) {
    const struct mprdma_abi_modify_srq in = {
        .handle = srq->object.handle, .mask = MPRDMA_ABI_SRQ_LIMIT, .limit = attr->srq_limit};
    error = mprdma_execute(srq->context, MPRDMA_ABI_MODIFY_SRQ, &in, sizeof(in), NULL, 0);
  }
  return error;
}

int mprdma_query_srq(struct ibv_srq* ibv, struct ibv_srq_attr* attr) {
  struct mprdma_srq* srq = to_mprdma_srq(ibv);
  struct mprdma_abi_srq_info info = {0};
  const struct mprdma_abi_handle in = {.handle = srq->object.handle};
  if (!mprdma_object_is_here(&srq->object)) {
    return EINVAL;
  }
  int error =
      mprdma_execute(srq->context, MPRDMA_ABI_QUERY_SRQ, &in, sizeof(in), &info, sizeof(info));
  if (error == 0) {
    attr->max_wr = srq->rq.depth;
    attr->max_sge = srq->rq.max_sge;
    attr->srq_limit = info.limit;
  }
  return error;
}

int mprdma_destroy_srq(struct ibv_srq* ibv) {
  struct mprdma_srq* srq = to_mprdma_srq(ibv);
  bool is_here = mprdma_object_is_here(&srq->object);
  if (mprdma_in_use(&srq->users)) {
    return EBUSY;
  }
  int error = mprdma_object_destroy(&srq->object);
  if (error != 0) {
    return error;
  }
  if (is_here) {
    mprdma_drain_srq_events(srq);
  }
  count_users(srq, ibv->pd, (uint32_t)-1);
  mprdma_memory_put(&srq->memory);
  pthread_spin_destroy(&srq->rq.lock);
  pthread_mutex_destroy(&ibv->mutex);
  pthread_cond_destroy(&ibv->cond);
  free(srq);
  return 0;
}

int mprdma_get_srq_num(struct ibv_srq* ibv, uint32_t* srq_num) {
  struct mprdma_srq* srq = to_mprdma_srq(ibv);
  if (srq->verbs.srq_type != IBV_SRQT_XRC) {
    return EINVAL;
  }
  *srq_num = srq->verbs.srq_num;
  return 0;
}

int mprdma_post_srq_recv(struct ibv_srq* ibv, struct ibv_recv_wr* wr, struct ibv_recv_wr** bad_wr) {
  struct mprdma_srq* srq = to_mprdma_srq(ibv);
  pthread_spin_lock(&srq->rq.lock);
  int error = mprdma_put_receives(&srq->rq, wr, bad_wr);
  pthread_spin_unlock(&srq->rq.lock);
  return error;
}
