#include "tests/interop/pair_verbs.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { DEADLINE_S = 60 };

const struct limits kPatient = {
    .access = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC,
    .timeout = 18,
    .retry_cnt = 7,
    .rnr_retry = 7};

void die(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vfprintf(stderr, format, arguments);
  va_end(arguments);
  fputc('\n', stderr);
  exit(1);
}

struct options parse_options(int argc, char** argv) {
  struct options options = {.gid_index = 1,
                            .mtu = 1024,
                            .batches = 20,
                            .port = 18600,
                            .timeout = kPatient.timeout,
                            .seed = 1};
  int c;
  while ((c = getopt(argc, argv, "d:g:m:n:p:s:t:")) != -1) {
    switch (c) {
      case 'd':
        options.device = optarg;
        break;
      case 'g':
        options.gid_index = atoi(optarg);
        break;
      case 'm':
        options.mtu = atoi(optarg);
        break;
      case 'n':
        options.batches = atoi(optarg);
        break;
      case 'p':
        options.port = atoi(optarg);
        break;
      case 's':
        options.seed = (unsigned)atoi(optarg);
        break;
      case 't':
        options.timeout = atoi(optarg);
        break;
      default:
        exit(2);
    }
  }
  if (optind < argc) options.host = argv[optind];
  return options;
}

/* ---- TCP */

void exchange(struct end* end, const void* out, void* in, size_t length) {
  if (write(end->tcp, out, length) != (ssize_t)length) die("the peer went away");
  for (size_t at = 0; at < length;) {
    const ssize_t got = read(end->tcp, (char*)in + at, length - at);
    if (got <= 0) die("the peer went away");
    at += (size_t)got;
  }
}

void barrier(struct end* end) {
  char in, out = 'b';
  exchange(end, &out, &in, 1);
}

static int tcp_open(const struct options* options) {
  const int one = 1, fd = socket(AF_INET, SOCK_STREAM, 0);
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)options->port)};
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
  if (options->host) {
    if (inet_pton(AF_INET, options->host, &address.sin_addr) != 1) die("HOST is an IPv4 address");
    if (connect(fd, (struct sockaddr*)&address, sizeof(address))) die("cannot connect");
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    return fd;
  }
  if (bind(fd, (struct sockaddr*)&address, sizeof(address)) || listen(fd, 1)) die("cannot listen");
  const int peer = accept(fd, NULL, NULL);
  if (peer < 0) die("cannot accept");
  close(fd);
  setsockopt(peer, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
  return peer;
}

/* ---- Verbs */

static struct ibv_context* open_device(const char* name) {
  int count = 0;
  struct ibv_device** list = ibv_get_device_list(&count);
  for (int i = 0; i < count; ++i) {
    if (name == NULL || strcmp(ibv_get_device_name(list[i]), name) == 0) {
      return ibv_open_device(list[i]);
    }
  }
  return NULL;
}

void open_end(struct end* end, const struct options* options) {
  const int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
                     IBV_ACCESS_REMOTE_ATOMIC;
  end->random = options->seed;
  end->tcp = tcp_open(options);
  if (!(end->context = open_device(options->device))) die("no such device");
  if (!(end->pd = ibv_alloc_pd(end->context))) die("ibv_alloc_pd");
  if (!(end->cq = ibv_create_cq(end->context, 4 * SLOTS, NULL, NULL, 0))) die("ibv_create_cq");
  if (posix_memalign((void**)&end->memory, 4096, SLOTS * SLOT_BYTES)) die("no memory");
  memset(end->memory, 0, SLOTS * SLOT_BYTES);
  end->mr = ibv_reg_mr(end->pd, end->memory, SLOTS * SLOT_BYTES, access);
  if (!end->mr) die("ibv_reg_mr");
  end->here.is_rxe = strncmp(ibv_get_device_name(end->context->device), "rxe", 3) == 0;
  if (ibv_query_gid(end->context, 1, options->gid_index, &end->here.gid)) die("ibv_query_gid");
}

void close_end(struct end* end) {
  ibv_destroy_cq(end->cq);
  ibv_dereg_mr(end->mr);
  ibv_dealloc_pd(end->pd);
  ibv_close_device(end->context);
}

static void create_qp(struct end* end, const struct options* options) {
  struct ibv_qp_init_attr attr = {.send_cq = end->cq,
                                  .recv_cq = end->cq,
                                  .qp_type = IBV_QPT_RC,
                                  .sq_sig_all = 1,
                                  .cap = {2 * SLOTS, 2 * SLOTS, 1, 1, 0}};
  if (!(end->qp = ibv_create_qp(end->pd, &attr))) die("ibv_create_qp");
  end->here.qpn = end->qp->qp_num;
  end->here.rkey = end->mr->rkey;
  end->here.va = (uintptr_t)end->memory;
  /* A PSN so close to 2^24 that it wraps soon. */
  end->here.psn = (0xffffff - (options->seed * 7 + (options->host != NULL) * 50) % 200) & 0xffffff;
}

static void to_rts(struct end* end, const struct options* options, const struct limits* limits) {
  enum ibv_mtu mtu = IBV_MTU_256;
  for (int bytes = 256; bytes < options->mtu; bytes *= 2) ++mtu;
  struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT,
                             .port_num = 1,
                             .qp_access_flags = (unsigned)limits->access,
                             .path_mtu = mtu,
                             .dest_qp_num = end->there.qpn,
                             .rq_psn = end->there.psn,
                             .sq_psn = end->here.psn,
                             .max_rd_atomic = 4,
                             .max_dest_rd_atomic = 4,
                             .min_rnr_timer = 12,
                             .timeout = (uint8_t)limits->timeout,
                             .retry_cnt = (uint8_t)limits->retry_cnt,
                             .rnr_retry = (uint8_t)limits->rnr_retry,
                             .ah_attr = {.is_global = 1,
                                         .port_num = 1,
                                         .grh = {.dgid = end->there.gid,
                                                 .sgid_index = (uint8_t)options->gid_index,
                                                 .hop_limit = 64}}};
  if (ibv_modify_qp(end->qp, &attr,
                    IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS)) {
    die("to INIT");
  }
  attr.qp_state = IBV_QPS_RTR;
  if (ibv_modify_qp(end->qp, &attr,
                    IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                        IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER)) {
    die("to RTR");
  }
  attr.qp_state = IBV_QPS_RTS;
  if (ibv_modify_qp(end->qp, &attr,
                    IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                        IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC)) {
    die("to RTS");
  }
}

void connect_pair(struct end* end, const struct options* options, const struct limits* limits) {
  create_qp(end, options);
  exchange(end, &end->here, &end->there, sizeof(end->here));
  to_rts(end, options, limits);
  barrier(end); /* both are ready to receive */
}

void disconnect_pair(struct end* end) {
  struct ibv_wc wc;
  barrier(end);
  ibv_destroy_qp(end->qp);
  while (ibv_poll_cq(end->cq, 1, &wc) > 0) continue;
}

struct ibv_wc reap_any(struct end* end, const char* what) {
  const time_t deadline = time(NULL) + DEADLINE_S;
  struct ibv_wc wc;
  int got;
  while ((got = ibv_poll_cq(end->cq, 1, &wc)) == 0) {
    if (time(NULL) > deadline) die("%s: no completion", what);
  }
  if (got < 0) die("%s: ibv_poll_cq", what);
  return wc;
}

struct ibv_wc reap(struct end* end, const char* what) {
  const struct ibv_wc wc = reap_any(end, what);
  if (wc.status) die("%s: %s, vendor_err %#x", what, ibv_wc_status_str(wc.status), wc.vendor_err);
  return wc;
}
