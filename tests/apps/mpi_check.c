// A program for any MPI: every rank compares every byte that it receives. Rank 0 prints "checked"
// once if all bytes were right; otherwise the program prints the difference and ends all ranks.
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kSizes = 9, kBytesMax = 1 << 20, kRounds = 3, kWindowWords = 4096 };

static const int kBytes[kSizes] = {0, 1, 8, 100, 1024, 8193, 65536, 262144, kBytesMax};

static int rank;
static int ranks;
static uint8_t* out;
static uint8_t* in;

static void fail(const char* what, int size, int peer) {
  fprintf(stderr, "rank %d: %s, %d bytes, peer %d\n", rank, what, size, peer);
  MPI_Abort(MPI_COMM_WORLD, 1);
}

// The byte at a place of a message; no other message has it there.
static uint8_t pattern(int sender, int receiver, int round, int at) {
  uint32_t x = (uint32_t)(sender * 131 + receiver * 31 + round * 7 + at);
  x *= 2654435761u;
  return (uint8_t)(x >> 24);
}

static void fill(uint8_t* to, int receiver, int round, int bytes) {
  for (int i = 0; i < bytes; ++i) to[i] = pattern(rank, receiver, round, i);
}

static void check(const uint8_t* from, int sender, int round, int bytes, const char* what) {
  for (int i = 0; i < bytes; ++i) {
    if (from[i] != pattern(sender, rank, round, i)) fail(what, bytes, sender);
  }
}

// Clears the buffer, because an earlier message may have held the same bytes.
static void clear(int bytes) {
  memset(in, 0xff, (size_t)bytes);
}

// Every pair of ranks exchanges messages, both ways at once.
static void point_to_point(int round, int bytes) {
  for (int distance = 1; distance < ranks; ++distance) {
    const int to = (rank + distance) % ranks;
    const int from = (rank + ranks - distance) % ranks;
    fill(out, to, round, bytes);
    clear(bytes);
    MPI_Status status;
    MPI_Sendrecv(out, bytes, MPI_BYTE, to, round, in, bytes, MPI_BYTE, from, round, MPI_COMM_WORLD,
                 &status);
    int count = 0;
    MPI_Get_count(&status, MPI_BYTE, &count);
    if (count != bytes) fail("length", count, from);
    check(in, from, round, bytes, "sendrecv");
  }
}

// Messages wait for their receives, which are posted in the opposite order.
static void unexpected(int bytes) {
  enum { kMessages = 4 };
  MPI_Request requests[kMessages];
  const int to = (rank + 1) % ranks;
  const int from = (rank + ranks - 1) % ranks;
  for (int i = 0; i < kMessages; ++i) {
    fill(out + i * bytes, to, i, bytes);
    MPI_Isend(out + i * bytes, bytes, MPI_BYTE, to, i, MPI_COMM_WORLD, &requests[i]);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  for (int i = kMessages - 1; i >= 0; --i) {
    clear(bytes);
    MPI_Recv(in, bytes, MPI_BYTE, from, i, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    check(in, from, i, bytes, "unexpected message");
  }
  MPI_Waitall(kMessages, requests, MPI_STATUSES_IGNORE);
}

static void collectives(int round, int bytes) {
  const int part = bytes / ranks;
  for (int to = 0; to < ranks; ++to) fill(out + to * part, to, round, part);
  clear(bytes);
  MPI_Alltoall(out, part, MPI_BYTE, in, part, MPI_BYTE, MPI_COMM_WORLD);
  for (int from = 0; from < ranks; ++from) check(in + from * part, from, round, part, "alltoall");
  const int words = bytes / (int)sizeof(int64_t);
  int64_t* mine = (int64_t*)out;
  int64_t* sum = (int64_t*)in;
  for (int i = 0; i < words; ++i) mine[i] = (int64_t)i * (rank + 1) + round;
  clear(bytes);
  MPI_Allreduce(mine, sum, words, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
  const int64_t factor = (int64_t)ranks * (ranks + 1) / 2;
  for (int i = 0; i < words; ++i) {
    if (sum[i] != i * factor + (int64_t)round * ranks) fail("allreduce", bytes, rank);
  }
}

// Each rank puts into the next one's window, gets it back from there, and all add to rank 0's first
// word and exchange the second one.
static void one_sided(void) {
  int64_t* window = NULL;
  MPI_Win win;
  MPI_Win_allocate(kWindowWords * sizeof(int64_t), sizeof(int64_t), MPI_INFO_NULL, MPI_COMM_WORLD,
                   (void*)&window, &win);
  for (int i = 0; i < kWindowWords; ++i) window[i] = 0;
  MPI_Win_fence(0, win);
  int64_t* mine = (int64_t*)out;
  int64_t* back = (int64_t*)in;
  const int next = (rank + 1) % ranks;
  for (int i = 2; i < kWindowWords; ++i) mine[i] = (int64_t)i * 1000 + rank;
  MPI_Put(mine + 2, kWindowWords - 2, MPI_INT64_T, next, 2, kWindowWords - 2, MPI_INT64_T, win);
  MPI_Win_fence(0, win);
  clear(kWindowWords * (int)sizeof(int64_t));
  MPI_Get(back + 2, kWindowWords - 2, MPI_INT64_T, next, 2, kWindowWords - 2, MPI_INT64_T, win);
  MPI_Win_fence(0, win);
  const int before = (rank + ranks - 1) % ranks;
  for (int i = 2; i < kWindowWords; ++i) {
    if (back[i] != mine[i]) fail("get", i, next);
    if (window[i] != (int64_t)i * 1000 + before) fail("put", i, before);
  }
  const int64_t one = 1;
  MPI_Win_lock_all(0, win);
  for (int i = 0; i < 100; ++i) {
    int64_t old = -1;
    MPI_Fetch_and_op(&one, &old, MPI_INT64_T, 0, 0, MPI_SUM, win);
    MPI_Win_flush(0, win);
    if (old < i || old >= 100 * ranks) fail("fetch and add", (int)old, 0);
  }
  // Exactly one rank finds 0 in the second word.
  const int64_t zero = 0;
  const int64_t name = rank + 1;
  int64_t found = -1;
  MPI_Compare_and_swap(&name, &zero, &found, MPI_INT64_T, 0, 1, win);
  MPI_Win_flush(0, win);
  MPI_Win_unlock_all(win);
  int first = found == 0;
  int winners = 0;
  MPI_Allreduce(&first, &winners, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  if (winners != 1) fail("compare and swap", winners, 0);
  MPI_Win_fence(0, win);
  if (rank == 0 && window[0] != 100 * (int64_t)ranks) fail("the sum", (int)window[0], 0);
  MPI_Win_free(&win);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  out = malloc(kBytesMax);
  in = malloc(kBytesMax);
  if (out == NULL || in == NULL) fail("memory", kBytesMax, rank);
  for (int round = 0; round < kRounds; ++round) {
    for (int i = 0; i < kSizes; ++i) {
      point_to_point(round, kBytes[i]);
      collectives(round, kBytes[i] - kBytes[i] % (ranks * (int)sizeof(int64_t)));
    }
  }
  unexpected(8);
  unexpected(kBytesMax / 4);
  one_sided();
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0) printf("checked, %d ranks\n", ranks);
  free(out);
  free(in);
  MPI_Finalize();
  return 0;
}
