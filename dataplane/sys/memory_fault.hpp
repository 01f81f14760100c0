// Diagnoses a copy to or from memory that is no longer mapped.
//
// An application that unmaps memory while it is registered has a fault on every RDMA system; here
// it is a signal in the thread that copies, in the middle of code that the application has never
// heard of. A handler for SIGSEGV and SIGBUS prints what happened and whose memory it was, then
// lets the signal take its former effect. Faults elsewhere go straight to the previous handler,
// whose mask and flags ours copies; an unhandled or ignored signal stays so.
#pragma once

#include <cstdint>

#include "base/qpn.hpp"

namespace mprdma::dataplane {

// The copy under way in this thread, for the handler of a fault in it.
struct CopyUnderWay {
  uint64_t addr = 0;  // of the application's memory
  uint64_t bytes = 0;
  uint32_t qpn = 0;  // a bare number, as the copy is volatile
};

namespace detail {
// Two instructions a copy, also in a library that is loaded late.
[[gnu::tls_model("initial-exec")]] inline thread_local volatile CopyUnderWay t_copy_under_way;
}  // namespace detail

inline void begin_copy(uint64_t addr, uint64_t bytes, Qpn qpn) {
  detail::t_copy_under_way.addr = addr;
  detail::t_copy_under_way.qpn = qpn.value();
  detail::t_copy_under_way.bytes = bytes;
}
inline void end_copy() {
  detail::t_copy_under_way.bytes = 0;
}

// Installs the handlers, once for each process; existing ones are kept and called.
void install_fault_report();

}  // namespace mprdma::dataplane
