// A ping-pong between two programs that spin on their memory and never call a verb to wait.
//
//   silent_reader -p PORT [-d MILLISECONDS] [HOST]
//
// Without HOST it listens on the TCP port. The sides take turns: a side WRITEs 8 bytes and reads
// its own memory until the answer is there. So nobody calls into the device while a message is
// under way, unlike ib_write_lat, which polls its completion queue. WRITEs are unsignalled but for
// one in SIGNAL_EVERY; its completion is taken by one ibv_poll_cq just before the next such WRITE,
// when it has been there for long. The listening side needs no -d: the other one ends both.
//
// The client prints half of the round trip in microseconds:
//   p50 2.41  p99 9.80  p99.9 31.02  mean 2.70  of 183224 round trips
#include <getopt.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/e2e/qp_pairs.h"

enum {
  MESSAGE_BYTES = 8,
  SIGNAL_EVERY = 64,
  SEND_WR = 4 * SIGNAL_EVERY,
  LATE_MAX = 2,  // completions that may be missing when they are asked for
  WARM_UP = 1000,
  ROUND_TRIPS_MAX = 1 << 22,
  SILENCE_S = 20,
};
// Where a message goes and where it is sent from; each has a cache line of its own.
enum { ARRIVES_AT = 0, SENT_FROM = 128, BYTES = 4096 };
// Of a message: whether it is the last one, and its number, which is the last byte to arrive.
enum { LAST = MESSAGE_BYTES - 2, NUMBER = MESSAGE_BYTES - 1 };

struct side {
  struct qp_pairs pairs;
  uint64_t posted;
  uint32_t unreaped;
};

static void reap(struct side* side) {
  struct ibv_wc wc;
  const int got = ibv_poll_cq(side->pairs.cq, 1, &wc);
  if (got < 0) qp_pairs_fail("ibv_poll_cq: %d", got);
  if (got == 1 && wc.status != IBV_WC_SUCCESS) {
    qp_pairs_fail("WRITE: %s", ibv_wc_status_str(wc.status));
  }
  side->unreaped -= (uint32_t)got;
  if (side->unreaped > LATE_MAX) qp_pairs_fail("%u completions are missing", side->unreaped);
}

static void send_message(struct side* side, uint8_t number, int last) {
  unsigned flags = IBV_SEND_INLINE;
  if (side->posted % SIGNAL_EVERY == 0) {
    if (side->unreaped > 0) reap(side);
    flags |= IBV_SEND_SIGNALED;
    ++side->unreaped;
  }
  unsigned char* message = side->pairs.memory + SENT_FROM;
  message[LAST] = last ? 1 : 0;
  message[NUMBER] = number;
  const int error = qp_pairs_write(&side->pairs, 0, SENT_FROM, ARRIVES_AT, MESSAGE_BYTES, flags);
  if (error != 0) qp_pairs_fail("ibv_post_send: %s", strerror(error));
  ++side->posted;
}

// Calls no verb. Returns whether the message is the last one.
static int await_message(const struct side* side, uint8_t number) {
  const volatile unsigned char* message = side->pairs.memory + ARRIVES_AT;
  const uint64_t deadline = qp_pairs_now_ns() + SILENCE_S * 1000000000ull;
  for (uint32_t spins = 1; message[NUMBER] != number; ++spins) {
    if (spins % (1u << 20) == 0 && qp_pairs_now_ns() > deadline) {
      qp_pairs_fail("no message within %d s", SILENCE_S);
    }
  }
  atomic_thread_fence(memory_order_acquire);
  return message[LAST];
}

static void answer_all(struct side* side) {
  int last = 0;
  for (uint8_t number = 1; !last; ++number) {
    last = await_message(side, number);
    send_message(side, number, last);
  }
}

static int compare(const void* a, const void* b) {
  const uint32_t x = *(const uint32_t*)a;
  const uint32_t y = *(const uint32_t*)b;
  return (x > y) - (x < y);
}

static double percentile_us(const uint32_t* sorted_ns, size_t count, double percent) {
  const size_t index = (size_t)((double)count * percent / 100);
  return sorted_ns[index < count ? index : count - 1] / 2e3;
}

static void print_result(uint32_t* round_trips_ns, size_t count) {
  double sum = 0;
  for (size_t i = 0; i < count; ++i) sum += round_trips_ns[i];
  qsort(round_trips_ns, count, sizeof(*round_trips_ns), compare);
  printf("p50 %.3f  p99 %.3f  p99.9 %.3f  mean %.3f  of %zu round trips\n",
         percentile_us(round_trips_ns, count, 50), percentile_us(round_trips_ns, count, 99),
         percentile_us(round_trips_ns, count, 99.9), sum / (double)count / 2e3, count);
}

static void ask_all(struct side* side, uint64_t time_ns) {
  uint32_t* round_trips_ns = calloc(ROUND_TRIPS_MAX, sizeof(*round_trips_ns));
  if (round_trips_ns == NULL) qp_pairs_fail("no memory");
  uint64_t deadline = 0;
  size_t count = 0;
  uint64_t asked = 0;
  for (int last = 0; !last; ++asked) {
    const uint64_t start = qp_pairs_now_ns();
    if (asked == WARM_UP) deadline = start + time_ns;
    last = (deadline != 0 && start >= deadline) || count + 1 == ROUND_TRIPS_MAX;
    const uint8_t number = (uint8_t)(asked + 1);
    send_message(side, number, last);
    await_message(side, number);
    const uint64_t took_ns = qp_pairs_now_ns() - start;
    if (asked >= WARM_UP) {
      round_trips_ns[count++] = took_ns < UINT32_MAX ? (uint32_t)took_ns : UINT32_MAX;
    }
  }
  print_result(round_trips_ns, count);
  free(round_trips_ns);
}

int main(int argc, char** argv) {
  uint64_t time_ms = 1000;
  struct qp_pairs_options options = {.qps = 1,
                                     .send_wr = SEND_WR,
                                     .cq_entries = 2 * (LATE_MAX + 1),
                                     .inline_bytes = MESSAGE_BYTES,
                                     .bytes = BYTES};
  for (int option; (option = getopt(argc, argv, "p:d:")) != -1;) {
    if (option == 'p') {
      options.port = optarg;
    } else if (option == 'd') {
      time_ms = qp_pairs_number(optarg, 1, 100000);
    } else {
      return 2;
    }
  }
  if (options.port == NULL || argc - optind > 1) {
    qp_pairs_fail("usage: silent_reader -p PORT [-d MILLISECONDS] [HOST]");
  }
  options.server = argv[optind];
  alarm(120);  // in any case
  struct side side = {.posted = 0};
  qp_pairs_open(&side.pairs, &options);
  if (options.server == NULL) {
    answer_all(&side);
  } else {
    ask_all(&side, time_ms * 1000000);
  }
  qp_pairs_barrier(&side.pairs);
  qp_pairs_close(&side.pairs);
  return 0;
}
