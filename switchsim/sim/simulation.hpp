// The event simulator: transport::Qp objects as hosts on the network model, in virtual time.
//
//   Scenario scenario;
//   make_testbed({}, &scenario);
//   scenario.flows.push_back({.from = scenario.host("a1"), .to = scenario.host("b1"),
//                             .params = transport::Params::mp()});
//   const Result result = simulate(scenario);
//
// An object is one simulation; any number may exist side by side, each used by one thread at a
// time. Nothing is shared and nothing is global, so runs are independent of each other. The same
// scenario gives the same result, bit by bit. A scenario that validate() refuses is our own bug
// here (CHECK): say it before.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "switchsim/sim/hosts/capture.hpp"
#include "switchsim/sim/hosts/trace_file.hpp"
#include "switchsim/sim/result/result.hpp"
#include "switchsim/sim/scenario/scenario.hpp"

namespace mprdma::switchsim {

class Simulation {
 public:
  // `trace`: open, stays the caller's, outlives the simulation; nullptr: nothing is traced.
  explicit Simulation(Scenario scenario, TraceFile* trace = nullptr);
  ~Simulation();
  Simulation(const Simulation&) = delete;
  Simulation& operator=(const Simulation&) = delete;

  // Runs on to `until` or the end, whatever is earlier, and no further once it has handled
  // `events_max` events or a few more (those of 20 us); false when the end is reached. May be
  // called again and again; result() in between tells how things stand.
  bool run_until(SimTime until, uint64_t events_max = UINT64_MAX);
  void run() { run_until(SimTime::never()); }

  // Before the first run_until(); stays the caller's, and outlives the simulation.
  void capture(Capture* capture);

  [[nodiscard]] SimTime now() const;
  [[nodiscard]] SimTime end() const;
  [[nodiscard]] uint64_t events() const;
  [[nodiscard]] uint64_t packet_hops() const;
  [[nodiscard]] const Scenario& scenario() const;
  [[nodiscard]] Result result() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

// The progress of one run, or of several: then `now` and `end` are sums over the runs that have
// begun.
struct Progress {
  SimTime now;
  SimTime end;
  uint64_t events = 0;
  double share = 0;  // of all that there is to do, 0 to 1
  size_t runs_done = 0;
  size_t runs = 1;
};

struct RunOptions {
  // Set by another thread or a signal handler: the run ends soon, its result is incomplete.
  const std::atomic<bool>* stop = nullptr;
  // Called now and then: 1000 times a run at least, and several times a second.
  std::function<void(const Progress&)> on_progress;
  // An open capture that takes the packets; simulate() only.
  Capture* capture = nullptr;
  // An open trace that takes the events of the transport; simulate() only.
  TraceFile* trace = nullptr;
};

Result simulate(const Scenario& scenario, const RunOptions& options = {});

// Makes independent runs on `threads` threads (0: one per processor). make(i) gives the scenario of
// run i, take(i, result) gets its result; both are called on the thread of the run, concurrently
// with other runs and in no order, and throw nothing. After a stop no run begins, and the runs in
// progress end with incomplete results. on_progress is called by one thread at a time.
void simulate_each(size_t runs, const std::function<Scenario(size_t)>& make,
                   const std::function<void(size_t, Result&&)>& take, unsigned threads = 0,
                   const RunOptions& options = {});

// Runs the given scenarios by simulate_each(); the results are in the order of the scenarios.
std::vector<Result> simulate_all(std::span<const Scenario> scenarios, unsigned threads = 0,
                                 const RunOptions& options = {});

}  // namespace mprdma::switchsim
