// What to say when a copy meets memory that is not there any more.
//
// An application that unmaps memory while it is registered has a fault on every RDMA system; here
// it is a signal in the thread that copies, in the middle of code that the application has never
// heard of. A handler for SIGSEGV and SIGBUS says what happened and whose memory it was, then lets
// the signal do what it would have done. Faults elsewhere go straight to the handler before ours,
// whose mask and flags ours has; what nobody handled, or was ignored, is so still.
#pragma once

#include <cstdint>

namespace mprdma::dataplane {

// The copy under way in this thread, as the handler of a fault in it sees it.
struct CopyUnderWay {
  uint64_t addr = 0;  // of the application's memory
  uint64_t bytes = 0;
  uint32_t qpn = 0;
};

namespace detail {
// Two instructions a copy, also in a library that is loaded late.
[[gnu::tls_model("initial-exec")]] inline thread_local volatile CopyUnderWay t_copy_under_way;
}  // namespace detail

inline void begin_copy(uint64_t addr, uint64_t bytes, uint32_t qpn) {
  detail::t_copy_under_way.addr = addr;
  detail::t_copy_under_way.qpn = qpn;
  detail::t_copy_under_way.bytes = bytes;
}
inline void end_copy() {
  detail::t_copy_under_way.bytes = 0;
}

// Once for each process; keeps handlers that were there.
void install_fault_report();

}  // namespace mprdma::dataplane
