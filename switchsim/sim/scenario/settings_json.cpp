#include "switchsim/sim/scenario/settings_json.hpp"

#include <map>
#include <string>
#include <utility>

#include "switchsim/sim/scenario/scenario_json.hpp"
#include "transport/core/param_words.hpp"

namespace mprdma::switchsim {

namespace {

using nlohmann::ordered_json;
using transport::word_of;
using transport::Words;

const Words kOperationWords = {"write", "send", "read"};
const Words kTrafficWords = {"pairs", "permutation", "incast", "all-to-all", "poisson"};
const Words kPartnerWords = {"random", "pairs", "permutation"};
const Words kDirectionWords = {"both", "ab", "ba"};
const Words kHeadroomWords = {"auto", "hpcc", "bytes"};

double span_us(SimSpan span) {
  return static_cast<double>(span.count_ps()) / 1e6;
}

// Prints microseconds; null: never.
ordered_json time_us(SimTime time) {
  if (time.is_never()) return nullptr;
  return static_cast<double>(time.ps()) / 1e6;
}

// The distinct settings, each with the number and the first of those that have them.
class Sets {
 public:
  explicit Sets(const char* count) : count_(count) {}
  void add(const std::string& name, const ordered_json& settings) {
    const auto [found, fresh] = known_.try_emplace(settings.dump(), sets_.size());
    if (fresh) {
      sets_.push_back({{count_, 0}, {"first", name}});
      sets_.back().update(settings);
    }
    ordered_json& count = sets_[found->second][count_];
    count = count.get<size_t>() + 1;
  }
  [[nodiscard]] const ordered_json& all() const { return sets_; }

 private:
  const char* count_;
  ordered_json sets_ = ordered_json::array();
  std::map<std::string, size_t> known_;  // index by the text of a setting
};

ordered_json bytes_json(uint64_t bytes) {
  if (bytes == UINT64_MAX) return "unlimited";
  return bytes;
}

// Prints RED with the keys of a scenario; null: no ECN.
ordered_json red_json(const RedConfig& red) {
  if (red.kmax_bytes == 0) return nullptr;
  return {{"pmax", red.pmax_ppm / 1e6},
          {"kmin_bytes", red.kmin_bytes},
          {"kmax_bytes", red.kmax_bytes},
          {"mark_on", red.mark_on_enqueue ? "enqueue" : "dequeue"}};
}

ordered_json links_json(const Topology& topology) {
  Sets sets("directions");
  for (const LinkConfig& link : topology.links) {
    for (const auto& [port, end] : {std::pair(&link.ab, ".ab"), std::pair(&link.ba, ".ba")}) {
      sets.add(link.name + end, {{"rate_bps", port->rate.bits_per_second()},
                                 {"delay_us", span_us(port->delay)},
                                 {"queue_bytes", bytes_json(port->queue_bytes_max)},
                                 {"loss", port->loss_ppm / 1e6},
                                 {"drop_every", port->drop_every},
                                 {"red", red_json(port->red)}});
    }
  }
  return sets.all();
}

ordered_json buffers_json(const Topology& topology) {
  const PfcConfig& pfc = topology.pfc;
  ordered_json out = {{"switch_buffer_bytes", topology.switch_buffer_bytes},
                      {"buffer_alpha", topology.buffer_alpha_q16 / 65536.0},
                      {"reserve_bytes", topology.reserve_bytes},
                      {"pfc", nullptr}};
  if (!pfc.on) return out;
  out["pfc"] = {{"pause_bytes", pfc.pause_bytes},
                {"hysteresis_bytes", pfc.hysteresis_bytes},
                {"headroom", word_of(kHeadroomWords, pfc.headroom)},
                {"headroom_bytes", pfc.headroom_bytes},
                {"mtu_bytes", pfc.mtu_bytes},
                {"global_pause", pfc.global},
                {"priority", pfc.pcp ? "pcp" : "dscp"}};
  return out;
}

SimTime rounded_down(SimTime time, SimSpan step) {
  return time.is_never() ? time : SimTime::from_ps(time.ps() - time.ps() % step.count_ps());
}

ordered_json flow_settings(const Scenario& scenario, const FlowSpec& flow, SimSpan start_step) {
  ordered_json out = {{"operation", word_of(kOperationWords, flow.operation)},
                      {"message_bytes", flow.message_bytes},
                      {"messages", flow.messages},
                      {"post_depth", flow.post_depth},
                      {"think_us", span_us(flow.think)},
                      {"start_us", time_us(rounded_down(flow.start, start_step))},
                      {"stop_us", time_us(flow.stop)},
                      {"synchronise_share", flow.synchronise_ppm / 1e6},
                      {"turn_packets", flow.turn_packets},
                      {"receives", flow.receives},
                      {"lossless", flow.lossless},
                      {"pinned", nullptr},
                      {"may_fail", flow.may_fail}};
  if (flow.pinned_link) out["pinned"] = scenario.topology.links[*flow.pinned_link].name;
  if (flow.rpc_credits > 0) {
    out["rpc"] = {{"credits", flow.rpc_credits},
                  {"response_bytes", flow.rpc_response_bytes},
                  {"timeout_us", span_us(flow.rpc_timeout)}};
  }
  return out;
}

// Messages at given times, of all flows together: each flow has its own draw.
ordered_json timed_json(const Scenario& scenario) {
  uint64_t messages = 0;
  uint64_t bytes = 0;
  for (const FlowSpec& flow : scenario.flows) {
    messages += flow.timed_messages.size();
    for (const TimedMessage& message : flow.timed_messages) bytes += message.bytes;
  }
  return {{"messages", messages}, {"bytes", bytes}};
}

ordered_json flows_json(const Scenario& scenario, SimSpan start_step) {
  Sets sets("flows");
  for (size_t i = 0; i < scenario.flows.size(); ++i) {
    const FlowSpec& flow = scenario.flows[i];
    sets.add(flow.name.empty() ? "flow" + std::to_string(i) : flow.name,
             flow_settings(scenario, flow, start_step));
  }
  return sets.all();
}

ordered_json traffic_settings(const Scenario& scenario, SimSpan start_step) {
  ordered_json out = ordered_json::array();
  for (const TrafficSpec& traffic : scenario.traffic) {
    ordered_json one = {{"name", traffic.flow.name},
                        {"kind", word_of(kTrafficWords, traffic.kind)},
                        {"from", traffic.from.size()},
                        {"to", traffic.to.size()},
                        {"drawn_sizes", traffic.sizes.has_value()},
                        {"senders", traffic.senders},
                        {"start_every_us", span_us(traffic.start_every)},
                        {"start_jitter_us", span_us(traffic.start_jitter)},
                        {"last_for_us", span_us(traffic.last_for)},
                        {"load", traffic.load},
                        {"partners", word_of(kPartnerWords, traffic.partners)},
                        {"queue_pair_per_message", traffic.queue_pair_per_message}};
    one.update(flow_settings(scenario, traffic.flow, start_step));
    out.push_back(std::move(one));
  }
  return out;
}

ordered_json changes_json(const Scenario& scenario) {
  ordered_json out = ordered_json::array();
  for (const LinkEvent& event : scenario.events) {
    ordered_json one = {{"at_us", time_us(event.at)},
                        {"link", scenario.topology.links[event.link].name},
                        {"direction", word_of(kDirectionWords, event.direction)}};
    if (event.up) one["up"] = *event.up;
    if (event.rate) one["rate_bps"] = event.rate->bits_per_second();
    if (event.loss_ppm) one["loss"] = *event.loss_ppm / 1e6;
    if (event.delay) one["delay_us"] = span_us(*event.delay);
    if (event.red) one["red"] = red_json(*event.red);
    if (event.queue_bytes_max) one["queue_bytes"] = bytes_json(*event.queue_bytes_max);
    if (event.pausing) one["pausing"] = *event.pausing;
    out.push_back(std::move(one));
  }
  return out;
}

ordered_json receivers_json(const Scenario& scenario) {
  ordered_json out = ordered_json::array();
  for (const ReceiverSpec& spec : scenario.receivers) {
    out.push_back({{"hosts", spec.hosts.size()},
                   {"packet_us", span_us(spec.packet_time)},
                   {"miss_us", span_us(spec.miss_time)},
                   {"entries", spec.entries},
                   {"page_bytes", spec.page_bytes},
                   {"memory_bytes", spec.memory_bytes},
                   {"buffer_bytes", spec.buffer_bytes}});
  }
  return out;
}

}  // namespace

ordered_json settings_json(const Scenario& scenario, SimSpan start_step) {
  ordered_json out = {{"overrides", scenario.overrides},
                      {"duration_us", span_us(scenario.duration)},
                      {"warm_up_us", span_us(scenario.warm_up)},
                      {"end_when_idle", scenario.end_when_idle},
                      {"reroute", scenario.reroute},
                      {"reroute_after_us", span_us(scenario.reroute_after)},
                      {"ack_delay_us", span_us(scenario.ack_delay)},
                      {"ack_jitter_us", span_us(scenario.ack_jitter)},
                      {"held_frames", scenario.held_frames},
                      {"nic_watchdog_us", span_us(scenario.nic_watchdog)},
                      {"switch_watchdog_us", span_us(scenario.switch_watchdog)},
                      {"flood", scenario.topology.flood},
                      {"buffers", buffers_json(scenario.topology)},
                      {"links", links_json(scenario.topology)},
                      {"flows", flows_json(scenario, start_step)},
                      {"timed", timed_json(scenario)}};
  if (!scenario.traffic.empty()) out["traffic"] = traffic_settings(scenario, start_step);
  out["changes"] = changes_json(scenario);
  if (!scenario.receivers.empty()) out["receivers"] = receivers_json(scenario);
  out["transport"] = transport_json(scenario);
  return out;
}

}  // namespace mprdma::switchsim
