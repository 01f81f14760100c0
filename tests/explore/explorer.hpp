// Depth-first search over every state that the events of a World reach. A state that was visited is
// not entered again, so each is entered once, whatever the number of ways to it.
//
// No state is stuck: from each one the events of a fair network lead on, and every run ends,
// because events are finite or the depth is exceeded, which is a finding; so it is enough that all
// ends are complete. A search that is cut goes on fairly from each state that it does not enter.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/explore/scene.hpp"
#include "transport/core/counters.hpp"

namespace mprdma::explore {

inline constexpr uint32_t kDepthMax = 1000;  // events of a run

struct Search {
  uint64_t states = 0;
  uint64_t events = 0;                    // applied
  uint64_t ends = 0;                      // states in which nothing is left to happen
  uint32_t depth = 0;                     // events of the longest run
  transport::TransportCounters counters;  // of all events that were applied
  bool cut = false;                       // not every state was entered
  std::string finding;                    // empty: no promise was broken
  std::vector<Event> path;                // to the finding
};

// Enters `states_max` states at most.
Search explore(const Setup& setup, uint64_t states_max);

// Runs these events, as far as they are possible, and then a fair network to the end. Returns the
// finding; empty: none. `taken`: the events that were possible before it.
std::string replay(const Setup& setup, const std::vector<Event>& events,
                   std::vector<Event>* taken = nullptr);

// The events of a finding without those that it does not need.
std::vector<Event> shrink(const Setup& setup, std::vector<Event> events);

// The path of the search, or the events of the replay, that is under way; for a crash.
const std::vector<Event>& path_under_way();

}  // namespace mprdma::explore
