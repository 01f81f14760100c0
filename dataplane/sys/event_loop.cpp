#include "dataplane/sys/event_loop.hpp"

#include <pthread.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>
#include <ctime>

namespace mprdma::dataplane {

namespace {

uint32_t events_of(EventLoop::Trigger trigger) {
  return EPOLLIN | (trigger == EventLoop::Trigger::kEdge ? static_cast<uint32_t>(EPOLLET) : 0U);
}

}  // namespace

EventLoop::EventLoop()
    : epoll_fd_(epoll_create1(EPOLL_CLOEXEC)), open_error_(epoll_fd_ < 0 ? errno : 0) {}

EventLoop::~EventLoop() {
  if (signal_fd_ >= 0) close(signal_fd_);
  if (epoll_fd_ >= 0) close(epoll_fd_);
}

bool EventLoop::watch(int fd, uint64_t tag, Trigger trigger) const {
  if (open_error_ != 0) {
    errno = open_error_;
    return false;
  }
  return change(EPOLL_CTL_ADD, fd, events_of(trigger), tag);
}

bool EventLoop::change(int operation, int fd, uint32_t events, uint64_t tag) const {
  epoll_event event{};
  event.events = events;
  event.data.u64 = tag;
  return epoll_ctl(epoll_fd_, operation, fd, &event) == 0;
}

void EventLoop::mute(int fd, uint64_t tag) const {
  change(EPOLL_CTL_MOD, fd, 0, tag);
}

void EventLoop::unmute(int fd, uint64_t tag, Trigger trigger) const {
  change(EPOLL_CTL_MOD, fd, events_of(trigger), tag);
}

void EventLoop::forget(int fd) const {
  epoll_ctl(epoll_fd_, EPOLL_CTL_DEL, fd, nullptr);
}

bool EventLoop::watch_signals(std::initializer_list<int> signals, uint64_t tag) {
  sigset_t set;
  sigemptyset(&set);
  for (const int number : signals) sigaddset(&set, number);
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  signal_fd_ = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
  return signal_fd_ >= 0 && watch(signal_fd_, tag);
}

int EventLoop::read_signal() const {
  signalfd_siginfo info{};
  return read(signal_fd_, &info, sizeof info) == sizeof info ? static_cast<int>(info.ssi_signo) : 0;
}

std::span<epoll_event> EventLoop::wait(Duration pause, std::span<epoll_event> events) const {
  timespec timeout{};
  timeout.tv_sec = pause.count_ns() / 1'000'000'000;
  timeout.tv_nsec = pause.count_ns() % 1'000'000'000;
  const auto room = static_cast<int>(events.size());
  int count = epoll_pwait2(epoll_fd_, events.data(), room, &timeout, nullptr);
  // A kernel before 5.11 has no such call, and a seccomp filter may not know it: whole
  // milliseconds, rounded up.
  if (count < 0 && (errno == ENOSYS || errno == EPERM)) {
    const auto ms = static_cast<int>((pause.count_ns() + 999'999) / 1'000'000);
    count = epoll_wait(epoll_fd_, events.data(), room, ms);
  }
  return events.first(count > 0 ? static_cast<size_t>(count) : 0);
}

std::span<epoll_event> EventLoop::wait(std::span<epoll_event> events) const {
  const int count = epoll_wait(epoll_fd_, events.data(), static_cast<int>(events.size()), -1);
  return events.first(count > 0 ? static_cast<size_t>(count) : 0);
}

}  // namespace mprdma::dataplane
