#include "evaluation/irn/forms.hpp"

#include <algorithm>

#include "evaluation/cases.hpp"
#include "switchsim/sim/scenario/traffic.hpp"

namespace mprdma::figures::irn {

namespace {

using switchsim::Overrides;
using switchsim::Scenario;

constexpr uint32_t kSeeds = 3;
// A pause leaves room for what is under way on the link, a bandwidth-delay product of its own.
constexpr const char* kPauseBytes = "topology.pause_bytes=220_000";

void add_transport(const Form& form, Overrides* out) {
  switch (form.transport) {
    case Transport::kIrn:
      break;
    case Transport::kRoce:
      out->emplace_back("transport.preset=roce");
      // 4.096 us x 2^7 = 0.5 ms: the verbs' next above RTO_high.
      if (!form.pfc) {
        out->emplace_back("transport.timeout=7");
        out->emplace_back("traffic[0].may_fail=true");  // eight timeouts in a row
      }
      break;
    case Transport::kMp:
      for (const char* one :
           {"transport.preset=mp", "transport.window_max=220", "transport.adapt_timeout=true",
            "transport.rto_floor_us=500", "topology.red=[1.0, 60_000, 60_000]"}) {
        out->emplace_back(one);
      }
      break;
  }
}

void add_control(Control control, Overrides* out) {
  switch (control) {
    case Control::kNone:
      return;
    case Control::kTimely:
      out->emplace_back("transport.congestion=timely");
      out->emplace_back("transport.base_rtt_us=26");
      return;
    case Control::kDcqcn:
      out->emplace_back("transport.congestion=dcqcn-paper");
      out->emplace_back("topology.red=[0.01, 5_000, 200_000]");
      return;
  }
}

}  // namespace

std::string id_of(Control control) {
  constexpr const char* kIds[] = {"none", "timely", "dcqcn"};
  return kIds[static_cast<size_t>(control)];
}

std::string suffix_of(Control control) {
  constexpr const char* kNames[] = {"", " + TIMELY", " + DCQCN"};
  return kNames[static_cast<size_t>(control)];
}

std::string Form::id() const {
  constexpr const char* kIds[] = {"irn", "roce", "mp"};
  std::string out = kIds[static_cast<size_t>(transport)];
  if (control != Control::kNone) out += "-" + id_of(control);
  return pfc ? out + "-pfc" : out;
}

std::string Form::name() const {
  constexpr const char* kNames[] = {"IRN", "RoCE", "mp"};
  const std::string out = kNames[static_cast<size_t>(transport)] + suffix_of(control);
  return transport == Transport::kMp ? out : out + (pfc ? " with PFC" : " without PFC");
}

Overrides changes_of(const Form& form) {
  Overrides overrides;
  add_transport(form, &overrides);
  add_control(form.control, &overrides);
  if (form.pfc) {
    for (const char* one : {"topology.pfc=true", kPauseBytes, "topology.switch_buffer_bytes=0"}) {
      overrides.emplace_back(one);
    }
  }
  return overrides;
}

Runs::Runs(const Figure& figure, const RunOptions& options, std::vector<Form> forms,
           uint32_t seeds_ci)
    : forms_(std::move(forms)), seeds_(options.ci() ? seeds_ci : kSeeds), batch_(options) {
  for (const Form& form : forms_) {
    std::vector<size_t>& groups = groups_.emplace_back();
    for (uint64_t seed = options.seed; seed < options.seed + seeds_; ++seed) {
      Overrides changes = changes_of(form);
      if (options.ci()) changes = with(changes, {"topology.k=4", "traffic[0].stop_us=8_000"});
      Scenario scenario = load(figure.scenario, with(changes, options.changes));
      scenario.seed = seed;
      switchsim::expand_traffic(&scenario);
      groups.push_back(batch_.add_one(std::move(scenario), seed));
    }
  }
  batch_.run();
}

std::vector<double> Runs::each(const Form& form, Value value) const {
  const auto at =
      static_cast<size_t>(std::find(forms_.begin(), forms_.end(), form) - forms_.begin());
  std::vector<double> values;
  for (const size_t group : groups_.at(at)) values.push_back(value(batch_.group(group)[0].fct));
  return values;
}

Summary Runs::of(const Form& form, Value value) const {
  return summarise(each(form, value));
}

Summary Runs::ratio(const Form& form, const Form& to, Value value) const {
  std::vector<double> values = each(form, value);
  const std::vector<double> base = each(to, value);
  for (size_t i = 0; i < values.size(); ++i) values[i] /= base[i];
  return summarise(values);
}

}  // namespace mprdma::figures::irn
