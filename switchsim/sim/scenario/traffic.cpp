#include "switchsim/sim/scenario/traffic.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <utility>

#include "base/prng.hpp"
#include "switchsim/sim/scenario/traffic_rules.hpp"

namespace mprdma::switchsim {

namespace {

using Pair = std::pair<NodeId, NodeId>;

// Draws one cycle through all hosts, so that no host is its own partner (Sattolo 1986).
std::vector<NodeId> drawn_cycle(const std::vector<NodeId>& hosts, Prng prng) {
  std::vector<NodeId> out = hosts;
  for (size_t i = out.size() - 1; i > 0; --i) std::swap(out[i], out[prng.below(i)]);
  return out;
}

std::vector<NodeId> shuffled(const std::vector<NodeId>& hosts, Prng prng) {
  std::vector<NodeId> out = hosts;
  for (size_t i = out.size() - 1; i > 0; --i) std::swap(out[i], out[prng.below(i + 1)]);
  return out;
}

std::vector<Pair> permutation_of(const TrafficSpec& traffic, const Prng& prng) {
  const std::vector<NodeId> to = same_hosts(traffic)
                                     ? drawn_cycle(traffic.from, prng.split("partners"))
                                     : shuffled(traffic.to, prng.split("partners"));
  std::vector<Pair> out;
  for (size_t i = 0; i < to.size(); ++i) out.emplace_back(traffic.from[i], to[i]);
  return out;
}

std::vector<Pair> pairs_of(const TrafficSpec& traffic, const Prng& prng) {
  std::vector<Pair> out;
  const size_t from = traffic.from.size();
  const size_t to = traffic.to.size();
  switch (traffic.kind) {
    case TrafficKind::kPermutation:
      return permutation_of(traffic, prng);
    case TrafficKind::kIncast: {
      const std::vector<NodeId> order =
          traffic.senders == 0 ? traffic.from : shuffled(traffic.from, prng.split("partners"));
      const size_t senders = traffic.senders == 0 ? order.size() : traffic.senders;
      for (size_t i = 0; i < order.size() && out.size() < senders; ++i) {
        if (order[i] != traffic.to[0]) out.emplace_back(order[i], traffic.to[0]);
      }
      return out;
    }
    case TrafficKind::kAllToAll:
      for (const NodeId a : traffic.from) {
        for (const NodeId b : traffic.to) {
          if (a != b) out.emplace_back(a, b);
        }
      }
      return out;
    default:
      for (size_t i = 0; i < std::max(from, to); ++i) {
        out.emplace_back(traffic.from[from == 1 ? 0 : i], traffic.to[to == 1 ? 0 : i]);
      }
      return out;
  }
}

// Adds the flows of one traffic, with names and numbers in order.
class Expansion {
 public:
  Expansion(const TrafficSpec& traffic, Scenario* scenario)
      : traffic_(traffic), scenario_(scenario) {}

  FlowSpec& add(NodeId from, NodeId to) {
    FlowSpec flow = traffic_.flow;
    flow.name += std::to_string(++count_);
    flow.from = from;
    flow.to = to;
    return scenario_->flows.emplace_back(std::move(flow));
  }

 private:
  const TrafficSpec& traffic_;
  Scenario* scenario_;
  uint32_t count_ = 0;
};

void expand_closed(const TrafficSpec& traffic, const Prng& prng, Scenario* scenario) {
  Expansion expansion(traffic, scenario);
  Prng sizes = prng.split("sizes");
  Prng starts = prng.split("starts");
  const auto jitter_ps = static_cast<uint64_t>(traffic.start_jitter.count_ps());
  int64_t number = 0;
  const std::vector<Pair> pairs = pairs_of(traffic, prng);
  scenario->flows.reserve(scenario->flows.size() + pairs.size());
  for (const auto& [from, to] : pairs) {
    FlowSpec& flow = expansion.add(from, to);
    if (traffic.sizes) flow.message_bytes = traffic.sizes->draw(sizes);
    const SimSpan late = SimSpan::ps(static_cast<int64_t>(starts.range(0, jitter_ps)));
    flow.start = flow.start + traffic.start_every * number++ + late;
    if (traffic.last_for > SimSpan())
      flow.stop = std::min(flow.stop, flow.start + traffic.last_for);
  }
}

// Draws the time to the next event of a Poisson process, picoseconds.
double drawn_interval_ps(double mean_ps, Prng& prng) {
  const double u = static_cast<double>(prng.next_u64() >> 11) * 0x1p-53;  // [0, 1)
  return -std::log1p(-u) * mean_ps;
}

// Draws the messages of one sender, in the order of time.
class PoissonSender {
 public:
  PoissonSender(const TrafficSpec& traffic, double bytes_per_second, const Prng& prng)
      : traffic_(traffic),
        mean_ps_(mean_bytes(traffic) / bytes_per_second * 1e12),
        times_(prng.split("times")),
        sizes_(prng.split("sizes")),
        partners_(prng.split("partners")),
        now_ps_(static_cast<double>(traffic.flow.start.ps())) {}

  // Draws the next message. False: there is none before `end`.
  bool next(SimTime end, TimedMessage* out) {
    now_ps_ += drawn_interval_ps(mean_ps_, times_);
    if (now_ps_ >= static_cast<double>(end.ps())) return false;
    out->at = SimTime::from_ps(static_cast<int64_t>(now_ps_));
    out->bytes = traffic_.sizes ? traffic_.sizes->draw(sizes_) : traffic_.flow.message_bytes;
    return true;
  }
  // Draws a partner from `to` that is not the sender.
  NodeId partner(NodeId self) {
    NodeId to = self;
    while (to == self) to = traffic_.to[partners_.below(traffic_.to.size())];
    return to;
  }

 private:
  const TrafficSpec& traffic_;
  double mean_ps_;
  Prng times_;
  Prng sizes_;
  Prng partners_;
  double now_ps_;
};

void expand_poisson(const TrafficSpec& traffic, const Prng& prng, Scenario* scenario) {
  Expansion expansion(traffic, scenario);
  const SimTime end = arrivals_end(*scenario, traffic);
  const std::vector<double> rates = offered(*scenario, traffic);
  std::vector<Pair> pairs;
  if (traffic.partners == PartnerRule::kPermutation) pairs = permutation_of(traffic, prng);
  if (traffic.partners == PartnerRule::kPairs) pairs = pairs_of(traffic, prng);
  // The pairs of a sender share its load.
  std::map<NodeId, double> rate_of;
  std::map<NodeId, double> pairs_of_host;
  for (size_t i = 0; i < traffic.from.size(); ++i) rate_of[traffic.from[i]] = rates[i];
  for (const Pair& pair : pairs) pairs_of_host[pair.first] += 1;
  const size_t senders = pairs.empty() ? traffic.from.size() : pairs.size();
  for (size_t i = 0; i < senders; ++i) {
    const NodeId from = pairs.empty() ? traffic.from[i] : pairs[i].first;
    const double rate = rate_of[from] / (pairs.empty() ? 1 : pairs_of_host[from]);
    PoissonSender sender(traffic, rate, prng.split(i));
    std::map<NodeId, std::vector<TimedMessage>> messages;
    TimedMessage message;
    while (sender.next(end, &message)) {
      const NodeId to = pairs.empty() ? sender.partner(from) : pairs[i].second;
      if (traffic.queue_pair_per_message) {
        expansion.add(from, to).timed_messages = {message};
      } else {
        messages[to].push_back(message);
      }
    }
    for (auto& [to, list] : messages) expansion.add(from, to).timed_messages = std::move(list);
  }
}

}  // namespace

void expand_traffic(Scenario* scenario) {
  const std::vector<TrafficSpec> all = std::move(scenario->traffic);
  scenario->traffic.clear();
  const Prng root = Prng(scenario->seed).split("traffic");
  for (const TrafficSpec& traffic : all) {
    const Prng prng = root.split(traffic.flow.name);
    const size_t first = scenario->flows.size();
    if (traffic.kind == TrafficKind::kPoisson) {
      expand_poisson(traffic, prng, scenario);
    } else {
      expand_closed(traffic, prng, scenario);
    }
    // A message at a given time is posted even if the flow is late, so `start` and `stop` do not
    // apply.
    for (size_t i = first; i < scenario->flows.size(); ++i) {
      FlowSpec& flow = scenario->flows[i];
      if (flow.timed_messages.empty()) continue;
      flow.start = SimTime();
      flow.stop = SimTime::never();
    }
  }
}

}  // namespace mprdma::switchsim
