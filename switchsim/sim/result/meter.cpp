#include "switchsim/sim/result/meter.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "switchsim/model/deadlock.hpp"

namespace mprdma::switchsim {

namespace {

double seconds(SimSpan span) {
  return static_cast<double>(span.count_ps()) / 1e12;
}

// Converts a window from Q16.16.
double window_packets(const transport::StreamStats& stats) {
  return stats.window_raw / 65536.0;
}

LinkCounters difference(const LinkCounters& now, const LinkCounters& before) {
  LinkCounters out;
  out.packets = now.packets - before.packets;
  out.bytes = now.bytes - before.bytes;
  out.marked = now.marked - before.marked;
  out.drop_queue = now.drop_queue - before.drop_queue;
  out.drop_buffer = now.drop_buffer - before.drop_buffer;
  out.drop_loss = now.drop_loss - before.drop_loss;
  out.drop_down = now.drop_down - before.drop_down;
  out.drop_route = now.drop_route - before.drop_route;
  out.flooded = now.flooded - before.flooded;
  out.drop_paused = now.drop_paused - before.drop_paused;
  out.drop_flooded = now.drop_flooded - before.drop_flooded;
  return out;
}

}  // namespace

Meter::Meter(const Scenario& scenario, HostSet& hosts, const Network<HostSet>& network)
    : scenario_(scenario),
      hosts_(hosts),
      network_(network),
      prng_(Prng(scenario.seed).split("queue samples")),
      warm_up_(SimTime() + scenario.warm_up),
      flows_(scenario.flows.size()),
      ports_(scenario.topology.ports()) {
  for (FlowState& flow : flows_) {
    flow.path_bytes_at_warm_up.resize(scenario.paths.size());
    flow.path_bytes_series.resize(scenario.paths.size());
  }
  for (PortId port = 0; port < ports_.size(); ++port) {
    const LinkConfig& link = scenario.topology.links[port / 2];
    ports_[port].rate = port % 2 == 0 ? link.ab.rate : link.ba.rate;
  }
  draw_queue_sample();
  sample();
  if (scenario.warm_up == SimSpan()) warm_up();
}

SimTime Meter::next() const {
  const SimTime regular = std::min(next_sample_, next_queue_sample_);
  return warm_ ? regular : std::min(regular, warm_up_);
}

void Meter::look() {
  const SimTime now = network_.now();
  if (!warm_ && now >= warm_up_) warm_up();
  if (now >= next_queue_sample_) sample_queues();
  if (now >= next_sample_) sample();
}

void Meter::on_rate(PortId port, LinkRate rate) {
  PortState& state = ports_[port];
  const SimTime since = std::max(state.rate_since, warm_up_);
  if (network_.now() > since) {
    state.bits_possible +=
        static_cast<double>(state.rate.bits_per_second()) * seconds(network_.now() - since);
  }
  state.rate = rate;
  state.rate_since = network_.now();
}

void Meter::warm_up() {
  warm_ = true;
  for (uint32_t i = 0; i < flows_.size(); ++i) {
    Flow& flow = hosts_.flows()[i];
    FlowState& state = flows_[i];
    state.delivered_at_warm_up = flow.delivered_bytes;
    state.packets_at_warm_up = flow.packets_received;
    state.ce_at_warm_up = flow.ce_received;
    state.path_bytes_at_warm_up = flow.path_bytes;
    flow.ooo.clear();
  }
  for (PortId port = 0; port < ports_.size(); ++port) {
    ports_[port].at_warm_up = network_.counters(port);
    ports_[port].pause_at_warm_up = network_.pause_state(port);
  }
}

void Meter::draw_queue_sample() {
  const auto interval_ps = static_cast<uint64_t>(scenario_.queue_sample.count_ps());
  const auto offset_ps = static_cast<int64_t>(1 + prng_.below(interval_ps));
  next_queue_sample_ = queue_slot_ + SimSpan::ps(offset_ps);
  queue_slot_ = queue_slot_ + scenario_.queue_sample;
}

void Meter::sample_queues() {
  draw_queue_sample();
  if (!warm_) return;
  ++queue_samples_;
  for (PortId port = 0; port < ports_.size(); ++port) {
    const uint64_t bytes = network_.queue_bytes(port);
    if (bytes == 0) continue;
    PortState& state = ports_[port];
    const auto exact = static_cast<double>(bytes);
    state.queue_sum += exact;
    state.queue_square_sum += exact * exact;
    state.queue_max = std::max(state.queue_max, bytes);
  }
}

void Meter::sample() {
  const SimTime now = network_.now();
  next_sample_ = now + scenario_.sample;
  time_us_.push_back(static_cast<double>(now.ps()) / 1e6);
  samples_ += warm_ ? 1 : 0;
  for (uint32_t i = 0; i < flows_.size(); ++i) {
    Flow& flow = hosts_.flows()[i];
    FlowState& state = flows_[i];
    const transport::StreamStats stats = hosts_.stats(i);
    const double srtt_us = static_cast<double>(stats.srtt_ns) / 1e3;
    state.delivered_series.push_back(flow.delivered_bytes);
    state.window_series.push_back(static_cast<float>(window_packets(stats)));
    state.srtt_us_series.push_back(static_cast<float>(srtt_us));
    state.ooo_max_series.push_back(flow.ooo_max);
    flow.ooo_max = 0;
    if (flow.virtual_paths) {
      state.virtual_paths_series.push_back(flow.virtual_paths->ever());
      state.virtual_paths_recent_series.push_back(flow.virtual_paths->drain_recent());
    }
    for (size_t path = 0; path < flow.path_bytes.size(); ++path) {
      state.path_bytes_series[path].push_back(flow.path_bytes[path]);
    }
    if (!warm_) continue;
    state.window_sum += window_packets(stats);
    state.srtt_us_sum += srtt_us;
  }
  for (PortId port = 0; port < ports_.size(); ++port) {
    const LinkCounters& counters = network_.counters(port);
    ports_[port].bytes_series.push_back(counters.bytes);
    ports_[port].marked_series.push_back(counters.marked);
    ports_[port].queue_series.push_back(network_.queue_bytes(port));
  }
  if (scenario_.topology.pfc.on) sample_pauses();
  if (scenario_.topology.pfc.on && !deadlock_) find_deadlock();
}

void Meter::find_deadlock() {
  const std::vector<PortId> cycle = DeadlockSearch::find(network_);
  if (cycle.empty()) return;
  deadlock_.emplace(Deadlock{.seen = network_.now(), .cycle = {}});
  for (const PortId port : cycle) deadlock_->cycle.push_back(port_name(port));
}

std::string Meter::port_name(PortId port) const {
  return scenario_.topology.links[port / 2].name + (port % 2 == 0 ? ".ab" : ".ba");
}

void Meter::sample_pauses() {
  for (PortId port = 0; port < ports_.size(); ++port) {
    const PauseState pause = network_.pause_state(port);
    ports_[port].pause_sent_series.push_back(pause.pause_sent);
    ports_[port].paused_us_series.push_back(seconds(pause.paused_time) * 1e6);
  }
}

void Meter::add_pauses(PortId port, PortResult* out) const {
  const PortState& state = ports_[port];
  const PauseState pause = network_.pause_state(port);
  out->headroom_peak_bytes = pause.headroom_peak_bytes;
  out->pause_sent_series = state.pause_sent_series;
  out->paused_us_series = state.paused_us_series;
  const SimSpan measured = network_.now() - warm_up_;
  if (!warm_ || measured <= SimSpan()) return;
  out->pause_sent = pause.pause_sent - state.pause_at_warm_up.pause_sent;
  const SimSpan paused = pause.paused_time - state.pause_at_warm_up.paused_time;
  out->paused_share = seconds(paused) / seconds(measured);
}

// Measurement of a run that ends when everything is complete stops at the last completion, not at
// the check that notices it.
SimTime Meter::measured_until() const {
  if (scenario_.end_when_idle && hosts_.all_done()) return hosts_.last_completion();
  return network_.now();
}

double Meter::seconds_measured() const {
  return warm_ ? seconds(measured_until() - warm_up_) : 0;
}

FlowResult Meter::flow_result(uint32_t number) const {
  const Flow& flow = hosts_.flows()[number];
  const FlowState& state = flows_[number];
  FlowResult out;
  out.name = flow.name;
  out.from = scenario_.host_names[flow.spec->from];
  out.to = scenario_.host_names[flow.spec->to];
  out.transport = transport_name(*flow.spec);
  out.posted_bytes = flow.posted_bytes;
  out.delivered_bytes = flow.delivered_bytes;
  out.completed_bytes = flow.completed_bytes;
  out.messages_posted = flow.messages_posted;
  out.messages_completed = flow.messages_completed;
  out.messages = flow.messages;
  out.stats = hosts_.stats(number);
  out.sender = hosts_.requester_counters(number);
  out.receiver = hosts_.responder_counters(number);
  out.spurious = out.sender.drop_duplicate + out.receiver.drop_duplicate;
  out.failed = flow.failed;
  out.sync_posted = flow.sync_posted;
  out.sync_early = flow.sync_early;
  if (flow.spec->measure_flowlets) {
    out.flowlet_bytes = flow.flowlets.bytes();
    out.flowlet_pauses.assign(flow.flowlets.pauses().begin(), flow.flowlets.pauses().end());
  }
  out.delivered_series = state.delivered_series;
  out.window_series = state.window_series;
  out.srtt_us_series = state.srtt_us_series;
  out.path_bytes_series = state.path_bytes_series;
  out.ooo_max_series = state.ooo_max_series;
  out.virtual_paths_series = state.virtual_paths_series;
  out.virtual_paths_recent_series = state.virtual_paths_recent_series;
  out.path_bytes.resize(flow.path_bytes.size());
  if (!warm_) return out;
  const double time_s = seconds_measured();
  const auto delivered = static_cast<double>(flow.delivered_bytes - state.delivered_at_warm_up);
  out.goodput_bps = time_s > 0 ? delivered * 8 / time_s : 0;
  out.ooo.count = flow.ooo;
  out.packets_received = flow.packets_received - state.packets_at_warm_up;
  out.ce_received = flow.ce_received - state.ce_at_warm_up;
  for (size_t path = 0; path < flow.path_bytes.size(); ++path) {
    out.path_bytes[path] = flow.path_bytes[path] - state.path_bytes_at_warm_up[path];
  }
  if (samples_ > 0) {
    out.window_mean = state.window_sum / static_cast<double>(samples_);
    out.srtt_mean_us = state.srtt_us_sum / static_cast<double>(samples_);
  }
  return out;
}

PortResult Meter::port_result(PortId port) const {
  const PortState& state = ports_[port];
  PortResult out;
  out.name = port_name(port);
  out.port = port;
  out.rate = state.rate;
  out.total = network_.counters(port);
  out.bytes_series = state.bytes_series;
  out.marked_series = state.marked_series;
  out.queue_series = state.queue_series;
  if (scenario_.topology.pfc.on) add_pauses(port, &out);
  if (!warm_) return out;
  out.counters = difference(out.total, state.at_warm_up);
  double possible = state.bits_possible;
  const SimTime since = std::max(state.rate_since, warm_up_);
  if (measured_until() > since) {
    possible +=
        static_cast<double>(state.rate.bits_per_second()) * seconds(measured_until() - since);
  }
  out.utilisation = possible > 0 ? static_cast<double>(out.counters.bytes) * 8 / possible : 0;
  if (out.counters.packets > 0) {
    out.mark_ratio =
        static_cast<double>(out.counters.marked) / static_cast<double>(out.counters.packets);
  }
  if (queue_samples_ > 0) {
    const auto n = static_cast<double>(queue_samples_);
    out.queue_mean_bytes = state.queue_sum / n;
    const double variance =
        state.queue_square_sum / n - out.queue_mean_bytes * out.queue_mean_bytes;
    out.queue_sd_bytes = std::sqrt(std::max(variance, 0.0));
  }
  out.queue_max_bytes = state.queue_max;
  return out;
}

void Meter::add_totals(Result* result) const {
  std::vector<double> goodputs;
  for (const FlowResult& flow : result->flows) {
    goodputs.push_back(flow.goodput_bps);
    result->goodput_bps += flow.goodput_bps;
    std::vector<uint64_t>& sum = result->ooo.count;
    sum.resize(std::max(sum.size(), flow.ooo.count.size()));
    for (size_t i = 0; i < flow.ooo.count.size(); ++i) sum[i] += flow.ooo.count[i];
  }
  result->jain = jain_index(goodputs);
  if (scenario_.flows.empty()) return;  // no message of Poisson traffic was drawn
  const FlowSpec& first = scenario_.flows.front();
  const uint32_t wire = data_wire_bytes(first, first.path_mtu);
  result->payload_share = static_cast<double>(first.path_mtu) / wire;
  LinkRate fastest;
  for (const LinkConfig& link : scenario_.topology.links) {
    fastest = std::max({fastest, link.ab.rate, link.ba.rate});
  }
  result->ceiling_bps = payload_ceiling_bps(fastest, first);
}

void Meter::add_errors(Result* result) const {
  if (!warm_) {
    result->errors.push_back(fmt::format(
        "nothing was measured: it ended at {:.6g} us, before the warm-up of {:.6g} us was over",
        static_cast<double>(network_.now().ps()) / 1e6,
        static_cast<double>(scenario_.warm_up.count_ps()) / 1e6));
  }
  if (flows_.empty()) result->errors.emplace_back("no message was drawn: longer, or a higher load");
  for (uint32_t i = 0; i < flows_.size(); ++i) {
    const Flow& flow = hosts_.flows()[i];
    if (flow.failed && !flow.spec->may_fail) {
      result->errors.push_back(fmt::format("{}: {}", flow.name, flow.failure));
    }
    // Checks that payload is conserved: completed bytes were placed, placed bytes were posted, each
    // once. Go-back-0 places the begin of a message again after each loss.
    const bool again = flow.spec->params.go_back_0;
    if (flow.completed_bytes > flow.delivered_bytes ||
        (flow.delivered_bytes > flow.posted_bytes && !again)) {
      result->errors.push_back(fmt::format("{}: {} bytes posted, {} placed, {} completed",
                                           flow.name, flow.posted_bytes, flow.delivered_bytes,
                                           flow.completed_bytes));
    }
  }
  if (hosts_.pool_empty() > 0) {
    result->errors.push_back(fmt::format("{} packets found the pool empty", hosts_.pool_empty()));
  }
}

Result Meter::result() const {
  Result out;
  out.scenario = scenario_.name;
  out.seed = scenario_.seed;
  out.end = network_.now();
  out.pfc = scenario_.topology.pfc.on;
  out.flows.reserve(flows_.size());
  out.ports.reserve(ports_.size());
  for (uint32_t i = 0; i < flows_.size(); ++i) out.flows.push_back(flow_result(i));
  for (PortId port = 0; port < ports_.size(); ++port) out.ports.push_back(port_result(port));
  out.time_us = time_us_;
  out.fct = summarise_fct(scenario_, hosts_.flows());
  out.deadlock = deadlock_;
  out.receiver_drops = hosts_.receiver_drops();
  out.events = network_.events_handled();
  out.packet_hops = network_.packet_hops();
  add_totals(&out);
  add_errors(&out);
  return out;
}

}  // namespace mprdma::switchsim
