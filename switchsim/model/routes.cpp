#include "switchsim/model/routes.hpp"

#include <map>

#include "base/check.hpp"
#include "base/prng.hpp"

namespace mprdma::switchsim {
namespace {

constexpr uint16_t kUnreached = UINT16_MAX;

}  // namespace

Routes::Routes(const Topology& topology, uint64_t seed)
    : hosts_(topology.hosts), switches_(topology.switches), usable_(topology.links.size(), true) {
  for (const LinkConfig& link : topology.links) {
    CHECK(link.a < topology.nodes() && link.b < topology.nodes() && link.a != link.b);
  }
  const Prng seeds = Prng(seed).split("ecmp");
  for (uint32_t at = 0; at < switches_; ++at) seeds_.push_back(seeds.split(at).next_u64());
  attach(topology);
  connect(topology);
  compute();
}

void Routes::attach(const Topology& topology) {
  attachments_.resize(hosts_);
  std::vector<uint32_t> index_of(switches_, kNoLeaf);
  for (PortId port = 0; port < topology.ports(); ++port) {
    const NodeId host = topology.from(port);
    if (host >= hosts_) continue;
    Attachment& attachment = attachments_[host];
    CHECK(attachment.up == kNoPort);  // a host has one link
    attachment.up = port;
    attachment.down = port ^ 1;
    attachment.leaf = topology.to(port);
    if (attachment.leaf < hosts_) continue;
    uint32_t& index = index_of[attachment.leaf - hosts_];
    if (index == kNoLeaf) {
      index = leaves_++;
      leaf_switches_.push_back(attachment.leaf - hosts_);
    }
    attachment.leaf_index = index;
  }
  for (const Attachment& attachment : attachments_) CHECK(attachment.up != kNoPort);
}

void Routes::connect(const Topology& topology) {
  neighbour_first_.assign(switches_ + 1, 0);
  const auto inner = [&](PortId port) {
    return topology.from(port) >= hosts_ && topology.to(port) >= hosts_;
  };
  for (PortId port = 0; port < topology.ports(); ++port) {
    if (inner(port)) ++neighbour_first_[topology.from(port) - hosts_ + 1];
  }
  for (uint32_t at = 0; at < switches_; ++at) neighbour_first_[at + 1] += neighbour_first_[at];
  neighbours_.resize(neighbour_first_[switches_]);
  std::vector<uint32_t> next(neighbour_first_.begin(), neighbour_first_.end() - 1);
  for (PortId port = 0; port < topology.ports(); ++port) {
    if (!inner(port)) continue;
    neighbours_[next[topology.from(port) - hosts_]++] = {port, topology.to(port) - hosts_};
  }
}

// Counts the hops from every switch to the leaf, over usable links.
void Routes::measure(uint32_t leaf, std::span<uint16_t> distance) const {
  for (uint16_t& hops : distance) hops = kUnreached;
  std::vector<uint32_t> queue{leaf};
  distance[leaf] = 0;
  for (size_t done = 0; done < queue.size(); ++done) {
    const uint32_t at = queue[done];
    for (uint32_t i = neighbour_first_[at]; i < neighbour_first_[at + 1]; ++i) {
      const Neighbour& neighbour = neighbours_[i];
      if (!usable_[neighbour.port / 2] || distance[neighbour.peer] != kUnreached) continue;
      distance[neighbour.peer] = static_cast<uint16_t>(distance[at] + 1);
      queue.push_back(neighbour.peer);
    }
  }
}

// Chooses the port groups of one switch; `distances` is by leaf index, then switch index.
void Routes::choose(uint32_t at, std::span<const uint16_t> distances) {
  std::map<std::vector<PortId>, uint32_t> known;
  for (uint32_t leaf = 0; leaf < leaves_; ++leaf) {
    const auto distance = distances.subspan(uint64_t{leaf} * switches_, switches_);
    std::vector<PortId> ports;
    for (uint32_t i = neighbour_first_[at]; i < neighbour_first_[at + 1]; ++i) {
      const Neighbour& neighbour = neighbours_[i];
      if (!usable_[neighbour.port / 2] || distance[neighbour.peer] == kUnreached) continue;
      if (distance[neighbour.peer] + 1 == distance[at]) ports.push_back(neighbour.port);
    }
    const auto [entry, added] = known.try_emplace(ports, static_cast<uint32_t>(groups_.size()));
    if (added) {
      groups_.push_back(
          {static_cast<uint32_t>(ports_.size()), static_cast<uint32_t>(ports.size())});
      ports_.insert(ports_.end(), ports.begin(), ports.end());
    }
    group_of_[uint64_t{at} * leaves_ + leaf] = entry->second;
  }
}

void Routes::compute() {
  std::vector<uint16_t> distances(uint64_t{leaves_} * switches_);
  for (uint32_t leaf = 0; leaf < leaves_; ++leaf) {
    measure(leaf_switches_[leaf],
            std::span(distances).subspan(uint64_t{leaf} * switches_, switches_));
  }
  groups_.clear();
  ports_.clear();
  group_of_.assign(uint64_t{switches_} * leaves_, 0);
  for (uint32_t at = 0; at < switches_; ++at) choose(at, distances);
}

std::span<const PortId> Routes::next_ports(NodeId node, NodeId destination) const {
  const Attachment& host = attachments_[destination];
  if (host.leaf == node) return {&host.down, 1};
  if (host.leaf_index == kNoLeaf) return {};
  const Group group = groups_[group_of_[uint64_t{node - hosts_} * leaves_ + host.leaf_index]];
  return {ports_.data() + group.first, group.count};
}

}  // namespace mprdma::switchsim
