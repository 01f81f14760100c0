#include "base/check.hpp"

#include <cstdio>
#include <cstdlib>

namespace mprdma {

void check_failed(const char* file, int line, const char* expression) noexcept {
  std::fprintf(stderr, "mprdma: %s:%d: check failed: %s\n", file, line, expression);
  std::fflush(stderr);
  std::abort();
}

}  // namespace mprdma
