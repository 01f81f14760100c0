// The sleep of a thread that polls where yields take slices of the scheduler's (yield_pace.hpp):
// until a frame comes, as a reader of a socket sleeps.
//
// The port wakes whoever sleeps on its descriptor; while a poll does, the engine's helper does not
// (Progress::watch_by). One thread sleeps at a time. Whoever runs the worker meanwhile calls it, as
// what it waits for may have come another way.
//
// free(), begin() and claim() are called with the lock of Progress held, wait() and call() without,
// asleep() by any thread, open() and close() while no thread polls.
#pragma once

#include <atomic>
#include <cstdint>
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

  // A thread may begin to sleep: none does, and open() has not failed.
  [[nodiscard]] bool free() const { return events_ && !taken_.load(std::memory_order_acquire); }
  // Requires free(). The calling thread is about to sleep, and misses no call from here on.
  void begin();
  // kCall also for a signal, or an early end.
  enum class End : uint8_t { kTime, kCall, kPort };
  // After begin(): sleeps until the armed port tells something, a call, or the end of `pause`.
  End wait(Time now, Duration pause);
  // To call the thread that sleeps, if one does: claim() is true for one caller, who then calls
  // once it has given the lock up, as the thread that is woken may take its core at once.
  [[nodiscard]] bool claim() {
    return asleep() && asleep_.exchange(false, std::memory_order_relaxed);
  }
  void call() const;
  // A thread sleeps, or has been woken and waits for its core.
  [[nodiscard]] bool asleep() const { return asleep_.load(std::memory_order_relaxed); }

 private:
  std::atomic<bool> taken_{false};   // from begin() to the end of wait()
  std::atomic<bool> asleep_{false};  // the same, until claim()
  std::optional<EventLoop> events_;
  std::optional<Alarm> alarm_;
  int call_fd_ = -1;
};

}  // namespace mprdma::dataplane
