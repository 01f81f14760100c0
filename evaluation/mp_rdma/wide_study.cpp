#include "evaluation/mp_rdma/wide_study.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.hpp"

namespace mprdma::figures {

namespace {

constexpr double kTail = 0.999;
constexpr uint32_t kStartSlots = 64;

struct Times {
  uint32_t duration_us;
  uint32_t warm_up_us;
};

Times times_of(Begin begin, bool ci) {
  if (begin == Begin::kStart) return {60'000, 0};
  return ci ? Times{40'000, 10'000} : Times{200'000, 50'000};
}

// With control, the start uses the paper's window. In a receive window that refuses nothing, the
// initial windows of all connections pass through the slow path, whatever delta does later.
uint32_t slots_of(const WideRun& run) {
  return run.begin == Begin::kStart && run.delta != kOpen ? kStartSlots
                                                          : transport::kWindowSlotsMax;
}

switchsim::Overrides overrides_of(const WideRun& run, bool ci) {
  const uint32_t delta = run.delta == kOpen ? transport::kWindowSlotsMax : run.delta;
  const Times times = times_of(run.begin, ci);
  switchsim::Overrides out = with_state(run.variant->overrides, *run.state);
  out.push_back(fmt::format("transport.window_slots={}", slots_of(run)));
  out.push_back(fmt::format("transport.reorder_delta={}", delta));
  // Losses by time end a hole on a slow path sooner, whatever delta is: off, so that delta alone
  // makes the difference.
  out.push_back("transport.loss_by_time=false");
  out.push_back(fmt::format("duration_us={}", times.duration_us));
  out.push_back(fmt::format("warm_up_us={}", times.warm_up_us));
  return out;
}

}  // namespace

const std::vector<WideSeries> kWideSeries = {
    {&kMp, Begin::kSteady, "mp", "mp"},
    {&kMp, Begin::kStart, "mp, with start-up", "mp-start"},
    {&kPaper, Begin::kSteady, "mp-paper", "paper"},
};

void WideStudy::add(const WideRun& run) {
  if (std::find(runs_.begin(), runs_.end(), run) != runs_.end()) return;
  runs_.push_back(run);
  batch_.add(load(figure_.scenario, overrides_of(run, options_.ci())), seeds(run.begin));
}

Summary WideStudy::tail(const WideRun& run) const {
  const auto found = std::find(runs_.begin(), runs_.end(), run);
  CHECK(found != runs_.end());
  return batch_.over(static_cast<size_t>(found - runs_.begin()),
                     [](const switchsim::Result& result) {
                       return static_cast<double>(result.ooo.percentile(kTail));
                     });
}

void WideStudy::describe_to(FigureResult* out) const {
  switchsim::Scenario scenario = load(figure_.scenario);
  for (switchsim::FlowSpec& flow : scenario.flows)
    flow.params.window_slots = transport::kWindowSlotsMax;
  out->constants = constants_of(scenario, scenario.paths[0], seeds(Begin::kSteady));
  const Times steady = times_of(Begin::kSteady, options_.ci());
  const Times start = times_of(Begin::kStart, options_.ci());
  out->constants.set("duration_us", uint64_t{steady.duration_us});
  out->constants.set("warm_up_us", uint64_t{steady.warm_up_us});
  out->constants.set("seeds_of_start", uint64_t{seeds(Begin::kStart)});
  out->deviations = describe_deviations(
      fmt::format(
          "The paper does not state how often or how long it ran: here {} runs of {} ms. Its "
          "prototype has no end of the receive window, for which L = {} stands. No PFC, "
          "which would not pause anything.",
          seeds(Begin::kSteady), steady.duration_us / 1000, transport::kWindowSlotsMax),
      scenario);
  out->setup = fmt::format(
      "Five connections over four paths; path 4 as the others, with a step at 240 KB, or at 1 "
      "Gb/s; {}, L = {} (as good as infinite); mean of {} runs (flows start up to 20 us late), {} "
      "ms, the first {} ms dropped; with start-up: {} runs, the first {} ms, under control with L "
      "= "
      "{}",
      describe(scenario, scenario.paths[0]), transport::kWindowSlotsMax, seeds(Begin::kSteady),
      steady.duration_us / 1000, steady.warm_up_us / 1000, seeds(Begin::kStart),
      start.duration_us / 1000, kStartSlots);
}

}  // namespace mprdma::figures
