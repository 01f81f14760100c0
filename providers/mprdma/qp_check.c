/* SPDX-License-Identifier: BSD-2-Clause */
/* Checks on creation and posting: by type of queue pair, by limits, by the engine's features. */
#include "providers/mprdma/operations.h"

/* The size of a queue that the QP does not have is ignored (ibv_create_qp(3)). */
static int check_caps(const struct ibv_qp_cap* cap, bool receives) {
  struct mprdma_abi_device_info info;
  int error = mprdma_engine_link_limits(&info);
  if (error != 0) {
    return error;
  }
  bool fits = cap->max_send_wr <= info.max_qp_wr && cap->max_send_sge <= info.max_sge &&
              cap->max_inline_data <= info.max_inline_bytes;
  bool receives_fit = cap->max_recv_wr <= info.max_qp_wr && cap->max_recv_sge <= info.max_sge;
  return fits && (!receives || receives_fit) ? 0 : EINVAL;
}

static int check_type(enum ibv_qp_type type) {
  switch (type) {
    case IBV_QPT_RC:
    case IBV_QPT_UC:
    case IBV_QPT_UD:
    case IBV_QPT_XRC_SEND:
    case IBV_QPT_XRC_RECV:
      return 0;
    case IBV_QPT_RAW_PACKET:
    case IBV_QPT_DRIVER:
      return EOPNOTSUPP;
    default:
      return EINVAL;
  }
}

static int check_masks(const struct ibv_qp_init_attr_ex* attr) {
  const uint32_t kMask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_XRCD |
                         IBV_QP_INIT_ATTR_SEND_OPS_FLAGS | IBV_QP_INIT_ATTR_CREATE_FLAGS;
  if ((attr->comp_mask & ~kMask) != 0) {
    return EOPNOTSUPP;
  }
  uint32_t flags = (attr->comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS) != 0 ? attr->create_flags : 0;
  if ((flags & ~(uint32_t)IBV_QP_CREATE_BLOCK_SELF_MCAST_LB) != 0) {
    return EOPNOTSUPP;
  }
  return flags == 0 || attr->qp_type == IBV_QPT_UD ? 0 : EINVAL;
}

/* An object that was made before a fork lives in the parent; here its handle may name another. */
static bool is_cq_here(struct ibv_cq* cq) {
  return cq != NULL && mprdma_object_is_here(&to_mprdma_cq(cq)->object);
}

static int check_objects(const struct ibv_qp_init_attr_ex* attr) {
  bool has_pd = (attr->comp_mask & IBV_QP_INIT_ATTR_PD) != 0 && attr->pd != NULL;
  bool has_xrcd = (attr->comp_mask & IBV_QP_INIT_ATTR_XRCD) != 0 && attr->xrcd != NULL;
  bool good = false;
  switch (attr->qp_type) {
    case IBV_QPT_XRC_RECV:
      good = has_xrcd && attr->srq == NULL &&
             mprdma_object_is_here(&to_mprdma_xrcd(attr->xrcd)->domain->object);
      break;
    case IBV_QPT_XRC_SEND:
      good = has_pd && is_cq_here(attr->send_cq) && attr->srq == NULL;
      break;
    default:
      good = has_pd && is_cq_here(attr->send_cq) && is_cq_here(attr->recv_cq);
      break;
  }
  if (good && attr->srq != NULL) {
    const struct mprdma_srq* srq = to_mprdma_srq(attr->srq);
    good = srq->verbs.srq_type == IBV_SRQT_BASIC && mprdma_object_is_here(&srq->object);
  }
  return good ? 0 : EINVAL;
}

int mprdma_qp_check_init(const struct ibv_qp_init_attr_ex* attr) {
  int error = check_type(attr->qp_type);
  if (error == 0) {
    error = check_masks(attr);
  }
  if (error == 0) {
    error = check_objects(attr);
  }
  if (error == 0 && attr->qp_type != IBV_QPT_XRC_RECV) {
    error = check_caps(&attr->cap, attr->srq == NULL && attr->qp_type != IBV_QPT_XRC_SEND);
  }
  return error;
}

int mprdma_qp_check_features(const struct mprdma_context* context,
                             const struct ibv_qp_init_attr_ex* attr) {
  uint64_t needed = attr->srq != NULL ? MPRDMA_ABI_FEATURE_SRQ : 0;
  switch (attr->qp_type) {
    case IBV_QPT_RC:
      needed |= MPRDMA_ABI_FEATURE_RC;
      break;
    case IBV_QPT_UC:
      needed |= MPRDMA_ABI_FEATURE_UC;
      break;
    case IBV_QPT_UD:
      needed |= MPRDMA_ABI_FEATURE_UD;
      break;
    default:
      needed |= MPRDMA_ABI_FEATURE_XRC;
      break;
  }
  return (context->channel.features & needed) == needed ? 0 : EOPNOTSUPP;
}

#define OPERATION(name) (1u << MPRDMA_ABI_##name)

/* IBTA table 36 (which transport has which operation). */
uint32_t mprdma_qp_operations(const struct mprdma_context* context, enum ibv_qp_type type) {
  const uint32_t kSends = OPERATION(SEND) | OPERATION(SEND_IMM);
  const uint32_t kWrites = OPERATION(WRITE) | OPERATION(WRITE_IMM);
  const uint32_t kWindows = OPERATION(LOCAL_INVALIDATE) | OPERATION(BIND_MW);
  const uint32_t kAtomics = OPERATION(COMPARE_SWAP) | OPERATION(FETCH_ADD);
  uint32_t has = ~0u;
  if (!mprdma_has_feature(context, MPRDMA_ABI_FEATURE_MEMORY_WINDOW)) {
    has &= ~(kWindows | OPERATION(SEND_INVALIDATE));
  }
  if (!mprdma_has_feature(context, MPRDMA_ABI_FEATURE_ATOMIC)) {
    has &= ~kAtomics;
  }
  if (!mprdma_has_feature(context, MPRDMA_ABI_FEATURE_ATOMIC_WRITE)) {
    has &= ~OPERATION(ATOMIC_WRITE);
  }
  switch (type) {
    case IBV_QPT_RC:
    case IBV_QPT_XRC_SEND:
      return has & (kSends | kWrites | kWindows | kAtomics | OPERATION(SEND_INVALIDATE) |
                    OPERATION(READ) | OPERATION(ATOMIC_WRITE));
    case IBV_QPT_UC:
      return has & (kSends | kWrites | kWindows);
    case IBV_QPT_UD:
      return kSends;
    default:
      return 0;
  }
}
