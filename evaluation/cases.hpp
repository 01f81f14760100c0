// A figure of cases: one scenario file, changed in each case, a group of runs for each.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "evaluation/batch.hpp"
#include "evaluation/figure.hpp"

namespace mprdma::figures {

struct Case {
  std::string id;    // of its claims
  std::string name;  // for people
  switchsim::Overrides changes;
};

class Cases {
 public:
  // All cases run; `small` changes the scenario at the small size.
  Cases(const Figure& figure, const RunOptions& options, std::vector<Case> cases,
        const switchsim::Overrides& small);

  using Value = std::function<double(const switchsim::Result&)>;
  [[nodiscard]] Summary over(std::string_view id, const Value& value) const {
    return batch_.over(at(id), value);
  }
  // value(run of `id`, run of `other` with the same seed).
  using PairValue = std::function<double(const switchsim::Result&, const switchsim::Result&)>;
  [[nodiscard]] Summary between(std::string_view id, std::string_view other,
                                const PairValue& value) const;
  [[nodiscard]] const switchsim::Result& first(std::string_view id) const {
    return batch_.group(at(id))[0];
  }
  [[nodiscard]] const switchsim::Scenario& scenario(std::string_view id) const {
    return batch_.scenario(at(id));
  }
  [[nodiscard]] const std::vector<Case>& all() const { return cases_; }
  [[nodiscard]] uint32_t seeds() const { return seeds_; }

  // Asserts value(run) of a case, as mean over the seeds, under "NUMBER.CASE.WHAT".
  void claim(std::string_view id, const std::string& key, const std::string& what,
             const char* target, const Value& value, const std::string& unit,
             FigureResult* out) const;
  void report(std::string_view id, const std::string& key, const std::string& what,
              const Value& value, const std::string& unit, FigureResult* out) const;
  // After all claims: that the runs were sound, the constants, the texts. `link`: whose constants.
  void finish(const std::string& link, const std::string& setup, const std::string& deviations,
              FigureResult* out) const;

 private:
  [[nodiscard]] size_t at(std::string_view id) const;

  std::string number_;
  std::vector<Case> cases_;
  uint32_t seeds_;
  Batch batch_;
};

// Goodput of a flow, Gb/s, from a time of the run on to its end; sum of those whose name begins so.
double goodput_from(const switchsim::Result& result, std::string_view flow,
                    switchsim::SimTime from);
// The settings of a RoCE NIC that only PFC or its rate limits.
extern const switchsim::Overrides kRoce;
// PFC with a pause at 100 KB.
extern const switchsim::Overrides kPfc;
// What drops_of_switches() counts, for people.
inline constexpr const char* kSwitchDrops = "packets that switches dropped";
// Puts two lists of changes together.
switchsim::Overrides with(switchsim::Overrides changes, const switchsim::Overrides& more);

}  // namespace mprdma::figures
