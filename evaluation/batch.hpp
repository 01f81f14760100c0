// Runs of a figure: scenarios from the files that are built in, each repeated with several
// seeds, all simulated at once.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "evaluation/figure.hpp"
#include "evaluation/stats.hpp"
#include "switchsim/sim/result/result.hpp"
#include "switchsim/sim/scenario/scenario.hpp"
#include "switchsim/sim/scenario/scenario_toml.hpp"

namespace mprdma::figures {

// A scenario file as it was built in, with changes. Throws std::runtime_error.
switchsim::Scenario load(const std::string& file, const switchsim::Overrides& overrides = {});

inline double goodput_gbps(const switchsim::Result& result) {
  return result.goodput_bps / 1e9;
}

// A form of the transport that a figure compares.
struct Variant {
  std::string name;
  switchsim::Overrides overrides;
  int colour;
};
// mp with the paper's L = 64, mp as it ships (L by the link, and its own timers), and the
// paper's literal rules.
extern const Variant kMp;
extern const Variant kShipped;
extern const Variant kPaper;

// Settings of runs (switchsim/sim/scenario/settings_json.hpp), each that differs once, with its
// seeds.
class SettingsList {
 public:
  void add(const nlohmann::json& settings, uint64_t seed);
  [[nodiscard]] const JsonBox& json() const { return runs_; }

 private:
  JsonBox runs_;
  std::map<std::string, size_t> known_;  // by their text
};

class Batch {
 public:
  explicit Batch(const RunOptions& options) : options_(options) {}
  // Adds a group of `seeds` runs of a scenario, from options.seed on. Returns the group's number.
  size_t add(switchsim::Scenario scenario, uint32_t seeds);
  // Adds a group of `seeds` runs, each changed by `change` after its seed is set.
  size_t add_each(const switchsim::Scenario& scenario, uint32_t seeds,
                  const std::function<void(switchsim::Scenario*)>& change);
  // Adds a group of one run with the seed `seed`.
  size_t add_one(switchsim::Scenario scenario, uint64_t seed);
  void run();
  [[nodiscard]] std::span<const switchsim::Result> group(size_t number) const;
  [[nodiscard]] const switchsim::Scenario& scenario(size_t number) const {
    return scenarios_[groups_[number].first];
  }
  // One value for each run of a group.
  [[nodiscard]] std::vector<double> each(
      size_t number, const std::function<double(const switchsim::Result&)>& value) const;
  [[nodiscard]] Summary over(size_t number,
                             const std::function<double(const switchsim::Result&)>& value) const {
    return summarise(each(number, value));
  }
  // No run broke an invariant or ended in an error completion that was not expected. Also notes
  // with which settings and seeds they ran, and folds the rows of kShipped into those of kMp where
  // they are the same. After all other claims.
  void claim_sound(const std::string& id, FigureResult* out) const;

 private:
  struct Group {
    size_t first;
    size_t count;
  };
  [[nodiscard]] JsonBox runs_json() const;
  [[nodiscard]] Interrupted interrupted() const;

  RunOptions options_;
  std::vector<Group> groups_;
  std::vector<switchsim::Scenario> scenarios_;
  std::vector<switchsim::Result> results_;
};

// The rate of a cumulative series of bytes, in Gb/s; points in ms, `stride` points to one.
Curve rate_curve(const std::string& name, const std::vector<double>& time_us,
                 const std::vector<uint64_t>& bytes, size_t stride);
// Bytes of the series between two times, as bits per second.
double rate_between(const switchsim::Result& result, const std::vector<uint64_t>& bytes,
                    switchsim::SimTime from, switchsim::SimTime to);

// Packets that found no room at the switches' ports.
double drops_of_switches(const switchsim::Result& result);

// "40 Gb/s paths, 1024 B payload, RED (1, 20 KB, 20 KB) marked on dequeue, IW 54, delta 32, ..."
std::string describe(const switchsim::Scenario& scenario, switchsim::LinkId marked_link);
JsonBox constants_of(const switchsim::Scenario& scenario, switchsim::LinkId marked_link,
                     uint32_t seeds);
// "mean and s.d. of 5 seeds, 200 ms each, the first 50 ms dropped"
std::string describe_times(const switchsim::Scenario& scenario, uint32_t seeds);
// The paragraph of what differs from the paper's set-up: `own`, the sentences of the figure, then
// what the runs of every figure share: timers, packets, hosts.
std::string describe_deviations(const std::string& own, const switchsim::Scenario& scenario);
// Everything in time `factor` times shorter, for tests: duration, warm-up, events, starts and
// stops.
void shorten(switchsim::Scenario* scenario, int64_t factor);
// Payload that a link carries at most.
double ceiling_bps(const switchsim::Scenario& scenario, switchsim::LinkId link);

}  // namespace mprdma::figures
