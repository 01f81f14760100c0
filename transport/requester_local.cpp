// Work requests that never leave the host: LOCAL_INV and BIND_MW. Each is executed as soon as it is
// its turn to begin: after what was posted before it was sent for the first time, before anything
// behind it is sent, so that a key that a SEND announces opens its window by then. A fence makes it
// wait for READs and atomics, as everything else. Its completion keeps its place in the order.
#include "transport/local_work.hpp"
#include "transport/requester.hpp"

namespace mprdma::transport {

void Requester::run_local_work() {
  while (next_packet_ == 0 && next_ != queue_.tail_index() && !blocked_ && !stopped_ &&
         !flushing_) {
    Work& work = queue_.at_index(next_);
    if (!is_local_work(work.opcode) || !may_begin(work)) return;
    begin(work);
    execute_local(next_++);
  }
}

void Requester::execute_local(uint32_t index) {
  const Work& work = queue_.at_index(index);
  const LocalOutcome outcome = perform_local_work(core_, work, work.imm, work.bind_access);
  if (outcome.status != WcStatus::kSuccess) fail_work(index, outcome.status, outcome.vendor_err);
}

}  // namespace mprdma::transport
