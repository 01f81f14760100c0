// Checks that this process may read, and write, its memory [addr, addr + length). Called once for
// each registration, before the worker's lock is taken: the check touches every page, as pinning
// would. On-demand memory is checked at each use.
#pragma once

#include <cstdint>

namespace mprdma::dataplane {

// 0; EINVAL: the range wraps; EFAULT: a part is not mapped, or not with these rights.
int probe_memory(uint64_t addr, uint64_t length, bool writable);

}  // namespace mprdma::dataplane
