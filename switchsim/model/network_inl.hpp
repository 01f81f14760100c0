// The bodies of Network. Included by network.hpp only.
#pragma once

#include "switchsim/model/network.hpp"

namespace mprdma::switchsim {

// Sizes of the wheel: how many events are pending at a time, and how far ahead they lie.
uint32_t wheel_buckets(const Topology& topology);
SimSpan wheel_horizon(const Topology& topology);

template <class Hosts>
Network<Hosts>::Network(const NetworkConfig& config, Hosts& hosts)
    : hosts_(hosts),
      topology_(config.topology),
      reroute_(config.reroute),
      reroute_after_(config.reroute_after),
      first_timer_(topology_.ports()),
      first_link_(first_timer_ + config.timers),
      first_signal_(first_link_ + static_cast<uint32_t>(topology_.links.size())),
      first_packet_(first_signal_ + (topology_.pfc.on ? topology_.ports() : 0)),
      wheel_(first_packet_ + config.packets_max, wheel_horizon(topology_),
             wheel_buckets(topology_)),
      packets_(config.packets_max),
      routes_(topology_, config.seed),
      counters_(topology_.ports()),
      managed_(managed(topology_)),
      pfc_(topology_.pfc.on),
      deadlines_(config.timers, SimTime::never()) {
  for (EventId event = 0; event < first_packet_; ++event) wheel_.create(event);
  make_ports();
  make_buffers();
  const Prng prng(config.seed);
  const Prng red = prng.split("red");
  const Prng loss = prng.split("loss");
  for (PortId id = 0; id < ports_.size(); ++id) {
    extras_[id].red_draws = red.split(id);
    extras_[id].loss_draws = loss.split(id);
  }
}

template <class Hosts>
void Network<Hosts>::make_ports() {
  ports_.resize(topology_.ports());
  if (topology_.flood) flood_ports_.resize(topology_.switches);
  extras_.resize(topology_.ports());
  for (PortId id = 0; id < ports_.size(); ++id) {
    const LinkConfig& link = topology_.links[id / 2];
    const PortConfig& config = id % 2 == 0 ? link.ab : link.ba;
    const NodeId from = topology_.from(id);
    ports_[id].to = topology_.to(id);
    if (from >= topology_.hosts) ports_[id].buffer = from - topology_.hosts;
    if (topology_.flood && from >= topology_.hosts) {
      flood_ports_[from - topology_.hosts].push_back(id);
    }
    ports_[id].delay = config.delay;
    ports_[id].queue_bytes_max = config.queue_bytes_max;
    set_rate(id, config.rate);
    set_red(id, config.red);
    extras_[id].drop_every = config.drop_every;
    extras_[id].until_drop = config.drop_every;
    extras_[id].untags = pfc_ && topology_.pfc.pcp && from >= topology_.hosts;
    set_loss(id, config.loss_ppm);
  }
}

template <class Hosts>
void Network<Hosts>::make_buffers() {
  BufferRules rules;
  const uint64_t limit = topology_.switch_buffer_bytes;
  rules.bytes_max = limit == 0 ? UINT64_MAX : limit;
  buffers_.assign(topology_.switches, SharedBuffer(rules));
  if (managed_) make_accounts();
}

// ---- Packets

template <class Hosts>
PacketId Network<Hosts>::allocate() {
  bool fresh = false;
  const PacketId id = packets_.allocate(fresh);
  if (fresh && id != kNoPacket) wheel_.create(event_of_packet(id));
  return id;
}

template <class Hosts>
void Network<Hosts>::send(NodeId host, PacketId id) {
  NetPacket& packet = packets_[id];
  CHECK(packet.wire_bytes > 0 && packet.destination < topology_.hosts);
  const PortId nic = routes_.nic(host);
  packet.ingress = nic;  // never read, because a host has no shared buffer
  offer(nic, id);
}

// The packet is at the node that the port belongs to.
template <class Hosts>
void Network<Hosts>::offer(PortId id, PacketId packet_id) {
#ifdef MPRDMA_DCHECK
  extras_[id].bytes_in += packets_[packet_id].wire_bytes;
#endif
  if (ports_[id].idle(now_)) [[likely]] {
    transmit(id, packet_id);
  } else if (!managed_) [[likely]] {
    enqueue(id, packet_id);
  } else {
    offer_managed(id, packet_id);
  }
}

template <class Hosts>
void Network<Hosts>::enqueue(PortId id, PacketId packet_id) {
  OutputPort& port = ports_[id];
  NetPacket& packet = packets_[packet_id];
  if (!port.up) return drop_at_dead_end(id, packet_id);
  if (port.queue.bytes + packet.wire_bytes > port.queue_bytes_max) {
    return drop(id, &LinkCounters::drop_queue, packet_id);
  }
  if (port.buffer != OutputPort::kNone) {
    SharedBuffer& buffer = buffers_[port.buffer];
    if (!buffer.has_room(packet.wire_bytes)) {
      return drop(id, &LinkCounters::drop_buffer, packet_id);
    }
    buffer.take(extras_[packet.ingress].ingress_bytes, packet.wire_bytes);
  }
  append(id, port.queue, packet_id);
  kick_when_free(id);
}

template <class Hosts>
void Network<Hosts>::append(PortId id, PacketQueue& queue, PacketId packet_id) {
  NetPacket& packet = packets_[packet_id];
  if (ports_[id].red && extras_[id].red.mark_on_enqueue) mark(id, packet, queue.bytes);
  packet.next = kNoPacket;
  if (queue.empty()) {
    queue.head = packet_id;
  } else {
    packets_[queue.tail].next = packet_id;
  }
  queue.tail = packet_id;
  queue.bytes += packet.wire_bytes;
  extras_[id].queue_bytes_peak = std::max(extras_[id].queue_bytes_peak, queue_bytes(id));
}

// Requires that a packet waits in this queue of the port.
template <class Hosts>
PacketId Network<Hosts>::dequeue(PortId id, PacketQueue& queue) {
  const PacketId packet_id = queue.head;
  const NetPacket& packet = packets_[packet_id];
  queue.head = packet.next;
  queue.bytes -= packet.wire_bytes;
  const uint32_t buffer = ports_[id].buffer;
  if (buffer != OutputPort::kNone) {
    buffers_[buffer].give_back(extras_[packet.ingress].ingress_bytes, packet.wire_bytes);
    if (managed_) [[unlikely]] {
      refund(id, packet);
    }
  }
  return packet_id;
}

// Marks the packet by the current queue, which does not include it, on enqueue as on dequeue.
template <class Hosts>
void Network<Hosts>::mark(PortId id, NetPacket& packet, uint64_t waiting_bytes) {
  if (!packet.ect) return;
  if (!red_marks(extras_[id].red, waiting_bytes, extras_[id].red_draws)) return;
  packet.ce = true;
  ++counters_[id].marked;
}

// Requires that the wire is free.
template <class Hosts>
void Network<Hosts>::transmit(PortId id, PacketId packet_id) {
  OutputPort& port = ports_[id];
  NetPacket& packet = packets_[packet_id];
  LinkCounters& counters = counters_[id];
  ++counters.packets;
  counters.bytes += packet.wire_bytes;
  packet.next = id;
  const SimSpan duration = port.ps_per_byte != 0
                               ? SimSpan::ps(int64_t{port.ps_per_byte} * packet.wire_bytes)
                               : extras_[id].rate.time_of(packet.wire_bytes);
  port.busy_until = now_ + duration;
  SimTime arrival = port.busy_until + port.delay;
  if (port.special) [[unlikely]] {
    if (special_case(id, packet_id, arrival)) {
#ifdef MPRDMA_DCHECK
      extras_[id].bytes_lost += packet.wire_bytes;
#endif
      ++counters.drop_loss;
      return give_up(packet_id);
    }
  }
  wheel_.insert(event_of_packet(packet_id), arrival);
}

// True if the packet is lost on the wire.
template <class Hosts>
bool Network<Hosts>::special_case(PortId id, PacketId packet_id, SimTime& arrival) {
  PortExtras& extras = extras_[id];
  if (extras.tapped) {
    if constexpr (requires { hosts_.on_transmit(id, packet_id); }) {
      hosts_.on_transmit(id, packet_id);
    }
  }
  arrival = std::max(arrival, extras.arrival_floor);
  if (extras.untags) packets_[packet_id].priority = kLossyPriority;
  if (extras.drop_every != 0 && --extras.until_drop == 0) {
    extras.until_drop = extras.drop_every;
    return true;
  }
  return extras.loss_ppm != 0 && extras.loss_draws.chance(extras.loss_ppm, 1'000'000);
}

template <class Hosts>
void Network<Hosts>::kick_when_free(PortId id) {
  OutputPort& port = ports_[id];
  if (port.kick_pending) return;
  port.kick_pending = true;
  wheel_.insert(id, std::max(port.busy_until, now_));
}

template <class Hosts>
void Network<Hosts>::drop(PortId id, uint64_t LinkCounters::*reason, PacketId packet_id) {
#ifdef MPRDMA_DCHECK
  extras_[id].bytes_dropped += packets_[packet_id].wire_bytes;
#endif
  ++(counters_[id].*reason);
  give_up(packet_id);
}

template <class Hosts>
void Network<Hosts>::give_up(PacketId id) {
  if constexpr (requires { hosts_.on_drop(id); }) {
    if (!packets_[id].flooded) hosts_.on_drop(id);
  }
  packets_.release(id);
}

template <class Hosts>
void Network<Hosts>::want_pull(NodeId host) {
  const PortId id = routes_.nic(host);
  OutputPort& port = ports_[id];
  if (port.pull_wanted) return;  // a kick is on its way, or we are inside pull()
  port.pull_wanted = true;
  if (may_pull(id)) {
    pull(id);
  } else if (port.up && wants_wire(id)) {
    kick_when_free(id);
  }
}

// Requires an idle port whose host wants to be asked.
template <class Hosts>
void Network<Hosts>::pull(PortId id) {
  const bool sent = hosts_.pull(topology_.from(id));
  OutputPort& port = ports_[id];
  if (!sent) {
    port.pull_wanted = false;
    return;
  }
  if (!port.up) return;
  CHECK(port.busy_until > now_);  // true without a packet would be asked again for ever
  kick_when_free(id);
}

// ---- Events

template <class Hosts>
void Network<Hosts>::handle(EventId event) {
  ++events_handled_;
  if (event >= first_packet_) {
    arrive(event - first_packet_);
  } else if (event < first_timer_) {
    kick(event);
  } else if (event < first_link_) {
    expire(event - first_timer_);
  } else if (event < first_signal_) {
    change_routes(event - first_link_);
  } else {
    process_signal(event - first_signal_);
  }
}

// Most of an event's time is spent waiting for memory. The data of the next events is fetched in
// steps, each of which needs the data that the one before has fetched.
template <class Hosts>
void Network<Hosts>::look_ahead() {
  const EventId third = wheel_.upcoming(16);
  if (third != EventWheel::kNone && third >= first_packet_) {
    packets_.prefetch(third - first_packet_);
  }
  const EventId second = wheel_.upcoming(8);
  if (second == EventWheel::kNone) return;
  if (second < first_timer_) {
    if (!ports_[second].queue.empty()) packets_.prefetch(ports_[second].queue.head);
  } else if (second >= first_packet_) {
    const PacketId id = second - first_packet_;
    if constexpr (requires { hosts_.prefetch(id); }) {
      if (ports_[packets_[id].next].to < topology_.hosts) hosts_.prefetch(id);
    }
  }
}

template <class Hosts>
void Network<Hosts>::arrive(PacketId id) {
  NetPacket& packet = packets_[id];
  const PortId by = packet.next;
  const NodeId node = ports_[by].to;
  ++packet_hops_;
#ifdef MPRDMA_DCHECK
  extras_[by].bytes_arrived += packet.wire_bytes;
#endif
  if (packet.flooded) [[unlikely]] {
    ++counters_[by].drop_flooded;
    packets_.release(id);
    return;
  }
  if (node < topology_.hosts) {
    hosts_.on_packet(node, id);
    return;
  }
  const PortId egress = routes_.next_port(node, packet.destination, packet.flow);
  if (egress == kNoPort) {
    ++counters_[by].drop_route;
    give_up(id);
    return;
  }
  packet.ingress = by;
  offer(egress, id);
}

// Handles a kick: the wire has become free, unless the host has sent just now.
template <class Hosts>
void Network<Hosts>::kick(PortId id) {
  OutputPort& port = ports_[id];
  port.kick_pending = false;
  if (pfc_) [[unlikely]] {
    return kick_classes(id);
  }
  if (port.busy_until > now_) {
    if (!port.queue.empty() || port.pull_wanted) kick_when_free(id);
    return;
  }
  if (port.queue.empty()) {
    if (port.pull_wanted) pull(id);
    return;
  }
  transmit_next(id, port.queue);
  if (!port.queue.empty() || port.pull_wanted) kick_when_free(id);
}

template <class Hosts>
void Network<Hosts>::transmit_next(PortId id, PacketQueue& queue) {
  const PacketId packet_id = dequeue(id, queue);
  if (ports_[id].red && !extras_[id].red.mark_on_enqueue) {
    mark(id, packets_[packet_id], queue.bytes);
  }
  transmit(id, packet_id);
}

template <class Hosts>
void Network<Hosts>::set_timer(TimerId timer, SimTime at) {
  const EventId event = event_of_timer(timer);
  at = std::max(at, now_);
  deadlines_[timer] = at;
  if (wheel_.pending(event)) {
    // A later time leaves the event in place; expire() checks it again. Most timers are moved with
    // every packet and seldom expire.
    if (!at.is_never() && wheel_.time_of(event) <= at) return;
    wheel_.cancel(event);
  }
  if (!at.is_never()) wheel_.insert(event, at);
}

template <class Hosts>
void Network<Hosts>::expire(TimerId timer) {
  if (deadlines_[timer] > now_) {
    wheel_.insert(event_of_timer(timer), deadlines_[timer]);
    return;
  }
  deadlines_[timer] = SimTime::never();
  hosts_.on_timer(timer);
}

template <class Hosts>
void Network<Hosts>::run_until(SimTime until) {
  EventId event = 0;
  SimTime time;
  while (wheel_.pop_until(until, event, time)) {
    now_ = time;
    look_ahead();
    handle(event);
  }
  // After run_until(never()), now() is the time of the last event.
  if (until > now_ && !until.is_never()) now_ = until;
  wheel_.advance(now_);
}

template <class Hosts>
bool Network<Hosts>::step() {
  EventId event = 0;
  SimTime time;
  if (!wheel_.pop_until(SimTime::never(), event, time)) return false;
  now_ = time;
  handle(event);
  return true;
}

}  // namespace mprdma::switchsim
