// The three states of path 4 that figures 1 and 14 compare.
#pragma once

#include <array>

#include "switchsim/sim/scenario/scenario_toml.hpp"

namespace mprdma::figures {

struct PathState {
  const char* id;
  const char* name;
  const char* override_line;  // "": path 4 is as the others
};
inline constexpr std::array<PathState, 3> kPathStates = {
    {{"normal", "normal", ""},
     {"misconfigured", "ECN misconfigured", "link[path4].red=[1.0, 240_000, 240_000]"},
     {"slow", "path 4 at 1 Gb/s", "link[path4].rate_gbps=1"}}};

inline switchsim::Overrides with_state(switchsim::Overrides overrides, const PathState& state) {
  if (*state.override_line != 0) overrides.emplace_back(state.override_line);
  return overrides;
}

}  // namespace mprdma::figures
