// Queue pairs attached to multicast groups (IBTA 10.5), and the Ethernet address of a group.
// Changed by commands, read for each datagram that comes to a group; called by the holder of the
// worker's lock.
#pragma once

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <iterator>
#include <map>
#include <span>
#include <vector>

#include "wire/ethernet.hpp"
#include "wire/ip_address.hpp"

namespace mprdma::dataplane {

struct QpContext;

// RFC 1112, 6.4: 01:00:5e and the low 23 bits; RFC 2464, 7: 33:33 and the low 32 bits.
constexpr wire::MacAddress mac_of_group(const wire::IpAddress& ip) {
  if (wire::is_mapped_ipv4(ip)) {
    return {0x01, 0x00, 0x5e, static_cast<uint8_t>(ip[13] & 0x7f), ip[14], ip[15]};
  }
  return {0x33, 0x33, ip[12], ip[13], ip[14], ip[15]};
}

class McastTable {
 public:
  static constexpr uint32_t kGroupsMax = 1024;
  static constexpr uint32_t kQpsMax = 240;  // of one group

  // 0, also if it is attached already; ENOMEM: no room.
  int attach(const wire::IpAddress& group, QpContext* qp) {
    const auto it = groups_.find(group);
    if (it == groups_.end()) {
      if (groups_.size() >= kGroupsMax) return ENOMEM;
      groups_[group].push_back(qp);
      return 0;
    }
    std::vector<QpContext*>& members = it->second;
    if (std::find(members.begin(), members.end(), qp) != members.end()) return 0;
    if (members.size() >= kQpsMax) return ENOMEM;
    members.push_back(qp);
    return 0;
  }

  // 0, or EINVAL: it was not attached.
  int detach(const wire::IpAddress& group, QpContext* qp) {
    const auto it = groups_.find(group);
    if (it == groups_.end() || std::erase(it->second, qp) == 0) return EINVAL;
    if (it->second.empty()) groups_.erase(it);
    return 0;
  }

  void forget(QpContext* qp) {
    for (auto it = groups_.begin(); it != groups_.end();) {
      std::erase(it->second, qp);
      it = it->second.empty() ? groups_.erase(it) : std::next(it);
    }
  }

  [[nodiscard]] bool attached(const QpContext* qp) const {
    return std::any_of(groups_.begin(), groups_.end(), [qp](const auto& group) {
      return std::find(group.second.begin(), group.second.end(), qp) != group.second.end();
    });
  }

  [[nodiscard]] std::span<QpContext* const> members(const wire::IpAddress& group) const {
    const auto it = groups_.find(group);
    if (it == groups_.end()) return {};
    return it->second;
  }

 private:
  std::map<wire::IpAddress, std::vector<QpContext*>> groups_;
};

}  // namespace mprdma::dataplane
