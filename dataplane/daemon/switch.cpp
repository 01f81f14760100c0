// Ports, turns, and frames that go out.
#include "dataplane/daemon/switch.hpp"

#include <algorithm>
#include <utility>

#include "base/check.hpp"

namespace mprdma::dataplane::mprdmad {

namespace {

// Number of bursts in the longest ring.
constexpr unsigned kRingBursts = 4096 / kBurst;

}  // namespace

Switch::Switch(const SwitchConfig& config, std::unique_ptr<Port> wire, Management* management,
               Time now)
    : config_(config),
      management_(management),
      prng_(config.seed),
      neighbours_(config.mac, config.ipv4, prng_.split("neighbours").next_u64()),
      resolver_(&neighbours_.table()),
      prober_(prng_.split("probes").next_u64()) {
  if (wire != nullptr) wire_ = std::make_unique<Station>(std::move(wire), now);
  wire_can_corrupt_ = wire_ != nullptr && wire_->port->info().can_corrupt;
  awake_.reserve(client::kBlocks);
  waiting_mads_.reserve(kWaitingMads);
  resolver_.configure(config.ipv4, config.prefix_bits, config.gateway);
}

Switch::~Switch() = default;

// ---- Clients

void Switch::add_client(uint32_t block, std::unique_ptr<Port> port, Time now) {
  CHECK(block < client::kBlocks && clients_[block] == nullptr);
  clients_[block] = std::make_unique<Station>(std::move(port), now);
  awake_.push_back(block);
}

void Switch::deliver_sent(uint32_t block, Time now) {
  CHECK(block < client::kBlocks && clients_[block] != nullptr);
  for (unsigned i = 0; i < kRingBursts && receive_client(block, now); ++i) flush();
}

void Switch::remove_client(uint32_t block, Time now) {
  deliver_sent(block, now);
  note_ring(*clients_[block]);
  departed_ += clients_[block]->counters;
  clients_[block].reset();
  std::erase(awake_, block);
  resolver_.forget_client(block);
}

Port* Switch::client_port(uint32_t block) {
  return clients_[block] != nullptr ? clients_[block]->port.get() : nullptr;
}

void Switch::configure(const SwitchConfig& config, Time now) {
  const bool moved = config.ipv4 != config_.ipv4;
  const wire::MacAddress mac = config_.mac;
  config_ = config;
  config_.mac = mac;
  neighbours_.set_ipv4(config.ipv4);
  resolver_.configure(config.ipv4, config.prefix_bits, config.gateway);
  neighbours_.table().restart(now);
  if (moved && wire_ != nullptr) announce(now);
}

Station* Switch::station_of(Qpn qpn) const {
  return clients_[client::block_of(qpn)].get();
}

// The address of the device, as source or as destination.
bool Switch::is_ours(const HeaderCopy& copy, const FrameClass& found, bool destination) const {
  if (!found.is_ipv6) return (destination ? found.dst_ipv4 : found.src_ipv4) == config_.ipv4;
  return (destination ? destination_ipv6(copy) : source_ipv6(copy)) == neighbours_.link_local();
}

// ---- Turns

bool Switch::turn(Time now) {
  bool moved = ask_neighbours(now);
  if (owes_pauses_) tell_pauses();
  if (wire_ != nullptr && wire_->awake) moved |= receive_wire(now);
  for (const uint32_t block : awake_) moved |= receive_client(block, now);
  flush();
  return moved;
}

void Switch::flush() {
  for (const auto& client : clients_) {
    if (client != nullptr && client->dirty) flush_port(*client);
  }
  if (wire_ != nullptr && wire_->dirty) flush_port(*wire_);
}

void Switch::flush_port(Station& station) {
  station.outbox.commit();
  station.port->flush();
  station.dirty = false;
}

void Switch::release(Station& station, const RxFrame* frames, unsigned count) {
  std::array<uint64_t, kBurst> cookies;
  for (unsigned i = 0; i < count; ++i) cookies[i] = frames[i].cookie;
  station.port->rx_release(cookies.data(), count);
  station.dirty = true;  // frames given back are news for the sender, too
}

// True: the port is armed, or cannot notify.
bool Switch::arm_if_idle(Station& station, Time now) {
  if (now - station.last_moved < kSpin) return false;
  if (station.port->notify_fd() < 0) return true;
  station.awake = !station.port->arm();
  return !station.awake;
}

bool Switch::arm_idle_ports(Time now) {
  bool asleep = wire_ == nullptr || !wire_->awake || arm_if_idle(*wire_, now);
  for (size_t i = 0; i < awake_.size();) {
    if (!arm_if_idle(*clients_[awake_[i]], now)) {
      asleep = false;
      ++i;
    } else if (clients_[awake_[i]]->awake) {
      ++i;
    } else {
      awake_[i] = awake_.back();
      awake_.pop_back();
    }
  }
  return asleep;
}

void Switch::wake_client(uint32_t block, Time now) {
  Station* client = clients_[block].get();
  if (client == nullptr) return;
  client->port->service(now);
  if (client->awake) return;
  client->port->disarm();
  client->awake = true;
  client->last_moved = now;
  awake_.push_back(block);
}

void Switch::wake_wire(Time now) {
  if (wire_ == nullptr) return;
  service_wire(now);
  if (!wire_->awake) wire_->port->disarm();
  wire_->awake = true;
  wire_->last_moved = now;
}

void Switch::note_ring(Station& station) {
  station.counters.nic_drop_ring = station.port->stats().rx_malformed;
}

// service() may have taken the wake-up of a port that sleeps: the loop will not hear of it.
bool Switch::still_sleeps(Station& station, Time now) {
  if (station.awake || station.port->arm()) return true;
  station.awake = true;
  station.last_moved = now;
  return false;
}

void Switch::service_clients(Time now) {
  for (uint32_t block = 0; block < client::kBlocks; ++block) {
    Station* client = clients_[block].get();
    if (client == nullptr) continue;
    client->port->service(now);
    if (!still_sleeps(*client, now)) awake_.push_back(block);
    note_ring(*client);
  }
}

void Switch::service_wire(Time now) {
  if (wire_ == nullptr) return;
  wire_->port->service(now);
  note_ring(*wire_);
  still_sleeps(*wire_, now);
  resolver_.check_gateway(now);
  const bool up = wire_->port->link_up();
  if (up && !wire_was_up_) {
    // Peers may know our address under another Ethernet address.
    announce(now);
    neighbours_.table().restart(now);
  }
  wire_was_up_ = up;
}

// ---- Out

TxFrame* Switch::next_frame(Station& to) {
  if (!to.port->link_up()) {
    drop(to, &StationCounters::nic_drop_link_down);
    return nullptr;
  }
  TxFrame* frame = to.outbox.next();
  if (frame == nullptr) drop(to, &StationCounters::nic_drop_full);
  return frame;
}

void Switch::sent(Station& to, const TxFrame& frame) {
  ++to.counters.nic_frames_out;
  to.counters.nic_bytes_out += frame.frame_bytes;
  to.dirty = true;
}

// Sends the headers from the copy, because only those were checked. Requires: the copy holds
// header_bytes.
bool Switch::put(Station& to, const HeaderCopy& copy, uint32_t header_bytes, const RxFrame& frame) {
  DCHECK(header_bytes <= copy.copied && header_bytes <= kFrameHeadroom);
  if (copy.length > to.frame_bytes_max) {
    drop(to, &StationCounters::nic_drop_long);
    return false;
  }
  TxFrame* out = next_frame(to);
  if (out == nullptr) return false;
  if (copy.length > header_bytes + out->capacity) {
    to.outbox.put_back();
    drop(to, &StationCounters::nic_drop_long);
    return false;
  }
  std::memcpy(out->payload - header_bytes, copy.bytes.data(), header_bytes);
  std::memcpy(out->payload, frame.data + header_bytes, copy.length - header_bytes);
  out->header_bytes = header_bytes;
  out->frame_bytes = copy.length;
  sent(to, *out);
  return true;
}

// Bytes that are ours alone.
bool Switch::put_whole(Station& to, const unsigned char* bytes, uint32_t length) {
  HeaderCopy copy;
  copy.take(bytes, length);
  return put(to, copy, copy.copied, RxFrame{bytes, length, 0, FrameForm::kFrame});
}

void Switch::put_to_clients(Station& from, const HeaderCopy& copy, uint32_t header_bytes,
                            const RxFrame& frame) {
  for (const auto& client : clients_) {
    if (client == nullptr || client.get() == &from) continue;
    if (put(*client, copy, header_bytes, frame)) ++from.counters.nic_multicast_copies;
  }
}

// ---- Facts

const StationCounters* Switch::client_counters(uint32_t block) const {
  return clients_[block] != nullptr ? &clients_[block]->counters : nullptr;
}

StationCounters Switch::wire_counters() const {
  return wire_ != nullptr ? wire_->counters : StationCounters{};
}

StationCounters Switch::total() const {
  StationCounters sum = departed_;
  sum += wire_counters();
  for (const auto& client : clients_) {
    if (client != nullptr) sum += client->counters;
  }
  return sum;
}

}  // namespace mprdma::dataplane::mprdmad
