#include "switchsim/fabric/fabric.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/check.hpp"
#include "switchsim/model/ecmp.hpp"

namespace mprdma::switchsim {

namespace {

using dataplane::kBurst;
using dataplane::kFrameHeadroom;
using dataplane::RxFrame;
using dataplane::TxFrame;

constexpr uint32_t kNoHost = UINT32_MAX;
// Bytes in a host's queue above which the host is not read: little enough that a sender notices.
// With the burst that a turn still reads at this level, the queue keeps a fast link busy until the
// next turn.
constexpr uint64_t kHostQueueBytes = 64 * 1024;
// ARP and group frames that may be on their way at once.
constexpr uint32_t kControlMax = 1024;
// With PFC: frames of a host that wait for room, borrowed of its port: the most that a port lends.
constexpr size_t kBacklogMax = 4096;
// With PFC: buffers for the frames of each host, at least.
constexpr uint32_t kFramesOfHost = 1024;

// Buffers for what hosts send over the links.
uint32_t frames_of_hosts(const FabricConfig& config) {
  const auto hosts = static_cast<uint32_t>(config.hosts.size());
  return config.topology.pfc.on ? std::max(Fabric::kFramesMax, kFramesOfHost * hosts)
                                : Fabric::kFramesMax;
}

FiveTuple five_tuple(const FrameClass& found) {
  FiveTuple tuple;
  std::memcpy(tuple.source.data(), found.src_ip.data(), sizeof tuple.source);
  std::memcpy(tuple.destination.data(), found.dst_ip.data(), sizeof tuple.destination);
  tuple.source_port = found.src_port;
  tuple.destination_port = found.dst_port;
  tuple.protocol = found.protocol;
  return tuple;
}

// The constant delay of ARP and group frames: that of the slowest two host links and the slowest
// link between switches, without rates and queues.
Duration control_delay(const Topology& topology) {
  SimSpan host_link;
  SimSpan link;
  for (size_t i = 0; i < topology.links.size(); ++i) {
    SimSpan& longest = i < topology.hosts ? host_link : link;
    longest = std::max(longest, topology.links[i].ab.delay);
  }
  return Duration::ns((host_link + host_link + link).count_ps() / 1000);
}

}  // namespace

NetworkConfig Fabric::network_config(const FabricConfig& config) {
  NetworkConfig network;
  network.topology = config.topology;
  network.seed = config.seed;
  network.packets_max = frames_of_hosts(config) + kControlMax;
  network.reroute = config.reroute;
  network.reroute_after = config.reroute_after;
  return network;
}

Fabric::Fabric(const FabricConfig& config, std::vector<std::unique_ptr<dataplane::Port>> ports,
               Time epoch)
    : config_(config),
      now_(config.topology),
      epoch_(epoch),
      control_delay_(control_delay(config.topology)),
      hosts_(config.hosts.size()),
      network_(std::make_unique<Network<Fabric>>(network_config(config), *this)),
      watchdogs_({.nic = config.nic_watchdog, .at_switch = config.switch_watchdog}, *network_),
      share_(frames_of_hosts(config) / static_cast<uint32_t>(config.hosts.size())),
      buffers_(std::make_unique_for_overwrite<unsigned char[]>(
          size_t{frames_of_hosts(config) + kControlMax} * kFrameBytesMax)),
      frames_(frames_of_hosts(config) + kControlMax) {
  CHECK(ports.size() == hosts_.size());
  for (size_t i = 0; i < hosts_.size(); ++i) {
    hosts_[i].port = std::move(ports[i]);
    hosts_[i].mac = config.hosts[i].mac;
    hosts_[i].ipv4 = config.hosts[i].ipv4;
    const dataplane::PortInfo info = hosts_[i].port->info();
    hosts_[i].corrupts = info.can_corrupt;
    if (has_pfc()) hosts_[i].backlog.frames.resize(kBacklogMax);
  }
}

Fabric::~Fabric() {
  for (Host& host : hosts_) {
    FrameBacklog& backlog = host.backlog;
    for (; backlog.count > 0; --backlog.count) {
      host.port->rx_release(&backlog.frames[backlog.first].cookie, 1);
      backlog.first = (backlog.first + 1) % backlog.frames.size();
    }
  }
}

unsigned char* Fabric::buffer(PacketId packet) const {
  return buffers_.get() + size_t{packet} * kFrameBytesMax;
}

SimTime Fabric::sim_time(Time now) const {
  return SimTime::from_ps((now - epoch_).count_ns() * 1000);
}

// Rounded up, because what happens then is not due before.
Time Fabric::real_time(SimTime time) const {
  return time.is_never() ? Time::never() : epoch_ + Duration::ns((time.ps() + 999) / 1000);
}

Time Fabric::next_event() const {
  Time next = real_time(network_->next_event());
  if (!control_.empty()) next = std::min(next, control_.front().due);
  return has_pfc() ? std::min(next, next_pause_event()) : next;
}

bool Fabric::turn(Time now) {
  frames_moved_ = 0;
  network_->run_until(sim_time(now));
  bool more = false;
  for (uint32_t host = 0; host < hosts_.size(); ++host) more |= receive(host, now);
  network_->run_until(sim_time(now));
  deliver_control(now);
  if (has_pfc()) tell_pauses(now);
  for (uint32_t host = 0; host < hosts_.size(); ++host) {
    hand_out(host);
    if (hosts_[host].sent) hosts_[host].port->flush();
    hosts_[host].sent = false;
  }
  if (has_pfc()) follow_pauses(now);
  return more;
}

// ---- From the hosts

// What is lossless must not be dropped for want of a buffer either. Each host has a share of them,
// so that one whose frames wait for a host that stands still stops nobody else. What is paused has
// a queue of its own, as on a network card: its sender is told, and the rest goes on.
bool Fabric::is_blocked(uint32_t index) const {
  const PortId own = 2 * index;
  uint64_t waiting = network_->queue_bytes(own);
  if (!has_pfc()) return waiting > kHostQueueBytes;
  if (hosts_[index].frames_in_use + kBurst > share_) return true;
  const bool only_lossless = !config_.topology.pfc.global && network_->pause_state(own).paused;
  if (only_lossless) waiting -= network_->lossless_bytes(own);
  return waiting > kHostQueueBytes;
}

// Reads a burst of frames from a host. True: more may wait.
bool Fabric::receive(uint32_t index, Time now) {
  Host& host = hosts_[index];
  host.blocked = is_blocked(index);
  if (host.blocked) ++host.counters.back_pressure;
  if (has_pfc()) return receive_past_pauses(index, now);
  if (host.blocked) return false;
  std::array<RxFrame, kBurst> frames;
  const unsigned count = host.port->rx_burst(frames.data(), kBurst);
  if (count == 0) return false;
  std::array<uint64_t, kBurst> cookies;
  for (unsigned i = 0; i < count; ++i) {
    if (!take_pause(index, frames[i], now)) receive_from_host(index, frames[i], now);
    cookies[i] = frames[i].cookie;
  }
  host.port->rx_release(cookies.data(), count);
  host.counters.frames_in += count;
  host.sent = true;  // returned frames need a flush, too
  frames_moved_ += count;
  return count == kBurst;
}

void Fabric::receive_from_host(uint32_t host, const RxFrame& frame, Time now) {
  FabricCounters& counters = hosts_[host].counters;
  if (frame.length > kFrameBytesMax) {
    ++counters.drop_long;
    return;
  }
  const PacketId packet = network_->allocate();
  if (packet == kNoPacket) {
    ++counters.drop_no_buffer;
    return;
  }
  ++hosts_[host].frames_in_use;
  frames_[packet].source = host;
  std::memcpy(buffer(packet), frame.data, frame.length);
  const FrameClass found = classify({buffer(packet), frame.length});
  FrameInfo& info = frames_[packet];
  info.bytes = static_cast<uint16_t>(frame.length);
  info.is_ipv6 = found.is_ipv6;
  info.lacks_icrc = found.is_roce && !hosts_[host].corrupts;
  info.marked = found.ecn == wire::Ecn::kCe;
  info.lossless = has_pfc() && found.kind == FrameKind::kFlow &&
                  (config_.topology.pfc.global ||
                   (config_.lossless_priorities >> wire::priority_of(found.dscp) & 1) != 0);
  switch (found.kind) {
    case FrameKind::kFlow:
      return send_flow(host, packet, found);
    case FrameKind::kControl:
      return send_control(host, packet, found, now);
    case FrameKind::kBad:
      break;
  }
  drop(found.fault == FrameFault::kShort       ? &FabricCounters::drop_short
       : found.fault == FrameFault::kEtherType ? &FabricCounters::drop_ether_type
                                               : &FabricCounters::drop_header,
       host, packet);
}

void Fabric::drop(uint64_t FabricCounters::*cause, uint32_t host, PacketId packet) {
  ++(hosts_[host].counters.*cause);
  release(packet);
}

void Fabric::release(PacketId packet) {
  on_drop(packet);
  network_->release(packet);
}

uint32_t Fabric::find_mac(const wire::MacAddress& mac) const {
  for (uint32_t i = 0; i < hosts_.size(); ++i) {
    if (hosts_[i].mac == mac) return i;
  }
  return kNoHost;
}

// Finds the destination by its Ethernet address or, if a host uses another one than configured, by
// IPv4.
uint32_t Fabric::find_host(const FrameClass& found) const {
  const uint32_t by_mac = find_mac(found.dst_mac);
  if (by_mac != kNoHost || !wire::is_mapped_ipv4(found.dst_ip)) return by_mac;
  const Ipv4 ipv4 = wire::unmap_ipv4(found.dst_ip);
  for (uint32_t i = 0; i < hosts_.size(); ++i) {
    if (hosts_[i].ipv4 == ipv4) return i;
  }
  return kNoHost;
}

void Fabric::send_flow(uint32_t host, PacketId packet, const FrameClass& found) {
  const uint32_t destination = find_host(found);
  if (destination == kNoHost) return drop(&FabricCounters::drop_unknown_destination, host, packet);
  if (destination == host) return drop(&FabricCounters::drop_to_itself, host, packet);
  NetPacket& model = network_->packet(packet);
  model.flow = flow_hash(five_tuple(found));
  model.wire_bytes = wire_bytes(frames_[packet].bytes);
  model.contents = packet;
  model.destination = destination;
  model.ect = found.ecn != wire::Ecn::kNotEct;
  model.ce = frames_[packet].marked;
  model.priority = frames_[packet].lossless ? kLosslessPriority : kLossyPriority;
  network_->send(host, packet);
}

// ---- Beside the links

void Fabric::send_control(uint32_t host, PacketId packet, const FrameClass& found, Time now) {
  const uint32_t only = find_mac(found.dst_mac);
  ++hosts_[host].counters.frames_flooded;
  for (uint32_t to = 0; to < hosts_.size(); ++to) {
    if (to != host && (only == kNoHost || only == to)) flood_copy(host, to, packet, now);
  }
  release(packet);
}

void Fabric::flood_copy(uint32_t from, uint32_t to, PacketId packet, Time now) {
  if (!network_->link_up(from) || !network_->link_up(to)) return;
  const PacketId copy = control_.size() < kControlMax ? network_->allocate() : kNoPacket;
  if (copy == kNoPacket) {
    ++hosts_[from].counters.drop_flood_full;
    return;
  }
  std::memcpy(buffer(copy), buffer(packet), frames_[packet].bytes);
  frames_[copy] = frames_[packet];
  ++hosts_[from].frames_in_use;
  network_->packet(copy).ce = false;
  control_.push_back({now + control_delay_, copy, to});
}

void Fabric::deliver_control(Time now) {
  while (!control_.empty() && control_.front().due <= now) {
    const ControlFrame frame = control_.front();
    control_.pop_front();
    on_packet(frame.host, frame.packet);
  }
}

// ---- To the hosts

void Fabric::on_packet(NodeId index, PacketId packet) {
  Host& host = hosts_[index];
  ++frames_moved_;
  if (host.full && !frames_[packet].lossless) {
    return drop(&FabricCounters::drop_host_slow, index, packet);
  }
  FrameQueue& queue = host.outbox;
  frames_[packet].next = kNoPacket;
  (queue.count == 0 ? queue.head : frames_[queue.tail].next) = packet;
  queue.tail = packet;
  if (++queue.count >= kBurst && !host.full) hand_out(index);
}

PacketId Fabric::take_from(FrameQueue* queue) {
  const PacketId packet = queue->head;
  queue->head = frames_[packet].next;
  --queue->count;
  return packet;
}

void Fabric::hand_out(uint32_t index) {
  Host& host = hosts_[index];
  const bool was_full = std::exchange(host.full, false);
  while (host.outbox.count > 0) {
    std::array<TxFrame, kBurst> frames;
    const unsigned wanted = std::min(host.outbox.count, kBurst);
    const bool up = host.port->link_up();
    const bool waits = up && host.keeps_lossless();
    const unsigned reserved = up ? host.port->tx_reserve(frames.data(), wanted) : 0;
    for (unsigned i = 0; i < reserved; ++i) {
      const PacketId packet = take_from(&host.outbox);
      copy_out(host, packet, &frames[i]);
      release(packet);
    }
    host.port->tx_commit(frames.data(), reserved);
    host.counters.frames_out += reserved;
    host.sent = true;
    if (reserved == 0 && was_full && waits) {
      host.full = true;  // as before: nothing waits but what is lossless
      return;
    }
    if (reserved < wanted) return drop_waiting(&host, up);
  }
}

// The port has no room, or nobody reads there. Frames that are lossless wait for room, as in the
// memory of a network card, unless a watchdog has given the host up, or its NIC.
void Fabric::drop_waiting(Host* host, bool up) {
  FrameQueue kept;
  while (host->outbox.count > 0) {
    const PacketId packet = take_from(&host->outbox);
    if (up && frames_[packet].lossless && host->keeps_lossless()) {
      frames_[packet].next = kNoPacket;
      (kept.count++ == 0 ? kept.head : frames_[kept.tail].next) = packet;
      kept.tail = packet;
      continue;
    }
    ++(up ? host->counters.drop_host_slow : host->counters.drop_host_away);
    release(packet);
  }
  host->outbox = kept;
  host->full = kept.count > 0;
}

void Fabric::copy_out(Host& host, PacketId packet, TxFrame* frame) {
  const FrameInfo& info = frames_[packet];
  const std::span<unsigned char> bytes(buffer(packet), info.bytes);
  if (network_->packet(packet).ce && !info.marked) mark_congestion(bytes, info.is_ipv6);
  if (info.lacks_icrc && host.corrupts) fill_icrc(bytes, info.is_ipv6);
  DCHECK(info.bytes <= kFrameHeadroom + frame->capacity);
  frame->header_bytes = kFrameHeadroom;
  frame->frame_bytes = info.bytes;
  std::memcpy(frame->payload - kFrameHeadroom, bytes.data(), bytes.size());
}

// ---- Sleeping

void Fabric::service(Time now) {
  for (Host& host : hosts_) host.port->service(now);
}

bool Fabric::arm() {
  for (Host& host : hosts_) {
    // A host that is not read needs no wake-up: the network's next event makes room for its frames.
    const bool reads = has_pfc() ? backlog_room(host) > 0 : !host.blocked;
    host.armed = reads && !has_work(host) && host.port->arm();
    if (host.armed || (!reads && !has_work(host))) continue;
    disarm();
    return false;
  }
  return true;
}

void Fabric::disarm() {
  for (Host& host : hosts_) {
    if (host.armed) host.port->disarm();
    host.armed = false;
  }
}

// ---- Links

void Fabric::apply(LinkId link, const LinkChange& change, unsigned directions) {
  LinkConfig& config = now_.links[link];
  if (change.up) network_->set_link_up(link, *change.up);
  for (const PortId direction : {0U, 1U}) {
    if ((directions >> direction & 1) == 0) continue;
    PortConfig& shown = direction == 0 ? config.ab : config.ba;
    const PortId port = 2 * link + direction;
    if (change.rate) network_->set_rate(port, shown.rate = *change.rate);
    if (change.loss_ppm) network_->set_loss(port, shown.loss_ppm = *change.loss_ppm);
    if (change.delay) network_->set_delay(port, shown.delay = *change.delay);
    if (change.red) network_->set_red(port, shown.red = *change.red);
    if (change.queue_bytes_max) {
      network_->set_queue_limit(port, shown.queue_bytes_max = *change.queue_bytes_max);
    }
  }
}

bool Fabric::link_up(LinkId link) const {
  return network_->link_up(link);
}

const LinkCounters& Fabric::link_counters(PortId port) const {
  return network_->counters(port);
}

uint64_t Fabric::queue_bytes(PortId port) const {
  return network_->queue_bytes(port);
}

PauseState Fabric::pause_state(PortId port) const {
  return network_->pause_state(port);
}

const FabricCounters& Fabric::counters(size_t host) const {
  return hosts_[host].counters;
}

dataplane::Port& Fabric::port(size_t host) const {
  return *hosts_[host].port;
}

uint32_t Fabric::frames_in_use() const {
  return network_->packets_in_use();
}

}  // namespace mprdma::switchsim
