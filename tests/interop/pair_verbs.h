/* What the programs of this directory share: two processes with a device each, a TCP connection
 * between them, and pairs of RC queue pairs over it. Plain verbs, so that the same program runs
 * over any RDMA device. Nothing returns an error: die() says why and ends the process. */
#pragma once

#include <infiniband/verbs.h>
#include <stddef.h>
#include <stdint.h>

enum { SLOTS = 8, SLOT_BYTES = 1 << 16 };

struct options {
  const char *device, *host; /* host: of the server; NULL in the server */
  int gid_index, mtu, batches, port, timeout;
  unsigned seed;
};

/* What both sides must know of each other. */
struct address {
  union ibv_gid gid;
  uint32_t qpn, psn, rkey;
  uint32_t is_rxe; /* Linux Soft-RoCE */
  uint64_t va;
};

struct end {
  struct ibv_context* context;
  struct ibv_pd* pd;
  struct ibv_cq* cq;
  struct ibv_qp* qp;
  struct ibv_mr* mr;
  unsigned char* memory; /* SLOTS slots of SLOT_BYTES */
  struct address here, there;
  int tcp;
  uint64_t random;
};

/* Attributes of a connection that differ; all others are the same. */
struct limits {
  int access, timeout, retry_cnt, rnr_retry;
};
extern const struct limits kPatient; /* all access; a second, so that a slow peer is none */

void die(const char* format, ...) __attribute__((format(printf, 1, 2), noreturn));

/* -d DEVICE -g GID_INDEX -m MTU -n BATCHES -p TCP_PORT -s SEED -t TIMEOUT [HOST] */
struct options parse_options(int argc, char** argv);

/* Device, CQ, memory and TCP connection. */
void open_end(struct end* end, const struct options* options);
void close_end(struct end* end);

/* Both sides at once: a new queue pair, connected to the peer's, in RTS. */
void connect_pair(struct end* end, const struct options* options, const struct limits* limits);
void disconnect_pair(struct end* end);

/* Both sides give and get so many bytes. */
void exchange(struct end* end, const void* out, void* in, size_t length);
void barrier(struct end* end);

/* The next completion, whatever its status. */
struct ibv_wc reap_any(struct end* end, const char* what);
/* The next one, which has to be a success. */
struct ibv_wc reap(struct end* end, const char* what);
