// Ctrl-C, or what a batch system sends before it kills: a long run ends soon and keeps what it has.
#pragma once

#include <atomic>

namespace mprdma::tools {

// While it exists the first SIGINT or SIGTERM sets stop(); a second one ends the program as usual.
// One at a time.
class Interruptible {
 public:
  Interruptible();
  ~Interruptible();
  Interruptible(const Interruptible&) = delete;
  Interruptible& operator=(const Interruptible&) = delete;

  [[nodiscard]] const std::atomic<bool>* stop() const;
  [[nodiscard]] bool stopped() const;
  // What a shell makes of a program that this signal ended: 128 and the signal's number.
  [[nodiscard]] int exit_code() const;
};

}  // namespace mprdma::tools
