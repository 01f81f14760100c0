#include "evaluation/max_min.hpp"

#include <cstddef>
#include <limits>

namespace mprdma::figures {

std::vector<double> max_min_rates(std::span<const std::vector<uint32_t>> links_of_flow,
                                  std::vector<double> capacity) {
  std::vector<uint32_t> growing(capacity.size());  // by link: its flows that have not stopped
  for (const auto& links : links_of_flow) {
    for (const uint32_t link : links) ++growing[link];
  }
  std::vector<double> rates(links_of_flow.size());
  std::vector<bool> stopped(links_of_flow.size());
  while (true) {
    // Finds the link that is full first; its flows share the rest of its capacity equally.
    size_t tightest = capacity.size();
    double least = std::numeric_limits<double>::max();
    for (size_t link = 0; link < capacity.size(); ++link) {
      if (growing[link] == 0 || capacity[link] / growing[link] >= least) continue;
      least = capacity[link] / growing[link];
      tightest = link;
    }
    if (tightest == capacity.size()) return rates;
    for (size_t flow = 0; flow < links_of_flow.size(); ++flow) {
      if (stopped[flow]) continue;
      bool crosses = false;
      for (const uint32_t link : links_of_flow[flow]) crosses = crosses || link == tightest;
      if (!crosses) continue;
      stopped[flow] = true;
      rates[flow] = least;
      for (const uint32_t link : links_of_flow[flow]) {
        capacity[link] -= least;
        --growing[link];
      }
    }
  }
}

}  // namespace mprdma::figures
