// A receive queue that all queue pairs of a node share: each message takes the oldest receive.

#include <algorithm>

#include "tests/swarm/world.hpp"

namespace mprdma::swarm {

bool World::pop_shared_receive(void* host, transport::RecvRequest* out, transport::Sge* sges) {
  const Taker& taker = *static_cast<Taker*>(host);
  World& world = *taker.world;
  Node& node = *world.nodes_[taker.node];
  SharedQueue& queue = node.shared;
  if (queue.entries.empty()) return false;
  const SharedQueue::Entry entry = std::move(queue.entries.front());
  queue.entries.pop_front();
  world.trace("n{} qp{} takes receive {}", taker.node, taker.queue_pair, entry.recv.wr_id);
  queue.places[entry.recv.wr_id].queue_pair = taker.queue_pair;
  std::copy(entry.sges.begin(), entry.sges.end(), sges);
  *out = {.wr_id = entry.recv.wr_id, .sges = {sges, entry.sges.size()}};
  world.peer_flow(node, taker.queue_pair).post_recv(entry.recv);
  return true;
}

bool World::post_shared_receive(Node& node, uint32_t q) {
  SharedQueue& queue = node.shared;
  const uint32_t depth = side(node, 0).recv_depth;
  if (queue.entries.size() >= depth || queue.free_slots.empty()) return false;
  const Area& area = node.areas[0].recv;
  const uint64_t room = scenario_.message_max + 64;
  const uint64_t slot = queue.free_slots.back();
  queue.free_slots.pop_back();
  Op buffer;
  buffer.length = scenario_.message_max;
  SharedQueue::Entry entry;
  entry.sges =
      lay_out(buffer, area, area.addr + slot * room, room, side(node, q).recv_sge, app(node, q));
  entry.recv = {.wr_id = (uint64_t{1} << 40) + queue.next++, .pieces = buffer.pieces};
  queue.places[entry.recv.wr_id] = {.slot = slot};
  queue.entries.push_back(std::move(entry));
  return true;
}

void World::on_shared_completed(Node& node, uint64_t wr_id) {
  const auto place = node.shared.places.find(wr_id);
  expect(place != node.shared.places.end(), "n{}: receive {} completes twice", node.number, wr_id);
  node.shared.free_slots.push_back(place->second.slot);
  node.shared.places.erase(place);
}

// A reset forgets the receives that the queue pair had taken.
void World::reclaim_shared(Node& node, uint32_t q) {
  for (auto place = node.shared.places.begin(); place != node.shared.places.end();) {
    if (place->second.queue_pair != q) {
      ++place;
      continue;
    }
    node.shared.free_slots.push_back(place->second.slot);
    place = node.shared.places.erase(place);
  }
}

}  // namespace mprdma::swarm
