// How far simulations are: one line on standard error that repaints itself; nothing where that is
// no terminal.
#pragma once

#include <chrono>
#include <string>

#include "switchsim/sim/simulation.hpp"

namespace mprdma::tools {

// "[####      ]  40 %  4.000 of 10.000 ms  5.1 M events/s  0:12 left"; of several runs:
// "[####      ]  40 %  4 of 10 runs  812.0 ms  5.1 M events/s  0:12 left". `elapsed_s` since the
// beginning.
std::string progress_line(const switchsim::Progress& progress, double elapsed_s);

// One thread at a time.
class ProgressBar {
 public:
  // `label` stands in front.
  explicit ProgressBar(std::string label = {});
  // Leaves nothing on the terminal.
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  // Paints at most ten times a second.
  void show(const switchsim::Progress& progress);

 private:
  using Clock = std::chrono::steady_clock;
  bool shown_;
  bool painted_ = false;
  std::string label_;
  Clock::time_point begun_;
  Clock::time_point painted_at_{};
};

}  // namespace mprdma::tools
