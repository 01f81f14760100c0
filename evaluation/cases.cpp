#include "evaluation/cases.hpp"

#include <fmt/format.h>

#include <stdexcept>
#include <utility>

#include "switchsim/sim/scenario/traffic.hpp"

namespace mprdma::figures {

namespace {

constexpr uint32_t kSeedsCi = 1;
constexpr uint32_t kSeeds = 5;

}  // namespace

const switchsim::Overrides kRoce = {"transport.preset=roce", "transport.window_max=1024"};
const switchsim::Overrides kPfc = {"topology.pfc=true", "topology.pause_bytes=100_000"};

switchsim::Overrides with(switchsim::Overrides changes, const switchsim::Overrides& more) {
  changes.insert(changes.end(), more.begin(), more.end());
  return changes;
}

Cases::Cases(const Figure& figure, const RunOptions& options, std::vector<Case> cases,
             const switchsim::Overrides& small)
    : number_(figure.number()),
      cases_(std::move(cases)),
      seeds_(options.ci() ? kSeedsCi : kSeeds),
      batch_(options) {
  for (const Case& one : cases_) {
    switchsim::Overrides changes = one.changes;
    if (options.ci()) changes = with(changes, small);
    batch_.add_each(load(figure.scenario, with(changes, options.changes)), seeds_,
                    switchsim::expand_traffic);
  }
  batch_.run();
}

size_t Cases::at(std::string_view id) const {
  for (size_t i = 0; i < cases_.size(); ++i) {
    if (cases_[i].id == id) return i;
  }
  throw std::logic_error(fmt::format("no case {}", id));
}

Summary Cases::between(std::string_view id, std::string_view other, const PairValue& value) const {
  const std::span<const switchsim::Result> runs = batch_.group(at(id));
  const std::span<const switchsim::Result> others = batch_.group(at(other));
  std::vector<double> values;
  for (size_t i = 0; i < runs.size(); ++i) values.push_back(value(runs[i], others[i]));
  return summarise(values);
}

void Cases::claim(std::string_view id, const std::string& key, const std::string& what,
                  const char* target, const Value& value, const std::string& unit,
                  FigureResult* out) const {
  const Summary summary = over(id, value);
  out->claim(fmt::format("{}.{}.{}", number_, id, key),
             fmt::format("{}: {}", cases_[at(id)].name, what), target, summary.mean,
             summary.deviation, unit);
}

void Cases::report(std::string_view id, const std::string& key, const std::string& what,
                   const Value& value, const std::string& unit, FigureResult* out) const {
  const Summary summary = over(id, value);
  out->report(fmt::format("{}.{}.{}", number_, id, key),
              fmt::format("{}: {}", cases_[at(id)].name, what), "", summary.mean, summary.deviation,
              unit, "");
}

void Cases::finish(const std::string& link, const std::string& setup, const std::string& deviations,
                   FigureResult* out) const {
  batch_.claim_sound(number_, out);
  const switchsim::Scenario& first = batch_.scenario(0);
  out->constants = constants_of(first, first.link(link), seeds_);
  out->setup = fmt::format("{}; {} seeds", setup, seeds_);
  out->deviations = fmt::format(
      "{} {} B of payload with our headers; what the scenario does not set is as our presets have "
      "it.",
      deviations, first.flows.front().path_mtu);
}

double goodput_from(const switchsim::Result& result, std::string_view flow,
                    switchsim::SimTime from) {
  double sum = 0;
  for (size_t i = 0; i < result.flows.size(); ++i) {
    if (!result.flows[i].name.starts_with(flow)) continue;
    sum += result.goodput_bps_between(i, from, result.end);
  }
  return sum / 1e9;
}

}  // namespace mprdma::figures
