/* verbs_errors: what one side does wrong, and what the other one's answer makes of it. Each case
 * has a fresh pair of queue pairs; the statuses are those of the standard, whoever answers.
 *
 *   verbs_errors [-d DEVICE] [-g GID_INDEX] [-m MTU] [-p TCP_PORT] [HOST]
 *
 * The client does everything wrong first, then the server. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/interop/pair_verbs.h"

enum { NO_RECEIVE = -1, LATE_RECEIVE = -2 }; /* else: bytes of the receive that is posted */

struct error_case {
  const char* what;
  enum ibv_wr_opcode opcode;
  uint32_t length;
  int64_t offset;    /* from the start of the peer's memory */
  uint32_t key_flip; /* of the remote key */
  enum ibv_wc_status status;
  int receive;                       /* bytes, or one of the above */
  enum ibv_wc_status receive_status; /* of the peer, if it posted a receive */
  int retries;                       /* 0: patient; else retry_cnt and rnr_retry */
};

#define WRITE IBV_WR_RDMA_WRITE
#define READ IBV_WR_RDMA_READ
#define ATOMIC IBV_WR_ATOMIC_FETCH_AND_ADD
#define ACCESS IBV_WC_REM_ACCESS_ERR
#define INVALID IBV_WC_REM_INV_REQ_ERR
#define GOOD IBV_WC_SUCCESS
#define END (SLOTS * SLOT_BYTES)
static const struct error_case kCases[] = {
    {"WRITE with a wrong key", WRITE, 64, 0, 0x5500, ACCESS, NO_RECEIVE, GOOD, 0},
    {"WRITE past the region", WRITE, 3000, END - 2000, 0, ACCESS, NO_RECEIVE, GOOD, 0},
    {"WRITE before the region", WRITE, 64, -32, 0, ACCESS, NO_RECEIVE, GOOD, 0},
    {"READ with a wrong key", READ, 64, 0, 0x5500, ACCESS, NO_RECEIVE, GOOD, 0},
    {"READ past the region", READ, 5000, END - 2000, 0, ACCESS, NO_RECEIVE, GOOD, 0},
    {"atomic with a wrong key", ATOMIC, 8, 0, 0x5500, ACCESS, NO_RECEIVE, GOOD, 0},
    {"atomic at an odd address", ATOMIC, 8, 4, 0, INVALID, NO_RECEIVE, GOOD, 0},
    {"SEND longer than its receive", IBV_WR_SEND, 3000, 0, 0, INVALID, 2000, IBV_WC_LOC_LEN_ERR, 0},
    {"SEND before its receive", IBV_WR_SEND, 3000, 0, 0, GOOD, LATE_RECEIVE, GOOD, 0},
    {"SEND without a receive", IBV_WR_SEND, 64, 0, 0, IBV_WC_RNR_RETRY_EXC_ERR, NO_RECEIVE, GOOD,
     2},
    {"WRITE of nothing with a wrong key", WRITE, 0, 0, 0x5500, GOOD, NO_RECEIVE, GOOD, 0},
    {"READ of nothing with a wrong key", READ, 0, 0, 0x5500, GOOD, NO_RECEIVE, GOOD, 0},
};
enum { CASES = sizeof(kCases) / sizeof(kCases[0]) };

/* Soft-RoCE has other statuses than the standard for a receive that is too short. */
static enum ibv_wc_status as_rxe_says(enum ibv_wc_status status, int receive, int is_rxe) {
  if (receive <= 0 || !is_rxe) return status;
  return status == INVALID ? IBV_WC_REM_OP_ERR : IBV_WC_LOC_QP_OP_ERR;
}

static void expect_status(const char* what, enum ibv_wc_status got, enum ibv_wc_status wanted) {
  if (got == wanted) return;
  fprintf(stderr, "%s: %s, not ", what, ibv_wc_status_str(got));
  die("%s", ibv_wc_status_str(wanted));
}

static void post_receive(struct end* end, int bytes) {
  struct ibv_sge sge = {(uintptr_t)end->memory, (uint32_t)bytes, end->mr->lkey};
  struct ibv_recv_wr *bad, wr = {.sg_list = &sge, .num_sge = 1};
  if (ibv_post_recv(end->qp, &wr, &bad)) die("ibv_post_recv");
}

/* Posts the request. 0: the device refuses it before it reaches the wire, as Soft-RoCE does with
 * odd addresses. */
static int post(struct end* end, const struct error_case* c, uint64_t id) {
  struct ibv_sge sge = {(uintptr_t)end->memory, c->length, end->mr->lkey};
  struct ibv_send_wr wr = {.wr_id = id, .sg_list = &sge, .num_sge = 1, .opcode = c->opcode};
  struct ibv_send_wr* bad;
  const uint64_t remote = end->there.va + (uint64_t)c->offset;
  const uint32_t key = end->there.rkey ^ c->key_flip;
  if (c->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
    wr.wr.atomic.remote_addr = remote;
    wr.wr.atomic.rkey = key;
  } else {
    wr.wr.rdma.remote_addr = remote;
    wr.wr.rdma.rkey = key;
  }
  if (!ibv_post_send(end->qp, &wr, &bad)) return 1;
  if (c->status != INVALID) die("%s: ibv_post_send", c->what);
  return 0;
}

/* Posts the request and a second one behind it, which is flushed if the first one fails. */
static void active(struct end* end, const struct error_case* c) {
  const int posted = post(end, c, 1);
  if (posted && c->status != GOOD) post(end, c, 2);
  barrier(end);
  if (!posted) return;
  expect_status(c->what, reap_any(end, c->what).status,
                as_rxe_says(c->status, c->receive, (int)end->there.is_rxe));
  if (c->status == GOOD) return;
  expect_status("the one behind it", reap_any(end, c->what).status, IBV_WC_WR_FLUSH_ERR);
  struct ibv_qp_attr attr;
  struct ibv_qp_init_attr init;
  if (ibv_query_qp(end->qp, &attr, IBV_QP_STATE, &init)) die("ibv_query_qp");
  if (attr.qp_state != IBV_QPS_ERR) die("%s: state %d, not ERR", c->what, attr.qp_state);
}

static void passive(struct end* end, const struct error_case* c) {
  barrier(end);
  if (c->receive == LATE_RECEIVE) {
    /* There is no condition to wait for: no completion, event or counter that all devices have
     * tells a program of plain verbs that a SEND was refused (RNR NAK, IBTA 9.7.5.2.8). So this is
     * long enough to be refused once or more; if it is not, the case is an ordinary SEND, which has
     * to end well all the same. */
    usleep(20000);
    post_receive(end, SLOT_BYTES);
  }
  if (c->receive != NO_RECEIVE) {
    expect_status("the receive", reap_any(end, "the receive").status,
                  as_rxe_says(c->receive_status, c->receive, (int)end->here.is_rxe));
  }
}

static void run(struct end* end, const struct options* options, int is_active) {
  for (int i = 0; i < CASES; ++i) {
    const struct error_case* c = &kCases[i];
    struct limits limits = kPatient;

    if (c->retries) limits.retry_cnt = limits.rnr_retry = c->retries;
    connect_pair(end, options, &limits);
    if (!is_active && c->receive > 0) post_receive(end, c->receive);
    barrier(end);
    (is_active ? active : passive)(end, c);
    disconnect_pair(end);
  }
}

int main(int argc, char** argv) {
  const struct options options = parse_options(argc, argv);
  struct end end = {0};
  open_end(&end, &options);
  run(&end, &options, options.host != NULL);
  run(&end, &options, options.host == NULL);
  close_end(&end);
  printf("%d errors in each direction: as the standard says\n", CASES);
  return 0;
}
