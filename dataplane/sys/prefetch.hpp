// Cache lines that will be written soon.
#pragma once

namespace mprdma::dataplane {

// Fetches a line that another core may have, so that it can be written at once. A processor that
// does not know the instruction takes it for none. (__builtin_prefetch(p, 1) fetches a line to be
// read unless the compiler may assume that instruction.)
inline void prefetch_to_write(const void* line) {
#ifdef __x86_64__
  asm volatile("prefetchw %0" : : "m"(*static_cast<const char*>(line)));
#else
  __builtin_prefetch(line, 1);
#endif
}

}  // namespace mprdma::dataplane
