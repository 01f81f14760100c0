#include "bench/e2e/qp_pairs.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { PORT_NUMBER = 1, TIMEOUT_CODE = 14, RETRIES = 7, DIAL_TRIES = 1000 };

// What a process tells the other one; the queue pairs' numbers follow.
struct hello {
  union ibv_gid gid;
  uint64_t address;
  uint32_t rkey;
  uint32_t mtu;  // enum ibv_mtu
};

void qp_pairs_fail(const char* format, ...) {
  va_list list;
  va_start(list, format);
  vfprintf(stderr, format, list);
  va_end(list);
  fputc('\n', stderr);
  exit(1);
}

uint64_t qp_pairs_now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

uint64_t qp_pairs_number(const char* text, uint64_t least, uint64_t most) {
  char* end = NULL;
  errno = 0;
  const uint64_t value = strtoull(text, &end, 10);
  if (errno != 0 || end == text || *end != '\0' || value < least || value > most) {
    qp_pairs_fail("'%s' is no number from %lu to %lu", text, least, most);
  }
  return value;
}

static void must(int error, const char* verb) {
  if (error != 0) qp_pairs_fail("%s: %s", verb, strerror(error > 0 ? error : errno));
}

static void* must_have(void* object, const char* verb) {
  if (object == NULL) qp_pairs_fail("%s: %s", verb, strerror(errno));
  return object;
}

// ---- TCP

static int listen_once(const struct addrinfo* address) {
  const int listener = socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int on = 1;
  must(setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)), "setsockopt");
  must(bind(listener, address->ai_addr, address->ai_addrlen), "bind");
  must(listen(listener, 1), "listen");
  const int accepted = accept(listener, NULL, NULL);
  if (accepted < 0) must(-1, "accept");
  close(listener);
  return accepted;
}

static int dial(const struct addrinfo* address) {
  const struct timespec pause = {0, 10 * 1000 * 1000};
  for (int tries = 0; tries < DIAL_TRIES; ++tries) {
    const int fd = socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connect(fd, address->ai_addr, address->ai_addrlen) == 0) return fd;
    close(fd);
    nanosleep(&pause, NULL);
  }
  qp_pairs_fail("nobody listens there");
}

static int meet(const struct qp_pairs_options* options) {
  const struct addrinfo hints = {.ai_family = AF_INET,
                                 .ai_socktype = SOCK_STREAM,
                                 .ai_flags = options->server == NULL ? AI_PASSIVE : 0};
  struct addrinfo* found = NULL;
  const int error = getaddrinfo(options->server, options->port, &hints, &found);
  if (error != 0) qp_pairs_fail("%s: %s", options->port, gai_strerror(error));
  const int fd = options->server == NULL ? listen_once(found) : dial(found);
  freeaddrinfo(found);
  const int on = 1;
  must(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)), "setsockopt");
  return fd;
}

// Both processes send first. Numbers of 10 000 queue pairs fit into the sockets' buffers.
static void exchange(int fd, const void* mine, void* theirs, size_t bytes) {
  for (size_t sent = 0; sent < bytes;) {
    const ssize_t n = send(fd, (const char*)mine + sent, bytes - sent, MSG_NOSIGNAL);
    if (n <= 0) qp_pairs_fail("the peer process went away");
    sent += (size_t)n;
  }
  for (size_t got = 0; got < bytes;) {
    const ssize_t n = recv(fd, (char*)theirs + got, bytes - got, 0);
    if (n <= 0) qp_pairs_fail("the peer process went away");
    got += (size_t)n;
  }
}

void qp_pairs_barrier(struct qp_pairs* pairs) {
  const char mine = 'b';
  char theirs = 0;
  exchange(pairs->socket, &mine, &theirs, 1);
}

// ---- Verbs

static struct ibv_context* open_first(void) {
  struct ibv_device** list = must_have(ibv_get_device_list(NULL), "ibv_get_device_list");
  if (list[0] == NULL) qp_pairs_fail("there is no RDMA device");
  struct ibv_context* context = must_have(ibv_open_device(list[0]), "ibv_open_device");
  ibv_free_device_list(list);
  return context;
}

// The first GID of RoCE v2 with an IPv4 address.
static uint8_t find_gid(struct ibv_context* context, union ibv_gid* gid) {
  for (uint32_t index = 0; index < 64; ++index) {
    struct ibv_gid_entry entry = {0};
    if (ibv_query_gid_ex(context, PORT_NUMBER, index, &entry, 0) != 0) continue;
    const unsigned char* raw = entry.gid.raw;
    if (entry.gid_type == IBV_GID_TYPE_ROCE_V2 && raw[10] == 0xff && raw[11] == 0xff) {
      *gid = entry.gid;
      return (uint8_t)index;
    }
  }
  qp_pairs_fail("the port has no RoCE v2 GID with an IPv4 address");
}

static struct ibv_qp* new_qp(const struct qp_pairs* pairs) {
  struct ibv_qp_init_attr init = {
      .send_cq = pairs->cq,
      .recv_cq = pairs->cq,
      .cap = {pairs->options.send_wr, 1, 1, 1, pairs->options.inline_bytes},
      .qp_type = IBV_QPT_RC,
  };
  struct ibv_qp* qp = must_have(ibv_create_qp(pairs->pd, &init), "ibv_create_qp");
  struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT,
                             .port_num = PORT_NUMBER,
                             .qp_access_flags = IBV_ACCESS_REMOTE_WRITE};
  must(ibv_modify_qp(qp, &attr,
                     IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
       "ibv_modify_qp(INIT)");
  return qp;
}

static void connect_qp(struct ibv_qp* qp, uint8_t gid_index, const struct hello* peer,
                       uint32_t peer_qpn) {
  struct ibv_qp_attr attr = {
      .qp_state = IBV_QPS_RTR,
      .path_mtu = (enum ibv_mtu)peer->mtu,
      .dest_qp_num = peer_qpn,
      .max_dest_rd_atomic = 1,
      .min_rnr_timer = 12,
      .ah_attr = {.is_global = 1,
                  .port_num = PORT_NUMBER,
                  .grh = {.dgid = peer->gid, .sgid_index = gid_index, .hop_limit = 64}},
  };
  must(ibv_modify_qp(qp, &attr,
                     IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                         IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER),
       "ibv_modify_qp(RTR)");
  attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS,
                              .timeout = TIMEOUT_CODE,
                              .retry_cnt = RETRIES,
                              .rnr_retry = RETRIES,
                              .max_rd_atomic = 1};
  must(ibv_modify_qp(qp, &attr,
                     IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                         IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC),
       "ibv_modify_qp(RTS)");
}

static void connect_all(struct qp_pairs* pairs) {
  struct ibv_port_attr port;
  must(ibv_query_port(pairs->context, PORT_NUMBER, &port), "ibv_query_port");
  struct hello mine = {.address = (uint64_t)(uintptr_t)pairs->memory,
                       .rkey = pairs->mr->rkey,
                       .mtu = (uint32_t)port.active_mtu};
  struct hello theirs;
  const uint8_t gid_index = find_gid(pairs->context, &mine.gid);
  exchange(pairs->socket, &mine, &theirs, sizeof(mine));
  if (theirs.mtu > mine.mtu) theirs.mtu = mine.mtu;
  pairs->remote_address = theirs.address;
  pairs->remote_rkey = theirs.rkey;

  const uint32_t count = pairs->options.qps;
  uint32_t* numbers = must_have(calloc(2 * (size_t)count, sizeof(*numbers)), "calloc");
  for (uint32_t i = 0; i < count; ++i) numbers[i] = pairs->qps[i]->qp_num;
  exchange(pairs->socket, numbers, numbers + count, count * sizeof(*numbers));
  for (uint32_t i = 0; i < count; ++i) {
    connect_qp(pairs->qps[i], gid_index, &theirs, numbers[count + i]);
  }
  free(numbers);
}

void qp_pairs_open(struct qp_pairs* pairs, const struct qp_pairs_options* options) {
  *pairs = (struct qp_pairs){.options = *options};
  pairs->context = open_first();
  pairs->pd = must_have(ibv_alloc_pd(pairs->context), "ibv_alloc_pd");
  pairs->cq = must_have(ibv_create_cq(pairs->context, (int)options->cq_entries, NULL, NULL, 0),
                        "ibv_create_cq");
  void* memory = mmap(NULL, options->bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  if (memory == MAP_FAILED) must(-1, "mmap");
  pairs->memory = memory;
  pairs->mr = must_have(ibv_reg_mr(pairs->pd, memory, options->bytes,
                                   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE),
                        "ibv_reg_mr");
  pairs->qps = must_have(calloc(options->qps, sizeof(struct ibv_qp*)), "calloc");
  for (uint32_t i = 0; i < options->qps; ++i) pairs->qps[i] = new_qp(pairs);
  pairs->socket = meet(options);
  connect_all(pairs);
  qp_pairs_barrier(pairs);
}

void qp_pairs_close(struct qp_pairs* pairs) {
  for (uint32_t i = 0; i < pairs->options.qps; ++i) {
    must(ibv_destroy_qp(pairs->qps[i]), "ibv_destroy_qp");
  }
  free(pairs->qps);
  must(ibv_dereg_mr(pairs->mr), "ibv_dereg_mr");
  munmap(pairs->memory, pairs->options.bytes);
  must(ibv_destroy_cq(pairs->cq), "ibv_destroy_cq");
  must(ibv_dealloc_pd(pairs->pd), "ibv_dealloc_pd");
  must(ibv_close_device(pairs->context), "ibv_close_device");
  close(pairs->socket);
}

int qp_pairs_write(struct qp_pairs* pairs, uint32_t qp, size_t from, size_t to, uint32_t bytes,
                   unsigned flags) {
  struct ibv_sge sge = {(uint64_t)(uintptr_t)(pairs->memory + from), bytes, pairs->mr->lkey};
  struct ibv_send_wr wr = {
      .sg_list = &sge,
      .num_sge = 1,
      .opcode = IBV_WR_RDMA_WRITE,
      .send_flags = flags,
      .wr.rdma = {pairs->remote_address + to, pairs->remote_rkey},
  };
  struct ibv_send_wr* bad = NULL;
  return ibv_post_send(pairs->qps[qp], &wr, &bad);
}
