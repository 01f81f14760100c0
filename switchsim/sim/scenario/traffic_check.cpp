// Checks of traffic that hold for every seed.

#include <fmt/format.h>

#include <algorithm>
#include <unordered_set>
#include <utility>

#include "switchsim/sim/scenario/checks.hpp"
#include "switchsim/sim/scenario/traffic.hpp"
#include "switchsim/sim/scenario/traffic_rules.hpp"

namespace mprdma::switchsim {

bool same_hosts(const TrafficSpec& traffic) {
  std::vector<NodeId> from = traffic.from;
  std::vector<NodeId> to = traffic.to;
  std::sort(from.begin(), from.end());
  std::sort(to.begin(), to.end());
  return from == to;
}

// The payload that a host offers, bytes a second.
std::vector<double> offered(const Scenario& scenario, const TrafficSpec& traffic) {
  std::vector<double> by_host(scenario.topology.hosts);
  for (const LinkConfig& link : scenario.topology.links) {
    const auto note = [&](NodeId host, LinkRate rate) {
      if (host < by_host.size()) by_host[host] = static_cast<double>(rate.bits_per_second()) / 8;
    };
    note(link.a, link.ab.rate);
    note(link.b, link.ba.rate);
  }
  std::vector<double> out;
  for (const NodeId host : traffic.from) out.push_back(by_host[host] * traffic.load);
  return out;
}

double mean_bytes(const TrafficSpec& traffic) {
  return traffic.sizes ? traffic.sizes->mean() : static_cast<double>(traffic.flow.message_bytes);
}

SimTime arrivals_end(const Scenario& scenario, const TrafficSpec& traffic) {
  return std::min(traffic.flow.stop, SimTime() + scenario.duration);
}

namespace {

bool in_common(const TrafficSpec& traffic) {
  const std::unordered_set<NodeId> from(traffic.from.begin(), traffic.from.end());
  return std::any_of(traffic.to.begin(), traffic.to.end(),
                     [&](NodeId host) { return from.contains(host); });
}

bool unique(const std::vector<NodeId>& hosts) {
  return std::unordered_set<NodeId>(hosts.begin(), hosts.end()).size() == hosts.size();
}

double messages_of(const Scenario& scenario, const TrafficSpec& traffic) {
  double bytes_per_second = 0;
  for (const double rate : offered(scenario, traffic)) bytes_per_second += rate;
  const SimTime end = arrivals_end(scenario, traffic);
  const double seconds = static_cast<double>((end - traffic.flow.start).count_ps()) / 1e12;
  return bytes_per_second * seconds / mean_bytes(traffic);
}

std::string too_many_flows(double flows) {
  return fmt::format("{:.3g} queue pairs, at most {} are possible", flows, kTrafficFlowsMax);
}

FieldError check_poisson(const Scenario& scenario, const TrafficSpec& traffic) {
  if (!(traffic.load > 0 && traffic.load <= 1)) return {"load", "load is not in 0..1, or 0"};
  const SimTime end = arrivals_end(scenario, traffic);
  if (traffic.flow.start >= end) return {"stop_us", "nothing arrives between start and stop"};
  const double messages = messages_of(scenario, traffic);
  if (messages > kPoissonMessagesMax) {
    return {"load", fmt::format("{:.3g} messages until they stop, at most {:.3g} are possible",
                                messages, kPoissonMessagesMax)};
  }
  const double flows = flows_of(scenario, traffic);
  if (flows > static_cast<double>(kTrafficFlowsMax)) {
    return {traffic.queue_pair_per_message ? "queue_pairs" : "to", too_many_flows(flows)};
  }
  return {};
}

// Checks the hosts against the rule that chooses partners.
FieldError check_partners(const TrafficSpec& traffic, bool permutation) {
  const size_t from = traffic.from.size();
  const size_t to = traffic.to.size();
  if (permutation) {
    if (from != to) return {"to", fmt::format("{} hosts to {}: not as many", from, to)};
    if (from == 1 && same_hosts(traffic)) return {"to", "from a host to itself"};
    if (in_common(traffic) && !same_hosts(traffic)) {
      return {"to", "from and to have some hosts in common, and not all"};
    }
    return {};
  }
  if (from != to && from != 1 && to != 1) {
    return {"to", fmt::format("{} hosts to {}: not as many, nor one", from, to)};
  }
  for (size_t i = 0; i < std::max(from, to); ++i) {
    if (traffic.from[from == 1 ? 0 : i] == traffic.to[to == 1 ? 0 : i]) {
      return {"to", "from a host to itself"};
    }
  }
  return {};
}

FieldError check_incast(const TrafficSpec& traffic) {
  if (traffic.to.size() != 1) return {"to", "an incast has one receiver"};
  const auto others = static_cast<size_t>(std::count_if(
      traffic.from.begin(), traffic.from.end(), [&](NodeId h) { return h != traffic.to[0]; }));
  if (others == 0) return {"from", "no sender but the receiver"};
  if (traffic.senders > others) {
    return {"senders", fmt::format("{} senders of {} hosts", traffic.senders, others)};
  }
  return {};
}

FieldError check_all_to_all(const TrafficSpec& traffic) {
  if (traffic.to.size() == 1 && traffic.from == traffic.to) return {"to", "from a host to itself"};
  const size_t flows = traffic.from.size() * traffic.to.size();
  if (flows > kTrafficFlowsMax) return {"to", too_many_flows(static_cast<double>(flows))};
  return {};
}

FieldError check_random_partners(const TrafficSpec& traffic) {
  const NodeId only = traffic.to[0];
  if (traffic.to.size() > 1) return {};
  const bool itself =
      std::find(traffic.from.begin(), traffic.from.end(), only) != traffic.from.end();
  return itself ? FieldError{"to", "from a host to itself"} : FieldError{};
}

FieldError check_kind(const Scenario& scenario, const TrafficSpec& traffic) {
  switch (traffic.kind) {
    case TrafficKind::kPairs:
      return check_partners(traffic, false);
    case TrafficKind::kPermutation:
      return check_partners(traffic, true);
    case TrafficKind::kIncast:
      return check_incast(traffic);
    case TrafficKind::kAllToAll:
      return check_all_to_all(traffic);
    case TrafficKind::kPoisson:
      break;
  }
  FieldError field_error =
      traffic.partners == PartnerRule::kRandom
          ? check_random_partners(traffic)
          : check_partners(traffic, traffic.partners == PartnerRule::kPermutation);
  return field_error.what.empty() ? check_poisson(scenario, traffic) : field_error;
}

// Checks that the last of the staggered flows begins before the end.
FieldError check_last_start(const Scenario& scenario, const TrafficSpec& traffic) {
  const double flows = flows_of(scenario, traffic);
  const double last_ps = static_cast<double>(traffic.start_every.count_ps()) * (flows - 1) +
                         static_cast<double>(traffic.flow.start.ps());
  if (last_ps < static_cast<double>(scenario.duration.count_ps())) return {};
  return {"start_every_us", fmt::format("the last of {} flows begins at {:.6g} us, after the end",
                                        flows, last_ps / 1e6)};
}

}  // namespace

double flows_of(const Scenario& scenario, const TrafficSpec& traffic) {
  const auto from = static_cast<double>(traffic.from.size());
  const auto to = static_cast<double>(traffic.to.size());
  switch (traffic.kind) {
    case TrafficKind::kPoisson: {
      const double messages = messages_of(scenario, traffic);
      return traffic.queue_pair_per_message ? messages : std::min(messages, from * to);
    }
    case TrafficKind::kAllToAll:
      return from * to;
    case TrafficKind::kIncast:
      return traffic.senders > 0 ? traffic.senders : from;
    default:
      return std::max(from, to);
  }
}

FieldError check_traffic(const Scenario& scenario, const TrafficSpec& traffic) {
  if (traffic.flow.name.empty()) return {"name", "no name"};
  if (traffic.flow.rpc_credits > 0 && traffic.sizes) {
    return {"cdf", "a request is one packet: message_bytes with rpc_credits"};
  }
  // Pairs may repeat, and a host may be in several of them.
  const bool pairs =
      traffic.kind == TrafficKind::kPairs ||
      (traffic.kind == TrafficKind::kPoisson && traffic.partners == PartnerRule::kPairs);
  for (const auto& [key, hosts] : {std::pair{"from", &traffic.from}, {"to", &traffic.to}}) {
    if (hosts->empty()) return {key, "no hosts"};
    for (const NodeId host : *hosts) {
      if (host >= scenario.topology.hosts) return {key, "no such host"};
    }
    if (!pairs && !unique(*hosts)) return {key, "a host is named twice"};
  }
  FieldError field_error = check_kind(scenario, traffic);
  if (!field_error.what.empty() || traffic.kind == TrafficKind::kPoisson) return field_error;
  return check_last_start(scenario, traffic);
}

}  // namespace mprdma::switchsim
