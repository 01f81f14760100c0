/* What both halves of cm_pair share: an id of librdmacm with its events, private data that can be
 * told from others, and one message each way. Nothing returns an error: die() says why and ends
 * the process. */
#pragma once

#include <netinet/in.h>
#include <rdma/rdma_cma.h>
#include <stddef.h>
#include <stdint.h>

enum { MESSAGE_BYTES = 256, GRH_BYTES = 40 };
/* Room for the application's private data, without rdma_cm's header (IBTA 12.6, 12.11). */
enum { REQ_ROOM = 56, REP_ROOM = 196, REJ_ROOM = 148, SIDR_REQ_ROOM = 180, SIDR_REP_ROOM = 136 };
/* Reasons of a REJ (12.6.7.2), states of a SIDR_REP (12.11.2). */
enum { NO_SUCH_SERVICE = 8, BY_CONSUMER = 28, SIDR_NO_SERVICE = 1, SIDR_REJECTED = 2 };

struct options {
  const char* what;
  struct sockaddr_in address; /* the server's */
  int server, datagrams, delay_s;
};

struct end {
  struct rdma_event_channel* channel;
  struct rdma_cm_id* id; /* of the connection */
  struct ibv_mr* mr;
  unsigned char memory[2][GRH_BYTES + MESSAGE_BYTES]; /* what is received, what is sent */
};

void die(const char* format, ...) __attribute__((format(printf, 1, 2), noreturn));

/* The next event; `what` is waited for. Each event is to be acknowledged. */
struct rdma_cm_event* next_event(struct end* end, const char* what);
void expect_event(const struct rdma_cm_event* event, enum rdma_cm_event_type type, int status);
/* Waits for an event of that type and acknowledges it. */
void await_event(struct end* end, enum rdma_cm_event_type type);
/* An event within a millisecond; NULL: none. */
struct rdma_cm_event* event_soon(struct end* end);

/* Each message has its own. */
enum carrier { OF_REQ = 0x11, OF_REP = 0x33, OF_REJ = 0x55 };
const void* private_data(enum carrier carrier);
void expect_private(const struct rdma_cm_event* event, const struct options* options,
                    enum carrier carrier, size_t bytes);

/* Queue pair and memory; a receive is posted. */
void open_qp(struct end* end, int datagrams);
void post_receive(struct end* end);
/* `to`: of datagrams, whose completion has come then; else NULL. */
void post_send(struct end* end, const struct rdma_ud_param* to);
/* The next completion of the queue, which has to be a success. */
void reap(struct ibv_cq* cq, const char* what);
void expect_message(const struct end* end, int datagrams);
void close_end(struct end* end);
