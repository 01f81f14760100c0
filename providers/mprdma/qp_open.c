/* SPDX-License-Identifier: BSD-2-Clause */
/* ibv_open_qp(3): one more handle of a queue pair that an XRC domain shares. */
#include <stdlib.h>

#include "providers/mprdma/operations.h"

static int check_open(const struct ibv_qp_open_attr* attr) {
  const uint32_t kNeeded = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE;
  bool good = (attr->comp_mask & kNeeded) == kNeeded &&
              (attr->comp_mask & ~(kNeeded | IBV_QP_OPEN_ATTR_CONTEXT)) == 0 &&
              attr->qp_type == IBV_QPT_XRC_RECV && attr->xrcd != NULL;
  return good ? 0 : EINVAL;
}

struct ibv_qp* mprdma_open_qp(struct ibv_context* context, struct ibv_qp_open_attr* attr) {
  int error = check_open(attr);
  struct mprdma_qp* qp = error == 0 ? calloc(1, sizeof(*qp)) : NULL;
  if (error == 0 && qp == NULL) {
    error = ENOMEM;
  }
  if (error == 0) {
    void* qp_context = (attr->comp_mask & IBV_QP_OPEN_ATTR_CONTEXT) != 0 ? attr->qp_context : NULL;
    const struct ibv_qp_init_attr_ex init = {
        .qp_context = qp_context, .qp_type = IBV_QPT_XRC_RECV, .xrcd = attr->xrcd};
    qp->context = to_mprdma_context(context);
    mprdma_qp_init(qp, &init);
    error = mprdma_join_shared_qp(qp, qp->xrcd->domain, attr->qp_num);
  }
  if (error != 0) {
    free(qp);
    errno = error;
    return NULL;
  }
  qp->verbs.qp.qp_num = attr->qp_num;
  qp->verbs.qp.handle = qp->object->number;
  struct mprdma_abi_qp_attr now;
  if (mprdma_qp_query_engine(qp, &now) == 0) {
    qp->state = now.state;
    qp->verbs.qp.state = (enum ibv_qp_state)now.state;
  }
  mprdma_qp_count_users(qp, 1);
  return &qp->verbs.qp;
}
