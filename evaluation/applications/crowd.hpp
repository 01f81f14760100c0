// More senders than incast.toml has.
#pragma once

#include <string>
#include <vector>

#include "base/check.hpp"

namespace mprdma::figures {

// Overrides of incast.toml, whose first leaf has the receiver: so many hosts below the four others
// send to it.
inline std::vector<std::string> crowd_of(uint32_t senders, std::vector<std::string> others = {}) {
  CHECK(senders % 4 == 0);
  const uint32_t each = senders / 4;
  others.push_back("topology.hosts_per_leaf=" + std::to_string(each));
  others.push_back("flow[0].from=\"h" + std::to_string(each + 1) + "..h" +
                   std::to_string(each + senders) + "\"");
  others.emplace_back("duration_us=20_000");
  others.emplace_back("warm_up_us=10_000");
  return others;
}

}  // namespace mprdma::figures
