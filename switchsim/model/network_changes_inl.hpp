// Bodies of Network: changes while it runs (links that fail, rates, delays), paths, and the
// invariants that check() asserts. Included by network.hpp only.
#pragma once

#include "switchsim/model/network.hpp"

namespace mprdma::switchsim {

// ---- Changes

template <class Hosts>
void Network<Hosts>::set_link_up(LinkId link, bool up) {
  if (link_up(link) == up) return;
  const PortId first = link * 2;
  if (reroute_) {
    const EventId event = event_of_link(link);
    if (wheel_.pending(event)) wheel_.cancel(event);
    wheel_.insert(event, now_ + reroute_after_);
  }
  for (const PortId id : {first, first + 1}) {
    ports_[id].up = up;
    if (!up) cut(id);
    update_open(id);
  }
  for (const PortId id : {first, first + 1}) {
    if (up && ports_[id].pull_wanted && may_pull(id)) pull(id);
  }
}

template <class Hosts>
void Network<Hosts>::cut(PortId id) {
  OutputPort& port = ports_[id];
  if (port.kick_pending) wheel_.cancel(id);
  port.kick_pending = false;
  port.busy_until = now_;
  while (!port.queue.empty()) drop(id, &LinkCounters::drop_down, dequeue(id, port.queue));
  if (pfc_) {
    PacketQueue& rest = pauses_[id].rest;
    while (!rest.empty()) drop(id, &LinkCounters::drop_down, dequeue(id, rest));
  }
  lose_on_wire(id);
}

template <class Hosts>
void Network<Hosts>::lose_on_wire(PortId id) {
  for (PacketId packet_id = 0; packet_id < packets_.touched(); ++packet_id) {
    const EventId event = event_of_packet(packet_id);
    if (!wheel_.pending(event) || packets_[packet_id].next != id) continue;
    wheel_.cancel(event);
#ifdef MPRDMA_DCHECK
    extras_[id].bytes_lost += packets_[packet_id].wire_bytes;
#endif
    ++counters_[id].drop_down;
    give_up(packet_id);
  }
}

template <class Hosts>
void Network<Hosts>::change_routes(LinkId link) {
  routes_.set_usable(link, link_up(link));
  routes_.compute();
  if constexpr (requires { hosts_.on_routes_changed(); }) hosts_.on_routes_changed();
}

template <class Hosts>
void Network<Hosts>::set_rate(PortId port, LinkRate rate) {
  CHECK(rate.bits_per_second() > 0);
  extras_[port].rate = rate;
  ports_[port].ps_per_byte = rate.whole_ps_per_byte();
}

template <class Hosts>
void Network<Hosts>::set_loss(PortId port, uint32_t loss_ppm) {
  extras_[port].loss_ppm = loss_ppm;
  ports_[port].special = is_special(port);
}

template <class Hosts>
void Network<Hosts>::tap(PortId port) {
  extras_[port].tapped = true;
  ports_[port].special = true;
}

template <class Hosts>
bool Network<Hosts>::is_special(PortId id) const {
  const PortExtras& extras = extras_[id];
  return extras.loss_ppm != 0 || extras.drop_every != 0 || extras.arrival_floor > now_ ||
         extras.tapped || extras.untags;
}

template <class Hosts>
void Network<Hosts>::set_delay(PortId port, SimSpan delay) {
  PortExtras& extras = extras_[port];
  // The arrival time of the last packet that has left, if it is still on its way.
  extras.arrival_floor =
      std::max(extras.arrival_floor, ports_[port].busy_until + ports_[port].delay);
  ports_[port].delay = delay;
  ports_[port].special = is_special(port);
}

template <class Hosts>
void Network<Hosts>::set_red(PortId port, const RedConfig& red) {
  CHECK(red.kmin_bytes <= red.kmax_bytes);
  extras_[port].red = red;
  ports_[port].red = red.kmax_bytes != 0;
}

template <class Hosts>
void Network<Hosts>::set_queue_limit(PortId port, uint64_t bytes) {
  ports_[port].queue_bytes_max = bytes;
}

// ---- Getters

template <class Hosts>
uint32_t Network<Hosts>::path_of(NodeId from, NodeId to, uint64_t flow,
                                 std::span<PortId> out) const {
  uint32_t count = 0;
  PortId port = routes_.nic(from);
  while (port != kNoPort) {
    if (count < out.size()) out[count] = port;
    ++count;
    const NodeId node = ports_[port].to;
    if (node < topology_.hosts) return node == to ? count : 0;
    port = routes_.next_port(node, to, flow);
  }
  return 0;
}

template <class Hosts>
void Network<Hosts>::check() const {
  check_switches();
#ifdef MPRDMA_DCHECK
  std::vector<uint64_t> flying(ports_.size());
  for (PacketId id = 0; id < packets_.touched(); ++id) {
    if (wheel_.pending(event_of_packet(id))) flying[packets_[id].next] += packets_[id].wire_bytes;
  }
  for (PortId id = 0; id < ports_.size(); ++id) {
    const PortExtras& extras = extras_[id];
    const uint64_t out = counters_[id].bytes;
    CHECK(extras.bytes_in == out + extras.bytes_dropped + queue_bytes(id));
    CHECK(out == extras.bytes_arrived + extras.bytes_lost + flying[id]);
  }
#endif
}

template <class Hosts>
void Network<Hosts>::check_switches() const {
  std::vector<uint64_t> by_egress(buffers_.size());
  std::vector<uint64_t> by_ingress(buffers_.size());
  for (PortId id = 0; id < ports_.size(); ++id) {
    const OutputPort& port = ports_[id];
    uint64_t queued = 0;
    for_each_waiting(id, [&](const NetPacket& packet) { queued += packet.wire_bytes; });
    CHECK(queued == queue_bytes(id));
    if (port.buffer != OutputPort::kNone) by_egress[port.buffer] += queued;
    if (port.to >= topology_.hosts) {
      by_ingress[port.to - topology_.hosts] += extras_[id].ingress_bytes;
    }
  }
  for (size_t at = 0; at < buffers_.size(); ++at) {
    CHECK(by_egress[at] == buffers_[at].bytes() && by_ingress[at] == buffers_[at].bytes());
  }
  if (managed_) check_accounts();
}

}  // namespace mprdma::switchsim
