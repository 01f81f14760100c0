#include "dataplane/port/deferred_wakes.hpp"

#include <sched.h>
#include <unistd.h>

#include "dataplane/port/local_port_message.hpp"
#include "dataplane/sys/async_close.hpp"
#include "dataplane/sys/clock.hpp"
#include "dataplane/sys/no_cancellation.hpp"
#include "dataplane/sys/stage.hpp"

namespace mprdma::dataplane {

namespace {

// To wake a thread of another core takes a microsecond or two, but tens of them in a virtual
// machine that leaves it to send an interrupt.
constexpr Duration kCostly = Duration::us(15);

}  // namespace

thread_local DeferredWakes* DeferredWakes::current_ = nullptr;

WakeSocket::~WakeSocket() {
  if (event_fd_ >= 0) close(event_fd_);
  if (fd_ < 0) return;
  if (stranger_) {
    close_elsewhere(fd_);
  } else {
    close(fd_);
  }
}

void WakeSocket::close_after_fork() {
  close(fd_);
  fd_ = -1;
  if (event_fd_ >= 0) close(event_fd_);
  event_fd_ = -1;
}

void WakeSocket::send_wake() {
  const NoCancellation whole;
  const Time start = clock_now();
  const bool costly = costly_.load(std::memory_order_relaxed);
  stamp(Stage::kWakes);
  if (event_fd_ >= 0 && !costly) {
    const uint64_t one = 1;
    (void)!write(event_fd_, &one, sizeof one);
  } else {
    const int core = costly ? sched_getcpu() : -1;
    local::send_message(fd_, local::MessageType::kWake, local::Refusal::kNone,
                        static_cast<uint32_t>(core + 1));
  }
  costly_.store(clock_now() - start >= kCostly, std::memory_order_relaxed);
}

bool DeferredWakes::defer(const std::shared_ptr<WakeSocket>& socket) {
  DeferredWakes* const wakes = current_;
  if (wakes == nullptr || wakes->count_ == kMax) return false;
  wakes->due_[wakes->count_++] = socket;
  return true;
}

void DeferredWakes::send_all() {
  const NoCancellation whole;  // the last one that holds a socket closes it
  while (count_ > 0) {
    std::shared_ptr<WakeSocket>& socket = due_[--count_];
    socket->send_wake();
    socket.reset();
  }
}

}  // namespace mprdma::dataplane
