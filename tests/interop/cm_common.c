#include <poll.h>
#include <rdma/rdma_verbs.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tests/interop/cm_pair.h"

enum { PRIVATE_ROOM = 224, SECONDS = 100, POLL_US = 200 };

void die(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  fputs("cm_pair: ", stderr);
  vfprintf(stderr, format, arguments);
  fputc('\n', stderr);
  va_end(arguments);
  exit(1);
}

/* ---- Events */

struct rdma_cm_event* next_event(struct end* end, const char* what) {
  struct rdma_cm_event* event;
  if (rdma_get_cm_event(end->channel, &event)) die("rdma_get_cm_event, for %s", what);
  return event;
}

void expect_event(const struct rdma_cm_event* event, enum rdma_cm_event_type type, int status) {
  if (event->event == type && event->status == status) return;
  die("%s with status %d, not %s with %d", rdma_event_str(event->event), event->status,
      rdma_event_str(type), status);
}

void await_event(struct end* end, enum rdma_cm_event_type type) {
  struct rdma_cm_event* event = next_event(end, rdma_event_str(type));
  expect_event(event, type, 0);
  rdma_ack_cm_event(event);
}

struct rdma_cm_event* event_soon(struct end* end) {
  struct pollfd readable = {.fd = end->channel->fd, .events = POLLIN};
  return poll(&readable, 1, 1) == 1 ? next_event(end, "an event") : NULL;
}

/* ---- Private data */

const void* private_data(enum carrier carrier) {
  static unsigned char data[PRIVATE_ROOM];
  for (unsigned i = 0; i < PRIVATE_ROOM; i++) data[i] = (unsigned char)(carrier + 7 * i);
  return data;
}

void expect_private(const struct rdma_cm_event* event, const struct options* options,
                    enum carrier carrier, size_t bytes) {
  const void* got = event->param.conn.private_data;
  size_t length = event->param.conn.private_data_len;
  if (options->datagrams) {
    got = event->param.ud.private_data;
    length = event->param.ud.private_data_len;
  }
  if (length < bytes) die("%zu bytes of private data, not %zu", length, bytes);
  if (memcmp(got, private_data(carrier), bytes) != 0) die("other private data than was sent");
}

/* ---- Messages */

void open_qp(struct end* end, int datagrams) {
  struct ibv_qp_init_attr attr = {
      .cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1},
      .qp_type = datagrams ? IBV_QPT_UD : IBV_QPT_RC,
      .sq_sig_all = 1,
  };
  if (rdma_create_qp(end->id, NULL, &attr)) die("rdma_create_qp");
  end->mr = rdma_reg_msgs(end->id, end->memory, sizeof(end->memory));
  if (!end->mr) die("rdma_reg_msgs");
  for (unsigned i = 0; i < MESSAGE_BYTES; i++) {
    end->memory[1][GRH_BYTES + i] = (unsigned char)(3 * i + 1);
  }
  post_receive(end);
}

void post_receive(struct end* end) {
  memset(end->memory[0], 0, sizeof(end->memory[0]));
  if (rdma_post_recv(end->id, NULL, end->memory[0], sizeof(end->memory[0]), end->mr)) {
    die("rdma_post_recv");
  }
}

void post_send(struct end* end, const struct rdma_ud_param* to) {
  unsigned char* message = end->memory[1] + GRH_BYTES;
  if (!to) {
    if (rdma_post_send(end->id, NULL, message, MESSAGE_BYTES, end->mr, 0)) die("rdma_post_send");
    return;
  }
  struct ibv_ah_attr attr = to->ah_attr;
  struct ibv_ah* ah = ibv_create_ah(end->id->pd, &attr);
  if (!ah) die("ibv_create_ah");
  if (rdma_post_ud_send(end->id, NULL, message, MESSAGE_BYTES, end->mr, 0, ah, to->qp_num)) {
    die("rdma_post_ud_send");
  }
  reap(end->id->send_cq, "datagram");
  ibv_destroy_ah(ah);
}

void reap(struct ibv_cq* cq, const char* what) {
  const time_t deadline = time(NULL) + SECONDS;
  struct ibv_wc wc;
  int found;
  while ((found = ibv_poll_cq(cq, 1, &wc)) == 0) {
    if (time(NULL) > deadline) die("%s: no completion", what);
    usleep(POLL_US);
  }
  if (found < 0) die("%s: ibv_poll_cq", what);
  if (wc.status != IBV_WC_SUCCESS) die("%s: %s", what, ibv_wc_status_str(wc.status));
}

void expect_message(const struct end* end, int datagrams) {
  reap(end->id->recv_cq, "receive");
  const unsigned char* got = end->memory[0] + (datagrams ? GRH_BYTES : 0);
  if (memcmp(got, end->memory[1] + GRH_BYTES, MESSAGE_BYTES) != 0) {
    die("another message than was sent");
  }
}

void close_end(struct end* end) {
  if (end->mr) rdma_dereg_mr(end->mr);
  if (end->id->qp) rdma_destroy_qp(end->id);
  if (rdma_destroy_id(end->id)) die("rdma_destroy_id");
  rdma_destroy_event_channel(end->channel);
}
