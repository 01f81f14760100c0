// Messages a second over many queue pairs.
//
//   many_qps -p PORT [-q QPS] [-d MILLISECONDS] [HOST]
//
// Without HOST it listens on the TCP port; both ends give the same -q. The other end posts WRITEs
// of 64 bytes, one by one, to its queue pairs in turn, each signalled, with OUTSTANDING of them
// under way in all: as many with one queue pair as with 10 000 (perftest's -q multiplies them).
// Messages go through the same memory for any number of queue pairs, so the numbers differ by what
// a queue pair costs. Before it measures, each queue pair has carried two messages.
//
// The client prints:
//   rate 0.583 M/s over 10000 queue pairs, 583210 messages
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "bench/e2e/qp_pairs.h"

enum {
  MESSAGE_BYTES = 64,
  SLOTS = 16384,  // of messages, in the memory of each end
  OUTSTANDING = 128,
  POLLED = 16,
  WARM_UP_MESSAGES = 50000,
  SPARE_WR = 8,  // of a queue pair: its messages may complete later than those of others
};

struct sender {
  struct qp_pairs pairs;
  uint64_t posted;
  uint64_t completed;
  uint32_t qp;  // of the next message
};

static void post_window(struct sender* sender) {
  while (sender->posted - sender->completed < OUTSTANDING) {
    const size_t offset = sender->posted % SLOTS * MESSAGE_BYTES;
    const int error = qp_pairs_write(&sender->pairs, sender->qp, offset, offset, MESSAGE_BYTES,
                                     IBV_SEND_SIGNALED);
    if (error == ENOMEM) return;  // its queue is full; completions make room
    if (error != 0) qp_pairs_fail("ibv_post_send: %s", strerror(error));
    ++sender->posted;
    if (++sender->qp == sender->pairs.options.qps) sender->qp = 0;
  }
}

static void take_completions(struct sender* sender) {
  struct ibv_wc wcs[POLLED];
  const int got = ibv_poll_cq(sender->pairs.cq, POLLED, wcs);
  if (got < 0) qp_pairs_fail("ibv_poll_cq: %d", got);
  for (int i = 0; i < got; ++i) {
    if (wcs[i].status != IBV_WC_SUCCESS) {
      qp_pairs_fail("WRITE: %s", ibv_wc_status_str(wcs[i].status));
    }
  }
  sender->completed += (uint64_t)got;
}

static void send_all(struct sender* sender, uint64_t time_ns) {
  const uint64_t warm_up = 2 * (uint64_t)sender->pairs.options.qps + WARM_UP_MESSAGES;
  while (sender->completed < warm_up) {
    post_window(sender);
    take_completions(sender);
  }
  const uint64_t before = sender->completed;
  const uint64_t start = qp_pairs_now_ns();
  uint64_t now = start;
  for (; now - start < time_ns; now = qp_pairs_now_ns()) {
    post_window(sender);
    take_completions(sender);
  }
  const uint64_t messages = sender->completed - before;
  printf("rate %.4f M/s over %u queue pairs, %lu messages\n",
         (double)messages * 1e3 / (double)(now - start), sender->pairs.options.qps, messages);
  while (sender->completed < sender->posted) take_completions(sender);
}

int main(int argc, char** argv) {
  uint64_t time_ms = 1000;
  struct qp_pairs_options options = {
      .qps = 1, .cq_entries = 2 * OUTSTANDING, .bytes = (size_t)SLOTS * MESSAGE_BYTES};
  for (int option; (option = getopt(argc, argv, "p:q:d:")) != -1;) {
    if (option == 'p') {
      options.port = optarg;
    } else if (option == 'q') {
      options.qps = (uint32_t)qp_pairs_number(optarg, 1, 1u << 20);
    } else if (option == 'd') {
      time_ms = qp_pairs_number(optarg, 1, 100000);
    } else {
      return 2;
    }
  }
  if (options.port == NULL || argc - optind > 1) {
    qp_pairs_fail("usage: many_qps -p PORT [-q QPS] [-d MILLISECONDS] [HOST]");
  }
  options.server = argv[optind];
  options.send_wr = OUTSTANDING / options.qps + SPARE_WR;
  alarm(180);  // in any case
  struct sender sender = {.posted = 0};
  qp_pairs_open(&sender.pairs, &options);
  if (options.server != NULL) send_all(&sender, time_ms * 1000000);
  qp_pairs_barrier(&sender.pairs);  // the listening end sleeps here
  qp_pairs_close(&sender.pairs);
  return 0;
}
