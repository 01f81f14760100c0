// Wake-ups that leave after a lock is given up.
//
// A wake-up is a system call in which the thread that is woken may take the caller's core at once:
// a caller that has the lock then keeps its own process out until it runs again. While an object of
// this class exists on a thread, the ports that the thread flushes leave their wake-ups to it.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <memory>

namespace mprdma::dataplane {

// A connected socket, and perhaps an eventfd of the process at its other end, which takes half the
// time of a message. Whoever still has a wake-up to send keeps them open.
class WakeSocket {
 public:
  // `stranger`: its other end is untrusted (sys/async_close.hpp).
  WakeSocket(int fd, bool stranger) : fd_(fd), stranger_(stranger) {}
  ~WakeSocket();
  WakeSocket(const WakeSocket&) = delete;
  WakeSocket& operator=(const WakeSocket&) = delete;

  [[nodiscard]] int fd() const { return fd_; }
  // Before anybody else knows of this object. The eventfd is this object's from here on.
  void wake_by(int event_fd) { event_fd_ = event_fd; }
  // Any thread. Never blocks, never signals.
  void send_wake();
  // In a forked child, whose copy nobody else uses, whoever held it in the parent.
  void close_after_fork();

 private:
  int fd_;             // -1: closed after a fork
  int event_fd_ = -1;  // -1: there is none
  const bool stranger_;
  std::atomic<bool> costly_ = false;  // the last one took long
};

class DeferredWakes {
 public:
  DeferredWakes() : before_(current_) { current_ = this; }
  ~DeferredWakes() {
    send();
    current_ = before_;
  }
  DeferredWakes(const DeferredWakes&) = delete;
  DeferredWakes& operator=(const DeferredWakes&) = delete;

  // Sends what is due. Without the lock.
  void send() {
    if (count_ > 0) [[unlikely]]
      send_all();
  }

  // False: no object exists on this thread, or too many are due; the caller sends it.
  static bool defer(const std::shared_ptr<WakeSocket>& socket);

 private:
  static constexpr size_t kMax = 4;

  void send_all();

  // The engine is loaded at run time: for a pointer of each thread, glibc has room (512 bytes for
  // all such modules) where it is found without a call.
  static thread_local DeferredWakes* current_ __attribute__((tls_model("initial-exec")));

  std::array<std::shared_ptr<WakeSocket>, kMax> due_;
  size_t count_ = 0;
  DeferredWakes* before_;
};

}  // namespace mprdma::dataplane
