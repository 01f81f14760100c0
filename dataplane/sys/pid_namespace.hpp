// Which processes see each other. One that does not see another (in another container, say) does
// not trust it, whatever its user.
#pragma once

#include <sys/types.h>

#include <cstdint>

namespace mprdma::dataplane {

// Names the PID namespace of a process; 0: the process is not to be seen, or not to be looked at.
uint64_t pid_namespace(pid_t pid);

}  // namespace mprdma::dataplane
