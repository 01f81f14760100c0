/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The operations of a context, and what those that libibverbs hands to a kernel have in common:
 *  - an object that is named by a handle which is not its own is ENOENT, as the kernel's tables say
 *    of a handle that they do not hold; nothing happens to the object;
 *  - an error number that is returned stands in errno as well, as after the system call that a
 *    kernel driver's verb makes.
 * Posting reports by itself (mprdma_reported()).
 */
#include "providers/mprdma/operations.h"

/* An object without a number is not in the registry: an import, a parent domain, or an object whose
 * context was closed. */
static int exists(const struct mprdma_object* object, uint32_t handle) {
  return object->number == 0 || object->number == handle ? 0 : ENOENT;
}

static int pd_exists(struct ibv_pd* pd) {
  return exists(&to_mprdma_pd(pd)->object, pd->handle);
}
static int mr_exists(const struct verbs_mr* mr) {
  const struct mprdma_mr* own = MPRDMA_CONTAINER(mr, struct mprdma_mr, verbs);
  return exists(&own->object, mr->ibv_mr.handle);
}
static int mw_exists(struct ibv_mw* mw) {
  return exists(&to_mprdma_mw(mw)->object, mw->handle);
}
static int ah_exists(struct ibv_ah* ah) {
  return exists(&to_mprdma_ah(ah)->object, ah->handle);
}
static int cq_exists(struct ibv_cq* cq) {
  return exists(&to_mprdma_cq(cq)->object, cq->handle);
}
static int srq_exists(struct ibv_srq* srq) {
  return exists(&to_mprdma_srq(srq)->object, srq->handle);
}
static int qp_exists(struct ibv_qp* qp) {
  return exists(to_mprdma_qp(qp)->object, qp->handle);
}

/* Checks the objects that a queue pair is created from, where they are given. */
static int queues_exist(struct ibv_pd* pd, struct ibv_cq* send_cq, struct ibv_cq* recv_cq,
                        struct ibv_srq* srq) {
  int error = pd != NULL ? pd_exists(pd) : 0;
  if (error == 0 && send_cq != NULL) {
    error = cq_exists(send_cq);
  }
  if (error == 0 && recv_cq != NULL) {
    error = cq_exists(recv_cq);
  }
  return error == 0 && srq != NULL ? srq_exists(srq) : error;
}

/* Wraps a verb that returns an error number: its parameters, the check of its objects, its
 * arguments. */
#define REPORTED(name, parameters, existence, arguments) \
  static int name parameters {                           \
    int error = existence;                               \
    if (error == 0) {                                    \
      error = mprdma_##name arguments;                   \
    }                                                    \
    return mprdma_reported(error);                       \
  }

REPORTED(advise_mr,
         (struct ibv_pd * pd, enum ibv_advise_mr_advice advice, uint32_t flags,
          struct ibv_sge* list, uint32_t count),
         pd_exists(pd), (pd, advice, flags, list, count))
REPORTED(attach_mcast, (struct ibv_qp * qp, const union ibv_gid* gid, uint16_t lid), qp_exists(qp),
         (qp, gid, lid))
REPORTED(bind_mw, (struct ibv_qp * qp, struct ibv_mw* mw, struct ibv_mw_bind* bind), qp_exists(qp),
         (qp, mw, bind))
REPORTED(close_xrcd, (struct ibv_xrcd * xrcd), 0, (xrcd))
REPORTED(dealloc_mw, (struct ibv_mw * mw), mw_exists(mw), (mw))
REPORTED(dealloc_pd, (struct ibv_pd * pd), pd_exists(pd), (pd))
REPORTED(dealloc_td, (struct ibv_td * td), 0, (td))
REPORTED(dereg_mr, (struct verbs_mr * mr), mr_exists(mr), (mr))
REPORTED(destroy_ah, (struct ibv_ah * ah), ah_exists(ah), (ah))
REPORTED(destroy_cq, (struct ibv_cq * cq), cq_exists(cq), (cq))
REPORTED(destroy_qp, (struct ibv_qp * qp), qp_exists(qp), (qp))
REPORTED(destroy_srq, (struct ibv_srq * srq), srq_exists(srq), (srq))
REPORTED(detach_mcast, (struct ibv_qp * qp, const union ibv_gid* gid, uint16_t lid), qp_exists(qp),
         (qp, gid, lid))
REPORTED(free_dm, (struct ibv_dm * dm), 0, (dm))
REPORTED(get_srq_num, (struct ibv_srq * srq, uint32_t* number), srq_exists(srq), (srq, number))
REPORTED(modify_cq, (struct ibv_cq * cq, struct ibv_modify_cq_attr* attr), cq_exists(cq),
         (cq, attr))
REPORTED(modify_qp, (struct ibv_qp * qp, struct ibv_qp_attr* attr, int mask), qp_exists(qp),
         (qp, attr, mask))
REPORTED(modify_srq, (struct ibv_srq * srq, struct ibv_srq_attr* attr, int mask), srq_exists(srq),
         (srq, attr, mask))
REPORTED(query_device_ex,
         (struct ibv_context * context, const struct ibv_query_device_ex_input* input,
          struct ibv_device_attr_ex* attr, size_t attr_size),
         0, (context, input, attr, attr_size))
REPORTED(query_ece, (struct ibv_qp * qp, struct ibv_ece* ece), qp_exists(qp), (qp, ece))
REPORTED(query_port, (struct ibv_context * context, uint8_t port, struct ibv_port_attr* attr), 0,
         (context, port, attr))
REPORTED(query_qp,
         (struct ibv_qp * qp, struct ibv_qp_attr* attr, int mask,
          struct ibv_qp_init_attr* init_attr),
         qp_exists(qp), (qp, attr, mask, init_attr))
REPORTED(query_rt_values, (struct ibv_context * context, struct ibv_values_ex* values), 0,
         (context, values))
REPORTED(query_srq, (struct ibv_srq * srq, struct ibv_srq_attr* attr), srq_exists(srq), (srq, attr))
REPORTED(rereg_mr,
         (struct verbs_mr * mr, int flags, struct ibv_pd* pd, void* addr, size_t length,
          int access),
         mr_exists(mr), (mr, flags, pd, addr, length, access))
REPORTED(req_notify_cq, (struct ibv_cq * cq, int solicited_only), cq_exists(cq),
         (cq, solicited_only))
REPORTED(resize_cq, (struct ibv_cq * cq, int cqe), cq_exists(cq), (cq, cqe))
REPORTED(set_ece, (struct ibv_qp * qp, struct ibv_ece* ece), qp_exists(qp), (qp, ece))

/* Wraps a verb that creates an object from others, and checks those first. */
#define MADE(type, name, parameters, existence, arguments) \
  static struct type* name parameters {                    \
    int error = existence;                                 \
    if (error != 0) {                                      \
      errno = error;                                       \
      return NULL;                                         \
    }                                                      \
    return mprdma_##name arguments;                        \
  }

MADE(ibv_mr, alloc_null_mr, (struct ibv_pd * pd), pd_exists(pd), (pd))
MADE(ibv_mw, alloc_mw, (struct ibv_pd * pd, enum ibv_mw_type type), pd_exists(pd), (pd, type))
MADE(ibv_ah, create_ah, (struct ibv_pd * pd, struct ibv_ah_attr* attr), pd_exists(pd), (pd, attr))
MADE(ibv_qp, create_qp, (struct ibv_pd * pd, struct ibv_qp_init_attr* attr),
     queues_exist(pd, attr->send_cq, attr->recv_cq, attr->srq), (pd, attr))
MADE(ibv_qp, create_qp_ex, (struct ibv_context * context, struct ibv_qp_init_attr_ex* attr),
     queues_exist((attr->comp_mask & IBV_QP_INIT_ATTR_PD) != 0 ? attr->pd : NULL, attr->send_cq,
                  attr->recv_cq, attr->srq),
     (context, attr))
MADE(ibv_srq, create_srq, (struct ibv_pd * pd, struct ibv_srq_init_attr* attr), pd_exists(pd),
     (pd, attr))
MADE(ibv_srq, create_srq_ex, (struct ibv_context * context, struct ibv_srq_init_attr_ex* attr),
     (attr->comp_mask & IBV_SRQ_INIT_ATTR_PD) != 0 ? pd_exists(attr->pd) : 0, (context, attr))
MADE(ibv_mr, reg_dm_mr,
     (struct ibv_pd * pd, struct ibv_dm* dm, uint64_t offset, size_t length, unsigned int access),
     pd_exists(pd), (pd, dm, offset, length, access))
MADE(ibv_mr, reg_dmabuf_mr,
     (struct ibv_pd * pd, uint64_t offset, size_t length, uint64_t iova, int fd, int access),
     pd_exists(pd), (pd, offset, length, iova, fd, access))
MADE(ibv_mr, reg_mr, (struct ibv_pd * pd, void* addr, size_t length, uint64_t iova, int access),
     pd_exists(pd), (pd, addr, length, iova, access))

/* Missing operations answer EOPNOTSUPP; README.md gives the reasons. */
static const struct verbs_context_ops kContextOps = {
    .advise_mr = advise_mr,
    .alloc_dm = mprdma_alloc_dm,
    .alloc_mw = alloc_mw,
    .alloc_null_mr = alloc_null_mr,
    .alloc_parent_domain = mprdma_alloc_parent_domain,
    .alloc_pd = mprdma_alloc_pd,
    .alloc_td = mprdma_alloc_td,
    .async_event = mprdma_async_event,
    .attach_mcast = attach_mcast,
    .bind_mw = bind_mw,
    .close_xrcd = close_xrcd,
    .cq_event = mprdma_cq_event,
    .create_ah = create_ah,
    .create_cq = mprdma_create_cq,
    .create_cq_ex = mprdma_create_cq_ex,
    .create_qp = create_qp,
    .create_qp_ex = create_qp_ex,
    .create_srq = create_srq,
    .create_srq_ex = create_srq_ex,
    .dealloc_mw = dealloc_mw,
    .dealloc_pd = dealloc_pd,
    .dealloc_td = dealloc_td,
    .dereg_mr = dereg_mr,
    .destroy_ah = destroy_ah,
    .destroy_cq = destroy_cq,
    .destroy_qp = destroy_qp,
    .destroy_srq = destroy_srq,
    .detach_mcast = detach_mcast,
    .free_context = mprdma_free_context,
    .free_dm = free_dm,
    .get_srq_num = get_srq_num,
    .import_dm = mprdma_import_dm,
    .import_mr = mprdma_import_mr,
    .import_pd = mprdma_import_pd,
    .modify_cq = modify_cq,
    .modify_qp = modify_qp,
    .modify_srq = modify_srq,
    .open_qp = mprdma_open_qp,
    .open_xrcd = mprdma_open_xrcd,
    .poll_cq = mprdma_poll_cq,
    .post_recv = mprdma_post_recv,
    .post_send = mprdma_post_send,
    .post_srq_recv = mprdma_post_srq_recv,
    .query_device_ex = query_device_ex,
    .query_ece = query_ece,
    .query_port = query_port,
    .query_qp = query_qp,
    .query_qp_data_in_order = mprdma_query_qp_data_in_order,
    .query_rt_values = query_rt_values,
    .query_srq = query_srq,
    .reg_dm_mr = reg_dm_mr,
    .reg_dmabuf_mr = reg_dmabuf_mr,
    .reg_mr = reg_mr,
    .req_notify_cq = req_notify_cq,
    .rereg_mr = rereg_mr,
    .resize_cq = resize_cq,
    .set_ece = set_ece,
    .unimport_dm = mprdma_unimport_dm,
    .unimport_mr = mprdma_unimport_mr,
    .unimport_pd = mprdma_unimport_pd,
};

const struct verbs_context_ops* mprdma_context_ops(void) {
  return &kContextOps;
}
