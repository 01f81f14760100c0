/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which attributes a transition of a queue pair must and may carry: IBTA 11.2.5.2, tables 95 to 98,
 * as the kernel's core checks them. Transitions to RESET and ERR are allowed from anywhere and
 * carry nothing. Alternate paths and automatic migration are not offered (no
 * IBV_DEVICE_AUTO_PATH_MIG), so their attributes are not accepted anywhere.
 */
#include "providers/mprdma/operations.h"

#define PORT_AND_ACCESS (IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS)
#define PORT_AND_QKEY (IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY)
#define PATH (IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN)
#define RESPONDER (IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER)
#define RETRIES (IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY)
#define REQUESTER (RETRIES | IBV_QP_MAX_QP_RD_ATOMIC)

enum column { kRc, kUc, kUd, kXrcSend, kXrcRecv, kColumns };

struct masks {
  int required;
  int optional;
};

struct transition {
  enum ibv_qp_state from;
  enum ibv_qp_state to;
  struct masks of[kColumns];
};

/* A transition that a type does not have: it requires attributes that no caller can give. */
#define NEVER \
  { ~0, 0 }
#define ACCESS_CHANGE (IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS)
#define RUNNING                                                                    \
  {                                                                                \
    [kRc] = {0, ACCESS_CHANGE | IBV_QP_MIN_RNR_TIMER}, [kUc] = {0, ACCESS_CHANGE}, \
    [kUd] = {0, IBV_QP_CUR_STATE | IBV_QP_QKEY}, [kXrcSend] = {0, ACCESS_CHANGE},  \
    [kXrcRecv] = {0, ACCESS_CHANGE | IBV_QP_MIN_RNR_TIMER},                        \
  }

static const struct transition kTransitions[] = {
    {IBV_QPS_RESET,
     IBV_QPS_INIT,
     {[kRc] = {PORT_AND_ACCESS, 0},
      [kUc] = {PORT_AND_ACCESS, 0},
      [kUd] = {PORT_AND_QKEY, 0},
      [kXrcSend] = {PORT_AND_ACCESS, 0},
      [kXrcRecv] = {PORT_AND_ACCESS, 0}}},
    {IBV_QPS_INIT,
     IBV_QPS_INIT,
     {[kRc] = {0, PORT_AND_ACCESS},
      [kUc] = {0, PORT_AND_ACCESS},
      [kUd] = {0, PORT_AND_QKEY},
      [kXrcSend] = {0, PORT_AND_ACCESS},
      [kXrcRecv] = {0, PORT_AND_ACCESS}}},
    {IBV_QPS_INIT,
     IBV_QPS_RTR,
     {[kRc] = {PATH | RESPONDER, IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX},
      [kUc] = {PATH, IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX},
      [kUd] = {0, IBV_QP_PKEY_INDEX | IBV_QP_QKEY},
      [kXrcSend] = {PATH, IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX | RESPONDER},
      [kXrcRecv] = {PATH | RESPONDER, IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX}}},
    {IBV_QPS_RTR,
     IBV_QPS_RTS,
     {[kRc] = {REQUESTER | IBV_QP_SQ_PSN, ACCESS_CHANGE | IBV_QP_MIN_RNR_TIMER},
      [kUc] = {IBV_QP_SQ_PSN, ACCESS_CHANGE},
      [kUd] = {IBV_QP_SQ_PSN, IBV_QP_CUR_STATE | IBV_QP_QKEY},
      [kXrcSend] = {REQUESTER | IBV_QP_SQ_PSN, ACCESS_CHANGE},
      [kXrcRecv] = {IBV_QP_TIMEOUT | IBV_QP_SQ_PSN,
                    ACCESS_CHANGE | IBV_QP_MIN_RNR_TIMER | REQUESTER}}},
    {IBV_QPS_RTS, IBV_QPS_RTS, RUNNING},
    {IBV_QPS_RTS,
     IBV_QPS_SQD,
     {[kRc] = {0, IBV_QP_EN_SQD_ASYNC_NOTIFY},
      [kUc] = {0, IBV_QP_EN_SQD_ASYNC_NOTIFY},
      [kUd] = {0, IBV_QP_EN_SQD_ASYNC_NOTIFY},
      [kXrcSend] = {0, IBV_QP_EN_SQD_ASYNC_NOTIFY},
      [kXrcRecv] = {0, IBV_QP_EN_SQD_ASYNC_NOTIFY}}},
    {IBV_QPS_SQD, IBV_QPS_RTS, RUNNING},
    {IBV_QPS_SQD,
     IBV_QPS_SQD,
     {[kRc] = {0, PORT_AND_ACCESS | IBV_QP_AV | REQUESTER | RESPONDER | IBV_QP_CUR_STATE},
      [kUc] = {0, IBV_QP_AV | ACCESS_CHANGE | IBV_QP_PKEY_INDEX},
      [kUd] = {0, IBV_QP_PKEY_INDEX | IBV_QP_QKEY | IBV_QP_CUR_STATE},
      [kXrcSend] = {0, PORT_AND_ACCESS | IBV_QP_AV | REQUESTER | IBV_QP_CUR_STATE},
      [kXrcRecv] = {0,
                    PORT_AND_ACCESS | IBV_QP_AV | IBV_QP_TIMEOUT | RESPONDER | IBV_QP_CUR_STATE}}},
    /* Only datagrams and unreliable connections have the state SQE (IBTA 10.3.1.6). */
    {IBV_QPS_SQE,
     IBV_QPS_RTS,
     {[kRc] = NEVER,
      [kUc] = {0, ACCESS_CHANGE},
      [kUd] = {0, IBV_QP_CUR_STATE | IBV_QP_QKEY},
      [kXrcSend] = NEVER,
      [kXrcRecv] = NEVER}},
};

static enum column column_of(enum ibv_qp_type type) {
  switch (type) {
    case IBV_QPT_UC:
      return kUc;
    case IBV_QPT_UD:
      return kUd;
    case IBV_QPT_XRC_SEND:
      return kXrcSend;
    case IBV_QPT_XRC_RECV:
      return kXrcRecv;
    default:
      return kRc;
  }
}

int mprdma_qp_check_mask(enum ibv_qp_type type, enum ibv_qp_state from, enum ibv_qp_state to,
                         int mask) {
  if (to == IBV_QPS_RESET || to == IBV_QPS_ERR) {
    return (mask & ~(IBV_QP_STATE | IBV_QP_CUR_STATE)) == 0 ? 0 : EINVAL;
  }
  for (size_t i = 0; i < sizeof(kTransitions) / sizeof(kTransitions[0]); i++) {
    const struct transition* t = &kTransitions[i];
    const struct masks* masks = &t->of[column_of(type)];
    if (t->from == from && t->to == to) {
      bool complete = (mask & masks->required) == masks->required;
      bool nothing_else = (mask & ~(IBV_QP_STATE | masks->required | masks->optional)) == 0;
      return complete && nothing_else ? 0 : EINVAL;
    }
  }
  return EINVAL;
}
