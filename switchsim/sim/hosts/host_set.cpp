#include "switchsim/sim/hosts/host_set.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.hpp"
#include "switchsim/model/ecmp.hpp"
#include "transport/core/follow_network.hpp"

namespace mprdma::switchsim {

namespace {

using transport::QpState;

constexpr uint32_t kPd = 1;
constexpr uint64_t kMemoryBytes = uint64_t{1} << 40;
constexpr uint8_t kReadsOutstanding = 16;
constexpr uint8_t kRnrTimer = 12;  // 0.64 ms (IBTA table 45)
constexpr uint32_t kPinnedDrawsMax = 1 << 20;
constexpr uint64_t kFloodCopies = 1 << 20;  // of packets that are flooded, at once

// L of a flow on any link.
uint32_t most_slots(const transport::Params& params) {
  return params.window_rtt == Duration::zero() ? params.window_slots : transport::kWindowSlotsMax;
}

// Packets for every flow: a window of data, as many acknowledgements, and copies of packets that
// were retransmitted too early. A session of RPCs has a request or a response in the network for
// each credit, and copies of those after each timeout.
uint32_t packets_for(const Scenario& scenario) {
  uint64_t packets = 1024;
  if (scenario.topology.flood) packets += kFloodCopies;
  for (const FlowSpec& spec : scenario.flows) {
    packets += spec.rpc_credits > 0
                   ? 64 * uint64_t{spec.rpc_credits} + 1024
                   : 3 * uint64_t{std::max(spec.params.window_max, most_slots(spec.params))} + 64;
  }
  return static_cast<uint32_t>(std::min<uint64_t>(packets, uint64_t{1} << 24));
}

uint32_t whole_mbps(LinkRate rate) {
  return static_cast<uint32_t>(std::max<uint64_t>(rate.bits_per_second() / 1'000'000, 1));
}

// Held frames for a receive window at both ends of every flow, within the share of each (behind a
// receiver that is not ready, too). Memory of frames that are never held is not touched.
uint32_t held_for(const Scenario& scenario) {
  if (scenario.held_frames > 0) return scenario.held_frames;
  uint64_t packets = 0;
  for (const FlowSpec& spec : scenario.flows) packets += 2 * uint64_t{most_slots(spec.params)};
  packets *= 1 + transport::HeldPool::kNotReadyShare;
  return static_cast<uint32_t>(std::min<uint64_t>(packets, uint64_t{1} << 24));
}

}  // namespace

HostSet::HostSet(const Scenario& scenario, TraceFile* trace)
    : scenario_(scenario),
      memory_(2),
      packets_max_(packets_for(scenario)),
      contents_(packets_max_),
      held_(held_for(scenario)),
      hosts_(scenario.topology.hosts),
      trace_(trace),
      host_mbps_(scenario.topology.hosts),
      path_ports_(scenario.topology.nodes()),
      ack_next_(std::make_unique_for_overwrite<PacketId[]>(packets_max_)),
      ack_prng_(Prng(scenario.seed).split("acknowledgements")),
      placement_storage_(transport::kMaxPlacements),
      released_storage_(transport::kMaxReleased),
      actions_(placement_storage_, released_storage_) {
  for (const LinkConfig& link : scenario.topology.links) {
    if (link.a < host_mbps_.size()) host_mbps_[link.a] = whole_mbps(link.ab.rate);
    if (link.b < host_mbps_.size()) host_mbps_[link.b] = whole_mbps(link.ba.rate);
  }
  if (trace != nullptr) {
    host_traces_.reserve(hosts_.size());
    for (const std::string& name : scenario.host_names) host_traces_.emplace_back(trace, name);
  }
  const auto count = static_cast<uint32_t>(scenario.flows.size());
  if (scenario.ack_delay > SimSpan() || scenario.ack_jitter > SimSpan()) {
    ack_ready_.resize(packets_max_);
  }
  memory_.set({.iova = 0,
               .addr = 0,
               .length = kMemoryBytes,
               .pd = kPd,
               .access = transport::kLocalWrite | transport::kRemoteWrite | transport::kRemoteRead,
               .key = kKey});
  flows_.reserve(count);
  endpoints_.reserve(size_t{2} * count);
  for (uint32_t i = 0; i < count; ++i) {
    const FlowSpec& spec = scenario.flows[i];
    Flow& flow = flows_.emplace_back(spec);
    flow.name = scenario.flow_name(i);
    flow.path_bytes.resize(scenario.paths.size());
    flow.next_post_at = spec.start;
    if (spec.measure_paths) flow.virtual_paths = std::make_unique<VirtualPathMeter>();
    make_endpoint(2 * i);
    make_endpoint(2 * i + 1);
  }
  if (!scenario.paths.empty()) paths_.resize(count);
  if (!scenario.receivers.empty()) make_receivers();
}

uint32_t HostSet::timers() const {
  return static_cast<uint32_t>(endpoints_.size() + flows_.size() + hosts_.size() +
                               receivers_.size());
}

// L of both ends, by the slower link.
uint32_t HostSet::agreed_slots(const Flow& flow) const {
  transport::Params params = flow.spec->params;
  params.link_mbps = std::min(host_mbps_[flow.spec->from], host_mbps_[flow.spec->to]);
  return transport::slots_for_link(params);
}

// Receives that an end posts before the first packet comes; each that is used is posted anew.
uint32_t HostSet::receives_of(const Flow& flow, bool requester) {
  if (flow.rpc) return 2;
  if (requester || flow.spec->operation != FlowOperation::kSend) return 0;
  return 2 * flow.send_depth() + 2;
}

void HostSet::make_endpoint(uint32_t number) {
  const Flow& flow = flows_[number / 2];
  const FlowSpec& spec = *flow.spec;
  const bool requester = number % 2 == 0;
  transport::QpConfig config;
  config.qpn = qpn_of(number);
  config.pd = kPd;
  config.send_depth = requester ? flow.send_depth() : 1;
  config.recv_depth = std::max(receives_of(flow, requester), 1u);
  config.params = spec.params;
  config.max_rd_atomic = kReadsOutstanding;
  // No memory here has relaxed ordering, so the standard policy places nothing early. The ordered
  // policy behaves the same and needs no memory for early placement.
  if (config.params.placement == transport::PlacementPolicy::kStandard) {
    config.params.placement = transport::PlacementPolicy::kOrdered;
  }
  if (flow.rpc) configure_rpc(flow, requester, &config);
  auto counters = std::make_unique<transport::TransportCounters>();
  const NodeId host = requester ? spec.from : spec.to;
  config.params.link_mbps = host_mbps_[host];
  transport::set_slots(agreed_slots(flow), &config.params);
  transport::Device device{.memory = &memory_, .held = &held_, .counters = counters.get()};
  if (trace_ != nullptr && trace_->wants(number / 2)) device.trace = &host_traces_[host];
  auto endpoint = std::make_unique<Endpoint>(config, device);
  endpoint->number = number;
  endpoint->host = host;
  endpoint->peer = requester ? spec.to : spec.from;
  endpoint->takes_payload = flow.requester_sends() != requester;
  endpoint->takes_syncs = endpoint->takes_payload && spec.synchronise_ppm > 0;
  endpoint->measured = (spec.measure_flowlets || spec.measure_paths) && !endpoint->takes_payload;
  endpoint->rpc = flow.rpc != nullptr;
  endpoint->priority = spec.lossless ? kLosslessPriority : kLossyPriority;
  endpoint->turn_packets = endpoint->turn_left = spec.turn_packets;
  endpoint->counters = std::move(counters);
  endpoints_.push_back(std::move(endpoint));
}

uint64_t HostSet::flow_of(NodeId from, NodeId to, uint16_t vp) {
  return flow_hash({.source = {0, from},
                    .destination = {0, to},
                    .source_port = vp,
                    .destination_port = wire::kRoceUdpPort});
}

// ---- Connecting --------------------------------------------------------------------------------

void HostSet::start(Net& network) {
  network_ = &network;
  const Prng flow_prng = Prng(scenario_.seed).split("flows");
  for (uint32_t i = 0; i < flows_.size(); ++i) {
    connect(i, flow_prng.split(i));
    const Flow& flow = flows_[i];
    const SimTime first = flow.open_loop() ? flow.spec->timed_messages.front().at : SimTime();
    const auto timer = static_cast<TimerId>(endpoints_.size() + i);
    network.set_timer(timer, std::max(flow.spec->start, first));
  }
}

void HostSet::connect(uint32_t flow, Prng prng) {
  const FlowSpec& spec = scenario_.flows[flow];
  const Psn psn[2] = {Psn(static_cast<uint32_t>(prng.below(kPsnMask + 1))),
                      Psn(static_cast<uint32_t>(prng.below(kPsnMask + 1)))};
  flows_[flow].sync_draws = prng.split("synchronise");
  const uint16_t vp = choose_path(flows_[flow], prng);
  for (uint32_t side = 0; side < 2; ++side) {
    Endpoint& endpoint = *endpoints_[2 * flow + side];
    transport::QpAttributes attributes;
    attributes.access = transport::kRemoteWrite | transport::kRemoteRead;
    attributes.qkey = kQkey;
    attributes.path_mtu = spec.path_mtu;
    attributes.dest_qpn = qpn_of(2 * flow + 1 - side);
    attributes.sq_psn = psn[side];
    attributes.rq_psn = psn[1 - side];
    attributes.vp = vp;
    attributes.path_seed = prng.next_u64();
    attributes.timeout = spec.timeout;
    attributes.retry_cnt = spec.retry_cnt;
    attributes.min_rnr_timer = kRnrTimer;
    attributes.max_rd_atomic = attributes.max_dest_rd_atomic = kReadsOutstanding;
    endpoint.qp.set_attributes(attributes);
    for (const QpState state : {QpState::kInit, QpState::kRtr, QpState::kRts}) {
      CHECK(endpoint.qp.set_state(Time(), state, actions_));
    }
    const uint32_t receives = spec.receives ? receives_of(flows_[flow], side == 0) : 0;
    for (uint32_t i = 0; i < receives; ++i) post_receive(endpoint);
    actions_.clear();
  }
  // Responses, too, start at the requester's first PSN.
  flows_[flow].expected = psn[0];
}

// Draws the path of a kSingle or RoCE flow; repeatedly if the path has to cross a given link.
uint16_t HostSet::choose_path(Flow& flow, Prng& prng) {
  const FlowSpec& spec = *flow.spec;
  for (uint32_t i = 0; i < kPinnedDrawsMax; ++i) {
    const auto vp =
        static_cast<uint16_t>(wire::kVirtualPathMin + prng.below(wire::kVirtualPathCount));
    if (!spec.pinned_link) return vp;
    for (const PortId port : ports_of_path(flow, vp)) {
      if (port / 2 == *spec.pinned_link) return vp;
    }
  }
  flow.failed = true;
  flow.failure = "no path crosses the link that it is pinned to";
  return wire::kVirtualPathMin;
}

std::span<const PortId> HostSet::ports_of_path(const Flow& flow, uint16_t vp) {
  const NodeId from = flow.source();
  const NodeId to = flow.destination();
  const uint32_t count = network_->path_of(from, to, flow_of(from, to, vp), path_ports_);
  return std::span(path_ports_).first(count);
}

void HostSet::on_routes_changed() {
  for (PathCache& cache : paths_) cache.clear();
}

// ---- Getters -----------------------------------------------------------------------------------

bool HostSet::all_done() const {
  const SimTime now = network_->now();
  while (first_undone_ < flows_.size() && flows_[first_undone_].done(now)) ++first_undone_;
  return first_undone_ == flows_.size();
}

transport::StreamStats HostSet::stats(uint32_t flow) const {
  if (flows_[flow].rpc) return rpc_stats(flow);
  if (flows_[flow].requester_sends()) return endpoints_[2 * flow]->qp.request_stats();
  return endpoints_[2 * flow + 1]->qp.response_stats();
}

const transport::TransportCounters& HostSet::requester_counters(uint32_t flow) const {
  return *endpoints_[2 * flow]->counters;
}

const transport::TransportCounters& HostSet::responder_counters(uint32_t flow) const {
  return *endpoints_[2 * flow + 1]->counters;
}

}  // namespace mprdma::switchsim
