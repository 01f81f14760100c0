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
  // Exit status that a shell reports for a program ended by this signal: 128 plus its number.
  [[nodiscard]] int exit_code() const;
};

}  // namespace mprdma::tools
