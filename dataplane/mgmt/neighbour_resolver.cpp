#include "dataplane/mgmt/neighbour_resolver.hpp"

#include <algorithm>

namespace mprdma::dataplane {

void NeighbourResolver::configure(Ipv4 ipv4, uint32_t prefix_bits, Ipv4 gateway) {
  ipv4_ = ipv4;
  mask_ = netmask(std::min(prefix_bits, 32U));
  gateway_ = gateway;
  gateway_known_ = false;
  const NeighbourTable::Entry* entry = gateway.unspecified() ? nullptr : table_.find(gateway);
  if (entry != nullptr && entry->state == NeighbourTable::State::kReachable)
    know_gateway(entry->mac);
}

// A silent gateway may just have no traffic for us, or answer through another router; then it still
// answers ARP.
void NeighbourResolver::check_gateway(Time now) {
  if (now < next_check_) return;
  next_check_ = now + kGatewayCheckInterval;
  if (gateway_sent_ && !gateway_heard_) table_.refresh(wire::map_ipv4(gateway_), now);
  gateway_sent_ = gateway_heard_ = false;
}

wire::IpAddress NeighbourResolver::next_hop(const wire::IpAddress& ip) const {
  const bool direct = gateway_.unspecified() || !wire::is_mapped_ipv4(ip) ||
                      same_subnet(wire::unmap_ipv4(ip), ipv4_, mask_);
  return direct ? ip : wire::map_ipv4(gateway_);
}

const wire::MacAddress* NeighbourResolver::find(const wire::IpAddress& ip) const {
  const NeighbourTable::Entry* entry = table_.find(next_hop(ip));
  return entry != nullptr && entry->state == NeighbourTable::State::kReachable ? &entry->mac
                                                                               : nullptr;
}

const wire::MacAddress* NeighbourResolver::ask(uint32_t who, const wire::IpAddress& ip, Time now,
                                               bool* waits) {
  *waits = false;
  bool asked = false;
  size_t its = 0;
  for (const Question& question : questions_) {
    if (question.who != who) continue;
    ++its;
    asked = asked || question.ip == ip;
  }
  // No client takes the room of all others.
  const size_t its_most = who == kAgent ? kQuestionsOfAgent : kQuestionsPerClient;
  const bool room = questions_.size() < kQuestionsMax && its < its_most;
  if (!asked && !room) return find(ip);
  const NeighbourTable::Entry* entry = table_.resolve(next_hop(ip), now);
  if (entry == nullptr) return nullptr;
  if (entry->state == NeighbourTable::State::kReachable) return &entry->mac;
  if (!asked) questions_.push_back({who, ip});
  *waits = true;
  return nullptr;
}

}  // namespace mprdma::dataplane
