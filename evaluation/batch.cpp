#include "evaluation/batch.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <utility>

#include "base/prng.hpp"
#include "base/revision.hpp"
#include "evaluation/scenario_files.hpp"
#include "switchsim/sim/result/result_json.hpp"
#include "switchsim/sim/scenario/settings_json.hpp"
#include "switchsim/sim/simulation.hpp"
#include "transport/core/params.hpp"

namespace mprdma::figures {

using switchsim::LinkId;
using switchsim::Result;
using switchsim::Scenario;
using switchsim::SimTime;

namespace {

// The preset, with its own timers in place of the file's.
switchsim::Overrides as_shipped() {
  const transport::Params shipped;
  const auto time = [](const char* key, Duration value) {
    return fmt::format("transport.{}={}", key, value.count_ns() / 1000);
  };
  return {"transport.preset=\"mp\"", time("rto_floor_us", shipped.rto_floor),
          time("probe_floor_us", shipped.probe_floor), time("initial_rtt_us", shipped.initial_rtt)};
}

}  // namespace

const Variant kMp = {"mp", {"transport.preset=\"mp-figures\""}, 0};
const Variant kShipped = {"mp as shipped", as_shipped(), 2};
const Variant kPaper = {"mp-paper", {"transport.preset=\"mp-paper\""}, 1};

void SettingsList::add(const nlohmann::json& settings, uint64_t seed) {
  nlohmann::json& runs = *runs_;
  const auto [found, fresh] = known_.try_emplace(settings.dump(), runs.size());
  if (fresh) {
    runs.push_back(settings);
    runs.back()["seeds"] = nlohmann::json::array();
  }
  runs[found->second]["seeds"].push_back(seed);
}

Scenario load(const std::string& file, const switchsim::Overrides& overrides) {
  const char* text = scenario_file(file);
  if (text == nullptr) throw std::runtime_error("no scenario " + file + " was built in");
  Scenario scenario;
  const Status status = switchsim::parse_scenario(text, file, overrides, &scenario);
  if (!status.ok()) throw std::runtime_error(status.text);
  return scenario;
}

namespace {

constexpr uint64_t kStaggerNs = 20'000;
constexpr size_t kFlowsKept = 64;  // a run with more flows is kept without them

// Delays flows by up to 20 us, so that seeds differ even where nothing else is random.
void stagger(Scenario* scenario) {
  Prng prng = Prng(scenario->seed).split("stagger");
  for (switchsim::FlowSpec& flow : scenario->flows) {
    const auto late_ns = static_cast<int64_t>(prng.below(kStaggerNs));
    if (flow.timed_messages.empty()) flow.start = flow.start + switchsim::SimSpan::ns(late_ns);
  }
}

nlohmann::ordered_json settings_of(const Scenario& scenario) {
  return switchsim::settings_json(scenario, switchsim::SimSpan::ns(kStaggerNs));
}

nlohmann::json complete_run_json(const Scenario& scenario, const Result& result) {
  const nlohmann::ordered_json all = switchsim::to_json(result, scenario, "", revision(), false);
  nlohmann::json out = {{"settings", settings_of(scenario)}};
  for (const char* key : {"seed", "end_us", "errors", "totals", "fct"}) out[key] = all[key];
  if (result.flows.size() > kFlowsKept) return out;
  for (const char* key : {"flows", "ports"}) out[key] = all[key];
  return out;
}

}  // namespace

size_t Batch::add(Scenario scenario, uint32_t seeds) {
  const Status status = switchsim::validate(scenario);
  if (!status.ok()) throw std::runtime_error(scenario.name + ": " + status.text);
  groups_.push_back({scenarios_.size(), seeds});
  for (uint32_t i = 0; i < seeds; ++i) {
    scenario.seed = options_.seed + i;
    scenarios_.push_back(scenario);
    stagger(&scenarios_.back());
  }
  return groups_.size() - 1;
}

size_t Batch::add_each(const Scenario& scenario, uint32_t seeds,
                       const std::function<void(Scenario*)>& change) {
  const size_t group = add(scenario, seeds);
  for (size_t i = 0; i < seeds; ++i) change(&scenarios_[groups_[group].first + i]);
  return group;
}

size_t Batch::add_one(Scenario scenario, uint64_t seed) {
  const size_t group = add(scenario, 1);
  // add() has staggered the flows for another seed.
  scenario.seed = seed;
  stagger(&scenario);
  scenarios_.back() = std::move(scenario);
  return group;
}

void Batch::run() {
  switchsim::RunOptions options;
  options.stop = options_.stop;
  options.on_progress = options_.on_progress;
  results_ = switchsim::simulate_all(scenarios_, options_.jobs, options);
  const auto cut_off = [](const Result& result) { return !result.complete; };
  if (std::any_of(results_.begin(), results_.end(), cut_off)) throw interrupted();
}

Interrupted Batch::interrupted() const {
  Interrupted out;
  out.planned = results_.size();
  for (size_t i = 0; i < results_.size(); ++i) {
    if (!results_[i].complete) continue;
    (*out.complete).push_back(complete_run_json(scenarios_[i], results_[i]));
  }
  return out;
}

std::span<const Result> Batch::group(size_t number) const {
  return std::span(results_).subspan(groups_[number].first, groups_[number].count);
}

std::vector<double> Batch::each(size_t number,
                                const std::function<double(const Result&)>& value) const {
  std::vector<double> out;
  for (const Result& result : group(number)) out.push_back(value(result));
  return out;
}

JsonBox Batch::runs_json() const {
  SettingsList out;
  for (const Scenario& scenario : scenarios_) out.add(settings_of(scenario), scenario.seed);
  return out.json();
}

void Batch::claim_sound(const std::string& id, FigureResult* out) const {
  out->runs = runs_json();
  double broken = 0;
  std::string first;
  for (const Result& result : results_) {
    if (result.errors.empty()) continue;
    broken += 1;
    if (first.empty()) first = fmt::format("seed {}: {}", result.seed, result.errors.front());
  }
  out->claim(id + ".sound", "runs that broke an invariant or ended in an error", "<= 0", broken, 0,
             "");
  out->own_target();
  out->claims.back().note = first;
  out->fold(id + ".shipped", id + ".mp", kShipped.name);
}

Curve rate_curve(const std::string& name, const std::vector<double>& time_us,
                 const std::vector<uint64_t>& bytes, size_t stride) {
  Curve out;
  out.name = name;
  out.stroke = Stroke::kLine;
  const size_t points = std::min(time_us.size(), bytes.size());
  for (size_t i = stride; i < points; i += stride) {
    const double bits = static_cast<double>(bytes[i] - bytes[i - stride]) * 8;
    out.x.push_back((time_us[i] + time_us[i - stride]) / 2e3);
    out.y.push_back(bits / (time_us[i] - time_us[i - stride]) / 1e3);
  }
  return out;
}

double drops_of_switches(const switchsim::Result& result) {
  double sum = 0;
  for (const switchsim::PortResult& port : result.ports) {
    sum += static_cast<double>(port.total.drop_queue + port.total.drop_buffer);
  }
  return sum;
}

double rate_between(const Result& result, const std::vector<uint64_t>& bytes, SimTime from,
                    SimTime to) {
  const auto at = [&](SimTime t) {
    const double us = static_cast<double>(t.ps()) / 1e6;
    const auto found = std::lower_bound(result.time_us.begin(), result.time_us.end(), us - 1e-6);
    const auto index = static_cast<size_t>(found - result.time_us.begin());
    return std::min(index, std::min(bytes.size(), result.time_us.size()) - 1);
  };
  const size_t a = at(from);
  const size_t b = at(to);
  if (a >= b) return 0;
  return static_cast<double>(bytes[b] - bytes[a]) * 8e6 / (result.time_us[b] - result.time_us[a]);
}

double ceiling_bps(const Scenario& scenario, LinkId link) {
  const switchsim::FlowSpec& flow = scenario.flows.front();
  return switchsim::payload_ceiling_bps(scenario.topology.links[link].ab.rate, flow);
}

namespace {

// Finds the direction of a link that marks packets.
const switchsim::PortConfig& marked_port(const Scenario& scenario, LinkId link) {
  const switchsim::LinkConfig& both = scenario.topology.links[link];
  return both.ab.red.kmax_bytes != 0 ? both.ab : both.ba;
}

}  // namespace

std::string describe(const Scenario& scenario, LinkId marked_link) {
  const switchsim::PortConfig& port = marked_port(scenario, marked_link);
  const switchsim::FlowSpec& flow = scenario.flows.front();
  std::string marking = "no ECN";
  if (port.red.kmax_bytes != 0) {
    marking =
        fmt::format("RED ({:.2g}, {:.4g} KB, {:.4g} KB) marked on {}", port.red.pmax_ppm / 1e6,
                    port.red.kmin_bytes / 1e3, port.red.kmax_bytes / 1e3,
                    port.red.mark_on_enqueue ? "enqueue" : "dequeue");
  }
  return fmt::format(
      "{:.4g} Gb/s, {} B payload, {}, IW {} packets, delta {}, RTO floor {} us, p {} %",
      static_cast<double>(port.rate.bits_per_second()) / 1e9, flow.path_mtu, marking,
      flow.params.initial_window, flow.params.reorder_delta,
      flow.params.rto_floor.count_ns() / 1000, flow.params.path_probe_per_mille / 10.0);
}

std::string describe_times(const Scenario& scenario, uint32_t seeds) {
  return fmt::format(
      "mean and standard deviation of {} seeds (flows start up to 20 us late), {:.4g} ms each, the "
      "first {:.4g} ms dropped",
      seeds, static_cast<double>(scenario.duration.count_ps()) / 1e9,
      static_cast<double>(scenario.warm_up.count_ps()) / 1e9);
}

std::string describe_deviations(const std::string& own, const Scenario& scenario) {
  const transport::Params& used = scenario.flows.front().params;
  const transport::Params shipped;
  const auto us = [](Duration time) { return time.count_ns() / 1000; };
  return fmt::format(
      "{} The floors of timeout and tail probe and the first RTT are {}, {} and {} us, which the "
      "paper does not state (the rows of mp as shipped have a device's own, {}, {} and {}); 1024 B "
      "of "
      "payload with our headers, where the paper's packets are not stated; hosts take no time.",
      own, us(used.rto_floor), us(used.probe_floor), us(used.initial_rtt), us(shipped.rto_floor),
      us(shipped.probe_floor), us(shipped.initial_rtt));
}

void shorten(Scenario* scenario, int64_t factor) {
  const auto span = [factor](switchsim::SimSpan s) {
    return switchsim::SimSpan::ps(s.count_ps() / factor);
  };
  const auto time = [factor](SimTime t) {
    return t.is_never() ? t : SimTime::from_ps(t.ps() / factor);
  };
  scenario->duration = span(scenario->duration);
  scenario->warm_up = span(scenario->warm_up);
  for (switchsim::FlowSpec& flow : scenario->flows) {
    flow.start = time(flow.start);
    flow.stop = time(flow.stop);
  }
  for (switchsim::LinkEvent& event : scenario->events) event.at = time(event.at);
}

JsonBox constants_of(const Scenario& scenario, LinkId marked_link, uint32_t seeds) {
  const switchsim::PortConfig& port = marked_port(scenario, marked_link);
  const switchsim::FlowSpec& flow = scenario.flows.front();
  const nlohmann::json out = {{"seeds", seeds},
                              {"rate_bps", port.rate.bits_per_second()},
                              {"ceiling_bps", ceiling_bps(scenario, marked_link)},
                              {"path_mtu", flow.path_mtu},
                              {"red_kmin_bytes", port.red.kmin_bytes},
                              {"red_kmax_bytes", port.red.kmax_bytes},
                              {"red_pmax_ppm", port.red.pmax_ppm},
                              {"mark_on_enqueue", port.red.mark_on_enqueue},
                              {"queue_bytes_max", port.queue_bytes_max},
                              {"duration_us", scenario.duration.count_ps() / 1'000'000},
                              {"warm_up_us", scenario.warm_up.count_ps() / 1'000'000},
                              {"initial_window", flow.params.initial_window},
                              {"reorder_delta", flow.params.reorder_delta},
                              {"window_slots", flow.params.window_slots},
                              {"path_probe_per_mille", flow.params.path_probe_per_mille},
                              {"rto_floor_us", flow.params.rto_floor.count_ns() / 1000}};
  return out;
}

}  // namespace mprdma::figures
