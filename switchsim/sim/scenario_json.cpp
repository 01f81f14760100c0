#include "switchsim/sim/scenario_json.hpp"

#include <algorithm>
#include <map>
#include <span>
#include <utility>

#include "switchsim/sim/param_words.hpp"
#include "switchsim/sim/traffic.hpp"

namespace mprdma::switchsim {

namespace {

using nlohmann::ordered_json;

// Microseconds; a whole number where it is one.
ordered_json us(Duration duration) {
  const int64_t ns = duration.count_ns();
  if (ns % 1000 == 0) return ns / 1000;
  return static_cast<double>(ns) / 1e3;
}

ordered_json flow_params_json(const FlowSpec& flow) {
  ordered_json out = params_json(flow.params);
  out["path_mtu"] = flow.path_mtu;
  out["timeout"] = flow.timeout;
  out["retry_cnt"] = flow.retry_cnt;
  return out;
}

// Sets of parameters that differ, each with whose they are.
class ParamSets {
 public:
  ordered_json& of(const FlowSpec& flow) {
    const ordered_json params = flow_params_json(flow);
    const auto [found, fresh] = known_.try_emplace(params.dump(), sets_.size());
    if (fresh) {
      sets_.push_back({{"flows", 0}, {"first_flow", nullptr}, {"traffic", ordered_json::array()}});
      sets_.back().update(params);
    }
    return sets_[found->second];
  }
  [[nodiscard]] const ordered_json& all() const { return sets_; }

 private:
  ordered_json sets_ = ordered_json::array();
  std::map<std::string, size_t> known_;  // by their text
};

// What one traffic has drawn; `messages` and `bytes` are null of flows that post without end.
ordered_json drawn_json(const std::string& name, std::span<const FlowSpec> flows) {
  uint64_t messages = 0;
  uint64_t bytes = 0;
  bool ends = true;
  for (const FlowSpec& flow : flows) {
    for (const TimedMessage& message : flow.timed_messages) bytes += message.bytes;
    messages += flow.timed_messages.size() + flow.messages;
    bytes += flow.messages * flow.message_bytes;
    ends = ends && (flow.messages > 0 || !flow.timed_messages.empty());
  }
  ordered_json out = {{"name", name}, {"flows", flows.size()}};
  out["messages"] = ends ? ordered_json(messages) : nullptr;
  out["bytes"] = ends ? ordered_json(bytes) : nullptr;
  return out;
}

ordered_json traffic_json(const Scenario& scenario) {
  ordered_json out = ordered_json::array();
  Scenario one = scenario;  // each alone draws the same as beside the others
  for (const TrafficSpec& traffic : scenario.traffic) {
    one.flows.clear();
    one.traffic = {traffic};
    expand_traffic(&one);
    out.push_back(drawn_json(traffic.flow.name, one.flows));
  }
  return out;
}

}  // namespace

ordered_json params_json(const transport::Params& params) {
  // All members by name: with one more this does not compile, and nothing is left out.
  const auto& [protocol, window_slots, initial_window, window_max, loss_trigger, reorder_delta,
               limit_growth, loss_shrinks_window, timeout_shrinks_window, adapt_timeout,
               early_retransmit, tail_probe, sack_map, rto_floor, rto_ceiling, probe_floor,
               initial_rtt, window_control, path_policy, path_probe_per_mille,
               path_window_reduction, window_give_back, restart, sync_wait_is_backlog, placement,
               sync_policy, sync_alpha, congestion,
               link_mbps_of_host] = params;  // the last one: from the topology, not from here
  return {{"mode", word_of(kProtocolWords, protocol)},
          {"window_slots", window_slots},
          {"initial_window", initial_window},
          {"window_max", window_max},
          {"loss_trigger", loss_trigger},
          {"reorder_delta", reorder_delta},
          {"limit_growth", limit_growth},
          {"loss_shrinks_window", loss_shrinks_window},
          {"timeout_shrinks_window", timeout_shrinks_window},
          {"adapt_timeout", adapt_timeout},
          {"early_retransmit", early_retransmit},
          {"tail_probe", tail_probe},
          {"sack_map", sack_map},
          {"rto_floor_us", us(rto_floor)},
          {"rto_ceiling_us", us(rto_ceiling)},
          {"probe_floor_us", us(probe_floor)},
          {"initial_rtt_us", us(initial_rtt)},
          {"window_control", word_of(kWindowControlWords, window_control)},
          {"path_policy", word_of(kPathPolicyWords, path_policy)},
          {"path_probe_per_mille", path_probe_per_mille},
          {"path_window_reduction", path_window_reduction},
          {"window_give_back", window_give_back},
          {"restart", word_of(kRestartWords, restart)},
          {"sync_wait_is_backlog", sync_wait_is_backlog},
          {"placement", word_of(kPlacementWords, placement)},
          {"sync_policy", word_of(kSyncPolicyWords, sync_policy)},
          {"sync_alpha", static_cast<double>(sync_alpha.raw()) / Fixed16::kOneRaw},
          {"congestion", word_of(kCongestionWords, congestion)}};
}

ordered_json transport_json(const Scenario& scenario) {
  ParamSets sets;
  for (size_t i = 0; i < scenario.flows.size(); ++i) {
    const FlowSpec& flow = scenario.flows[i];
    ordered_json& set = sets.of(flow);
    set["flows"] = set["flows"].get<size_t>() + 1;
    if (!set["first_flow"].is_null()) continue;
    set["first_flow"] = flow.name.empty() ? "flow" + std::to_string(i) : flow.name;
  }
  for (const TrafficSpec& traffic : scenario.traffic) {
    sets.of(traffic.flow)["traffic"].push_back(traffic.flow.name);
  }
  return sets.all();
}

ordered_json sizes_json(const Scenario& scenario) {
  ordered_json out = ordered_json::object();
  for (const TrafficSpec& traffic : scenario.traffic) {
    if (!traffic.sizes || traffic.sizes->built_in()) continue;
    ordered_json& rows = out[traffic.flow.name] = ordered_json::array();
    for (const SizeDistribution::Row& row : traffic.sizes->rows()) {
      rows.push_back({row.bytes, row.probability});
    }
  }
  return out;
}

ordered_json constants_json(const Scenario& scenario) {
  ordered_json out = {{"scenario_text", nullptr},
                      {"overrides", scenario.overrides},
                      {"transport", transport_json(scenario)}};
  if (!scenario.text.empty()) out["scenario_text"] = scenario.text;
  if (!scenario.traffic.empty()) out["traffic"] = traffic_json(scenario);
  if (ordered_json sizes = sizes_json(scenario); !sizes.empty()) out["sizes"] = std::move(sizes);
  return out;
}

}  // namespace mprdma::switchsim
