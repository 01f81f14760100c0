#include "evaluation/mp_rdma/wide_window.hpp"

#include "switchsim/sim/scenario/scenario_toml.hpp"
#include "switchsim/sim/scenario/settings_json.hpp"
#include "switchsim/sim/simulation.hpp"

namespace wide_window {

namespace switchsim = mprdma::switchsim;

static_assert(mprdma::transport::kWindowSlotsMax == kSlots);

uint32_t Outcome::percentile(double share) const {
  return switchsim::OooHistogram{reordered}.percentile(share);
}

namespace {

switchsim::RunOptions options_of(const RunOptions& options) {
  switchsim::RunOptions out;
  out.stop = options.stop;
  if (!options.on_progress) return out;
  out.on_progress = [&options](const switchsim::Progress& p) {
    options.on_progress({p.now.ps(), p.end.ps(), p.events, p.share, p.runs_done, p.runs});
  };
  return out;
}

}  // namespace

std::string settings_json(const Job& job) {
  switchsim::Scenario scenario;
  const mprdma::Status status =
      switchsim::parse_scenario(job.text, job.file, job.overrides, &scenario);
  return status.ok() ? switchsim::settings_json(scenario).dump() : "";
}

std::vector<Outcome> simulate_all(const std::vector<Job>& jobs, unsigned threads,
                                  const RunOptions& options) {
  std::vector<Outcome> out(jobs.size());
  std::vector<switchsim::Scenario> scenarios(jobs.size());
  for (size_t i = 0; i < jobs.size(); ++i) {
    out[i].error =
        switchsim::parse_scenario(jobs[i].text, jobs[i].file, jobs[i].overrides, &scenarios[i])
            .text;
    if (out[i].error.empty()) continue;
    for (Outcome& outcome : out) outcome.complete = true;  // nothing was stopped
    return out;
  }
  const auto results = switchsim::simulate_all(scenarios, threads, options_of(options));
  for (size_t i = 0; i < jobs.size(); ++i) {
    const switchsim::Result& result = results[i];
    if (!result.errors.empty()) out[i].error = result.errors.front();
    out[i].complete = result.complete;
    out[i].reordered = result.ooo.count;
    out[i].goodput_bps = result.goodput_bps;
    out[i].timeouts = result.timeouts();
    out[i].retransmitted = result.retransmitted();
  }
  return out;
}

}  // namespace wide_window
