// The NIC of a host: packets from the wire to a queue pair, packets and acknowledgements to the
// wire, timers.
#include <algorithm>

#include "base/check.hpp"
#include "switchsim/sim/hosts/host_set.hpp"
#include "switchsim/sim/scenario/wire_size.hpp"

namespace mprdma::switchsim {

// ---- From the wire -----------------------------------------------------------------------------

// Called shortly before the packet arrives at its host.
void HostSet::prefetch(PacketId id) const {
  contents_.prefetch(id);
  const Endpoint& endpoint = *endpoints_[network_->packet(id).contents];
  __builtin_prefetch(&endpoint.number);
}

void HostSet::on_packet(NodeId host, PacketId id) {
  if (!receivers_.empty() && receivers_[host]) [[unlikely]] {
    return receive_slowly(host, id);
  }
  take(host, id);
}

void HostSet::take(NodeId host, PacketId id) {
  wire::Packet& packet = contents_[id];
  const uint32_t number = endpoint_of(packet.dest_qpn);
  CHECK(number < endpoints_.size());
  Endpoint& endpoint = *endpoints_[number];
  CHECK(endpoint.host == host);
  packet.ce = network_->packet(id).ce;
  if (arrivals_ != nullptr) [[unlikely]] {
    arrivals_->packet(host, network_->now(), endpoint.peer, host, packet);
  }
  if (endpoint.takes_payload && packet.payload_len > 0) observe(endpoint, packet);
  // The transport copies a held packet, and payload has no memory, so the packet can be released.
  endpoint.qp.on_packet(time(), packet, id, actions_);
  if (endpoint.takes_syncs) observe_refusals(endpoint, packet);
  network_->release(id);
  do_actions(endpoint);
  service(endpoint);
}

void HostSet::set_capture(Capture* capture) {
  (capture->link() ? departures_ : arrivals_) = capture;
}

void HostSet::on_transmit(PortId port, PacketId id) {
  wire::Packet packet = contents_[id];
  packet.ce = network_->packet(id).ce;
  const Endpoint& endpoint = *endpoints_[endpoint_of(packet.dest_qpn)];
  departures_->packet(port % 2, network_->now(), endpoint.peer, endpoint.host, packet);
}

void HostSet::observe(Endpoint& endpoint, const wire::Packet& packet) {
  Flow& flow = flow_of_endpoint(endpoint);
  ++flow.packets_received;
  flow.ce_received += packet.ce ? 1 : 0;
  const int32_t ahead =
      flow.rpc ? flow.rpc->server.ahead_of(packet.immdt) : flow.expected.distance_to(packet.psn);
  if (ahead >= 0) {
    const uint32_t degree = std::min(static_cast<uint32_t>(ahead), Flow::kOooDegreeMax);
    if (degree >= flow.ooo.size()) flow.ooo.resize(degree + 1);
    ++flow.ooo[degree];
    flow.ooo_max = std::max(flow.ooo_max, degree);
    // Go-back-N accepts the expected packet only. Its acknowledgements are coalesced, so `expected`
    // follows the packets instead.
    if (ahead == 0 && endpoint.qp.mp() == nullptr) ++flow.expected;
  }
  if (paths_.empty()) return;
  const uint8_t path = path_class(flow, endpoint.number / 2, packet.vp);
  if (path < flow.path_bytes.size()) flow.path_bytes[path] += packet.payload_len;
}

// Counts a synchronise message whose packet was refused as too early, once for each message.
void HostSet::observe_refusals(Endpoint& endpoint, const wire::Packet& packet) {
  Flow& flow = flow_of_endpoint(endpoint);
  if (endpoint.counters->drop_sync_too_early == flow.sync_packets_refused) return;
  flow.sync_packets_refused = endpoint.counters->drop_sync_too_early;
  const Psn first = packet.psn - packet.mp_data.offset / flow.spec->path_mtu;
  const auto& recent = flow.sync_early_recent;
  const auto known = std::min<uint64_t>(flow.sync_early, recent.size());
  const auto* const end = recent.begin() + known;
  if (std::find(recent.begin(), end, first) != end) return;
  flow.sync_early_recent[flow.sync_early++ % recent.size()] = first;
}

uint8_t HostSet::path_class(const Flow& flow, uint32_t number, uint16_t vp) {
  uint8_t& path = paths_[number].of(vp);
  if (path != PathCache::kUnknown) return path;
  path = PathCache::kOther;
  for (const PortId port : ports_of_path(flow, vp)) {
    const auto found = std::find(scenario_.paths.begin(), scenario_.paths.end(), port / 2);
    if (found == scenario_.paths.end()) continue;
    const auto index = found - scenario_.paths.begin();
    if (index < PathCache::kOther) path = static_cast<uint8_t>(index);
  }
  return path;
}

void HostSet::do_actions(Endpoint& endpoint) {
  // The server of RPCs counts what it takes of the datagrams that come.
  if (!endpoint.rpc) {
    for (const transport::Placement& placement : actions_.placements) {
      flow_of_endpoint(endpoint).delivered_bytes += placement.length;
    }
  }
  if (actions_.has_ack) {
    if (endpoint.takes_payload && endpoint.qp.mp() != nullptr) {
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
  packet.contents = endpoint_of(header.dest_qpn);  // receiving endpoint, for prefetch()
  packet.destination = endpoint.peer;
  packet.ect = true;
  packet.ce = false;
  packet.priority = endpoint.priority;
  return id;
}

void HostSet::queue_ack(const Endpoint& endpoint, const wire::Packet& ack) {
  const PacketId id = make_packet(endpoint, ack);
  if (id == kNoPacket) return;
  Waiting& waiting = hosts_[endpoint.host].waiting[endpoint.priority];
  ack_next_[id] = kNoPacket;
  const bool first = waiting.ack_head == kNoPacket;
  (first ? waiting.ack_head : ack_next_[waiting.ack_tail]) = id;
  waiting.ack_tail = id;
  if (ack_ready_.empty()) return;
  // Jitter does not reorder: acknowledgements leave in the order in which they were made.
  const auto jitter_ps = static_cast<uint64_t>(scenario_.ack_jitter.count_ps());
  const SimSpan jitter = SimSpan::ps(static_cast<int64_t>(ack_prng_.range(0, jitter_ps)));
  waiting.ack_ready = std::max(waiting.ack_ready, network_->now() + scenario_.ack_delay + jitter);
  ack_ready_[id] = waiting.ack_ready;
  if (first) arm_ack(endpoint.host, waiting.ack_ready);
}

// Sets the host's timer for an acknowledgement that may leave at this time. Of two classes the
// later one asks again when the earlier one's time has come: send_ack().
void HostSet::arm_ack(NodeId host, SimTime at) {
  const auto timer = static_cast<TimerId>(endpoints_.size() + flows_.size() + host);
  for (const Waiting& other : hosts_[host].waiting) {
    if (other.ack_head == kNoPacket) continue;
    const SimTime ready = ack_ready_[other.ack_head];
    if (ready > network_->now()) at = std::min(at, ready);
  }
  network_->set_timer(timer, at);
}

bool HostSet::send_ack(NodeId number, uint8_t priority) {
  Waiting& waiting = hosts_[number].waiting[priority];
  const PacketId id = waiting.ack_head;
  if (id == kNoPacket) return false;
  if (!ack_ready_.empty() && ack_ready_[id] > network_->now()) {
    arm_ack(number, ack_ready_[id]);
    return false;
  }
  waiting.ack_head = ack_next_[id];
  if (!ack_ready_.empty() && waiting.ack_head != kNoPacket) {
    arm_ack(number, ack_ready_[waiting.ack_head]);
  }
  network_->send(number, id);
  return true;
}

bool HostSet::send_ack(NodeId number) {
  Host& host = hosts_[number];
  for (uint8_t i = 0; i < kClasses; ++i) {
    const uint8_t priority = host.turn ^ i;
    if (!network_->nic_takes(number, priority) || !send_ack(number, priority)) continue;
    host.turn = priority ^ 1;
    return true;
  }
  return false;
}

bool HostSet::pull(NodeId number) {
  if (send_ack(number)) return true;
  Host& host = hosts_[number];
  for (uint8_t i = 0; i < kClasses; ++i) {
    const uint8_t priority = host.turn ^ i;
    if (!network_->nic_takes(number, priority)) continue;
    if (!send_data(number, host.waiting[priority])) continue;
    host.turn = priority ^ 1;
    return true;
  }
  return false;
}

bool HostSet::send_data(NodeId number, Waiting& waiting) {
  while (waiting.active_head != kNone) {
    Endpoint& endpoint = *endpoints_[waiting.active_head];
    waiting.active_head = endpoint.next_active;
    endpoint.active = false;
    if (!endpoint.qp.poll_packet(time(), tx_)) {
      endpoint.turn_left = endpoint.turn_packets;
      continue;
    }
    end_or_keep_turn(endpoint);
    const PacketId id = make_packet(endpoint, tx_.header);
    if (endpoint.measured) observe_departure(endpoint, wire_bytes(tx_.header));
    if (id != kNoPacket) network_->send(number, id);
    if (endpoint.rpc) drain_rpc(endpoint);  // the datagram has left, and its place is free
    arm(endpoint, false);
    return id != kNoPacket;  // the wire would wait for ever for one that was not sent
  }
  return false;
}

// Appends the endpoint to its host's list of turns.
void HostSet::activate(Endpoint& endpoint) {
  Waiting& waiting = hosts_[endpoint.host].waiting[endpoint.priority];
  endpoint.active = true;
  endpoint.next_active = kNone;
  const bool first = waiting.active_head == kNone;
  (first ? waiting.active_head : endpoints_[waiting.active_tail]->next_active) = endpoint.number;
  waiting.active_tail = endpoint.number;
}

// Ends the endpoint's turn after FlowSpec::turn_packets packets.
void HostSet::end_or_keep_turn(Endpoint& endpoint) {
  if (--endpoint.turn_left == 0) {
    endpoint.turn_left = endpoint.turn_packets;
    activate(endpoint);
    return;
  }
  Waiting& waiting = hosts_[endpoint.host].waiting[endpoint.priority];
  endpoint.active = true;
  endpoint.next_active = waiting.active_head;
  waiting.active_head = endpoint.number;
  if (endpoint.next_active == kNone) waiting.active_tail = endpoint.number;
}

// Counts a packet that leaves its host now.
void HostSet::observe_departure(Endpoint& endpoint, uint32_t packet_bytes) {
  const PortId nic = network_->nic(endpoint.host);
  const LinkConfig& link = scenario_.topology.links[nic / 2];
  const LinkRate rate = nic % 2 == 0 ? link.ab.rate : link.ba.rate;
  Flow& flow = flow_of_endpoint(endpoint);
  flow.flowlets.note(network_->now(), rate.time_of(packet_bytes), tx_.header.payload_len);
  if (flow.virtual_paths) flow.virtual_paths->note(tx_.header.vp);
}

// The wire, not the window, is the limit when more than a few of the packets that the window allows
// wait for the NIC. A stream with a credit for each packet detects this by itself.
bool HostSet::wire_is_limit(const Endpoint& endpoint) const {
  const Flow& flow = flows_[endpoint.number / 2];
  if (endpoint.qp.mp() == nullptr) return false;
  const transport::StreamSender& sender = flow.requester_sends()
                                              ? endpoint.qp.mp()->requester().sender()
                                              : endpoint.qp.mp()->responder().response_sender();
  if (sender.clocked()) return false;
  return sender.window().packets() > sender.in_flight() + transport::kWireBacklogMax;
}

void HostSet::service(Endpoint& endpoint) {
  drain(endpoint);
  if (!endpoint.active && endpoint.qp.wants_to_send()) activate(endpoint);
  const Host& host = hosts_[endpoint.host];
  const auto waits = [](const Waiting& waiting) { return waiting.any(); };
  if (std::any_of(host.waiting.begin(), host.waiting.end(), waits)) {
    network_->want_pull(endpoint.host);
  }
  if (endpoint.active && wire_is_limit(endpoint)) endpoint.qp.on_back_pressure();
  arm(endpoint, false);
}

SimTime HostSet::deadline_of(const Endpoint& endpoint) const {
  if (!endpoint.rpc) return SimTime::from(endpoint.qp.next_deadline());
  return endpoint.number % 2 == 0 ? flow_of_endpoint(endpoint).rpc->client.deadline()
                                  : SimTime::never();
}

// Sets the endpoint's timer if its deadline is earlier than the time that is set. `later`: a
// deadline was just handled, so nothing else is due at this instant.
void HostSet::arm(Endpoint& endpoint, bool later) {
  const SimTime deadline = deadline_of(endpoint);
  if (deadline.is_never()) return;
  SimTime at = std::max(deadline, network_->now());
  if (later) at = std::max(at, network_->now() + SimSpan::ns(1));
  if (at >= endpoint.armed_at) return;
  endpoint.armed_at = at;
  network_->set_timer(endpoint.number, at);
}

void HostSet::on_timer(TimerId timer) {
  if (timer >= receiver_timer(0)) return end_receiving(timer - receiver_timer(0));
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
  const bool due = deadline_of(endpoint) <= network_->now();
  if (due) {
    if (endpoint.rpc) {
      flow_of_endpoint(endpoint).rpc->client.on_deadline(network_->now());
    } else {
      endpoint.qp.on_deadline(time(), actions_);
    }
    do_actions(endpoint);
    service(endpoint);
  }
  arm(endpoint, due);
}

}  // namespace mprdma::switchsim
