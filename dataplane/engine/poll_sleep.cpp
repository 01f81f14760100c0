#include "dataplane/engine/poll_sleep.hpp"

#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <span>

#include "base/check.hpp"
#include "dataplane/sys/clock.hpp"
#include "dataplane/sys/no_cancellation.hpp"

namespace mprdma::dataplane {

namespace {

constexpr uint64_t kTagCalled = 1;
constexpr uint64_t kTagAlarm = 2;
constexpr uint64_t kTagPort = 3;

}  // namespace

// The edges are those of wake-ups: nobody here reads what the descriptors have.
bool PollSleep::open(int port_fd) {
  if (port_fd < 0) return false;
  events_.emplace();
  alarm_.emplace();
  call_fd_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  const bool good = call_fd_ >= 0 && alarm_->fd() >= 0 &&
                    events_->watch(port_fd, kTagPort, EventLoop::Trigger::kEdge) &&
                    events_->watch(call_fd_, kTagCalled, EventLoop::Trigger::kEdge) &&
                    events_->watch(alarm_->fd(), kTagAlarm);
  if (!good) close();
  return good;
}

void PollSleep::close() {
  events_.reset();
  alarm_.reset();
  if (call_fd_ >= 0) ::close(call_fd_);
  call_fd_ = -1;
}

void PollSleep::begin() {
  DCHECK(free());
  taken_.store(true, std::memory_order_relaxed);
  asleep_.store(true, std::memory_order_relaxed);
}

PollSleep::End PollSleep::wait(Time now, Duration pause) {
  const NoCancellation whole;
  alarm_->ring_by(now, now + pause);
  std::array<epoll_event, 4> room;
  bool rang = false;
  End ended = End::kTime;
  for (const epoll_event& event : events_->wait(room)) {
    if (event.data.u64 == kTagAlarm) {
      alarm_->quit();
      rang = true;
    } else if (event.data.u64 == kTagPort) {
      ended = End::kPort;
    } else if (ended == End::kTime) {
      ended = End::kCall;
    }
  }
  // The alarm may ring for an earlier sleep (sys/alarm.hpp).
  if (ended == End::kTime && (!rang || clock_now() < now + pause)) ended = End::kCall;
  asleep_.store(false, std::memory_order_relaxed);
  taken_.store(false, std::memory_order_release);
  return ended;
}

void PollSleep::call() const {
  const NoCancellation whole;
  const uint64_t one = 1;
  (void)!write(call_fd_, &one, sizeof one);
}

}  // namespace mprdma::dataplane
