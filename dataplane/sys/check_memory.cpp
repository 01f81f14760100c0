#include "dataplane/sys/check_memory.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <memory>

// Linux 5.14; the C library's headers may be older than the kernel.
#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#endif
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

namespace mprdma::dataplane {

namespace {

// The kernel's own list of mappings: exact, but slow, so only asked when populating failed.
int probe_maps(uint64_t addr, uint64_t end, bool writable) {
  const std::unique_ptr<FILE, int (*)(FILE*)> maps(std::fopen("/proc/self/maps", "re"),
                                                   &std::fclose);
  if (maps == nullptr) return EFAULT;
  uint64_t covered = addr;
  char line[512];
  while (covered < end && std::fgets(line, sizeof(line), maps.get()) != nullptr) {
    uint64_t from = 0;
    uint64_t to = 0;
    char rights[5] = {};
    if (std::sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s", &from, &to, rights) != 3) continue;
    if (to <= covered) continue;
    if (from > covered) return EFAULT;
    if (rights[0] != 'r' || (writable && rights[1] != 'w')) return EFAULT;
    covered = to;
  }
  return covered >= end ? 0 : EFAULT;
}

}  // namespace

int probe_memory(uint64_t addr, uint64_t length, bool writable) {
  if (length == 0) return 0;
  uint64_t end = 0;
  if (__builtin_add_overflow(addr, length, &end)) return EINVAL;
  const auto page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  const uint64_t first = addr & ~(page - 1);
  const uint64_t last = (end + page - 1) & ~(page - 1);
  if (last < end) return EFAULT;
  const int advice = writable ? MADV_POPULATE_WRITE : MADV_POPULATE_READ;
  if (madvise(reinterpret_cast<void*>(first), last - first, advice) == 0) return 0;
  // The page is not mapped, or lies beyond the end of a file that became shorter.
  if (errno == ENOMEM || errno == EFAULT || errno == EHWPOISON) return EFAULT;
  // An old kernel, or a device's memory.
  return probe_maps(addr, end, writable);
}

}  // namespace mprdma::dataplane
