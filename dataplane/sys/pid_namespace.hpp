// Which processes see each other. One that does not see another (in another container, say) does
// not trust it, whatever its user.
#pragma once

#include <sys/types.h>

#include <cstdint>

namespace mprdma::dataplane {

// Names the PID namespace of a process; 0: the process is not to be seen, or not to be looked at.
uint64_t pid_namespace(pid_t pid);

// False also where one of them is not known.
inline bool same_pid_namespace(uint64_t a, uint64_t b) {
  return a != 0 && a == b;
}

}  // namespace mprdma::dataplane
