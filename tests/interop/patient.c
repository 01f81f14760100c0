/* Preloaded into the guest's programs: a timeout of 8 s for every connection.
 *
 * Soft-RoCE does not restart its retransmission timer when an acknowledgement comes: it lets it
 * expire and sends again whatever is in flight then, also to itself and on a clean link.
 * ibv_rc_pingpong asks for 67 ms and cannot be told otherwise. With this, what is sent twice was
 * lost. */
#include <dlfcn.h>
#include <infiniband/verbs.h>

int ibv_modify_qp(struct ibv_qp* qp, struct ibv_qp_attr* attr, int mask);

int ibv_modify_qp(struct ibv_qp* qp, struct ibv_qp_attr* attr, int mask) {
  static int (*next)(struct ibv_qp*, struct ibv_qp_attr*, int);
  if (!next) *(void**)&next = dlvsym(RTLD_NEXT, "ibv_modify_qp", "IBVERBS_1.1");
  struct ibv_qp_attr changed = *attr;
  if (mask & IBV_QP_TIMEOUT) changed.timeout = 21;
  return next(qp, &changed, mask);
}
