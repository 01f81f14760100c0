// Checks of a scenario: its flows, traffic, events and times.
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <numeric>
#include <unordered_set>
#include <utility>

#include "switchsim/sim/scenario/checks.hpp"
#include "switchsim/sim/scenario/traffic.hpp"
#include "switchsim/sim/scenario/traffic_rules.hpp"
#include "transport/core/param_check.hpp"
#include "transport/core/types.hpp"

namespace mprdma::switchsim {

namespace {

using Of = ScenarioError::Of;

FieldError check_messages(const FlowSpec& flow) {
  if (flow.post_depth == 0 || flow.post_depth > 4096) {
    return {"post_depth", "post_depth is not in 1..4096"};
  }
  if (flow.message_bytes == 0 || flow.message_bytes > transport::kMaxMessageBytes) {
    return {"message_bytes", "message_bytes is not in 1..2^30"};
  }
  for (size_t i = 0; i < flow.timed_messages.size(); ++i) {
    const TimedMessage& message = flow.timed_messages[i];
    if (message.bytes == 0 || message.bytes > transport::kMaxMessageBytes) {
      return {"at", "a message's size is not in 1..2^30"};
    }
    if (i > 0 && message.at < flow.timed_messages[i - 1].at) return {"at", "messages out of order"};
  }
  if (flow.synchronise_ppm > 1'000'000) {
    return {"synchronise_share", "a synchronise share above 1"};
  }
  if (!flow.receives && flow.operation != FlowOperation::kSend) {
    return {"receives", "only a SEND needs receives"};
  }
  if (flow.turn_packets == 0 || flow.turn_packets > 4096) {
    return {"turn_packets", "turn_packets is not in 1..4096"};
  }
  if (flow.think > SimSpan() && flow.post_depth != 1) {
    return {"think_us", "think needs a post_depth of 1"};
  }
  return {};
}

// A session of RPCs, whose requests and responses are one packet each.
FieldError check_rpc(const FlowSpec& flow) {
  if (flow.rpc_credits > 4096) return {"rpc_credits", "rpc_credits is not in 0..4096"};
  if (flow.operation != FlowOperation::kSend) {
    return {"rpc_credits", "only SENDs have credits: operation is not \"send\""};
  }
  if (flow.message_bytes > flow.path_mtu && flow.timed_messages.empty()) {
    return {"message_bytes", fmt::format("a request is one packet: message_bytes is above the "
                                         "path_mtu of {}",
                                         flow.path_mtu)};
  }
  for (const TimedMessage& message : flow.timed_messages) {
    if (message.bytes <= flow.path_mtu) continue;
    return {"at", fmt::format("a request is one packet: {} bytes are above the path_mtu of {}",
                              message.bytes, flow.path_mtu)};
  }
  if (flow.rpc_response_bytes > flow.path_mtu) {
    return {"rpc_response_bytes", fmt::format("a response is one packet: rpc_response_bytes is "
                                              "above the path_mtu of {}",
                                              flow.path_mtu)};
  }
  if (flow.rpc_timeout <= SimSpan()) return {"rpc_timeout_us", "a time that is not above 0"};
  if (!flow.receives) return {"receives", "a server of RPCs posts receives"};
  if (flow.synchronise_ppm > 0) return {"synchronise_share", "datagrams have no synchronise flag"};
  return {};
}

FieldError check_flow(const Scenario& scenario, const FlowSpec& flow) {
  if (flow.from >= scenario.topology.hosts || flow.to >= scenario.topology.hosts) {
    return {"to", "no such host"};
  }
  if (flow.from == flow.to) return {"to", "from a host to itself"};
  if (flow.path_mtu < 256 || flow.path_mtu > 4096) {
    return {"transport", "path_mtu is not in 256..4096"};
  }
  FieldError field_error = check_messages(flow);
  if (field_error.what.empty() && flow.rpc_credits > 0) field_error = check_rpc(flow);
  if (!field_error.what.empty()) return field_error;
  if (flow.pinned_link && *flow.pinned_link >= scenario.topology.links.size()) {
    return {"pinned", "pinned to a link that is not there"};
  }
  if (flow.pinned_link && flow.rpc_credits == 0 &&
      flow.params.path_policy != transport::PathPolicy::kSingle) {
    return {"pinned", "pinned, and not on a single path"};
  }
  return {"transport", check_params(flow.params).what};
}

// The sets of nodes that links connect when the run begins.
class Islands {
 public:
  explicit Islands(const Topology& topology) : above_(topology.nodes()) {
    std::iota(above_.begin(), above_.end(), 0);
    for (const LinkConfig& link : topology.links) above_[root(link.a)] = root(link.b);
  }
  bool joined(NodeId a, NodeId b) { return root(a) == root(b); }

 private:
  NodeId root(NodeId node) {
    while (above_[node] != node) node = above_[node] = above_[above_[node]];
    return node;
  }
  std::vector<NodeId> above_;
};

std::string no_way(const Scenario& scenario, NodeId from, NodeId to) {
  return fmt::format("no way from '{}' to '{}': no links join them", scenario.host_names[from],
                     scenario.host_names[to]);
}

ScenarioError check_flows(const Scenario& scenario, Islands& islands) {
  std::unordered_set<std::string> names;
  for (uint32_t i = 0; i < scenario.flows.size(); ++i) {
    const FlowSpec& flow = scenario.flows[i];
    const std::string name = scenario.flow_name(i);
    FieldError field_error = check_flow(scenario, flow);
    if (field_error.what.empty() && !islands.joined(flow.from, flow.to)) {
      field_error = {"to", no_way(scenario, flow.from, flow.to)};
    }
    if (field_error.what.empty() && !names.insert(name).second) {
      field_error = {"name", "another flow has this name"};
    }
    if (field_error.what.empty()) continue;
    return {Of::kFlow, i, field_error.key, fmt::format("flow '{}': {}", name, field_error.what)};
  }
  return {};
}

// True if a generated flow, named by the stem and a number, may get the other name.
bool names_collide(std::string_view stem, std::string_view other) {
  return other.starts_with(stem) &&
         other.find_first_not_of("0123456789", stem.size()) == std::string_view::npos;
}

// Checks that the hosts of the traffic are connected. Only pairs are known before the draw; for all
// other kinds every host has to reach every other one.
FieldError check_ways(const Scenario& scenario, const TrafficSpec& traffic, Islands& islands) {
  const bool pairs =
      traffic.kind == TrafficKind::kPairs ||
      (traffic.kind == TrafficKind::kPoisson && traffic.partners == PartnerRule::kPairs);
  const size_t from = traffic.from.size();
  const size_t to = traffic.to.size();
  for (size_t i = 0; i < std::max(from, to); ++i) {
    const NodeId a = traffic.from[pairs ? (from == 1 ? 0 : i) : std::min(i, from - 1)];
    const NodeId b = traffic.to[pairs ? (to == 1 ? 0 : i) : std::min(i, to - 1)];
    const NodeId hub = pairs ? a : traffic.from[0];
    if (!islands.joined(hub, b)) return {"to", no_way(scenario, hub, b)};
    if (!islands.joined(hub, a)) return {"from", no_way(scenario, hub, a)};
  }
  return {};
}

FieldError check_names(const Scenario& scenario, size_t i) {
  const std::string& stem = scenario.traffic[i].flow.name;
  for (size_t j = 0; j < scenario.traffic.size(); ++j) {
    const std::string& other = scenario.traffic[j].flow.name;
    if (i == j || !names_collide(stem, other)) continue;
    return {"name", fmt::format("traffic '{}' and '{}': their flows would have the same names",
                                stem, other)};
  }
  for (size_t j = 0; j < scenario.flows.size(); ++j) {
    const std::string other = scenario.flow_name(j);
    if (!names_collide(stem, other)) continue;
    return {"name",
            fmt::format("traffic '{}': its flows would be named like flow '{}'", stem, other)};
  }
  return {};
}

ScenarioError check_all_traffic(const Scenario& scenario, Islands& islands) {
  for (size_t i = 0; i < scenario.traffic.size(); ++i) {
    const TrafficSpec& traffic = scenario.traffic[i];
    FieldError field_error = check_traffic(scenario, traffic);
    if (field_error.what.empty()) {
      FlowSpec flow = traffic.flow;  // for any two hosts
      flow.from = 0;
      flow.to = 1;
      field_error = check_flow(scenario, flow);
    }
    if (field_error.what.empty()) field_error = check_ways(scenario, traffic, islands);
    if (!field_error.what.empty()) {
      return {Of::kTraffic, i, field_error.key,
              fmt::format("traffic '{}': {}", traffic.flow.name, field_error.what)};
    }
    field_error = check_names(scenario, i);
    if (!field_error.what.empty()) return {Of::kTraffic, i, field_error.key, field_error.what};
  }
  return {};
}

// A slow receiver pauses by itself, and ends its pauses.
bool is_receiver(const Scenario& scenario, LinkId id) {
  const LinkConfig& link = scenario.topology.links[id];
  const auto has = [&](const ReceiverSpec& spec) {
    return std::find(spec.hosts.begin(), spec.hosts.end(), std::min(link.a, link.b)) !=
           spec.hosts.end();
  };
  return std::any_of(scenario.receivers.begin(), scenario.receivers.end(), has);
}

FieldError check_event(const Scenario& scenario, const LinkEvent& event) {
  if (event.link >= scenario.topology.links.size()) return {"link", "no such link"};
  if (event.at < SimTime()) return {"at_us", "before the beginning"};
  if (event.at > SimTime() + scenario.duration) return {"at_us", "after the end"};
  if (event.rate && event.rate->bits_per_second() == 0) {
    return {"rate_gbps", "a rate of 0 (take the link down instead)"};
  }
  if (event.loss_ppm && *event.loss_ppm > 1'000'000) return {"loss", "a loss above 1"};
  if (event.delay && *event.delay < SimSpan()) return {"delay_us", "a delay below 0"};
  if (event.pausing) {
    const LinkConfig& link = scenario.topology.links[event.link];
    if (std::min(link.a, link.b) >= scenario.topology.hosts) return {"pausing", "no host's link"};
    if (!scenario.topology.pfc.on) return {"pausing", "a pause without PFC"};
    if (is_receiver(scenario, event.link)) return {"pausing", "a host that is a [[receiver]]"};
  }
  return {"red", event.red ? check_red(*event.red).text : std::string()};
}

ScenarioError check_receivers(const Scenario& scenario) {
  std::vector<bool> known(scenario.topology.hosts);
  for (size_t i = 0; i < scenario.receivers.size(); ++i) {
    const ReceiverSpec& spec = scenario.receivers[i];
    const auto error = [&](const char* key, const char* what) {
      return ScenarioError{.of = Of::kReceiver, .index = i, .key = key, .what = what};
    };
    for (const NodeId host : spec.hosts) {
      if (host >= scenario.topology.hosts) return error("hosts", "no such host");
      if (known[host]) return error("hosts", "a host that has a receiver already");
      known[host] = true;
    }
    if (spec.packet_time <= SimSpan()) return error("packet_us", "a time that is not above 0");
    if (spec.miss_time < SimSpan()) return error("miss_us", "a time below 0");
    if (spec.entries == 0) return error("entries", "a cache of 0 entries");
    if (spec.page_bytes == 0) return error("page_bytes", "pages of 0 bytes");
    if (spec.memory_bytes < spec.page_bytes) return error("memory_bytes", "less than a page");
  }
  return {};
}

double all_flows(const Scenario& scenario) {
  auto flows = static_cast<double>(scenario.flows.size());
  for (const TrafficSpec& traffic : scenario.traffic) flows += flows_of(scenario, traffic);
  return flows;
}

FieldError check_times(const Scenario& scenario) {
  if (scenario.duration <= SimSpan()) return {"duration_us", "duration_us is not above 0"};
  if (scenario.warm_up < SimSpan() || scenario.warm_up >= scenario.duration) {
    return {"warm_up_us", "expected at least 0, and below duration_us"};
  }
  if (scenario.sample <= SimSpan()) return {"sample_us", "a sampling interval of 0"};
  if (scenario.queue_sample <= SimSpan()) return {"queue_sample_us", "a sampling interval of 0"};
  if (scenario.ack_delay < SimSpan()) return {"ack_delay_us", "a delay below 0"};
  if (scenario.ack_jitter < SimSpan()) return {"ack_jitter_us", "a delay below 0"};
  for (const auto& [key, span] : {std::pair("nic_watchdog_us", scenario.nic_watchdog),
                                  std::pair("switch_watchdog_us", scenario.switch_watchdog)}) {
    if (span < SimSpan()) return {key, "a time below 0"};
    if (span > SimSpan() && !scenario.topology.pfc.on) return {key, "a watchdog without PFC"};
  }
  for (const LinkId path : scenario.paths) {
    if (path >= scenario.topology.links.size()) {
      return {"paths", "a path is a link that is not there"};
    }
  }
  if (scenario.flows.empty() && scenario.traffic.empty()) {
    return {"flow", "no flow: a table [[flow]] or [[traffic]] is missing"};
  }
  return {};
}

}  // namespace

FieldError check_params(const transport::Params& params) {
  const transport::ParamFault fault = find_fault(params);
  if (fault.key.empty()) return {};
  return {std::string(fault.key), fmt::format("{} {}{}{}", fault.key, fault.what,
                                              fault.other.empty() ? "" : " ", fault.other)};
}

FieldError check_sampling(const Scenario& scenario) {
  const auto duration_us = static_cast<double>(scenario.duration.count_ps()) / 1e6;
  const auto points = duration_us / (static_cast<double>(scenario.sample.count_ps()) / 1e6);
  const double flows = all_flows(scenario);
  if (flows > static_cast<double>(kFlowsMax)) {
    return {"", fmt::format("{:.6g} flows, more than {}", flows, kFlowsMax)};
  }
  const double ports = scenario.topology.ports();
  // The number of series that the meter keeps.
  const double series = flows * (6 + static_cast<double>(scenario.paths.size())) +
                        ports * (scenario.topology.pfc.on ? 5 : 3) + 1;
  // Every series has at least a first and a last point.
  if (std::max(points, 2.0) * series > kSeriesValuesMax) {
    return {"sample_us", fmt::format("expected at least {:.6g}: {:.6g} points of {:.6g} series "
                                     "are more than {:.6g} values",
                                     std::ceil(duration_us * series / kSeriesValuesMax), points,
                                     series, kSeriesValuesMax)};
  }
  const auto looks = duration_us / (static_cast<double>(scenario.queue_sample.count_ps()) / 1e6);
  if (looks * (ports + kLookOverhead) > kQueueLooksMax) {
    const double least = duration_us * (ports + kLookOverhead) / kQueueLooksMax;
    return {"queue_sample_us", fmt::format("expected at least {:.3g}: {:.6g} looks at {} queues "
                                           "would take minutes",
                                           least * 1.01, looks, ports)};
  }
  return {};
}

std::optional<ScenarioError> find_error(const Scenario& scenario) {
  ScenarioError error = check_topology(scenario);
  if (!error.what.empty()) return error;
  FieldError field_error = check_times(scenario);
  if (!field_error.what.empty())
    return ScenarioError{Of::kScenario, 0, field_error.key, field_error.what};
  Islands islands(scenario.topology);
  error = check_flows(scenario, islands);
  if (error.what.empty()) error = check_all_traffic(scenario, islands);
  if (!error.what.empty()) return error;
  for (size_t i = 0; i < scenario.events.size(); ++i) {
    const LinkEvent& event = scenario.events[i];
    field_error = check_event(scenario, event);
    if (field_error.what.empty()) continue;
    return ScenarioError{
        Of::kEvent, i, field_error.key,
        fmt::format("event at {:.6g} us: {}", event.at.ps() / 1e6, field_error.what)};
  }
  error = check_receivers(scenario);
  if (!error.what.empty()) return error;
  field_error = check_sampling(scenario);
  if (!field_error.what.empty())
    return ScenarioError{Of::kScenario, 0, field_error.key, field_error.what};
  return std::nullopt;
}

Status validate(const Scenario& scenario) {
  const std::optional<ScenarioError> error = find_error(scenario);
  if (!error) return {};
  return {EINVAL, error->what};
}

}  // namespace mprdma::switchsim
