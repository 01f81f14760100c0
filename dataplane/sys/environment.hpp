// Access to a process's environment: getenv(3), or a test's own.
#pragma once

#include <functional>

namespace mprdma::dataplane {

// The value of a variable; nullptr: it is not set.
using Environment = std::function<const char*(const char*)>;

}  // namespace mprdma::dataplane
