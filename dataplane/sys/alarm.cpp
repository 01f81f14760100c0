#include "dataplane/sys/alarm.hpp"

#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>

namespace mprdma::dataplane {

Alarm::Alarm() : fd_(timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC)) {}

Alarm::~Alarm() {
  if (fd_ >= 0) close(fd_);
}

void Alarm::ring_by(Time now, Time at) {
  const Time set_for = Time::from_ns(set_for_ns_.load(std::memory_order_relaxed));
  if (set_for <= now || set_for > at) move(at);
}

void Alarm::move(Time at) {
  set_for_ns_.store(at.ns(), std::memory_order_relaxed);
  const int64_t ns = std::max<int64_t>(at.ns(), 1);  // 0 would disarm it
  itimerspec when{};
  when.it_value.tv_sec = ns / 1'000'000'000;
  when.it_value.tv_nsec = ns % 1'000'000'000;
  (void)timerfd_settime(fd_, TFD_TIMER_ABSTIME, &when, nullptr);
}

void Alarm::quit() {
  uint64_t rings = 0;
  (void)!read(fd_, &rings, sizeof(rings));
  set_for_ns_.store(Time::never().ns(), std::memory_order_relaxed);
}

}  // namespace mprdma::dataplane
