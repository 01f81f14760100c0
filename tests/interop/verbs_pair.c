/* verbs_pair: two processes that move data by every RC operation, in both directions, and check
 * each byte. Plain verbs and TCP, so that the same program runs over any two RDMA devices.
 *
 *   verbs_pair [-d DEVICE] [-g GID_INDEX] [-m MTU] [-n BATCHES] [-p TCP_PORT] [-s SEED]
 *              [-t TIMEOUT] server (TIMEOUT as in ibv_qp_attr)
 *   verbs_pair [the same options] HOST client
 *
 * Each batch is a handful of operations, drawn from the seed and posted at once. Both sides draw
 * the same, so that the passive one knows what has to arrive. After BATCHES they change roles. */
#include <stdio.h>
#include <string.h>

#include "tests/interop/pair_verbs.h"

enum op { OP_SEND, OP_SEND_IMM, OP_WRITE, OP_WRITE_IMM, OP_READ, OP_CAS, OP_FAA, OP_COUNT };
static const char* const kOpNames[] = {"SEND", "SEND_IMM", "WRITE",    "WRITE_IMM",
                                       "READ", "CMP_SWAP", "FETCH_ADD"};
static const enum ibv_wr_opcode kWrOpcodes[] = {IBV_WR_SEND,
                                                IBV_WR_SEND_WITH_IMM,
                                                IBV_WR_RDMA_WRITE,
                                                IBV_WR_RDMA_WRITE_WITH_IMM,
                                                IBV_WR_RDMA_READ,
                                                IBV_WR_ATOMIC_CMP_AND_SWP,
                                                IBV_WR_ATOMIC_FETCH_AND_ADD};

/* An operation of a batch. */
struct step {
  enum op op;
  uint32_t length, offset, imm;
  uint64_t old_value, operand;
};

static uint64_t draw(uint64_t* state) { /* splitmix64 */
  uint64_t z = *state += 0x9e3779b97f4a7c15;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
  z = (z ^ z >> 27) * 0x94d049bb133111eb;
  return z ^ z >> 31;
}

static void fill(unsigned char* out, size_t length, uint64_t state) {
  for (size_t i = 0; i < length; ++i) out[i] = (unsigned char)(state * (i + 1) >> 13 ^ i);
}

static void check(const unsigned char* in, size_t length, uint64_t state, const char* what) {
  for (size_t i = 0; i < length; ++i) {
    const unsigned char wanted = (unsigned char)(state * (i + 1) >> 13 ^ i);
    if (in[i] != wanted) die("%s: byte %zu is %#x, not %#x", what, i, in[i], wanted);
  }
}

/* ---- Batches */

static struct step draw_step(uint64_t* random) {
  struct step step = {.op = (enum op)(draw(random) % OP_COUNT)};
  const uint64_t size_class = draw(random) % 4; /* none, a packet, some packets, many */
  const uint32_t limits[] = {1, 256, 5000, SLOT_BYTES - 64};
  step.length = (uint32_t)(draw(random) % limits[size_class]);
  step.offset = (uint32_t)(draw(random) % 64);
  step.imm = (uint32_t)draw(random);
  step.old_value = draw(random);
  step.operand = draw(random);
  if (step.op == OP_CAS || step.op == OP_FAA) step.length = 8, step.offset &= ~7U;
  return step;
}

static int takes_receive(enum op op) {
  return op == OP_SEND || op == OP_SEND_IMM || op == OP_WRITE_IMM;
}
static int is_atomic(enum op op) {
  return op == OP_CAS || op == OP_FAA;
}

/* The seed of a slot's contents. */
static uint64_t contents(int batch, int slot) {
  return (uint64_t)(batch * SLOTS + slot) * 2654435761U + 1;
}

static void post(struct end* end, const struct step* step, int slot) {
  unsigned char* local = end->memory + slot * SLOT_BYTES + step->offset;
  const uint64_t remote = end->there.va + (uint64_t)slot * SLOT_BYTES + step->offset;
  struct ibv_sge sge = {(uintptr_t)local, step->length, end->mr->lkey};
  struct ibv_send_wr *bad, wr = {.wr_id = (uint64_t)slot,
                                 .sg_list = &sge,
                                 .num_sge = 1,
                                 .opcode = kWrOpcodes[step->op],
                                 .imm_data = step->imm};
  if (is_atomic(step->op)) {
    wr.wr.atomic.remote_addr = remote;
    wr.wr.atomic.rkey = end->there.rkey;
    /* Every other comparison fails. */
    const int differs = step->op == OP_CAS && (step->imm & 1);
    wr.wr.atomic.compare_add = step->op == OP_CAS ? step->old_value + differs : step->operand;
    wr.wr.atomic.swap = step->operand;
  } else {
    wr.wr.rdma.remote_addr = remote;
    wr.wr.rdma.rkey = end->there.rkey;
  }
  if (ibv_post_send(end->qp, &wr, &bad)) die("ibv_post_send of %s", kOpNames[step->op]);
}

static void active(struct end* end, const struct step* steps, int batch) {
  for (int slot = 0; slot < SLOTS; ++slot) {
    unsigned char* local = end->memory + slot * SLOT_BYTES;
    memset(local, 0xee, SLOT_BYTES);
    const int writes = steps[slot].op != OP_READ && !is_atomic(steps[slot].op);
    if (writes) fill(local + steps[slot].offset, steps[slot].length, contents(batch, slot));
  }
  barrier(end); /* the passive side is ready */
  for (int slot = 0; slot < SLOTS; ++slot) post(end, &steps[slot], slot);
  for (int slot = 0; slot < SLOTS; ++slot) {
    const struct step* step = &steps[slot];
    const struct ibv_wc wc = reap(end, kOpNames[step->op]);
    if (wc.wr_id != (uint64_t)slot) die("completion %d came in place of %d", (int)wc.wr_id, slot);
    const unsigned char* local = end->memory + slot * SLOT_BYTES + step->offset;
    if (step->op == OP_READ) check(local, step->length, contents(batch, slot), "READ");
    if (is_atomic(step->op) && memcmp(local, &step->old_value, 8) != 0) {
      die("%s returned another value than was there", kOpNames[step->op]);
    }
    if (step->op == OP_READ && local[step->length] != 0xee) die("READ: wrote behind its end");
  }
  barrier(end);
}

static void prepare(struct end* end, const struct step* steps, int batch) {
  for (int slot = 0; slot < SLOTS; ++slot) {
    const struct step* step = &steps[slot];
    unsigned char* memory = end->memory + slot * SLOT_BYTES;
    memset(memory, 0xdd, SLOT_BYTES);
    if (step->op == OP_READ) fill(memory + step->offset, step->length, contents(batch, slot));
    if (is_atomic(step->op)) memcpy(memory + step->offset, &step->old_value, 8);
    if (!takes_receive(step->op)) continue;
    struct ibv_sge sge = {(uintptr_t)memory, SLOT_BYTES, end->mr->lkey};
    struct ibv_recv_wr *bad, wr = {.wr_id = (uint64_t)slot, .sg_list = &sge, .num_sge = 1};
    if (ibv_post_recv(end->qp, &wr, &bad)) die("ibv_post_recv");
  }
}

static void check_receive(struct end* end, const struct step* step, int slot) {
  const struct ibv_wc wc = reap(end, "receive");
  const int imm = step->op != OP_SEND;
  if (wc.wr_id != (uint64_t)slot) die("receive %d came in place of %d", (int)wc.wr_id, slot);
  if (wc.opcode != (step->op == OP_WRITE_IMM ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV)) {
    die("%s: completion with opcode %d", kOpNames[step->op], wc.opcode);
  }
  if (wc.byte_len != step->length) die("%s: length %u", kOpNames[step->op], wc.byte_len);
  if (!(wc.wc_flags & IBV_WC_WITH_IMM) != !imm || (imm && wc.imm_data != step->imm)) {
    die("%s: wrong immediate data", kOpNames[step->op]);
  }
}

static void check_memory(struct end* end, const struct step* step, int batch, int slot) {
  const unsigned char* memory = end->memory + slot * SLOT_BYTES;
  if (is_atomic(step->op)) {
    const int fails = step->op == OP_CAS && (step->imm & 1);
    const uint64_t sum = step->old_value + step->operand;
    const uint64_t wanted = step->op == OP_FAA ? sum : fails ? step->old_value : step->operand;
    if (memcmp(memory + step->offset, &wanted, 8)) die("%s left a wrong value", kOpNames[step->op]);
    return;
  }
  const int send = step->op == OP_SEND || step->op == OP_SEND_IMM;
  const uint32_t start = send ? 0 : step->offset;
  check(memory + start, step->length, contents(batch, slot), kOpNames[step->op]);
  for (uint32_t i = 0; i < SLOT_BYTES; ++i) {
    const int outside = i < start || i >= start + step->length;
    if (outside && memory[i] != 0xdd) die("%s: wrote outside its range", kOpNames[step->op]);
  }
}

static void passive(struct end* end, const struct step* steps, int batch) {
  prepare(end, steps, batch);
  barrier(end);
  barrier(end); /* the active side has its completions */
  for (int slot = 0; slot < SLOTS; ++slot) {
    if (takes_receive(steps[slot].op)) check_receive(end, &steps[slot], slot);
    check_memory(end, &steps[slot], batch, slot);
  }
}

static void run(struct end* end, int batches, int is_active) {
  for (int batch = 0; batch < batches; ++batch) {
    struct step steps[SLOTS];
    for (int slot = 0; slot < SLOTS; ++slot) steps[slot] = draw_step(&end->random);
    (is_active ? active : passive)(end, steps, batch);
    barrier(end); /* nothing of this batch is in use any more */
  }
}

int main(int argc, char** argv) {
  const struct options options = parse_options(argc, argv);
  struct end end = {0};
  open_end(&end, &options);
  struct limits limits = kPatient;
  limits.timeout = options.timeout;
  connect_pair(&end, &options, &limits);
  run(&end, options.batches, options.host != NULL);
  run(&end, options.batches, options.host == NULL);
  disconnect_pair(&end);
  close_end(&end);
  printf("%d batches of %d operations in each direction: contents verified\n", options.batches,
         SLOTS);
  return 0;
}
