#include "switchsim/sim/result/fct.hpp"

#include <vector>

#include "base/percentile.hpp"
#include "switchsim/sim/hosts/flow.hpp"
#include "switchsim/sim/result/ideal_time.hpp"

namespace mprdma::switchsim {

namespace {

double microseconds(SimSpan span) {
  return static_cast<double>(span.count_ps()) / 1e6;
}

struct Samples {
  std::vector<double> fct_us;
  std::vector<double> slowdown;

  void add(SimSpan fct, SimSpan ideal) {
    fct_us.push_back(microseconds(fct));
    if (ideal > SimSpan()) slowdown.push_back(microseconds(fct) / microseconds(ideal));
  }
};

double mean(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return values.empty() ? 0 : sum / static_cast<double>(values.size());
}

FctClass summary_of(std::string_view name, Samples& samples) {
  FctClass out;
  out.name = name;
  out.messages = samples.fct_us.size();
  out.mean_us = mean(samples.fct_us);
  out.p50_us = percentile(samples.fct_us, 0.5);
  out.p99_us = percentile(samples.fct_us, 0.99);
  out.slowdown_mean = mean(samples.slowdown);
  out.slowdown_p99 = percentile(samples.slowdown, 0.99);
  return out;
}

size_t class_of(uint64_t bytes) {
  if (bytes < FctSummary::kSmallBytes) return 1;
  return bytes > FctSummary::kLargeBytes ? 3 : 2;
}

uint64_t unfinished(const Flow& flow, SimTime warm_up) {
  uint64_t count = 0;
  for (const Flow::Outstanding& message : flow.outstanding) {
    count += message.posted >= warm_up ? 1 : 0;
  }
  const std::vector<TimedMessage>& timed = flow.spec->timed_messages;
  for (size_t i = flow.next_timed; i < timed.size(); ++i) {
    count += timed[i].at >= warm_up ? 1 : 0;
  }
  return count;
}

}  // namespace

FctSummary summarise_fct(const Scenario& scenario, std::span<const Flow> flows) {
  const IdealTime ideal(scenario.topology);
  const SimTime warm_up = SimTime() + scenario.warm_up;
  std::array<Samples, 4> samples;
  FctSummary out;
  for (const Flow& flow : flows) {
    out.unfinished += unfinished(flow, warm_up);
    if (flow.messages.empty()) continue;
    const IdealTime::Way way = ideal.way(*flow.spec);
    for (const MessageRecord& message : flow.messages) {
      if (message.posted < warm_up) continue;
      const SimSpan alone = IdealTime::of(way, *flow.spec, message.bytes);
      for (const size_t i : {size_t{0}, class_of(message.bytes)}) {
        samples[i].add(message.fct(), alone);
      }
    }
  }
  const std::string_view names[] = {"all", "below_100_kb", "100_kb_to_10_mb", "above_10_mb"};
  for (size_t i = 0; i < samples.size(); ++i) out.classes[i] = summary_of(names[i], samples[i]);
  return out;
}

}  // namespace mprdma::switchsim
