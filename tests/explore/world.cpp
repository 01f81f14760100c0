#include "tests/explore/world.hpp"

#include <algorithm>
#include <cstring>
#include <new>

namespace mprdma::explore {

using transport::HeldPool;
using transport::Qp;
using transport::QpState;
using transport::StreamSender;
using transport::StreamStats;

namespace {

// The statistics of a stream, which decide nothing: the last member of its sender.
std::span<const uint8_t> stats_of(const StreamSender& sender) {
  const auto* const begin = reinterpret_cast<const uint8_t*>(&sender);
  return {begin + sizeof(StreamSender) - sizeof(StreamStats), sizeof(StreamStats)};
}

bool stats_are_there(const StreamSender& sender) {
  StreamStats stats;
  std::memcpy(&stats, stats_of(sender).data(), sizeof(stats));
  return stats.packets_sent == sender.stats().packets_sent;
}

void put_back(const std::vector<uint8_t>& bytes, std::span<uint8_t> to) {
  CHECK(bytes.size() == to.size());
  std::memcpy(to.data(), bytes.data(), bytes.size());
}

}  // namespace

World::Host::Host()
    : placements(transport::kMaxPlacements),
      released(transport::kMaxReleased),
      actions(placements, released) {
  regions.set({.iova = kBase,
               .addr = kBase,
               .length = kMessagesMax * kAreaBytes,
               .pd = 0,
               .access = transport::kLocalWrite | transport::kRemoteRead | transport::kRemoteWrite,
               .key = kKey});
}

World::World(const Setup& setup) : setup_(setup) {
  CHECK(setup.messages.size() <= kMessagesMax);
  in_order_ = setup.params.protocol == transport::Protocol::kRoce ||
              setup.params.placement != transport::PlacementPolicy::kRelaxed;
  scene_.left = setup.budgets;
  for (const Message& message : setup.messages) {
    CHECK(message.packets >= 1 && message.packets <= kPacketsMax);
    ++messages_of_[message.poster];
    sends_of_[message.poster] += message.opcode == transport::WorkOpcode::kSend ? 1 : 0;
  }
  make_queue_pairs();
  for (uint32_t side : {0u, 1u}) {
    while (!setup.late_receives && may_post_receive(side)) post_receive(side);
  }
  for (uint32_t side : {0u, 1u}) {
    while (!setup.late_posts && may_post(side)) post(side);
  }
  settle();
}

World::~World() {
  for (Host& host : hosts_) {
    host.qp->~Qp();
    host.held->~HeldPool();
  }
  queue_pair_arena().reset();
  held_pool_arena().reset();
}

void World::make_queue_pairs() {
  for (uint32_t side : {0u, 1u}) {
    Host& host = hosts_[side];
    {
      const Arena::Scope scope(held_pool_arena());
      host.held = new HeldPool(setup_.held_budget);
    }
    const Arena::Scope scope(queue_pair_arena());
    const transport::Device device{.memory = &host.regions,
                                   .held = host.held,
                                   .counters = &host.counters,
                                   .owes_acks = setup_.owes_acks};
    host.qp = new Qp({.qpn = Qpn(17 + side),
                      .send_depth = kMessagesMax,
                      .recv_depth = kMessagesMax,
                      .max_rd_atomic = 2,
                      .signal_all = true,
                      .params = setup_.params},
                     device);
  }
  for (uint32_t side : {0u, 1u}) connect(side);
}

void World::connect(uint32_t side) {
  Host& host = hosts_[side];
  host.qp->set_attributes({.access = transport::kRemoteRead | transport::kRemoteWrite,
                           .path_mtu = kPathMtu,
                           .ack_run = setup_.owes_acks ? kAckRun : 1,
                           .dest_qpn = Qpn(17 + 1 - side),
                           .rq_psn = Psn(1 - side == 0 ? kFirstPsnA : kFirstPsnB),
                           .sq_psn = Psn(side == 0 ? kFirstPsnA : kFirstPsnB),
                           .path_seed = side,
                           .max_rd_atomic = 2,
                           .max_dest_rd_atomic = 2});
  for (const QpState state : {QpState::kInit, QpState::kRtr, QpState::kRts}) {
    host.actions.clear();
    CHECK(host.qp->set_state(scene_.now, state, host.actions));
  }
}

// ---- Events ------------------------------------------------------------------------------------

void World::list_events(std::vector<Event>& events) const {
  events.clear();
  for (const uint8_t side : {uint8_t{0}, uint8_t{1}}) {
    if (!scene_.sides[side].flights.empty()) events.push_back({EventKind::kDeliver, side, 0});
    if (hosts_[side].qp->owes_ack()) events.push_back({EventKind::kAcknowledge, side, 0});
  }
  for (const uint8_t side : {uint8_t{0}, uint8_t{1}}) {
    if (may_post(side)) events.push_back({EventKind::kPost, side, 0});
    if (may_post_receive(side)) events.push_back({EventKind::kPostReceive, side, 0});
  }
  const bool waits = !next_deadline().is_never();
  if (waits && (time_is_free() || scene_.left.delays > 0)) events.push_back({EventKind::kTime});
  list_packet_events(0, events);
  list_packet_events(1, events);
}

Event World::fair_event() const {
  for (const uint8_t side : {uint8_t{0}, uint8_t{1}}) {
    if (hosts_[side].qp->owes_ack()) return {EventKind::kAcknowledge, side, 0};
  }
  for (const uint8_t side : {uint8_t{0}, uint8_t{1}}) {
    const uint8_t other = 1 - side;
    const auto& own = scene_.sides[side].flights;
    const auto& others = scene_.sides[other].flights;
    if (own.empty() || (!others.empty() && others[0].sent < own[0].sent)) continue;
    return {EventKind::kDeliver, side, 0};
  }
  for (const uint8_t side : {uint8_t{0}, uint8_t{1}}) {
    if (may_post_receive(side)) return {EventKind::kPostReceive, side, 0};
    if (may_post(side)) return {EventKind::kPost, side, 0};
  }
  return {EventKind::kTime};
}

// What the network may do beside delivering the oldest packet. A packet that is equal to an older
// one is left out.
void World::list_packet_events(uint32_t side, std::vector<Event>& events) const {
  const auto& flights = scene_.sides[side].flights;
  const Budgets& left = scene_.left;
  for (size_t i = 0; i < flights.size(); ++i) {
    if (same_before(side, i)) continue;
    const auto add = [&](EventKind kind) {
      events.push_back({kind, static_cast<uint8_t>(side), static_cast<uint8_t>(i)});
    };
    if (i > 0 && left.overtakes > 0) add(EventKind::kDeliver);
    if (left.losses > 0) add(EventKind::kLose);
    const bool copies = flights[i].is_ack() ? left.duplicate_acks > 0 : left.duplicate_packets > 0;
    if (copies) add(EventKind::kDuplicate);
  }
}

bool World::same_before(uint32_t side, size_t index) const {
  const auto& flights = scene_.sides[side].flights;
  for (size_t i = 0; i < index; ++i) {
    if (flights[i].hash == flights[index].hash && flights[i].sent == flights[index].sent) {
      return true;
    }
  }
  return false;
}

Time World::next_deadline() const {
  return std::min(hosts_[0].qp->next_deadline(), hosts_[1].qp->next_deadline());
}

// Nothing else can happen.
bool World::time_is_free() const {
  for (uint32_t side : {0u, 1u}) {
    if (may_post(side) || may_post_receive(side)) return false;
    if (!scene_.sides[side].flights.empty() || hosts_[side].qp->owes_ack()) return false;
  }
  return true;
}

// ---- States ------------------------------------------------------------------------------------

void World::save(Snapshot& out) const {
  out.scene = scene_;
  const auto queue_pairs = queue_pair_arena().used();
  out.queue_pairs.assign(queue_pairs.begin(), queue_pairs.end());
  const auto pools = held_pool_arena().used();
  out.held_pools.assign(pools.begin(), pools.end());
}

void World::restore(const Snapshot& snapshot) {
  scene_ = snapshot.scene;
  put_back(snapshot.queue_pairs, queue_pair_arena().used());
  put_back(snapshot.held_pools, held_pool_arena().used());
}

uint64_t World::hash() const {
  StateHash hash;
  add_queue_pairs(hash);
  add_network(hash);
  hash.add(static_cast<uint64_t>(scene_.now.ns()));
  const Budgets& left = scene_.left;
  hash.add(left.losses | left.duplicate_packets << 8 | left.duplicate_acks << 16 |
           left.overtakes << 24);
  hash.add(left.delays);
  for (const Scene::Progress& p : scene_.progress) {
    hash.add(p.posted | p.completed << 8 | p.receives_posted << 16 | p.receives_done << 24);
  }
  hash.add_bytes({scene_.placed[0].data(), sizeof(scene_.placed)});
  return hash.value();
}

// Every byte of the queue pairs but their statistics.
void World::add_queue_pairs(StateHash& hash) const {
  const std::span<const uint8_t> all = queue_pair_arena().used();
  size_t at = 0;
  for (const Host& host : hosts_) {
    const transport::MpConnection* const mp = host.qp->mp();
    if (mp == nullptr) continue;
    for (const StreamSender* sender :
         {&mp->requester().sender(), &mp->responder().response_sender()}) {
      DCHECK(stats_are_there(*sender));
      const auto begin = static_cast<size_t>(stats_of(*sender).data() - all.data());
      CHECK(begin >= at && begin <= all.size());
      hash.add_bytes(all.subspan(at, begin - at));
      at = begin + sizeof(StreamStats);
    }
  }
  hash.add_bytes(all.subspan(at));
}

// Packets in flight are a set as long as they may overtake one another without limit.
void World::add_network(StateHash& hash) const {
  for (uint32_t side : {0u, 1u}) {
    const auto& flights = scene_.sides[side].flights;
    uint64_t sum = flights.size();
    for (size_t i = 0; i < flights.size(); ++i) {
      StateHash one;
      one.add(flights[i].hash);
      one.add(static_cast<uint64_t>(flights[i].sent.ns()));
      if (setup_.budgets.overtakes == kUnlimited) {
        sum += one.value();
      } else {
        hash.add(one.value());
      }
    }
    hash.add(sum);
    for (const Frame& frame : scene_.sides[side].frames) hash.add(frame.used ? frame.hash : 0);
    const HeldPool& pool = *hosts_[side].held;
    for (uint32_t i = 0; i < setup_.held_budget; ++i) {
      hash.add(pool[i].frame);
      hash.add(pool[i].next_free);
    }
  }
}

}  // namespace mprdma::explore
