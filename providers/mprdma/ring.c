/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory for rings and doorbell records. */
#include <sys/mman.h>
#include <unistd.h>

#include "providers/mprdma/mprdma.h"

int mprdma_memory_map(struct mprdma_memory* memory, size_t bytes) {
  size_t page = (size_t)sysconf(_SC_PAGESIZE);
  bytes = (bytes + page - 1) / page * page;
  void* base =
      mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  if (base == MAP_FAILED) {
    return ENOMEM;
  }
  /* A child that writes to a shared-by-copy ring would send the parent's pages elsewhere. */
  if (madvise(base, bytes, MADV_DONTFORK) != 0) {
    int error = errno;
    munmap(base, bytes);
    return error;
  }
  memory->base = base;
  memory->bytes = bytes;
  memory->pid = getpid();
  return 0;
}

void mprdma_memory_unmap(struct mprdma_memory* memory) {
  if (memory->base != NULL && memory->pid == getpid()) {
    munmap(memory->base, memory->bytes);
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
