// May this process's memory [addr, addr + length) be read, and written? Asked once for each
// registration, before the worker's lock is taken: it touches every page, as pinning would. Of
// memory that was registered on demand it is asked whenever that is used.
#pragma once

#include <cstdint>

namespace mprdma::dataplane {

// 0; EINVAL: the range wraps; EFAULT: some of it is not there, or not with these rights.
int probe_memory(uint64_t addr, uint64_t length, bool writable);

}  // namespace mprdma::dataplane
