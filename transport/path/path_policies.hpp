// The path policies, for path_select.hpp. path_policy.hpp is their contract; docs/extending.md
// walks through one.
#pragma once

#include <cstdint>

#include "base/alternatives.hpp"
#include "transport/path/path_ack_clocked.hpp"
#include "transport/path/path_plb.hpp"
#include "transport/path/path_policy.hpp"
#include "transport/path/path_recycled.hpp"
#include "transport/path/path_repath.hpp"
#include "transport/path/path_reps.hpp"
#include "transport/path/path_rotate.hpp"
#include "transport/path/path_single.hpp"
#include "transport/path/path_spray.hpp"

namespace mprdma::transport {

// A new policy needs its header above and its line here.
#define MPRDMA_PATH_POLICIES(X)   \
  X(kSingle, SinglePath)          \
  X(kAckClocked, AckClockedPaths) \
  X(kRecycled, RecycledPaths)     \
  X(kSpray, SprayedPaths)         \
  X(kRotate, RotatedPaths)        \
  X(kRepath, RepathedPath)        \
  X(kPlb, PlbPath)                \
  X(kReps, RepsPaths)

enum class PathPolicy : uint8_t { MPRDMA_PATH_POLICIES(MPRDMA_ENUMERATOR) };
using PathPolicies = Alternatives<void MPRDMA_PATH_POLICIES(MPRDMA_ALTERNATIVE)>;

// Whether the ACK clock decides when a packet leaves.
constexpr bool is_clocked(PathPolicy policy) {
#define MPRDMA_CLOCKED_CASE_(enumerator, type) \
  case PathPolicy::enumerator:                 \
    return type::kClocked;
  switch (policy) { MPRDMA_PATH_POLICIES(MPRDMA_CLOCKED_CASE_) }
#undef MPRDMA_CLOCKED_CASE_
  return false;
}

#define MPRDMA_CHECK_POLICY_(enumerator, type) static_assert(PathChoice<type>);
MPRDMA_PATH_POLICIES(MPRDMA_CHECK_POLICY_)
#undef MPRDMA_CHECK_POLICY_

}  // namespace mprdma::transport
