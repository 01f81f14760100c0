#include "dataplane/nic/neighbours.hpp"

#include <algorithm>

namespace mprdma::dataplane::nic {

void Neighbours::configure(uint32_t ipv4, uint32_t prefix_bits, uint32_t gateway) {
  ipv4_ = ipv4;
  mask_ = prefix_bits == 0 ? 0 : UINT32_MAX << (32 - std::min(prefix_bits, 32U));
  gateway_ = gateway;
}

wire::IpAddress Neighbours::next_hop(const wire::IpAddress& ip) const {
  const bool direct =
      gateway_ == 0 || !wire::is_mapped_ipv4(ip) || ((wire::unmap_ipv4(ip) ^ ipv4_) & mask_) == 0;
  return direct ? ip : wire::map_ipv4(gateway_);
}

const wire::MacAddress* Neighbours::find(const wire::IpAddress& ip) const {
  const ArpTable::Entry* entry = arp_.find(next_hop(ip));
  return entry != nullptr && entry->state == ArpTable::State::kReachable ? &entry->mac : nullptr;
}

const wire::MacAddress* Neighbours::ask(uint32_t who, const wire::IpAddress& ip, Time now,
                                        bool* waits) {
  *waits = false;
  const bool asked = std::any_of(questions_.begin(), questions_.end(),
                                 [&](const Question& q) { return q.who == who && q.ip == ip; });
  if (!asked && questions_.size() == kQuestionsMax) return find(ip);
  const ArpTable::Entry* entry = arp_.resolve(next_hop(ip), now);
  if (entry == nullptr) return nullptr;
  if (entry->state == ArpTable::State::kReachable) return &entry->mac;
  if (!asked) questions_.push_back({who, ip});
  *waits = true;
  return nullptr;
}

}  // namespace mprdma::dataplane::nic
