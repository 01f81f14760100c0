// A set of descriptors that a thread sleeps on (epoll), for the loops of the daemon, the fabric and
// the engine's helper. Each descriptor has a tag that its events carry. Signals become events, too.
//
// One thread waits; any thread may call watch() meanwhile.
#pragma once

#include <sys/epoll.h>

#include <cstdint>
#include <initializer_list>
#include <span>

#include "base/units.hpp"

namespace mprdma::dataplane {

class EventLoop {
 public:
  enum class Trigger : uint8_t {
    kLevel,  // an event at each wait() while the descriptor is readable
    kEdge,   // one event each time that it becomes readable
  };

  // A failure is that of the first watch().
  EventLoop();
  ~EventLoop();
  EventLoop(const EventLoop&) = delete;
  EventLoop& operator=(const EventLoop&) = delete;

  // Adds a descriptor, which stays the caller's. False, and errno: no.
  bool watch(int fd, uint64_t tag, Trigger trigger = Trigger::kLevel) const;
  void forget(int fd) const;
  // Stops the events of a watched descriptor, and starts them again: with one, if it is readable.
  void mute(int fd, uint64_t tag) const;
  void unmute(int fd, uint64_t tag, Trigger trigger) const;
  // Blocks these signals for the calling thread; from here on they are events. Call once. False,
  // and errno: no.
  bool watch_signals(std::initializer_list<int> signals, uint64_t tag);
  // A signal that came; 0: none, or no more.
  [[nodiscard]] int read_signal() const;

  // Sleeps until an event or for `pause`, and fills `events`; gives those that came.
  std::span<epoll_event> wait(Duration pause, std::span<epoll_event> events) const;
  // Sleeps until an event.
  std::span<epoll_event> wait(std::span<epoll_event> events) const;

  // The epoll descriptor itself, for a part that adds descriptors with events of its own.
  [[nodiscard]] int fd() const { return epoll_fd_; }

 private:
  bool change(int operation, int fd, uint32_t events, uint64_t tag) const;

  int epoll_fd_;
  int open_error_;  // errno value; 0: epoll_fd_ is good
  int signal_fd_ = -1;
};

}  // namespace mprdma::dataplane
