#include "dataplane/cm/port_table.hpp"

#include <algorithm>
#include <cerrno>

#include "abi/mprdma_abi_cm.h"

namespace mprdma::dataplane {

namespace {

// Both are bound to the port; `listens`: the newcomer wants it for listening. Errno values, 0 if
// there is room for both.
int collision(const CmPortTable::Claim& old, const CmPortTable::Claim& claim, bool listens) {
  if (old.family_only && claim.family_only && is_ipv4(old.address) != is_ipv4(claim.address)) {
    return 0;
  }
  if (!listens && !old.listening && old.reuse && claim.reuse) return 0;
  if (is_any(old.address) || is_any(claim.address)) return EADDRNOTAVAIL;
  return old.address == claim.address ? EADDRINUSE : 0;
}

}  // namespace

bool is_any(const wire::IpAddress& address) {
  const bool tail_is_zero = wire::unmap_ipv4(address).unspecified();
  return tail_is_zero && (wire::is_mapped_ipv4(address) || address == wire::IpAddress{});
}

bool CmPortTable::is_space(uint32_t space) {
  return space == MPRDMA_ABI_CM_PS_TCP || space == MPRDMA_ABI_CM_PS_UDP ||
         space == MPRDMA_ABI_CM_PS_IPOIB || space == MPRDMA_ABI_CM_PS_IB;
}

int CmPortTable::bind(uint32_t space, uint16_t port, const Claim& claim) {
  const auto found = claims_.find(key_of(space, port));
  if (found != claims_.end()) {
    for (const Claim& old : found->second) {
      if (const int error = collision(old, claim, false); error != 0) return error;
    }
  }
  claims_[key_of(space, port)].push_back(claim);
  return 0;
}

int CmPortTable::bind_free(uint32_t space, uint16_t first, uint16_t last, const Claim& claim,
                           Prng& prng, uint16_t* port) {
  if (first > last) return EADDRNOTAVAIL;
  // The search begins at a random port, so that successive agents on one address do not reuse
  // ports.
  const uint32_t count = uint32_t{last} - first + 1;
  const auto start = static_cast<uint32_t>(prng.below(count));
  for (uint32_t i = 0; i < count; ++i) {
    const auto candidate = static_cast<uint16_t>(first + (start + i) % count);
    if (claims_.contains(key_of(space, candidate))) continue;
    claims_[key_of(space, candidate)].push_back(claim);
    *port = candidate;
    return 0;
  }
  return EADDRNOTAVAIL;
}

CmPortTable::Claim* CmPortTable::find(uint32_t space, uint16_t port, uint32_t id) {
  const auto found = claims_.find(key_of(space, port));
  if (found == claims_.end()) return nullptr;
  const auto claim = std::ranges::find(found->second, id, &Claim::id);
  return claim == found->second.end() ? nullptr : &*claim;
}

int CmPortTable::listen(uint32_t space, uint16_t port, uint32_t id) {
  Claim* own = find(space, port, id);
  if (own == nullptr) return EINVAL;
  for (const Claim& other : claims_[key_of(space, port)]) {
    const int error = other.id != id ? collision(other, *own, true) : 0;
    if (error != 0) return error;
  }
  own->listening = true;
  return 0;
}

void CmPortTable::release(uint32_t space, uint16_t port, uint32_t id) {
  const auto found = claims_.find(key_of(space, port));
  if (found == claims_.end()) return;
  std::erase_if(found->second, [&](const Claim& claim) { return claim.id == id; });
  if (found->second.empty()) claims_.erase(found);
}

void CmPortTable::set_reuse(uint32_t space, uint16_t port, uint32_t id, bool reuse) {
  Claim* claim = find(space, port, id);
  if (claim != nullptr) claim->reuse = reuse;
}

uint32_t CmPortTable::find_listener(uint64_t service_id, const wire::IpAddress& destination) const {
  if (service_id > UINT32_MAX) return 0;
  const auto found = claims_.find(static_cast<uint32_t>(service_id));
  if (found == claims_.end()) return 0;
  for (const Claim& claim : found->second) {
    if (!claim.listening) continue;
    const bool any = is_any(claim.address);
    // IPv6's "any" takes IPv4 as well, unless it was told not to.
    const bool of_its_family = is_ipv4(claim.address) == is_ipv4(destination) ||
                               (!is_ipv4(claim.address) && !claim.family_only);
    if (any ? of_its_family : claim.address == destination) return claim.id;
  }
  return 0;
}

}  // namespace mprdma::dataplane
