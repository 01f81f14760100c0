#include "switchsim/sim/scenario/scenario_json.hpp"

#include <algorithm>
#include <map>
#include <span>
#include <string>
#include <type_traits>
#include <utility>

#include "switchsim/sim/scenario/traffic.hpp"
#include "transport/core/param_visit.hpp"

namespace mprdma::switchsim {

namespace {

using nlohmann::ordered_json;

template <class Value>
ordered_json value_json(Value value) {
  if constexpr (std::is_enum_v<Value>) {
    return transport::word_of(value);
  } else {
    return value;
  }
}
// Prints microseconds; a whole number where the value is one.
ordered_json value_json(Duration duration) {
  const int64_t ns = duration.count_ns();
  if (ns % 1000 == 0) return ns / 1000;
  return static_cast<double>(ns) / 1e3;
}
ordered_json value_json(Fixed16 value) {
  return static_cast<double>(value.raw()) / Fixed16::kOneRaw;
}

ordered_json flow_params_json(const FlowSpec& flow) {
  ordered_json out = params_json(flow.params);
  out["path_mtu"] = flow.path_mtu;
  out["timeout"] = flow.timeout;
  out["retry_cnt"] = flow.retry_cnt;
  return out;
}

// The distinct sets of parameters, each with the flows that have it.
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
  std::map<std::string, size_t> known_;  // index by the text of a set
};

// The draws of one traffic; `messages` and `bytes` are null if flows post without end.
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
  Scenario one = scenario;  // a traffic draws the same alone as beside others
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
  ordered_json out;
  transport::for_each_param([&](const transport::Param& param, auto member) {
    // The topology has the rate of the link.
    if (param.scope == transport::ParamScope::kLink) return;
    out[std::string(param.key)] = value_json(params.*member);
  });
  return out;
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
