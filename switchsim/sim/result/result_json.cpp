#include "switchsim/sim/result/result_json.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "switchsim/sim/scenario/scenario_json.hpp"

namespace mprdma::switchsim {

namespace {

using nlohmann::ordered_json;

// Six digits are as exact as a simulation, and keep the files readable.
double rounded(double value) {
  return std::isfinite(value) ? std::stod(fmt::format("{:.6g}", value)) : 0;
}

template <class Counters>
ordered_json counters_json(const Counters& counters) {
  ordered_json out = ordered_json::object();
  counters.for_each([&](std::string_view name, uint64_t value) {
    if (value != 0) out[std::string(name)] = value;
  });
  return out;
}

ordered_json ooo_json(const OooHistogram& ooo) {
  return {{"packets", ooo.total()},        {"p50", ooo.percentile(0.5)},
          {"p90", ooo.percentile(0.9)},    {"p99", ooo.percentile(0.99)},
          {"p999", ooo.percentile(0.999)}, {"max", ooo.max()}};
}

ordered_json retransmission_json(const transport::StreamStats& stats) {
  return {{"total", stats.retransmitted},           {"nack", stats.retransmitted_nack},
          {"trigger", stats.retransmitted_trigger}, {"early", stats.retransmitted_early},
          {"rto", stats.retransmitted_rto},         {"sync", stats.retransmitted_sync},
          {"probe", stats.retransmitted_probe}};
}

ordered_json fct_json(const FlowResult& flow) {
  if (flow.messages.empty()) return nullptr;
  double sum = 0;
  double longest = 0;
  for (const MessageRecord& message : flow.messages) {
    const double us = static_cast<double>(message.fct().count_ps()) / 1e6;
    sum += us;
    longest = std::max(longest, us);
  }
  return {{"mean", rounded(sum / static_cast<double>(flow.messages.size()))},
          {"max", rounded(longest)}};
}

ordered_json fct_classes_json(const FctSummary& fct) {
  ordered_json out = {{"unfinished", fct.unfinished}};
  for (const FctClass& c : fct.classes) {
    out[std::string(c.name)] = {{"messages", c.messages},
                                {"mean_us", rounded(c.mean_us)},
                                {"p50_us", rounded(c.p50_us)},
                                {"p99_us", rounded(c.p99_us)},
                                {"slowdown_mean", rounded(c.slowdown_mean)},
                                {"slowdown_p99", rounded(c.slowdown_p99)}};
  }
  return out;
}

ordered_json flow_json(const FlowResult& flow) {
  const transport::StreamStats& stats = flow.stats;
  return {{"name", flow.name},
          {"from", flow.from},
          {"to", flow.to},
          {"transport", flow.transport},
          {"goodput_bps", rounded(flow.goodput_bps)},
          {"posted_bytes", flow.posted_bytes},
          {"delivered_bytes", flow.delivered_bytes},
          {"completed_bytes", flow.completed_bytes},
          {"messages_completed", flow.messages_completed},
          {"fct_us", fct_json(flow)},
          {"failed", flow.failed},
          {"window_mean", rounded(flow.window_mean)},
          {"srtt_mean_us", rounded(flow.srtt_mean_us)},
          {"ooo_degree", ooo_json(flow.ooo)},
          {"path_bytes", flow.path_bytes},
          {"packets_sent", stats.packets_sent},
          {"retransmitted", retransmission_json(stats)},
          {"rto_expired", stats.rto_expired},
          {"spurious", flow.spurious},
          {"sync_posted", flow.sync_posted},
          {"sync_early", flow.sync_early},
          {"flowlet_bytes", flow.flowlet_bytes},
          {"flowlet_pauses", flow.flowlet_pauses},
          {"ece_received", stats.ece_received},
          {"acks_pruned", stats.acks_pruned},
          {"path_probes", stats.path_probes},
          {"random_paths", stats.random_paths},
          {"restarts", stats.restarts},
          {"window_reductions", stats.window_reductions},
          {"paths_in_use", stats.paths_in_use},
          {"rate_bps", stats.rate_bps},
          {"sender", counters_json(flow.sender)},
          {"receiver", counters_json(flow.receiver)}};
}

ordered_json port_json(const PortResult& port, bool pfc) {
  ordered_json out = {{"name", port.name},
                      {"rate_bps", port.rate.bits_per_second()},
                      {"utilisation", rounded(port.utilisation)},
                      {"mark_ratio", rounded(port.mark_ratio)},
                      {"queue_mean_bytes", rounded(port.queue_mean_bytes)},
                      {"queue_sd_bytes", rounded(port.queue_sd_bytes)},
                      {"queue_max_bytes", port.queue_max_bytes},
                      {"counters", counters_json(port.total)}};
  if (!pfc) return out;
  out["pause_sent"] = port.pause_sent;
  out["paused_share"] = rounded(port.paused_share);
  out["headroom_peak_bytes"] = port.headroom_peak_bytes;
  return out;
}

ordered_json deadlock_json(const Result& result) {
  if (!result.deadlock) return nullptr;
  return {{"seen_us", static_cast<double>(result.deadlock->seen.ps()) / 1e6},
          {"cycle", result.deadlock->cycle}};
}

// The rate between the points i and i + 1 of a cumulative series, in units a second.
double rate_at(const std::vector<uint64_t>& series, const std::vector<double>& time_us, size_t i) {
  const double span_us = time_us[i + 1] - time_us[i];
  return span_us > 0 ? static_cast<double>(series[i + 1] - series[i]) * 1e6 / span_us : 0;
}

std::vector<double> rates_bps(const std::vector<uint64_t>& series,
                              const std::vector<double>& time_us) {
  std::vector<double> out;
  for (size_t i = 0; i + 1 < series.size(); ++i) {
    out.push_back(rounded(rate_at(series, time_us, i) * 8));
  }
  return out;
}

std::vector<double> rounded_all(const std::vector<float>& values) {
  std::vector<double> out;
  out.reserve(values.size());
  for (const float value : values) out.push_back(rounded(value));
  return out;
}

// The share of the time between the points i and i + 1 for which the port was paused.
double paused_share_at(const PortResult& port, const std::vector<double>& time_us, size_t i) {
  const double span_us = time_us[i + 1] - time_us[i];
  return span_us > 0 ? (port.paused_us_series[i + 1] - port.paused_us_series[i]) / span_us : 0;
}

std::vector<double> paused_shares(const PortResult& port, const std::vector<double>& time_us) {
  std::vector<double> out;
  for (size_t i = 0; i + 1 < port.paused_us_series.size(); ++i) {
    out.push_back(rounded(paused_share_at(port, time_us, i)));
  }
  return out;
}

ordered_json series_json(const Result& result) {
  ordered_json out = {{"time_us", result.time_us}};
  // Names are unique. An assignment by name would look for each among all those before.
  auto& all = out.get_ref<ordered_json::object_t&>();
  const auto add = [&all](std::string name, ordered_json values) {
    all.emplace_back(std::move(name), std::move(values));
  };
  for (const FlowResult& flow : result.flows) {
    add(flow.name + ".goodput_bps", rates_bps(flow.delivered_series, result.time_us));
    add(flow.name + ".window", rounded_all(flow.window_series));
    add(flow.name + ".srtt_us", rounded_all(flow.srtt_us_series));
    add(flow.name + ".ooo_max", flow.ooo_max_series);
    if (!flow.virtual_paths_series.empty()) {
      add(flow.name + ".virtual_paths", flow.virtual_paths_series);
      add(flow.name + ".virtual_paths_recent", flow.virtual_paths_recent_series);
    }
    for (size_t path = 0; path < flow.path_bytes_series.size(); ++path) {
      add(fmt::format("{}.path{}_bps", flow.name, path + 1),
          rates_bps(flow.path_bytes_series[path], result.time_us));
    }
  }
  for (const PortResult& port : result.ports) {
    if (port.total.packets == 0) continue;
    add(port.name + ".bps", rates_bps(port.bytes_series, result.time_us));
    add(port.name + ".queue_bytes", port.queue_series);
    if (!result.pfc) continue;
    add(port.name + ".pause_sent", port.pause_sent_series);
    add(port.name + ".paused_share", paused_shares(port, result.time_us));
  }
  return out;
}

}  // namespace

ordered_json to_json(const Result& result, const Scenario& scenario, const std::string& command,
                     const std::string& revision, bool with_series) {
  ordered_json flows = ordered_json::array();
  for (const FlowResult& flow : result.flows) flows.push_back(flow_json(flow));
  ordered_json ports = ordered_json::array();
  for (const PortResult& port : result.ports) {
    if (port.total.packets != 0) ports.push_back(port_json(port, result.pfc));
  }
  ordered_json constants = {{"payload_share", rounded(result.payload_share)},
                            {"ceiling_bps", rounded(result.ceiling_bps)}};
  constants.update(constants_json(scenario));
  ordered_json out = {{"schema", 1},
                      {"command", command},
                      {"revision", revision},
                      {"machine", nullptr},
                      {"constants", std::move(constants)},
                      {"claims", ordered_json::array()},
                      {"scenario", result.scenario},
                      {"seed", result.seed},
                      {"end_us", static_cast<double>(result.end.ps()) / 1e6},
                      {"complete", result.complete},
                      {"errors", result.errors},
                      {"totals",
                       {{"goodput_bps", rounded(result.goodput_bps)},
                        {"jain", rounded(result.jain)},
                        {"ooo_degree", ooo_json(result.ooo)},
                        {"retransmitted", result.retransmitted()},
                        {"rto_expired", result.timeouts()},
                        {"spurious", result.spurious()},
                        {"events", result.events},
                        {"packet_hops", result.packet_hops}}},
                      {"deadlock", deadlock_json(result)},
                      {"fct", fct_classes_json(result.fct)},
                      {"flows", std::move(flows)},
                      {"ports", std::move(ports)}};
  if (result.nic_watchdog_trips != 0) out["nic_watchdog_trips"] = result.nic_watchdog_trips;
  if (result.switch_watchdog_trips != 0) {
    out["switch_watchdog_trips"] = result.switch_watchdog_trips;
  }
  if (result.receiver_drops != 0) out["receiver_drops"] = result.receiver_drops;
  if (with_series) out["series"] = series_json(result);
  return out;
}

std::string flows_csv(const Result& result) {
  std::string out = "time_us";
  for (const FlowResult& flow : result.flows) {
    out += fmt::format(",{0}.goodput_bps,{0}.window,{0}.srtt_us,{0}.ooo_max", flow.name);
  }
  out += "\n";
  for (size_t i = 1; i < result.time_us.size(); ++i) {
    out += fmt::format("{}", result.time_us[i]);
    for (const FlowResult& flow : result.flows) {
      out += fmt::format(
          ",{},{},{},{}", rounded(rate_at(flow.delivered_series, result.time_us, i - 1) * 8),
          rounded(flow.window_series[i]), rounded(flow.srtt_us_series[i]), flow.ooo_max_series[i]);
    }
    out += "\n";
  }
  return out;
}

std::string ports_csv(const Result& result) {
  std::string out = "time_us";
  for (const PortResult& port : result.ports) {
    if (port.total.packets == 0) continue;
    out += fmt::format(",{0}.bps,{0}.marked,{0}.queue_bytes", port.name);
    if (result.pfc) out += fmt::format(",{0}.pause_sent,{0}.paused_share", port.name);
  }
  out += "\n";
  for (size_t i = 1; i < result.time_us.size(); ++i) {
    out += fmt::format("{}", result.time_us[i]);
    for (const PortResult& port : result.ports) {
      if (port.total.packets == 0) continue;
      out +=
          fmt::format(",{},{},{}", rounded(rate_at(port.bytes_series, result.time_us, i - 1) * 8),
                      port.marked_series[i] - port.marked_series[i - 1], port.queue_series[i]);
      if (!result.pfc) continue;
      out += fmt::format(",{},{}", port.pause_sent_series[i] - port.pause_sent_series[i - 1],
                         rounded(paused_share_at(port, result.time_us, i - 1)));
    }
    out += "\n";
  }
  return out;
}

}  // namespace mprdma::switchsim
