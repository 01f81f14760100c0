#include "switchsim/sim/result/result.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

namespace mprdma::switchsim {

std::string Deadlock::text() const {
  return fmt::format("seen at {:.0f} us: {} waits for the first",
                     static_cast<double>(seen.ps()) / 1e6, fmt::join(cycle, " -> "));
}

uint64_t OooHistogram::total() const {
  uint64_t sum = 0;
  for (const uint64_t n : count) sum += n;
  return sum;
}

uint32_t OooHistogram::percentile(double p) const {
  const auto wanted = static_cast<uint64_t>(std::ceil(static_cast<double>(total()) * p));
  uint64_t sum = 0;
  for (uint32_t degree = 0; degree < count.size(); ++degree) {
    sum += count[degree];
    if (sum >= wanted) return degree;
  }
  return 0;
}

uint32_t OooHistogram::max() const {
  return count.empty() ? 0 : static_cast<uint32_t>(count.size() - 1);
}

double Result::goodput_bps_between(size_t flow, SimTime from, SimTime to) const {
  if (time_us.empty() || flow >= flows.size()) return 0;
  const auto nearest = [this](SimTime at) {
    const double at_us = static_cast<double>(at.ps()) / 1e6;
    const auto above = std::lower_bound(time_us.begin(), time_us.end(), at_us);
    if (above == time_us.end()) return time_us.size() - 1;
    const auto index = static_cast<size_t>(above - time_us.begin());
    return index > 0 && at_us - time_us[index - 1] < *above - at_us ? index - 1 : index;
  };
  const size_t first = nearest(from);
  const size_t last = nearest(to);
  if (last <= first) return 0;
  const std::vector<uint64_t>& series = flows[flow].delivered_series;
  return static_cast<double>(series[last] - series[first]) * 8e6 / (time_us[last] - time_us[first]);
}

const FlowResult* Result::flow_named(std::string_view name) const {
  const auto found = std::find_if(flows.begin(), flows.end(),
                                  [name](const FlowResult& flow) { return flow.name == name; });
  return found == flows.end() ? nullptr : &*found;
}

const PortResult* Result::port_named(std::string_view name) const {
  const auto found = std::find_if(ports.begin(), ports.end(),
                                  [name](const PortResult& port) { return port.name == name; });
  return found == ports.end() ? nullptr : &*found;
}

uint64_t Result::retransmitted() const {
  uint64_t sum = 0;
  for (const FlowResult& flow : flows) sum += flow.stats.retransmitted;
  return sum;
}

uint64_t Result::timeouts() const {
  uint64_t sum = 0;
  for (const FlowResult& flow : flows) sum += flow.stats.rto_expired;
  return sum;
}

uint64_t Result::spurious() const {
  uint64_t sum = 0;
  for (const FlowResult& flow : flows) sum += flow.spurious;
  return sum;
}

double jain_index(std::span<const double> values) {
  double sum = 0;
  double squares = 0;
  for (const double x : values) {
    sum += x;
    squares += x * x;
  }
  return squares > 0 ? sum * sum / (static_cast<double>(values.size()) * squares) : 0;
}

}  // namespace mprdma::switchsim
