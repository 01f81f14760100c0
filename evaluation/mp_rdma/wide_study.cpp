#include "evaluation/mp_rdma/wide_study.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "base/check.hpp"
#include "base/prng.hpp"
#include "evaluation/scenario_files.hpp"

namespace mprdma::figures {

namespace {

constexpr double kTail = 0.999;
constexpr uint32_t kStaggerNs = 20'000;
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
  return run.begin == Begin::kStart && run.delta != kOpen ? kStartSlots : wide_window::kSlots;
}

switchsim::Overrides overrides_of(const WideRun& run, bool ci) {
  const uint32_t delta = run.delta == kOpen ? wide_window::kSlots : run.delta;
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

switchsim::Overrides with_seed(switchsim::Overrides out, uint64_t seed, size_t flows) {
  out.push_back(fmt::format("seed={}", seed));
  Prng prng = Prng(seed).split("stagger");
  for (size_t flow = 0; flow < flows; ++flow) {
    const double late_us = static_cast<double>(prng.below(kStaggerNs)) / 1e3;
    out.push_back(fmt::format("flow[{}].start_us={:.3f}", flow, late_us));
  }
  return out;
}

wide_window::RunOptions wide_options(const RunOptions& options) {
  wide_window::RunOptions out;
  out.stop = options.stop;
  if (!options.on_progress) return out;
  out.on_progress = [&options](const wide_window::Progress& p) {
    using switchsim::SimTime;
    options.on_progress({SimTime::from_ps(p.now_ps), SimTime::from_ps(p.end_ps), p.events, p.share,
                         p.runs_done, p.runs});
  };
  return out;
}

}  // namespace

const std::vector<WideSeries> kWideSeries = {
    {&kMp, Begin::kSteady, "mp", "mp"},
    {&kMp, Begin::kStart, "mp, with start-up", "mp-start"},
    {&kPaper, Begin::kSteady, "mp-paper", "paper"},
};

void WideStudy::add(const WideRun& run) {
  const auto same = [&](const Repeated& one) { return one.run == run; };
  if (std::none_of(runs_.begin(), runs_.end(), same)) runs_.push_back({run});
}

void WideStudy::run() {
  const char* text = scenario_file(figure_.scenario);
  if (text == nullptr) throw std::runtime_error("no scenario " + figure_.scenario);
  const size_t flows = load(figure_.scenario).flows.size();
  std::vector<wide_window::Job> jobs;
  for (Repeated& one : runs_) {
    one.first_outcome = jobs.size();
    const switchsim::Overrides overrides = overrides_of(one.run, options_.ci());
    const nlohmann::json settings =
        nlohmann::json::parse(wide_window::settings_json({figure_.scenario, text, overrides}));
    for (uint32_t i = 0; i < seeds(one.run.begin); ++i) {
      const uint64_t seed = options_.seed + i;
      jobs.push_back({figure_.scenario, text, with_seed(overrides, seed, flows)});
      settings_.add(settings, seed);
    }
  }
  outcomes_ = wide_window::simulate_all(jobs, options_.jobs, wide_options(options_));
  const auto cut_off = [](const wide_window::Outcome& outcome) { return !outcome.complete; };
  if (std::any_of(outcomes_.begin(), outcomes_.end(), cut_off)) throw interrupted();
}

Interrupted WideStudy::interrupted() const {
  Interrupted out;
  out.planned = outcomes_.size();
  for (const Repeated& repeated : runs_) {
    for (uint32_t i = 0; i < seeds(repeated.run.begin); ++i) {
      const wide_window::Outcome& one = outcomes_[repeated.first_outcome + i];
      if (!one.complete) continue;
      nlohmann::json errors = nlohmann::json::array();
      if (!one.error.empty()) errors.push_back(one.error);
      (*out.complete)
          .push_back({{"overrides", overrides_of(repeated.run, options_.ci())},
                      {"seed", options_.seed + i},
                      {"errors", errors},
                      {"totals",
                       {{"goodput_bps", one.goodput_bps},
                        {"rto_expired", one.timeouts},
                        {"retransmitted", one.retransmitted},
                        {"ooo_degree", {{"p999", one.percentile(kTail)}}}}}});
    }
  }
  return out;
}

Summary WideStudy::tail(const WideRun& run) const {
  const auto found =
      std::find_if(runs_.begin(), runs_.end(), [&](const Repeated& one) { return one.run == run; });
  CHECK(found != runs_.end());
  std::vector<double> out;
  for (uint32_t i = 0; i < seeds(run.begin); ++i) {
    out.push_back(outcomes_[found->first_outcome + i].percentile(kTail));
  }
  return summarise(out);
}

void WideStudy::claim_sound(FigureResult* out) const {
  double broken = 0;
  std::string first;
  for (const wide_window::Outcome& one : outcomes_) {
    if (one.error.empty()) continue;
    broken += 1;
    if (first.empty()) first = one.error;
  }
  out->claim(figure_.number() + ".sound", "runs that broke an invariant or ended in an error",
             "<= 0", broken, 0, "");
  out->own_target();
  out->claims.back().note = first;
}

void WideStudy::describe_to(FigureResult* out) const {
  out->runs = settings_.json();
  switchsim::Scenario scenario = load(figure_.scenario);
  for (switchsim::FlowSpec& flow : scenario.flows) flow.params.window_slots = wide_window::kSlots;
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
          seeds(Begin::kSteady), steady.duration_us / 1000, wide_window::kSlots),
      scenario);
  out->setup = fmt::format(
      "Five connections over four paths; path 4 as the others, with a step at 240 KB, or at 1 "
      "Gb/s; {}, L = {} (as good as infinite); mean of {} runs (flows start up to 20 us late), {} "
      "ms, the first {} ms dropped; with start-up: {} runs, the first {} ms, under control with L "
      "= "
      "{}",
      describe(scenario, scenario.paths[0]), wide_window::kSlots, seeds(Begin::kSteady),
      steady.duration_us / 1000, steady.warm_up_us / 1000, seeds(Begin::kStart),
      start.duration_us / 1000, kStartSlots);
}

}  // namespace mprdma::figures
