/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory for rings and doorbell records, and the shape of a receive ring. */
#include <sys/mman.h>
#include <unistd.h>

#include "providers/mprdma/operations.h"

/* Alignment that the queue ABI requires of a ring; sizes passed to an allocator are multiples of
   it. */
#define RING_ALIGNMENT 64u
#define RQ_STRIDE_UNIT 16u

static size_t round_up(size_t bytes, size_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

static int map(struct mprdma_memory* memory, size_t bytes) {
  bytes = round_up(bytes, (size_t)sysconf(_SC_PAGESIZE));
  void* base =
      mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  if (base == MAP_FAILED) {
    return ENOMEM;
  }
  /* Without this, a child that writes to a copy-on-write ring would leave the parent with other
   * pages than the engine's. */
  if (madvise(base, bytes, MADV_DONTFORK) != 0) {
    int error = errno;
    munmap(base, bytes);
    return error;
  }
  memory->base = base;
  memory->bytes = bytes;
  return 0;
}

/* Asks the allocator of the parent domain (ibv_alloc_parent_domain(3)). Its memory is the
 * application's and may share pages with the heap, so a child of a fork keeps it. */
static int ask_allocator(struct mprdma_memory* memory, struct mprdma_pd* from, size_t bytes) {
  bytes = round_up(bytes, RING_ALIGNMENT);
  void* base = from->alloc(&from->ibv, from->pd_context, bytes, RING_ALIGNMENT, memory->type);
  if (base == IBV_ALLOCATOR_USE_DEFAULT) {
    return map(memory, bytes);
  }
  if (base == NULL) {
    return ENOMEM;
  }
  memset(base, 0, bytes);
  memory->base = base;
  memory->bytes = bytes;
  memory->from = from;
  return 0;
}

int mprdma_memory_get(struct mprdma_memory* memory, struct mprdma_pd* from, uint64_t type,
                      size_t bytes) {
  *memory = (struct mprdma_memory){.pid = getpid(), .type = type};
  return from != NULL && from->alloc != NULL ? ask_allocator(memory, from, bytes)
                                             : map(memory, bytes);
}

void mprdma_memory_put(struct mprdma_memory* memory) {
  if (memory->base != NULL && memory->pid == getpid()) {
    if (memory->from != NULL) {
      memory->from->free(&memory->from->ibv, memory->from->pd_context, memory->base, memory->type);
    } else {
      munmap(memory->base, memory->bytes);
    }
  }
  memory->base = NULL;
}

uint32_t mprdma_power_of_two(uint32_t at_least) {
  uint32_t value = 1;
  while (value < at_least) {
    value <<= 1;
  }
  return value;
}

size_t mprdma_size_receives(struct mprdma_work_queue* rq, uint32_t wr, uint32_t sge) {
  rq->depth = mprdma_power_of_two(wr > 0 ? wr : 1);
  rq->max_sge = sge > 0 ? sge : 1;
  rq->stride = (uint32_t)round_up(
      sizeof(struct mprdma_abi_recv_wqe) + rq->max_sge * sizeof(struct mprdma_abi_sge),
      RQ_STRIDE_UNIT);
  return round_up((size_t)rq->depth * rq->stride, RING_ALIGNMENT);
}

struct mprdma_abi_queue mprdma_describe_queue(const struct mprdma_work_queue* queue) {
  if (queue->depth == 0) {
    return (struct mprdma_abi_queue){0};
  }
  return (struct mprdma_abi_queue){.ring = (uint64_t)(uintptr_t)queue->ring,
                                   .dbr = (uint64_t)(uintptr_t)queue->dbr,
                                   .depth = queue->depth,
                                   .stride = queue->stride,
                                   .max_sge = queue->max_sge,
                                   .max_inline = queue->max_inline};
}
