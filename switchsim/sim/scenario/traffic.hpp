// Generators of traffic: flows made by a rule and a seed.
//
//   pairs        from[i] to to[i] (or one on one side)
//   permutation  each of `from` to one of `to` and each of `to` from one: a drawn cycle through all
//                if both are the same hosts, else a drawn assignment
//   incast       all of `from`, or so many of them that are drawn, to one
//   all-to-all   each of `from` to each of `to`
//   poisson      messages arrive at each sender by a Poisson process of its own
//
// Every draw comes from a stream of its own, by traffic, purpose and host: one more traffic, or
// other sizes, do not move the rest.
#pragma once

#include <cstdint>

#include "switchsim/sim/scenario/scenario.hpp"

namespace mprdma::switchsim {

// Messages that Poisson traffic may have, on average: they are kept in memory.
inline constexpr double kPoissonMessagesMax = 5e7;
// Flows that one traffic may make.
inline constexpr uint64_t kTrafficFlowsMax = 1'000'000;

// Appends the flows of all traffic to the others, and clears it. Requires a scenario
// without an error (find_error()).
void expand_traffic(Scenario* scenario);

}  // namespace mprdma::switchsim
