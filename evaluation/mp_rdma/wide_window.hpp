// Runs with a receive window that is as good as infinite: window_slots, reorder_delta and
// loss_trigger of 2048.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace wide_window {

inline constexpr uint32_t kSlots = 2048;

struct Job {
  std::string file;  // what messages call the text
  std::string text;  // a scenario, TOML
  std::vector<std::string> overrides;
};

struct Outcome {
  std::string error;                // empty: it ran, and nothing unexpected happened
  bool complete = false;            // not stopped before its end
  std::vector<uint64_t> reordered;  // packets by out-of-order degree, all flows, measured
  double goodput_bps = 0;
  uint64_t timeouts = 0;
  uint64_t retransmitted = 0;
  [[nodiscard]] uint32_t percentile(double share) const;  // of the degrees
};

// switchsim::settings_json() of it as text; empty if the job is wrong.
std::string settings_json(const Job& job);

// As switchsim::Progress and RunOptions of the ordinary build.
struct Progress {
  int64_t now_ps = 0;
  int64_t end_ps = 0;
  uint64_t events = 0;
  double share = 0;
  size_t runs_done = 0;
  size_t runs = 0;
};
struct RunOptions {
  const std::atomic<bool>* stop = nullptr;
  std::function<void(const Progress&)> on_progress;
};

// Outcomes in the order of the jobs.
std::vector<Outcome> simulate_all(const std::vector<Job>& jobs, unsigned threads,
                                  const RunOptions& options);

}  // namespace wide_window
