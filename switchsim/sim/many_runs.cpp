// Runs many simulations on the threads of one process.
#include <algorithm>
#include <atomic>
#include <mutex>
#include <thread>
#include <utility>

#include "switchsim/sim/simulation.hpp"

namespace mprdma::switchsim {

namespace {

// The progress of all runs together: of those that have ended, and of the one that each thread
// runs.
class Totals {
 public:
  Totals(size_t runs, unsigned threads, const RunOptions& options)
      : options_(options), under_way_(threads) {
    through_.runs = runs;
  }

  void at(unsigned thread, const Progress& progress) {
    const std::lock_guard lock(mutex_);
    under_way_[thread] = progress;
    report();
  }
  // The run of this thread has ended, at its end or before.
  void through(unsigned thread) {
    const std::lock_guard lock(mutex_);
    add(under_way_[thread], &through_);
    through_.share = static_cast<double>(++through_.runs_done);
    under_way_[thread] = {};
    report();
  }

 private:
  static void add(const Progress& one, Progress* sum) {
    sum->now = SimTime::from_ps(sum->now.ps() + one.now.ps());
    sum->end = SimTime::from_ps(sum->end.ps() + one.end.ps());
    sum->events += one.events;
    sum->share += one.share;
  }
  void report() {
    Progress sum = through_;
    for (const Progress& one : under_way_) add(one, &sum);
    sum.share /= static_cast<double>(through_.runs);
    options_.on_progress(sum);
  }

  const RunOptions& options_;
  std::mutex mutex_;
  Progress through_;
  std::vector<Progress> under_way_;  // by thread
};

}  // namespace

void simulate_each(size_t runs, const std::function<Scenario(size_t)>& make,
                   const std::function<void(size_t, Result&&)>& take, unsigned threads,
                   const RunOptions& options) {
  if (threads == 0) threads = std::max(std::thread::hardware_concurrency(), 1u);
  threads = static_cast<unsigned>(std::min<size_t>(threads, runs));
  const auto stopped = [&options] {
    return options.stop != nullptr && options.stop->load(std::memory_order_relaxed);
  };
  std::atomic<size_t> next = 0;
  Totals totals(runs, threads, options);
  const auto work = [&](unsigned thread) {
    for (size_t i = next++; i < runs && !stopped(); i = next++) {
      RunOptions inner;
      inner.stop = options.stop;
      if (options.on_progress) {
        inner.on_progress = [&](const Progress& progress) { totals.at(thread, progress); };
      }
      take(i, simulate(make(i), inner));
      if (options.on_progress) totals.through(thread);
    }
  };
  std::vector<std::thread> helpers;
  for (unsigned thread = 1; thread < threads; ++thread) helpers.emplace_back(work, thread);
  if (runs > 0) work(0);
  for (std::thread& helper : helpers) helper.join();
}

std::vector<Result> simulate_all(std::span<const Scenario> scenarios, unsigned threads,
                                 const RunOptions& options) {
  std::vector<Result> results(scenarios.size());
  for (Result& result : results) result.complete = false;
  simulate_each(
      scenarios.size(), [&](size_t i) { return scenarios[i]; },
      [&](size_t i, Result&& result) { results[i] = std::move(result); }, threads, options);
  return results;
}

}  // namespace mprdma::switchsim
