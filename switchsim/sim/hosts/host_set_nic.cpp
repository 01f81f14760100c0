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
  const int32_t ahead = flow.expected.distance_to(packet.psn);
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
  for (const transport::Placement& placement : actions_.placements) {
    flow_of_endpoint(endpoint).delivered_bytes += placement.length;
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
  // Jitter does not reorder: acknowledgements leave in the order in which they were made.
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
    if (!endpoint.qp.poll_packet(time(), tx_)) {
      endpoint.turn_left = endpoint.turn_packets;
      continue;
    }
    end_or_keep_turn(endpoint);
    const PacketId id = make_packet(endpoint, tx_.header);
    if (endpoint.measured) observe_departure(endpoint, wire_bytes(tx_.header));
    if (id != kNoPacket) network_->send(number, id);
    arm(endpoint, false);
    return true;
  }
  return false;
}

// Appends the endpoint to its host's list of turns.
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

// Ends the endpoint's turn after FlowSpec::turn_packets packets.
void HostSet::end_or_keep_turn(Endpoint& endpoint) {
  if (--endpoint.turn_left == 0) {
    endpoint.turn_left = endpoint.turn_packets;
    activate(endpoint);
    return;
  }
  Host& host = hosts_[endpoint.host];
  endpoint.active = true;
  endpoint.next_active = host.active_head;
  host.active_head = endpoint.number;
  if (endpoint.next_active == kNone) host.active_tail = endpoint.number;
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
  if (host.active_head != kNone || host.ack_head != kNoPacket) network_->want_pull(endpoint.host);
  if (endpoint.active && wire_is_limit(endpoint)) endpoint.qp.on_back_pressure();
  arm(endpoint, false);
}

// Sets the endpoint's timer if its deadline is earlier than the time that is set. `later`: a
// deadline was just handled, so nothing else is due at this instant.
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

}  // namespace mprdma::switchsim
