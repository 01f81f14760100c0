// Runs a script: every step in turn, time in between. Whatever the device does must be claimed by
// the step that expects it before anything else is done to the device and before time goes on.
#pragma once

#include <string>

#include "tests/conformance/runner/device.hpp"
#include "tests/conformance/runner/script.hpp"

namespace mprdma::conformance {

class Runner {
 public:
  Runner(const Script& script, Mode mode) : script_(script), device_(mode) {}

  // Throws ScriptFailure at the first step that does not hold.
  void run();

 private:
  void execute(const Step& step);
  void advance(const Step& step, Time until);
  void reach(const Step& step);
  void check_nothing_unclaimed(const Step& step) const;
  void wait_for_output(const Step& step);
  void expect(const Step& step);
  void act(const Step& step);
  void expect_packets(const Step& step);
  void expect_completion(const Step& step, std::deque<Output<transport::Completion>>& queue);
  void expect_event(const Step& step);
  void check_memory(const Step& step);
  void fill(const Step& step);
  template <class What>
  What claim(const Step& step, std::deque<Output<What>>& queue);

  const Script& script_;
  Device device_;
  Time start_;
  Time last_;  // of the step before
};

inline Mode mode_of(std::string_view word) {
  return word == "mp" ? Mode::kMp : word == "irn" ? Mode::kIrn : Mode::kRoce;
}

}  // namespace mprdma::conformance
