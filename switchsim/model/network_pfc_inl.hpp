// Bodies of Network: buffers whose packets are charged to accounts, and PFC. Included by
// network.hpp only. The rules are in shared_buffer.hpp and pause.hpp.
#pragma once

#include "switchsim/model/network.hpp"

namespace mprdma::switchsim {

template <class Hosts>
void Network<Hosts>::make_accounts() {
  const bool limited = topology_.switch_buffer_bytes != 0;
  BufferRules rules;
  rules.bytes_max = limited ? topology_.switch_buffer_bytes : kManagedBufferBytesMax;
  rules.alpha_q16 = topology_.buffer_alpha_q16;
  rules.reserve_bytes = topology_.reserve_bytes;
  CHECK(rules.bytes_max <= kManagedBufferBytesMax && rules.alpha_q16 <= kBufferAlphaQ16Max);
  const std::vector<uint64_t> dedicated = dedicated_bytes(topology_);
  for (size_t at = 0; at < buffers_.size(); ++at) {
    CHECK(dedicated[at] <= rules.bytes_max);
    rules.shared_max = rules.bytes_max - dedicated[at];
    buffers_[at] = SharedBuffer(rules);
  }
  accounts_.resize(ports_.size());
  if (!pfc_) return;
  pauses_.resize(ports_.size());
  for (PortId id = 0; id < pauses_.size(); ++id) {
    pauses_[id].headroom_max = headroom_bytes(topology_, id);
  }
}

// ---- Packets

// Forwards a packet that is at the node of the port, unless the wire is simply free.
template <class Hosts>
void Network<Hosts>::offer_managed(PortId id, PacketId packet_id) {
  OutputPort& port = ports_[id];
  const NetPacket& packet = packets_[packet_id];
  if (!port.up) return drop_at_dead_end(id, packet_id);
  if (pfc_ && pauses_[id].discarding && lossless(packet)) {
    return drop(id, &LinkCounters::drop_paused, packet_id);
  }
  PacketQueue* queue = &port.queue;
  if (pfc_ && !lossless(packet)) {
    queue = &pauses_[id].rest;
    // What stops the other class does not concern this packet.
    const bool stopped = pauses_[id].paused || pauses_[id].discarding;
    if (stopped && queue->empty() && port.busy_until <= now_) {
      return transmit(id, packet_id);
    }
  }
  const bool in_host = port.buffer == OutputPort::kNone;
  // The limit of a queue does not apply to lossless packets, which have the limit of their ingress;
  // in a host they wait as long as the host makes them.
  if (!lossless(packet) && queue->bytes + packet.wire_bytes > port.queue_bytes_max) {
    return drop(id, &LinkCounters::drop_queue, packet_id);
  }
  if (!in_host) {
    if (!admit(id, packet)) return drop(id, &LinkCounters::drop_buffer, packet_id);
    buffers_[port.buffer].take(extras_[packet.ingress].ingress_bytes, packet.wire_bytes);
  }
  append(id, *queue, packet_id);
  update_open(id);
  if (wants_wire(id)) kick_when_free(id);
}

// Charges the packet to its account; false if it has to be dropped.
template <class Hosts>
bool Network<Hosts>::admit(PortId id, const NetPacket& packet) {
  SharedBuffer& buffer = buffers_[ports_[id].buffer];
  if (lossless(packet)) return admit_lossless(buffer, packet);
  if (!buffer.fits(accounts_[id], packet.wire_bytes, buffer.limit())) return false;
  buffer.charge(accounts_[id], packet.wire_bytes);
  return true;
}

template <class Hosts>
bool Network<Hosts>::admit_lossless(SharedBuffer& buffer, const NetPacket& packet) {
  PausePort& ingress = pauses_[packet.ingress];
  const uint64_t pause_bytes = topology_.pfc.pause_bytes;
  const uint64_t limit = pause_bytes != 0 ? pause_bytes : buffer.limit();
  if (buffer.fits(ingress.ingress, packet.wire_bytes, limit)) {
    buffer.charge(ingress.ingress, packet.wire_bytes);
    return true;
  }
  const bool taken = ingress.ingress.headroom + packet.wire_bytes <= ingress.headroom_max;
  if (taken) ingress.ingress.headroom += packet.wire_bytes;
  ingress.headroom_peak = std::max(ingress.headroom_peak, ingress.ingress.headroom);
  // An empty ingress must not pause, because no packet will leave it to end the pause.
  if (!ingress.pausing && ingress.ingress.total() > 0) set_pausing(packet.ingress, true);
  return taken;
}

// Refunds a packet that leaves the switch by this port, or is lost.
template <class Hosts>
void Network<Hosts>::refund(PortId id, const NetPacket& packet) {
  SharedBuffer& buffer = buffers_[ports_[id].buffer];
  if (!lossless(packet)) return buffer.refund(accounts_[id], packet.wire_bytes);
  PausePort& ingress = pauses_[packet.ingress];
  buffer.refund(ingress.ingress, packet.wire_bytes);
  if (!ingress.pausing || ingress.ingress.headroom > 0) return;
  const PfcConfig& pfc = topology_.pfc;
  const uint64_t limit = pfc.pause_bytes != 0 ? pfc.pause_bytes : buffer.limit();
  // An empty ingress ends its pause, however low the limit is, because no further packet will leave
  // it.
  const bool below = ingress.ingress.bytes + pfc.hysteresis_bytes <= limit;
  if (below || ingress.ingress.bytes == 0) set_pausing(packet.ingress, false);
}

// Handles a kick: the wire has become free, unless a packet was sent just now.
template <class Hosts>
void Network<Hosts>::kick_classes(PortId id) {
  OutputPort& port = ports_[id];
  PausePort& pause = pauses_[id];
  if (port.busy_until <= now_) {
    const bool lossless_waits = !port.queue.empty() && !pause.paused;
    const bool rest_waits = !pause.rest.empty();
    if (!lossless_waits && !rest_waits) {
      if (port.pull_wanted && may_pull(id)) pull(id);
      return;
    }
    const bool both = lossless_waits && rest_waits;
    if (!both) pause.lead_bytes = 0;
    const bool turn = lossless_waits && (!both || pause.lead_bytes <= 0);
    PacketQueue& queue = turn ? port.queue : pause.rest;
    const int64_t bytes = packets_[queue.head].wire_bytes;
    if (both) pause.lead_bytes += turn ? bytes : -bytes;
    transmit_next(id, queue);
    update_open(id);
  }
  if (wants_wire(id)) kick_when_free(id);
}

template <class Hosts>
bool Network<Hosts>::wants_wire(PortId id) const {
  const OutputPort& port = ports_[id];
  if (!pfc_) return !port.queue.empty() || port.pull_wanted;
  const PausePort& pause = pauses_[id];
  if (!pause.rest.empty()) return true;
  if (port.pull_wanted) return !pause.paused || !topology_.pfc.global;
  return !pause.paused && !port.queue.empty();
}

// A pause leaves the other class to the host, unless it is global.
template <class Hosts>
bool Network<Hosts>::may_pull(PortId id) const {
  const OutputPort& port = ports_[id];
  if (port.idle(now_)) return true;
  if (!pfc_ || !pauses_[id].paused || topology_.pfc.global) return false;
  return port.up && pauses_[id].rest.empty() && port.busy_until <= now_;
}

template <class Hosts>
void Network<Hosts>::update_open(PortId id) {
  OutputPort& port = ports_[id];
  port.open = port.up;
  if (!pfc_) return;
  const PausePort& pause = pauses_[id];
  port.open = port.up && !pause.paused && !pause.discarding && pause.rest.empty();
}

// ---- Pauses. A port is the sender's: what it sends into is what pauses it.

template <class Hosts>
void Network<Hosts>::set_host_pausing(NodeId host, bool pausing) {
  const PortId port = routes_.nic(host) ^ 1;
  if (pfc_ && pauses_[port].pausing != pausing) set_pausing(port, pausing);
}

template <class Hosts>
void Network<Hosts>::set_discarding(NodeId host, bool discarding) {
  if (!pfc_) return;
  const PortId id = routes_.nic(host) ^ 1;
  pauses_[id].discarding = discarding;
  update_open(id);
  PacketQueue& queue = ports_[id].queue;
  while (discarding && !queue.empty()) drop(id, &LinkCounters::drop_paused, dequeue(id, queue));
}

template <class Hosts>
bool Network<Hosts>::stopped(PortId id) const {
  if (!pfc_) return false;
  const PausePort& pause = pauses_[id];
  if (!pause.paused || !pause.pausing || !pause.signals.empty()) return false;
  // The last packet had begun before the pause.
  const PortExtras& extras = extras_[id];
  const SimSpan last = extras.rate.time_of(topology_.pfc.mtu_bytes) + ports_[id].delay;
  return now_ >= pause.paused_since + last && now_ >= extras.arrival_floor;
}

// Packets that leave free headroom first.
template <class Hosts>
uint64_t Network<Hosts>::shared_of(PortId port, uint64_t stuck) const {
  const BufferAccount& ingress = pauses_[port].ingress;
  const uint64_t below_headroom = std::min(stuck, ingress.bytes);
  return buffers_[ports_[port].to - topology_.hosts].above_reserve(below_headroom);
}

// As refund() does, which is asked when a packet of the same ingress leaves.
template <class Hosts>
bool Network<Hosts>::would_resume(PortId port, uint64_t stuck, uint64_t shared) const {
  const BufferAccount& ingress = pauses_[port].ingress;
  if (stuck == ingress.total()) return false;
  if (stuck > ingress.bytes) return false;  // the rest of it stays in the headroom
  const PfcConfig& pfc = topology_.pfc;
  const SharedBuffer& buffer = buffers_[ports_[port].to - topology_.hosts];
  const uint64_t limit = pfc.pause_bytes != 0 ? pfc.pause_bytes : buffer.limit_at(shared);
  return stuck + pfc.hysteresis_bytes <= limit;
}

template <class Hosts>
void Network<Hosts>::set_pausing(PortId id, bool pausing) {
  PausePort& pause = pauses_[id];
  pause.pausing = pausing;
  pause.pause_sent += pausing ? 1 : 0;
  const bool idle = pause.signals.empty();
  pause.signals.push(now_ + ports_[id ^ 1].delay);
  if (idle) wheel_.insert(first_signal_ + id, pause.signals.front());
}

template <class Hosts>
void Network<Hosts>::process_signal(PortId id) {
  PausePort& pause = pauses_[id];
  pause.signals.pop();
  if (!pause.signals.empty()) wheel_.insert(first_signal_ + id, pause.signals.front());
  pause.paused = !pause.paused;
  update_open(id);
  if (pause.paused) {
    pause.paused_since = now_;
    return;
  }
  pause.paused_before = pause.paused_before + (now_ - pause.paused_since);
  // The host may have more than it was asked for during the pause.
  if (topology_.from(id) < topology_.hosts) ports_[id].pull_wanted = true;
  if (ports_[id].up && wants_wire(id)) kick_when_free(id);
}

template <class Hosts>
PauseState Network<Hosts>::pause_state(PortId id) const {
  if (!pfc_) return {};
  const PausePort& pause = pauses_[id];
  SimSpan time = pause.paused_before;
  if (pause.paused) time = time + (now_ - pause.paused_since);
  return {pause.paused, pause.pause_sent, time, pause.headroom_peak};
}

// ---- Books

template <class Hosts>
template <class Look>
void Network<Hosts>::for_each_waiting(PortId id, Look&& look) const {
  for (PacketId i = ports_[id].queue.head; i != kNoPacket; i = packets_[i].next) look(packets_[i]);
  if (!pfc_) return;
  for (PacketId i = pauses_[id].rest.head; i != kNoPacket; i = packets_[i].next) look(packets_[i]);
}

// Checks that every account holds exactly its packets, and that their sum is the buffer's shared
// bytes.
template <class Hosts>
void Network<Hosts>::check_accounts() const {
  std::vector<uint64_t> queued(ports_.size());
  std::vector<uint64_t> ingress(ports_.size());
  for (PortId id = 0; id < ports_.size(); ++id) {
    if (ports_[id].buffer == OutputPort::kNone) continue;
    for_each_waiting(id, [&](const NetPacket& packet) {
      (lossless(packet) ? ingress[packet.ingress] : queued[id]) += packet.wire_bytes;
    });
  }
  std::vector<uint64_t> shared(buffers_.size());
  for (PortId id = 0; id < ports_.size(); ++id) {
    CHECK(accounts_[id].headroom == 0 && accounts_[id].bytes == queued[id]);
    const uint32_t buffer = ports_[id].buffer;
    if (buffer != OutputPort::kNone) shared[buffer] += buffers_[buffer].above_reserve(queued[id]);
    if (!pfc_) continue;
    const PausePort& pause = pauses_[id];
    CHECK(pause.ingress.total() == ingress[id] && pause.ingress.headroom <= pause.headroom_max);
    CHECK(pause.ingress.headroom == 0 || pause.pausing);
    CHECK(!pause.pausing || pause.ingress.total() > 0 || ports_[id].to < topology_.hosts);
    // Checks that the sender's state and the signals on their way lead to the state that the
    // receiver wants.
    CHECK(pause.pausing == (pause.paused != (pause.signals.count() % 2 == 1)));
    if (ports_[id].to < topology_.hosts) continue;
    const uint32_t at = ports_[id].to - topology_.hosts;
    shared[at] += buffers_[at].above_reserve(pause.ingress.bytes);
  }
  for (size_t at = 0; at < buffers_.size(); ++at) {
    CHECK(shared[at] == buffers_[at].shared_bytes());
    CHECK(topology_.switch_buffer_bytes == 0 ||
          buffers_[at].bytes() <= topology_.switch_buffer_bytes);
  }
}

}  // namespace mprdma::switchsim
