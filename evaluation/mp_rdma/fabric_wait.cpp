#include "evaluation/mp_rdma/fabric_wait.hpp"

#include <algorithm>
#include <cstddef>
#include <vector>

#include "base/check.hpp"
#include "evaluation/stats.hpp"
#include "switchsim/sim/scenario/wire_size.hpp"

namespace mprdma::figures {

namespace {

using switchsim::PortResult;
using switchsim::Result;
using switchsim::Scenario;
using switchsim::SimTime;

// First and last point of the series in which messages arrive.
struct Window {
  size_t first;
  size_t last;
};

Window arrivals(const Scenario& scenario, const Result& result) {
  SimTime stop;
  for (const switchsim::FlowSpec& flow : scenario.flows) {
    stop = std::max(stop, flow.timed_messages.back().at);
  }
  const auto point = [&](int64_t ps) {
    const double us = static_cast<double>(ps) / 1e6;
    const auto found = std::lower_bound(result.time_us.begin(), result.time_us.end(), us);
    return static_cast<size_t>(found - result.time_us.begin());
  };
  const Window out{point(scenario.warm_up.count_ps()), point(stop.ps()) - 1};
  CHECK(out.first < out.last && out.last < result.time_us.size());
  return out;
}

double bits_per_us(const PortResult& port) {
  return static_cast<double>(port.rate.bits_per_second()) / 1e6;
}

// The mean time that the bytes in front of a port take to leave.
double wait_us(const PortResult& port, const Window& window) {
  double bytes = 0;
  for (size_t i = window.first; i <= window.last; ++i) {
    bytes += static_cast<double>(port.queue_series[i]);
  }
  return bytes / static_cast<double>(window.last - window.first + 1) * 8 / bits_per_us(port);
}

// If a link has a server, the server is its end a.
bool is_access(const Scenario& scenario, size_t link) {
  return scenario.topology.links[link].a < scenario.topology.hosts;
}

// Payload bytes between the two points of the window, as a share of all links to servers.
double load_of(const Scenario& scenario, const Result& result, double bytes) {
  const Window window = arrivals(scenario, result);
  const double time_us = result.time_us[window.last] - result.time_us[window.first];
  double all_bits_per_us = 0;
  for (size_t link = 0; link < scenario.topology.links.size(); ++link) {
    if (is_access(scenario, link)) all_bits_per_us += bits_per_us(result.ports[2 * link + 1]);
  }
  const switchsim::FlowSpec& flow = scenario.flows.front();
  const double wire = switchsim::data_wire_bytes(flow.operation, flow.path_mtu);
  return bytes * 8 * wire / flow.path_mtu / all_bits_per_us / time_us;
}

}  // namespace

double offered_load(const Scenario& scenario, const Result& result) {
  const Window window = arrivals(scenario, result);
  double bytes = 0;
  for (const switchsim::FlowSpec& flow : scenario.flows) {
    for (const auto& message : flow.timed_messages) {
      const double at_us = static_cast<double>(message.at.ps()) / 1e6;
      if (at_us < result.time_us[window.first] || at_us >= result.time_us[window.last]) continue;
      bytes += static_cast<double>(message.bytes);
    }
  }
  return load_of(scenario, result, bytes);
}

double carried_load(const Scenario& scenario, const Result& result) {
  const Window window = arrivals(scenario, result);
  double bytes = 0;
  for (const switchsim::FlowResult& flow : result.flows) {
    if (window.last >= flow.delivered_series.size()) continue;
    bytes += static_cast<double>(flow.delivered_series[window.last] -
                                 flow.delivered_series[window.first]);
  }
  return load_of(scenario, result, bytes);
}

double fabric_wait_us(const Scenario& scenario, const Result& result) {
  const Window window = arrivals(scenario, result);
  std::vector<double> to_servers;
  std::vector<double> fabric;  // towards spines and back
  for (size_t link = 0; link < scenario.topology.links.size(); ++link) {
    const double to_a = wait_us(result.ports[2 * link + 1], window);
    if (is_access(scenario, link)) {
      to_servers.push_back(to_a);
    } else {
      fabric.push_back(to_a);
      fabric.push_back(wait_us(result.ports[2 * link], window));
    }
  }
  return summarise(to_servers).mean + 2 * summarise(fabric).mean;
}

double server_link_use(const Scenario& scenario, const Result& result) {
  const Window window = arrivals(scenario, result);
  const double time_us = result.time_us[window.last] - result.time_us[window.first];
  std::vector<double> uses;
  for (size_t link = 0; link < scenario.topology.links.size(); ++link) {
    if (!is_access(scenario, link)) continue;
    const PortResult& port = result.ports[2 * link + 1];
    const uint64_t bytes = port.bytes_series[window.last] - port.bytes_series[window.first];
    uses.push_back(static_cast<double>(bytes) * 8 / bits_per_us(port) / time_us);
  }
  return summarise(uses).mean;
}

}  // namespace mprdma::figures
