#include "switchsim/sim/host_set.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.hpp"
#include "switchsim/model/ecmp.hpp"
#include "switchsim/sim/wire_size.hpp"

namespace mprdma::switchsim {

namespace {

using transport::QpState;

// Endpoint numbers are queue pair numbers from here on.
constexpr uint32_t kFirstQpn = 0x100;
constexpr uint32_t kPd = 1;
constexpr uint32_t kKey = transport::MemoryTable::make_key(1, 0);
constexpr uint64_t kMemoryBytes = uint64_t{1} << 40;
// Messages of an open-loop flow that the queue pair has at once; the rest wait in the application.
constexpr uint32_t kOpenLoopDepthMax = 256;
// Equal-cost paths are at most so many ports long.
constexpr size_t kPortsOfPathMax = 16;
constexpr uint32_t kPinnedDrawsMax = 1 << 20;

uint32_t send_depth(const FlowSpec& spec) {
  if (spec.timed_messages.empty()) return spec.post_depth;
  const auto all = static_cast<uint32_t>(std::min<size_t>(spec.timed_messages.size(), UINT32_MAX));
  return std::min(all, kOpenLoopDepthMax);
}

bool takes_payload(const FlowSpec& spec, bool poster) {
  return (spec.operation == FlowOperation::kRead) == poster;
}

// A window of data, as many acknowledgements, and copies of what was given up too early.
uint32_t packets_for(const Scenario& scenario) {
  uint64_t packets = 1024;
  for (const FlowSpec& spec : scenario.flows) packets += 3 * uint64_t{spec.params.window_max} + 64;
  return static_cast<uint32_t>(std::min<uint64_t>(packets, uint64_t{1} << 24));
}

}  // namespace

HostSet::HostSet(const Scenario& scenario)
    : scenario_(scenario),
      memory_(2),
      packets_max_(packets_for(scenario)),
      contents_(packets_max_),
      hosts_(scenario.topology.hosts),
      ack_prng_(Prng(scenario.seed).split("acknowledgements")),
      placement_storage_(transport::kMaxPlacements),
      released_storage_(transport::kMaxReleased),
      actions_(placement_storage_, released_storage_) {
  const auto count = static_cast<uint32_t>(scenario.flows.size());
  std::vector<uint32_t> held(scenario.topology.hosts);
  for (const FlowSpec& spec : scenario.flows) {
    for (const NodeId host : {spec.from, spec.to}) held[host] += spec.params.window_slots;
  }
  ack_next_.resize(packets_max_);
  if (scenario.ack_delay > SimSpan() || scenario.ack_jitter > SimSpan()) {
    ack_ready_.resize(packets_max_);
  }
  for (NodeId host = 0; host < hosts_.size(); ++host) {
    hosts_[host].held = std::make_unique<transport::HeldPool>(held[host]);
  }
  memory_.set({.iova = 0,
               .addr = 0,
               .length = kMemoryBytes,
               .pd = kPd,
               .access = transport::kLocalWrite | transport::kRemoteWrite | transport::kRemoteRead,
               .key = kKey});
  flows_.reserve(count);
  for (uint32_t i = 0; i < count; ++i) {
    const FlowSpec& spec = scenario.flows[i];
    Flow& flow = flows_.emplace_back(spec);
    flow.name = spec.name.empty() ? fmt::format("flow{}", i) : spec.name;
    flow.path_bytes.resize(scenario.paths.size());
    flow.next_post_at = spec.start;
    make_endpoint(2 * i);
    make_endpoint(2 * i + 1);
  }
  if (!scenario.paths.empty()) paths_.resize(count);
}

uint32_t HostSet::timers() const {
  return static_cast<uint32_t>(endpoints_.size() + flows_.size() + hosts_.size());
}

void HostSet::make_endpoint(uint32_t number) {
  const FlowSpec& spec = scenario_.flows[number / 2];
  const bool poster = number % 2 == 0;
  const bool send = spec.operation == FlowOperation::kSend;
  transport::QpConfig config;
  config.qpn = kFirstQpn + number;
  config.pd = kPd;
  config.send_depth = poster ? send_depth(spec) : 1;
  config.recv_depth = !poster && send ? 2 * send_depth(spec) + 2 : 1;
  config.params = spec.params;
  auto counters = std::make_unique<transport::TransportCounters>();
  const NodeId host = poster ? spec.from : spec.to;
  const transport::Device device{
      .memory = &memory_, .held = hosts_[host].held.get(), .counters = counters.get()};
  auto endpoint = std::make_unique<Endpoint>(config, device);
  endpoint->number = number;
  endpoint->host = host;
  endpoint->peer = poster ? spec.to : spec.from;
  endpoint->takes_payload = takes_payload(spec, poster);
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
  const uint16_t vp = choose_path(flows_[flow], prng);
  for (uint32_t side = 0; side < 2; ++side) {
    Endpoint& endpoint = *endpoints_[2 * flow + side];
    transport::QpAttributes attributes;
    attributes.access = transport::kRemoteWrite | transport::kRemoteRead;
    attributes.path_mtu = spec.path_mtu;
    attributes.dest_qpn = kFirstQpn + 2 * flow + 1 - side;
    attributes.sq_psn = psn[side];
    attributes.rq_psn = psn[1 - side];
    attributes.vp = vp;
    attributes.path_seed = prng.next_u64();
    attributes.timeout = spec.timeout;
    attributes.retry_cnt = spec.retry_cnt;
    attributes.max_rd_atomic = attributes.max_dest_rd_atomic = 16;
    endpoint.qp.set_attributes(attributes);
    for (const QpState state : {QpState::kInit, QpState::kRtr, QpState::kRts}) {
      CHECK(endpoint.qp.set_state(Time(), state, actions_));
    }
    if (side == 1 && spec.operation == FlowOperation::kSend) {
      for (uint32_t i = 0; i < 2 * send_depth(spec) + 2; ++i) post_receive(endpoint);
    }
    actions_.clear();
  }
  // Responses start at the requester's first PSN, too.
  flows_[flow].expected = psn[0];
}

// The one path of a kSingle flow: drawn, or drawn until it crosses the link that is asked for.
uint16_t HostSet::choose_path(Flow& flow, Prng& prng) const {
  const FlowSpec& spec = *flow.spec;
  const bool poster_sends = spec.operation != FlowOperation::kRead;
  const NodeId from = poster_sends ? spec.from : spec.to;
  const NodeId to = poster_sends ? spec.to : spec.from;
  for (uint32_t i = 0; i < kPinnedDrawsMax; ++i) {
    const auto vp =
        static_cast<uint16_t>(wire::kVirtualPathMin + prng.below(wire::kVirtualPathCount));
    if (!spec.pinned_link) return vp;
    PortId ports[kPortsOfPathMax];
    const uint32_t count = network_->path_of(from, to, flow_of(from, to, vp), ports);
    for (uint32_t hop = 0; hop < count; ++hop) {
      if (ports[hop] / 2 == *spec.pinned_link) return vp;
    }
  }
  flow.failed = true;
  flow.failure = "no path crosses the link that it is pinned to";
  return wire::kVirtualPathMin;
}

void HostSet::forget_paths() {
  for (PathCache& cache : paths_) cache.clear();
}

// ---- The application ---------------------------------------------------------------------------

void HostSet::post_more(uint32_t number) {
  Flow& flow = flows_[number];
  const FlowSpec& spec = *flow.spec;
  const SimTime now = network_->now();
  const auto timer = static_cast<TimerId>(endpoints_.size() + number);
  while (!flow.all_posted(now) && flow.outstanding.size() < send_depth(spec)) {
    const SimTime due =
        flow.open_loop() ? spec.timed_messages[flow.next_timed].at : flow.next_post_at;
    if (due > now) {
      network_->set_timer(timer, due);
      break;
    }
    if (flow.open_loop()) {
      const TimedMessage& message = spec.timed_messages[flow.next_timed++];
      post(flow, number, message.bytes, message.at);
    } else {
      post(flow, number, spec.message_bytes, now);
    }
  }
}

void HostSet::post(Flow& flow, uint32_t number, uint64_t bytes, SimTime at) {
  const auto length = static_cast<uint32_t>(bytes);
  const transport::Sge sge{.addr = 0, .length = length, .lkey = kKey};
  transport::SendRequest request;
  request.wr_id = flow.messages_posted;
  request.flags = transport::kSignaled;
  request.rkey = kKey;
  request.sges = {&sge, 1};
  switch (flow.spec->operation) {
    case FlowOperation::kWrite:
      request.opcode = transport::WorkOpcode::kWrite;
      break;
    case FlowOperation::kSend:
      request.opcode = transport::WorkOpcode::kSend;
      break;
    case FlowOperation::kRead:
      request.opcode = transport::WorkOpcode::kRead;
      break;
  }
  CHECK(endpoints_[2 * number]->qp.post_send(time(), request) == transport::PostResult::kOk);
  flow.outstanding.push_back({at, bytes});
  ++flow.messages_posted;
  flow.posted_bytes += bytes;
}

void HostSet::post_receive(Endpoint& endpoint) {
  const transport::Sge sge{.addr = 0, .length = transport::kMaxMessageBytes, .lkey = kKey};
  transport::RecvRequest request;
  request.sges = {&sge, 1};
  const Time now = network_->now().to_time();
  CHECK(endpoint.qp.post_recv(now, request, actions_) == transport::PostResult::kOk);
}

void HostSet::drain(Endpoint& endpoint) {
  transport::Completion completion;
  bool news = false;
  while (endpoint.qp.poll_completion(completion)) {
    if (completion.is_recv) {
      if (completion.status != transport::WcStatus::kSuccess) continue;
      post_receive(endpoint);
      do_actions(endpoint);
      continue;
    }
    complete(flow_of_endpoint(endpoint), completion);
    news = true;
  }
  if (news) post_more(endpoint.number / 2);
}

void HostSet::complete(Flow& flow, const transport::Completion& completion) {
  CHECK(!flow.outstanding.empty());
  const Flow::Outstanding message = flow.outstanding.front();
  flow.outstanding.pop_front();
  last_completion_ = network_->now();
  flow.next_post_at = last_completion_ + flow.spec->think;
  if (completion.status != transport::WcStatus::kSuccess) {
    if (!flow.failed) {
      flow.failure = fmt::format("completion status {}", static_cast<int>(completion.status));
    }
    flow.failed = true;
    return;
  }
  ++flow.messages_completed;
  flow.completed_bytes += message.bytes;
  flow.messages.push_back({message.posted, last_completion_, message.bytes});
}

bool HostSet::all_done() const {
  const SimTime now = network_->now();
  return std::all_of(flows_.begin(), flows_.end(),
                     [now](const Flow& flow) { return flow.done(now); });
}

// ---- From the wire -----------------------------------------------------------------------------

void HostSet::on_packet(NodeId host, PacketId id) {
  wire::Packet& packet = contents_[id];
  const uint32_t number = packet.dest_qpn - kFirstQpn;
  CHECK(number < endpoints_.size());
  Endpoint& endpoint = *endpoints_[number];
  CHECK(endpoint.host == host);
  packet.ce = network_->packet(id).ce;
  if (endpoint.takes_payload && packet.payload_len > 0) observe(endpoint, packet);
  // A held packet is copied by the transport, and its payload lies nowhere: nothing stays here.
  endpoint.qp.on_packet(time(), packet, id, actions_);
  network_->release(id);
  do_actions(endpoint);
  service(endpoint);
}

void HostSet::observe(Endpoint& endpoint, const wire::Packet& packet) {
  Flow& flow = flow_of_endpoint(endpoint);
  ++flow.packets_received;
  flow.ce_received += packet.ce ? 1 : 0;
  const int32_t ahead = flow.expected.distance_to(packet.psn);
  if (ahead >= 0) {
    const uint32_t degree = std::min(static_cast<uint32_t>(ahead), OooHistogram::kMax);
    if (degree >= flow.ooo.size()) flow.ooo.resize(degree + 1);
    ++flow.ooo[degree];
    flow.ooo_max = std::max(flow.ooo_max, degree);
  }
  if (paths_.empty()) return;
  const uint8_t path = path_class(flow, endpoint.number / 2, packet.vp);
  if (path < flow.path_bytes.size()) flow.path_bytes[path] += packet.payload_len;
}

uint8_t HostSet::path_class(const Flow& flow, uint32_t number, uint16_t vp) {
  uint8_t& path = paths_[number].of(vp);
  if (path != PathCache::kUnknown) return path;
  const bool poster_sends = flow.spec->operation != FlowOperation::kRead;
  const NodeId from = poster_sends ? flow.spec->from : flow.spec->to;
  const NodeId to = poster_sends ? flow.spec->to : flow.spec->from;
  PortId ports[kPortsOfPathMax];
  const uint32_t count = network_->path_of(from, to, flow_of(from, to, vp), ports);
  path = PathCache::kOther;
  for (uint32_t hop = 0; hop < count; ++hop) {
    const auto found = std::find(scenario_.paths.begin(), scenario_.paths.end(), ports[hop] / 2);
    if (found == scenario_.paths.end()) continue;
    const auto index = found - scenario_.paths.begin();
    if (index < PathCache::kOther) path = static_cast<uint8_t>(index);
  }
  return path;
}

void HostSet::do_actions(Endpoint& endpoint) {
  for (const transport::Placement& placement : actions_.placements) {
    flow_of_endpoint(endpoint).delivered_bytes += placement.length;
  }
  if (actions_.has_ack) {
    if (endpoint.takes_payload) {
      Flow& flow = flow_of_endpoint(endpoint);
      flow.expected = psn_max(flow.expected, actions_.ack.psn);
    }
    queue_ack(endpoint, actions_.ack);
  }
  actions_.clear();
}

// ---- To the wire -------------------------------------------------------------------------------

PacketId HostSet::make_packet(const Endpoint& endpoint, const wire::Packet& header) {
  const PacketId id = network_->allocate();
  if (id == kNoPacket) {
    ++pool_empty_;
    return id;
  }
  contents_.put(id, header);
  NetPacket& packet = network_->packet(id);
  packet.flow = flow_of(endpoint.host, endpoint.peer, header.vp);
  packet.wire_bytes = wire_bytes(header);
  packet.contents = id;
  packet.destination = endpoint.peer;
  packet.ect = true;
  packet.ce = false;
  packet.priority = 0;
  return id;
}

void HostSet::queue_ack(const Endpoint& endpoint, const wire::Packet& ack) {
  const PacketId id = make_packet(endpoint, ack);
  if (id == kNoPacket) return;
  Host& host = hosts_[endpoint.host];
  ack_next_[id] = kNoPacket;
  if (host.ack_head == kNoPacket) {
    host.ack_head = id;
  } else {
    ack_next_[host.ack_tail] = id;
  }
  host.ack_tail = id;
  if (ack_ready_.empty()) return;
  // They leave in the order in which they were made.
  const auto jitter_ps = static_cast<uint64_t>(scenario_.ack_jitter.count_ps());
  const SimSpan jitter = SimSpan::ps(static_cast<int64_t>(ack_prng_.range(0, jitter_ps)));
  host.ack_ready = std::max(host.ack_ready, network_->now() + scenario_.ack_delay + jitter);
  ack_ready_[id] = host.ack_ready;
  if (host.ack_head == id) {
    const size_t timer = endpoints_.size() + flows_.size() + endpoint.host;
    network_->set_timer(static_cast<TimerId>(timer), host.ack_ready);
  }
}

bool HostSet::send_ack(NodeId number) {
  Host& host = hosts_[number];
  const PacketId id = host.ack_head;
  if (id == kNoPacket) return false;
  if (!ack_ready_.empty() && ack_ready_[id] > network_->now()) return false;
  host.ack_head = ack_next_[id];
  if (!ack_ready_.empty() && host.ack_head != kNoPacket) {
    const size_t timer = endpoints_.size() + flows_.size() + number;
    network_->set_timer(static_cast<TimerId>(timer), ack_ready_[host.ack_head]);
  }
  network_->send(number, id);
  return true;
}

bool HostSet::pull(NodeId number) {
  if (send_ack(number)) return true;
  Host& host = hosts_[number];
  while (host.active_head != kNone) {
    Endpoint& endpoint = *endpoints_[host.active_head];
    host.active_head = endpoint.next_active;
    endpoint.active = false;
    if (!endpoint.qp.poll_packet(time(), tx_)) continue;
    activate(endpoint);
    const PacketId id = make_packet(endpoint, tx_.header);
    if (id != kNoPacket) network_->send(number, id);
    arm(endpoint, false);
    return true;
  }
  return false;
}

// To the end of its host's turn.
void HostSet::activate(Endpoint& endpoint) {
  Host& host = hosts_[endpoint.host];
  endpoint.active = true;
  endpoint.next_active = kNone;
  if (host.active_head == kNone) {
    host.active_head = endpoint.number;
  } else {
    endpoints_[host.active_tail]->next_active = endpoint.number;
  }
  host.active_tail = endpoint.number;
}

// The wire, not the window, is the limit when more than a few of the packets that the window allows
// wait for the NIC. A stream with a clock for each packet knows by itself.
bool HostSet::wire_is_limit(const Endpoint& endpoint) const {
  const FlowSpec& spec = *flows_[endpoint.number / 2].spec;
  if (spec.params.path_policy != transport::PathPolicy::kSingle) return false;
  const transport::StreamSender& sender = spec.operation == FlowOperation::kRead
                                              ? endpoint.qp.mp()->responder().response_sender()
                                              : endpoint.qp.mp()->requester().sender();
  return sender.window().packets() > sender.in_flight() + transport::kWireBacklogMax;
}

void HostSet::service(Endpoint& endpoint) {
  drain(endpoint);
  if (!endpoint.active && endpoint.qp.wants_to_send()) activate(endpoint);
  const Host& host = hosts_[endpoint.host];
  if (host.active_head != kNone || host.ack_head != kNoPacket) network_->want_pull(endpoint.host);
  if (endpoint.active && wire_is_limit(endpoint)) endpoint.qp.on_back_pressure();
  arm(endpoint, false);
}

// Sets the endpoint's timer if it is due earlier than that is set. `later`: the deadline that was
// due has been handled, so at this instant nothing is due any more.
void HostSet::arm(Endpoint& endpoint, bool later) {
  const Time deadline = endpoint.qp.next_deadline();
  if (deadline.is_never()) return;
  SimTime at = std::max(SimTime::from(deadline), network_->now());
  if (later) at = std::max(at, network_->now() + SimSpan::ns(1));
  if (at >= endpoint.armed_at) return;
  endpoint.armed_at = at;
  network_->set_timer(endpoint.number, at);
}

void HostSet::on_timer(TimerId timer) {
  if (timer >= endpoints_.size() + flows_.size()) {
    network_->want_pull(timer - static_cast<uint32_t>(endpoints_.size() + flows_.size()));
    return;
  }
  if (timer >= endpoints_.size()) {
    const uint32_t flow = timer - static_cast<uint32_t>(endpoints_.size());
    post_more(flow);
    service(*endpoints_[2 * flow]);
    return;
  }
  Endpoint& endpoint = *endpoints_[timer];
  endpoint.armed_at = SimTime::never();
  const bool due = endpoint.qp.next_deadline() <= time();
  if (due) {
    endpoint.qp.on_deadline(time(), actions_);
    do_actions(endpoint);
    service(endpoint);
  }
  arm(endpoint, due);
}

// ---- Getters -----------------------------------------------------------------------------------

transport::StreamStats HostSet::stats(uint32_t flow) const {
  if (flows_[flow].spec->operation == FlowOperation::kRead) {
    return endpoints_[2 * flow + 1]->qp.response_stats();
  }
  return endpoints_[2 * flow]->qp.request_stats();
}

const transport::TransportCounters& HostSet::poster_counters(uint32_t flow) const {
  return *endpoints_[2 * flow]->counters;
}

const transport::TransportCounters& HostSet::target_counters(uint32_t flow) const {
  return *endpoints_[2 * flow + 1]->counters;
}

}  // namespace mprdma::switchsim
