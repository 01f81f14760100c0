#include "evaluation/applications/outage.hpp"

#include <algorithm>
#include <iterator>

namespace mprdma::figures {

namespace {

using switchsim::FlowResult;
using switchsim::MessageRecord;
using switchsim::Result;
using switchsim::SimSpan;
using switchsim::SimTime;

double us(SimSpan span) {
  return static_cast<double>(span.count_ps()) / 1e6;
}

// The loop's first message that was complete after `time`.
size_t next_after(const FlowResult& flow, SimTime time) {
  const auto found = std::upper_bound(
      flow.messages.begin(), flow.messages.end(), time,
      [](SimTime t, const MessageRecord& message) { return t < message.completed; });
  return static_cast<size_t>(found - flow.messages.begin());
}

// The mean time between two completions from the warm-up to the cut; 0 if there are less than two.
double interval_before_us(const FlowResult& flow, const Cut& cut) {
  const size_t first = next_after(flow, cut.warm_up);
  const size_t end = next_after(flow, cut.at);
  if (end < first + 2) return 0;
  const SimSpan all = flow.messages[end - 1].completed - flow.messages[first].completed;
  return us(all) / static_cast<double>(end - first - 1);
}

Outage outage_of(const FlowResult& flow, const Cut& cut, SimTime end) {
  const double rest_us = us(end - cut.at);
  Outage out{rest_us, rest_us, rest_us};
  const size_t next = next_after(flow, cut.at);
  if (next == flow.messages.size()) return out;
  out.next_us = us(flow.messages[next].completed - cut.at);
  out.message_us = us(flow.messages[next].fct());
  const double longest_us =
      interval_before_us(flow, cut) * static_cast<double>(kOutageMessages) / kOutageRate;
  for (size_t i = next; i + kOutageMessages < flow.messages.size(); ++i) {
    const SimTime from = flow.messages[i].completed;
    if (us(flow.messages[i + kOutageMessages].completed - from) > longest_us) continue;
    out.back_us = us(from - cut.at);
    break;
  }
  return out;
}

}  // namespace

double slowest_before_us(const Result& result, const Cut& cut) {
  double most = 0;
  for (const FlowResult& flow : result.flows) {
    for (const MessageRecord& message : flow.messages) {
      if (message.posted < cut.warm_up || message.completed > cut.at) continue;
      most = std::max(most, us(message.fct()));
    }
  }
  return most;
}

std::vector<Outage> all_outages(const Result& result, const Cut& cut) {
  std::vector<Outage> out;
  for (const FlowResult& flow : result.flows) out.push_back(outage_of(flow, cut, result.end));
  return out;
}

std::vector<Outage> outages(const Result& result, const Cut& cut) {
  const double least_us = kOutageFactor * slowest_before_us(result, cut);
  std::vector<Outage> out;
  const std::vector<Outage> all = all_outages(result, cut);
  std::copy_if(all.begin(), all.end(), std::back_inserter(out),
               [least_us](const Outage& one) { return one.message_us > least_us; });
  return out;
}

}  // namespace mprdma::figures
