/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * mprdmadv.h in one program: a QP in a chosen mode, data in relaxed-ordering memory, a flag that is
 * written with the synchronise flag, and what the QP counted.
 *
 *   mprdmadv_example [-p PORT] [-m MODE] [-n ROUNDS] [-s BYTES]          the reader
 *   mprdmadv_example [-p PORT] [-m MODE] [-n ROUNDS] [-s BYTES] HOST     the writer
 *
 * The writer WRITEs a block of data, then a round number behind it. The reader polls memory for
 * that number, and nothing else; when it is there, every byte before it has to be there. Both ends
 * are given the same -m, -n and -s. Exit status: 0; 1 if something failed; 2 for wrong options.
 */
#include <errno.h>
#include <getopt.h>
#include <infiniband/mprdmadv.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define PSN 0x1234u
#define GID_INDEX 1 /* the IPv4 address, mapped */
#define FLAG_BYTES sizeof(uint64_t)

struct options {
  const char* host; /* NULL: the reader */
  const char* port;
  enum mprdmadv_mode mode;
  uint32_t rounds;
  uint32_t bytes;
};

struct address { /* what both ends tell each other, over TCP */
  union ibv_gid gid;
  uint64_t memory;
  uint32_t rkey;
  uint32_t qpn;
};

struct endpoint {
  struct ibv_context* context;
  struct ibv_pd* pd;
  struct ibv_cq* cq;
  struct ibv_mr* mr;
  struct ibv_qp* qp;
  unsigned char* memory; /* options.bytes of data, then the flag */
  struct address self;
  struct address peer;
  int tcp;
};

static int fail(const char* what) {
  fprintf(stderr, "mprdmadv_example: %s: %s\n", what, strerror(errno));
  return -1;
}

/* Finds the first device of mprdma. */
static struct ibv_context* open_device(void) {
  int count = 0;
  struct ibv_context* context = NULL;
  struct ibv_device** list = ibv_get_device_list(&count);
  for (int i = 0; list != NULL && i < count && context == NULL; i++) {
    if (mprdmadv_is_supported(list[i])) {
      context = ibv_open_device(list[i]);
    }
  }
  if (list != NULL) {
    ibv_free_device_list(list);
  }
  return context;
}

static struct ibv_qp* create_qp(struct endpoint* end, const struct options* options) {
  struct ibv_qp_init_attr_ex attr = {
      .send_cq = end->cq,
      .recv_cq = end->cq,
      .cap = {.max_send_wr = 16,
              .max_recv_wr = 1,
              .max_send_sge = 1,
              .max_recv_sge = 1,
              .max_inline_data = FLAG_BYTES},
      .qp_type = IBV_QPT_RC,
      .comp_mask = IBV_QP_INIT_ATTR_PD,
      .pd = end->pd,
  };
  const struct mprdmadv_qp_init_attr mprdma_attr = {
      .comp_mask = MPRDMADV_QP_INIT_ATTR_MODE,
      .mode = options->mode,
  };
  return mprdmadv_create_qp(end->context, &attr, &mprdma_attr);
}

static int open_endpoint(struct endpoint* end, const struct options* options) {
  struct ibv_port_attr port;
  size_t bytes = options->bytes + FLAG_BYTES;
  end->context = open_device();
  if (end->context == NULL) {
    fprintf(stderr, "mprdmadv_example: no mprdma device; start with `mprdma run -- ...`\n");
    return -1;
  }
  end->pd = ibv_alloc_pd(end->context);
  end->cq = ibv_create_cq(end->context, 16, NULL, NULL, 0);
  if (end->pd == NULL || end->cq == NULL) {
    return fail("objects");
  }
  end->memory = calloc(1, bytes);
  if (end->memory == NULL) {
    return fail("memory");
  }
  /* Data is placed as it arrives, over whatever path: here the synchronise flag matters. */
  end->mr =
      ibv_reg_mr(end->pd, end->memory, bytes,
                 IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_RELAXED_ORDERING);
  if (end->mr == NULL) {
    return fail("ibv_reg_mr");
  }
  end->qp = create_qp(end, options);
  if (end->qp == NULL) {
    return fail("mprdmadv_create_qp");
  }
  if (ibv_query_port(end->context, 1, &port) != 0 ||
      ibv_query_gid(end->context, 1, GID_INDEX, &end->self.gid) != 0) {
    return fail("the port");
  }
  end->self.memory = (uintptr_t)end->memory;
  end->self.rkey = end->mr->rkey;
  end->self.qpn = end->qp->qp_num;
  return 0;
}

static void close_endpoint(struct endpoint* end) {
  if (end->qp != NULL) {
    ibv_destroy_qp(end->qp);
  }
  if (end->mr != NULL) {
    ibv_dereg_mr(end->mr);
  }
  if (end->cq != NULL) {
    ibv_destroy_cq(end->cq);
  }
  if (end->pd != NULL) {
    ibv_dealloc_pd(end->pd);
  }
  if (end->context != NULL) {
    ibv_close_device(end->context);
  }
  if (end->tcp >= 0) {
    close(end->tcp);
  }
  free(end->memory);
}

/* ---- TCP: an address each way, then a byte for each round. */

static int listen_and_accept(const struct addrinfo* info) {
  int one = 1;
  int fd = -1;
  int listener = socket(info->ai_family, info->ai_socktype, info->ai_protocol);
  if (listener < 0) {
    return -1;
  }
  setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
  if (bind(listener, info->ai_addr, info->ai_addrlen) == 0 && listen(listener, 1) == 0) {
    fd = accept(listener, NULL, NULL);
  }
  close(listener);
  return fd;
}

static int connect_to(const struct addrinfo* info) {
  int fd = socket(info->ai_family, info->ai_socktype, info->ai_protocol);
  if (fd >= 0 && connect(fd, info->ai_addr, info->ai_addrlen) != 0) {
    close(fd);
    fd = -1;
  }
  return fd;
}

static int open_tcp(const struct options* options) {
  const struct addrinfo hints = {.ai_family = AF_INET,
                                 .ai_socktype = SOCK_STREAM,
                                 .ai_flags = options->host == NULL ? AI_PASSIVE : 0};
  struct addrinfo* info = NULL;
  if (getaddrinfo(options->host, options->port, &hints, &info) != 0) {
    return -1;
  }
  int fd = options->host == NULL ? listen_and_accept(info) : connect_to(info);
  freeaddrinfo(info);
  return fd;
}

static int exchange(struct endpoint* end) {
  if (send(end->tcp, &end->self, sizeof(end->self), MSG_NOSIGNAL) != (ssize_t)sizeof(end->self) ||
      recv(end->tcp, &end->peer, sizeof(end->peer), MSG_WAITALL) != (ssize_t)sizeof(end->peer)) {
    return fail("the exchange of addresses");
  }
  return 0;
}

static int pass_byte(int fd) {
  char byte = 1;
  return send(fd, &byte, 1, MSG_NOSIGNAL) == 1 ? 0 : fail("tcp");
}

static int await_byte(int fd) {
  char byte;
  return recv(fd, &byte, 1, MSG_WAITALL) == 1 ? 0 : fail("the other side");
}

/* ---- Verbs */

static int connect_qp(struct endpoint* end) {
  struct ibv_port_attr port;
  struct ibv_qp_attr attr = {
      .qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = IBV_ACCESS_REMOTE_WRITE};
  if (ibv_query_port(end->context, 1, &port) != 0 ||
      ibv_modify_qp(end->qp, &attr,
                    IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) != 0) {
    return fail("INIT");
  }
  attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTR,
                              .path_mtu = port.active_mtu,
                              .dest_qp_num = end->peer.qpn,
                              .rq_psn = PSN,
                              .max_dest_rd_atomic = 1,
                              .min_rnr_timer = 12,
                              .ah_attr = {.is_global = 1, .port_num = 1}};
  attr.ah_attr.grh.dgid = end->peer.gid;
  attr.ah_attr.grh.sgid_index = GID_INDEX;
  attr.ah_attr.grh.hop_limit = 64;
  if (ibv_modify_qp(end->qp, &attr,
                    IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                        IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER) != 0) {
    return fail("RTR");
  }
  attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS,
                              .timeout = 14,
                              .retry_cnt = 7,
                              .rnr_retry = 7,
                              .sq_psn = PSN,
                              .max_rd_atomic = 1};
  if (ibv_modify_qp(end->qp, &attr,
                    IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                        IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC) != 0) {
    return fail("RTS");
  }
  return 0;
}

/* Writes data, and behind it the round's number, which must not be seen before the data. */
static int post_round(struct endpoint* end, uint32_t bytes, const uint64_t* round) {
  struct ibv_sge data = {.addr = (uintptr_t)end->memory, .length = bytes, .lkey = end->mr->lkey};
  struct ibv_sge flag = {.addr = (uintptr_t)round, .length = FLAG_BYTES};
  struct ibv_send_wr flag_wr = {
      .sg_list = &flag,
      .num_sge = 1,
      .opcode = IBV_WR_RDMA_WRITE,
      .send_flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE | MPRDMADV_SEND_SYNCHRONISE,
      .wr.rdma = {.remote_addr = end->peer.memory + bytes, .rkey = end->peer.rkey}};
  struct ibv_send_wr data_wr = {
      .next = &flag_wr,
      .sg_list = &data,
      .num_sge = 1,
      .opcode = IBV_WR_RDMA_WRITE,
      .wr.rdma = {.remote_addr = end->peer.memory, .rkey = end->peer.rkey}};
  struct ibv_send_wr* bad = NULL;
  errno = ibv_post_send(end->qp, &data_wr, &bad);
  return errno == 0 ? 0 : fail("ibv_post_send");
}

static int await_completion(struct endpoint* end) {
  struct ibv_wc wc;
  int n = ibv_poll_cq(end->cq, 1, &wc);
  while (n == 0) n = ibv_poll_cq(end->cq, 1, &wc);
  if (n < 0 || wc.status != IBV_WC_SUCCESS) {
    fprintf(stderr, "mprdmadv_example: completion: %s\n",
            n < 0 ? "no queue" : ibv_wc_status_str(wc.status));
    return -1;
  }
  return 0;
}

static int write_rounds(struct endpoint* end, const struct options* options) {
  for (uint64_t round = 1; round <= options->rounds; round++) {
    memset(end->memory, (int)(round & 0xff), options->bytes);
    if (post_round(end, options->bytes, &round) != 0 || await_completion(end) != 0 ||
        await_byte(end->tcp) != 0) {
      return -1;
    }
  }
  return pass_byte(end->tcp);
}

static int read_rounds(struct endpoint* end, const struct options* options) {
  const uint64_t* flag = (const uint64_t*)(void*)(end->memory + options->bytes);
  for (uint64_t round = 1; round <= options->rounds; round++) {
    while (__atomic_load_n(flag, __ATOMIC_ACQUIRE) != round) {
      struct ibv_wc wc; /* nothing completes here: it only keeps the engine on this core */
      ibv_poll_cq(end->cq, 1, &wc);
    }
    for (uint32_t i = 0; i < options->bytes; i++) {
      if (end->memory[i] != (round & 0xff)) {
        fprintf(stderr, "mprdmadv_example: round %llu: byte %u is stale\n",
                (unsigned long long)round, i);
        return -1;
      }
    }
    if (pass_byte(end->tcp) != 0) {
      return -1;
    }
  }
  /* The acknowledgement of the last round may be lost: the queue pair stays until the writer has
   * one. */
  return await_byte(end->tcp);
}

static int print_statistics(struct endpoint* end) {
  struct mprdmadv_qp_stats stats;
  errno = mprdmadv_query_qp_stats(end->qp, &stats, sizeof(stats));
  if (errno != 0) {
    return fail("mprdmadv_query_qp_stats");
  }
  const struct mprdmadv_stream_stats* s = &stats.requests;
  printf("mode            %s\n", mprdmadv_mode_str((enum mprdmadv_mode)stats.mode));
  printf("bytes sent      %llu, received %llu, sent again %llu\n",
         (unsigned long long)stats.bytes_sent, (unsigned long long)stats.bytes_received,
         (unsigned long long)stats.bytes_retransmitted);
  printf("window          %.1f packets, %u in flight\n", s->window_q16 / 65536.0, s->in_flight);
  printf("SRTT            %.1f us\n", (double)s->srtt_ns / 1000.0);
  printf("virtual paths   %u\n", s->paths_in_use);
  printf("out of order    %u now, %u at most\n", s->ooo_degree, s->ooo_degree_max);
  printf("packets sent    %llu, again %llu\n", (unsigned long long)s->packets_sent,
         (unsigned long long)s->retransmitted);
  printf("taken for lost  nack %llu, trigger %llu, early %llu, rto %llu, probe %llu\n",
         (unsigned long long)s->retransmitted_nack, (unsigned long long)s->retransmitted_trigger,
         (unsigned long long)s->retransmitted_early, (unsigned long long)s->retransmitted_rto,
         (unsigned long long)s->retransmitted_probe);
  return 0;
}

static int parse_mode(const char* text, enum mprdmadv_mode* mode) {
  for (int i = MPRDMADV_MODE_DEFAULT; i <= MPRDMADV_MODE_ROCE; i++) {
    if (strcmp(text, mprdmadv_mode_str((enum mprdmadv_mode)i)) == 0) {
      *mode = (enum mprdmadv_mode)i;
      return 0;
    }
  }
  return -1;
}

static int parse(int argc, char** argv, struct options* options) {
  int option;
  while ((option = getopt(argc, argv, "p:m:n:s:")) != -1) {
    if (option == 'p') {
      options->port = optarg;
    } else if (option == 'm' && parse_mode(optarg, &options->mode) == 0) {
      continue;
    } else if (option == 'n') {
      options->rounds = (uint32_t)strtoul(optarg, NULL, 10);
    } else if (option == 's') {
      /* The flag behind the data must be aligned. */
      options->bytes = (uint32_t)strtoul(optarg, NULL, 10) & ~7u;
    } else {
      return -1;
    }
  }
  options->host = optind < argc ? argv[optind] : NULL;
  return argc - optind <= 1 && options->rounds > 0 && options->bytes > 0 ? 0 : -1;
}

int main(int argc, char** argv) {
  struct options options = {.port = "18600", .rounds = 100, .bytes = 65536};
  struct endpoint end = {.tcp = -1};
  if (parse(argc, argv, &options) != 0) {
    fprintf(stderr, "usage: mprdmadv_example [-p PORT] [-m MODE] [-n ROUNDS] [-s BYTES] [HOST]\n");
    return 2;
  }
  int error = open_endpoint(&end, &options);
  if (error == 0) {
    end.tcp = open_tcp(&options);
    error = end.tcp >= 0 ? 0 : fail("tcp");
  }
  if (error == 0) {
    error = exchange(&end) != 0 || connect_qp(&end) != 0 || pass_byte(end.tcp) != 0 ||
            await_byte(end.tcp) != 0;
  }
  if (error == 0) {
    error = options.host != NULL ? write_rounds(&end, &options) : read_rounds(&end, &options);
  }
  if (error == 0) {
    error = print_statistics(&end);
  }
  close_endpoint(&end);
  return error == 0 ? 0 : 1;
}
