/* Two processes that connect by rdma_cm, one over each kind of device: what either side tells the
 * other in connecting, refusing, parting and dying.
 *
 *   cm_pair [-s] [-u] [-w WHAT] [-d SECONDS] -p PORT ADDRESS
 *
 *   -s  the server; ADDRESS is the server's at both ends
 *   -u  datagrams: RDMA_PS_UDP, that is SIDR
 *   -d  the server thinks for so long before it accepts
 *   -w  talk: private data, a message each way, the client disconnects
 *       hang-up: the server does
 *       reject: the server refuses, with private data
 *       nobody: there is no server
 *       client-dies, server-dies: by SIGKILL; the other one has to notice */
#include <arpa/inet.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tests/interop/cm_pair.h"

enum { RESOLVE_MS = 10000, SURVIVOR_SECONDS = 90 };
enum { RETRIES = 5 }; /* Soft-RoCE takes 7 for "for ever" */

static struct options parse(int argc, char** argv) {
  struct options options = {.what = "talk", .address = {.sin_family = AF_INET}};
  for (int c; (c = getopt(argc, argv, "suw:d:p:")) != -1;) {
    if (c == 's') options.server = 1;
    if (c == 'u') options.datagrams = 1;
    if (c == 'w') options.what = optarg;
    if (c == 'd') options.delay_s = atoi(optarg);
    if (c == 'p') options.address.sin_port = htons((uint16_t)atoi(optarg));
    if (c == '?') exit(2);
  }
  if (optind + 1 != argc || inet_pton(AF_INET, argv[optind], &options.address.sin_addr) != 1) {
    die("needs one IPv4 address");
  }
  return options;
}

static int is(const struct options* options, const char* what) {
  return strcmp(options->what, what) == 0;
}

/* ---- Once connected */

static double seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* The peer's death shows as an event or as an unanswered message. */
static void outlive(struct end* end) {
  const double start = seconds();
  post_send(end, NULL);
  for (struct ibv_wc wc; seconds() < start + SURVIVOR_SECONDS;) {
    const char* said = NULL;
    struct rdma_cm_event* event = event_soon(end);
    if (event) {
      expect_event(event, RDMA_CM_EVENT_DISCONNECTED, event->status);
      rdma_ack_cm_event(event);
      said = "DISCONNECTED";
    } else if (ibv_poll_cq(end->id->send_cq, 1, &wc) == 1) {
      if (wc.status == IBV_WC_SUCCESS) post_send(end, NULL);
      if (wc.status != IBV_WC_SUCCESS) said = ibv_wc_status_str(wc.status);
    }
    if (!said) continue;
    printf("the peer is gone after %.1f s: %s\n", seconds() - start, said);
    return;
  }
  die("the peer is gone, and nobody said so");
}

static void part(struct end* end, const struct options* options) {
  const char* dies = options->server ? "server-dies" : "client-dies";
  const char* lives = options->server ? "client-dies" : "server-dies";
  if (is(options, dies)) raise(SIGKILL);
  if (is(options, lives)) {
    outlive(end);
    return;
  }
  if (is(options, "hang-up") == options->server && rdma_disconnect(end->id)) {
    die("rdma_disconnect");
  }
  await_event(end, RDMA_CM_EVENT_DISCONNECTED);
  /* The side that was told closes its half, too. */
  if (is(options, "hang-up") != options->server) rdma_disconnect(end->id);
}

/* ---- The client */

static void resolve(struct end* end, struct options* options) {
  const enum rdma_port_space space = options->datagrams ? RDMA_PS_UDP : RDMA_PS_TCP;
  if (rdma_create_id(end->channel, &end->id, NULL, space)) die("rdma_create_id");
  if (rdma_resolve_addr(end->id, NULL, (struct sockaddr*)&options->address, RESOLVE_MS)) {
    die("rdma_resolve_addr");
  }
  await_event(end, RDMA_CM_EVENT_ADDR_RESOLVED);
  if (rdma_resolve_route(end->id, RESOLVE_MS)) die("rdma_resolve_route");
  await_event(end, RDMA_CM_EVENT_ROUTE_RESOLVED);
  open_qp(end, options->datagrams);
}

/* Handles a request that is not to become a connection; 0: it is to become one. */
static int expect_refusal(const struct rdma_cm_event* event, const struct options* options) {
  const int reject = is(options, "reject");
  if (!reject && !is(options, "nobody")) return 0;
  if (options->datagrams) {
    expect_event(event, RDMA_CM_EVENT_UNREACHABLE, reject ? SIDR_REJECTED : SIDR_NO_SERVICE);
  } else {
    expect_event(event, RDMA_CM_EVENT_REJECTED, reject ? BY_CONSUMER : NO_SUCH_SERVICE);
  }
  const size_t room = options->datagrams ? SIDR_REP_ROOM : REJ_ROOM;
  if (reject) expect_private(event, options, OF_REJ, room);
  return 1;
}

static void run_client(struct end* end, struct options* options) {
  resolve(end, options);
  struct rdma_conn_param param = {
      .private_data = private_data(OF_REQ),
      .private_data_len = options->datagrams ? SIDR_REQ_ROOM : REQ_ROOM,
      .responder_resources = 1,
      .initiator_depth = 1,
      .retry_count = RETRIES,
      .rnr_retry_count = 7,
  };
  if (rdma_connect(end->id, &param)) die("rdma_connect");
  struct rdma_cm_event* event = next_event(end, "an answer");
  if (!expect_refusal(event, options)) {
    expect_event(event, RDMA_CM_EVENT_ESTABLISHED, 0);
    expect_private(event, options, OF_REP, options->datagrams ? SIDR_REP_ROOM : REP_ROOM);
    post_send(end, options->datagrams ? &event->param.ud : NULL);
    if (!options->datagrams) {
      reap(end->id->send_cq, "send");
      expect_message(end, 0);
      part(end, options);
    }
  }
  rdma_ack_cm_event(event);
}

/* ---- The server */

static void refuse(struct end* end, const struct options* options) {
  const uint8_t room = options->datagrams ? SIDR_REP_ROOM : REJ_ROOM;
  if (rdma_reject(end->id, private_data(OF_REJ), room)) die("rdma_reject");
}

static void serve(struct end* end, const struct options* options) {
  open_qp(end, options->datagrams);
  sleep((unsigned)options->delay_s);
  struct rdma_conn_param param = {
      .private_data = private_data(OF_REP),
      .private_data_len = options->datagrams ? SIDR_REP_ROOM : REP_ROOM,
      .responder_resources = 1,
      .initiator_depth = 1,
      .rnr_retry_count = 7,
      .qp_num = end->id->qp->qp_num,
  };
  if (rdma_accept(end->id, &param)) die("rdma_accept");
  if (!options->datagrams) await_event(end, RDMA_CM_EVENT_ESTABLISHED);
  expect_message(end, options->datagrams);
  if (options->datagrams) return;
  post_receive(end);
  post_send(end, NULL);
  reap(end->id->send_cq, "send");
  part(end, options);
}

static void run_server(struct end* end, struct options* options) {
  struct rdma_cm_id* listener;
  const enum rdma_port_space space = options->datagrams ? RDMA_PS_UDP : RDMA_PS_TCP;
  if (rdma_create_id(end->channel, &listener, NULL, space)) die("rdma_create_id");
  if (rdma_bind_addr(listener, (struct sockaddr*)&options->address)) die("rdma_bind_addr");
  if (rdma_listen(listener, 1)) die("rdma_listen");
  struct rdma_cm_event* event = next_event(end, "a request");
  expect_event(event, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
  expect_private(event, options, OF_REQ, options->datagrams ? SIDR_REQ_ROOM : REQ_ROOM);
  end->id = event->id;
  rdma_ack_cm_event(event);
  if (is(options, "reject")) {
    refuse(end, options);
  } else {
    serve(end, options);
  }
  rdma_destroy_id(listener);
}

int main(int argc, char** argv) {
  struct options options = parse(argc, argv);
  struct end end = {.channel = rdma_create_event_channel()};
  if (!end.channel) die("rdma_create_event_channel");
  setvbuf(stdout, NULL, _IOLBF, 0);
  (options.server ? run_server : run_client)(&end, &options);
  close_end(&end);
  printf("%s: as it should be\n", options.what);
  return 0;
}
