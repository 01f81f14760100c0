// The path policies, for path_select.hpp. A policy is a class in a file of its own
// (docs/extending.md walks through one), pure, with
//
//   kName                what scenarios call it
//   kClocked             may a packet leave only with a clock (path_select.hpp)? Else the window
//                        alone decides when, and next() on which path
//   reset(fixed_vp)      a new connection, to which `fixed_vp` was given when it was set up
//   next(prng)           the virtual path of a packet that has none from a clock
#pragma once

#include <cstdint>

#include "base/alternatives.hpp"
#include "transport/path_ack_clocked.hpp"
#include "transport/path_single.hpp"
#include "transport/path_spray.hpp"

namespace mprdma::transport {

// To add one: its header above, its line here.
#define MPRDMA_PATH_POLICIES(X)   \
  X(kSingle, SinglePath)          \
  X(kAckClocked, AckClockedPaths) \
  X(kSpray, SprayedPaths)

enum class PathPolicy : uint8_t { MPRDMA_PATH_POLICIES(MPRDMA_ENUMERATOR) };
using PathPolicies = Alternatives<void MPRDMA_PATH_POLICIES(MPRDMA_ALTERNATIVE)>;

}  // namespace mprdma::transport
