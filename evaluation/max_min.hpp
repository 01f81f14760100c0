// Max-min fair rates of flows with given paths: the result of ideal congestion control for a draw
// of ECMP.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace mprdma::figures {

// The rate of each flow by progressive filling: all rates grow alike; flows of a full link stop.
// links_of_flow: indices into capacity. A flow that crosses no link has the rate 0.
std::vector<double> max_min_rates(std::span<const std::vector<uint32_t>> links_of_flow,
                                  std::vector<double> capacity);

}  // namespace mprdma::figures
