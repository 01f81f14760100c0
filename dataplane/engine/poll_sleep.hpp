// The sleep of a thread that polls in a crowd (yield_pace.hpp): until a frame comes, as a reader of
// a socket sleeps.
//
// The port wakes whoever sleeps on its descriptor; while a poll does, the engine's helper does not
// (Progress::watch_by). One thread sleeps at a time. Whoever runs the worker meanwhile calls it, as
// what it waits for may have come another way.
//
// call() may be called by any thread.
#pragma once

#include <atomic>
#include <optional>

#include "base/units.hpp"
#include "dataplane/sys/alarm.hpp"
#include "dataplane/sys/event_loop.hpp"

namespace mprdma::dataplane {

class PollSleep {
 public:
  // Longest sleep: less than a slice of the scheduler's, which a yield would take.
  static constexpr Duration kMax = Duration::ms(2);

  PollSleep() = default;
  ~PollSleep() { close(); }
  PollSleep(const PollSleep&) = delete;
  PollSleep& operator=(const PollSleep&) = delete;

  // `port_fd`: Port::notify_fd(), open for as long as this. False: no sleep is possible.
  bool open(int port_fd);
  void close();

  // The calling thread is about to sleep, and misses no call() from here on. False: another one
  // does, or open() has failed.
  bool begin();
  // It does not sleep after all.
  void end();
  // Without a lock, after begin(), and in place of end(): sleeps until a frame comes to the armed
  // port, a call(), or the end of `pause`: false.
  bool wait(Time now, Duration pause);
  // True: a thread was asleep, and none had called it.
  bool call();
  // A thread sleeps, or has been woken and waits for its core.
  [[nodiscard]] bool asleep() const { return asleep_.load(std::memory_order_relaxed); }

 private:
  std::atomic<bool> taken_{false};   // from begin() to the end of wait()
  std::atomic<bool> asleep_{false};  // the same, but for call()
  std::optional<EventLoop> events_;
  std::optional<Alarm> alarm_;
  int call_fd_ = -1;
};

}  // namespace mprdma::dataplane
