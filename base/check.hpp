// Assertions for our own bugs. Not for packets (those become counted drops) and not for callers
// (those get an errno or a value).
//
// CHECK(condition)   holds in every build; a failure prints file, line and expression and aborts.
// DCHECK(condition)  a CHECK for conditions that cost too much on the packet path. MPRDMA_DCHECK
//                    compiles it in; the build defines that for everything but releases.
#pragma once

namespace mprdma {

// Prints to standard error and aborts. Out of line, so that a CHECK costs one compare and branch.
// noexcept: a thread that is cancelled while it prints ends the process, too.
[[noreturn]] void check_failed(const char* file, int line, const char* expression) noexcept;

}  // namespace mprdma

// Variadic, because a condition may hold a comma: CHECK(std::is_same_v<A, B>).
#define CHECK(...)                                     \
  (__builtin_expect(static_cast<bool>(__VA_ARGS__), 1) \
       ? static_cast<void>(0)                          \
       : ::mprdma::check_failed(__FILE__, __LINE__, #__VA_ARGS__))

#ifdef MPRDMA_DCHECK
#define DCHECK(...) CHECK(__VA_ARGS__)
#else
// Still compiled, so that a condition cannot rot, but never evaluated.
#define DCHECK(...) static_cast<void>(sizeof(static_cast<bool>(__VA_ARGS__)))
#endif
