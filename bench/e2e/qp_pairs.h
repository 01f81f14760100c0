// RC queue pairs between two processes: what the programs of bench/e2e share. Plain libibverbs with
// an exchange over TCP; nothing of ours, so that they run over any RDMA device.
//
// One process listens (`server` is NULL), the other names its host. Both give the same numbers of
// queue pairs and bytes; pair i of one process is connected to pair i of the other. A verb that
// fails ends the process with its name and errno. To be used by one thread.
#pragma once

#include <infiniband/verbs.h>
#include <stddef.h>
#include <stdint.h>

struct qp_pairs_options {
  const char* server;     // host of the listening process; NULL: listen
  const char* port;       // of TCP
  uint32_t qps;           // queue pairs of each process
  uint32_t send_wr;       // work requests that each of them holds
  uint32_t cq_entries;    // of the one completion queue
  uint32_t inline_bytes;  // that a work request carries
  size_t bytes;           // of registered memory in each process
};

struct qp_pairs {
  struct qp_pairs_options options;
  struct ibv_context* context;
  struct ibv_pd* pd;
  struct ibv_cq* cq;
  struct ibv_mr* mr;
  struct ibv_qp** qps;
  unsigned char* memory;    // zeroed
  uint64_t remote_address;  // of the peer's memory
  uint32_t remote_rkey;
  int socket;
};

// Connects; returns when both processes can post.
void qp_pairs_open(struct qp_pairs* pairs, const struct qp_pairs_options* options);
// Returns when both processes have called it. Sleeps in a system call.
void qp_pairs_barrier(struct qp_pairs* pairs);
void qp_pairs_close(struct qp_pairs* pairs);

// Posts a WRITE from this offset of the memory to that one of the peer's; 0 or an errno value.
int qp_pairs_write(struct qp_pairs* pairs, uint32_t qp, size_t from, size_t to, uint32_t bytes,
                   unsigned flags);

uint64_t qp_pairs_now_ns(void);
// A whole number between the limits, or the end of the process.
uint64_t qp_pairs_number(const char* text, uint64_t least, uint64_t most);
__attribute__((noreturn, format(printf, 1, 2))) void qp_pairs_fail(const char* format, ...);
