// The meter of a simulation: looks at flows and ports as time passes and makes the result.
//
// Queues are looked at at random times, one in each Scenario::queue_sample, so that nothing that
// repeats is met in step with itself.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/prng.hpp"
#include "switchsim/model/network.hpp"
#include "switchsim/sim/hosts/host_set.hpp"
#include "switchsim/sim/result/result.hpp"
#include "switchsim/sim/scenario/scenario.hpp"

namespace mprdma::switchsim {

class Meter {
 public:
  // The arguments outlive the meter.
  Meter(const Scenario& scenario, HostSet& hosts, const Network<HostSet>& network);

  // When look() is to be called next.
  [[nodiscard]] SimTime next() const;
  void look();
  // Before the rate of a port changes.
  void on_rate(PortId port, LinkRate rate);
  [[nodiscard]] Result result() const;

 private:
  struct PortState {
    LinkRate rate;
    SimTime rate_since;
    double bits_possible = 0;  // since the warm-up, up to rate_since
    LinkCounters at_warm_up;
    PauseState pause_at_warm_up;
    double queue_sum = 0;
    double queue_square_sum = 0;
    uint64_t queue_max = 0;
    std::vector<uint64_t> bytes_series;
    std::vector<uint64_t> marked_series;
    std::vector<uint64_t> queue_series;
    std::vector<uint64_t> pause_sent_series;
    std::vector<double> paused_us_series;
  };
  struct FlowState {
    uint64_t delivered_at_warm_up = 0;
    uint64_t packets_at_warm_up = 0;
    uint64_t ce_at_warm_up = 0;
    std::vector<uint64_t> path_bytes_at_warm_up;
    double window_sum = 0;
    double srtt_us_sum = 0;
    std::vector<uint64_t> delivered_series;
    std::vector<float> window_series;
    std::vector<float> srtt_us_series;
    std::vector<std::vector<uint64_t>> path_bytes_series;
    std::vector<uint32_t> ooo_max_series;
    std::vector<uint32_t> virtual_paths_series;
    std::vector<uint32_t> virtual_paths_recent_series;
  };

  void warm_up();
  void sample();
  void sample_queues();
  void draw_queue_sample();
  [[nodiscard]] double seconds_measured() const;
  [[nodiscard]] SimTime measured_until() const;
  [[nodiscard]] FlowResult flow_result(uint32_t flow) const;
  [[nodiscard]] PortResult port_result(PortId port) const;
  void sample_pauses();
  void find_deadlock();
  [[nodiscard]] std::string port_name(PortId port) const;
  void add_pauses(PortId port, PortResult* out) const;
  void add_totals(Result* result) const;
  void add_errors(Result* result) const;

  const Scenario& scenario_;
  HostSet& hosts_;
  const Network<HostSet>& network_;
  Prng prng_;
  SimTime warm_up_;
  bool warm_ = false;
  SimTime next_sample_;
  SimTime queue_slot_;  // begin of the interval in which the queues are looked at next
  SimTime next_queue_sample_;
  uint64_t queue_samples_ = 0;  // since the warm-up
  uint64_t samples_ = 0;
  std::vector<double> time_us_;
  std::vector<FlowState> flows_;
  std::vector<PortState> ports_;
  std::optional<Deadlock> deadlock_;  // the first that was seen
};

}  // namespace mprdma::switchsim
