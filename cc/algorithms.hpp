// The congestion controls, for window.hpp and rate.hpp. algorithm.hpp is their contract;
// docs/extending.md walks through one.
//
// A window belongs to a stream and a rate to a connection, and a connection may have both: so there
// are two choices, and each algorithm is in one of them.
#pragma once

#include <cstdint>

#include "base/alternatives.hpp"
#include "cc/aimd_window.hpp"
#include "cc/algorithm.hpp"
#include "cc/dcqcn_rate.hpp"
#include "cc/dctcp_window.hpp"
#include "cc/fixed_window.hpp"
#include "cc/mp_window.hpp"
#include "cc/no_limit.hpp"
#include "cc/nscc_window.hpp"
#include "cc/swift_window.hpp"
#include "cc/timely_rate.hpp"

namespace mprdma::cc {

// A new algorithm needs its header above and its line here: W if it sets a window, R if it sets a
// rate.
#define MPRDMA_ALGORITHMS(W, R) \
  W(kMp, MpWindow)              \
  W(kDctcp, DctcpWindow)        \
  W(kAimd, AimdWindow)          \
  W(kSwift, SwiftWindow)        \
  W(kNscc, NsccWindow)          \
  W(kFixed, FixedWindow)        \
  R(kNone, NoLimit)             \
  R(kDcqcnPaper, DcqcnPaper)    \
  R(kDcqcnTuned, DcqcnTuned)    \
  R(kTimely, Timely)            \
  R(kTimelyPatched, TimelyPatched)

#define MPRDMA_OTHER_(enumerator, type)

enum class WindowControl : uint8_t { MPRDMA_ALGORITHMS(MPRDMA_ENUMERATOR, MPRDMA_OTHER_) };
using WindowControls = Alternatives<void MPRDMA_ALGORITHMS(MPRDMA_ALTERNATIVE, MPRDMA_OTHER_)>;

enum class RateControl : uint8_t { MPRDMA_ALGORITHMS(MPRDMA_OTHER_, MPRDMA_ENUMERATOR) };
using RateControls = Alternatives<void MPRDMA_ALGORITHMS(MPRDMA_OTHER_, MPRDMA_ALTERNATIVE)>;

#define MPRDMA_CHECK_WINDOW_(enumerator, type) \
  static_assert(Algorithm<type> && kSetsWindow<type> && !kSetsRate<type>);
#define MPRDMA_CHECK_RATE_(enumerator, type) static_assert(Algorithm<type> && !kSetsWindow<type>);
MPRDMA_ALGORITHMS(MPRDMA_CHECK_WINDOW_, MPRDMA_CHECK_RATE_)

#define MPRDMA_NEEDS_MARKS_(enumerator, type) \
  case WindowControl::enumerator:             \
    return type::kNeedsMarks;
constexpr bool needs_marks(WindowControl which) {
  switch (which) { MPRDMA_ALGORITHMS(MPRDMA_NEEDS_MARKS_, MPRDMA_OTHER_) }
  return false;
}
#undef MPRDMA_NEEDS_MARKS_

// Whether a rate controller answers acknowledgements or marks; for those who have no object of it.
#define MPRDMA_HEARS_ACKS_(enumerator, type) \
  case RateControl::enumerator:              \
    return kHearsAcks<type>;
#define MPRDMA_HEARS_CNPS_(enumerator, type) \
  case RateControl::enumerator:              \
    return kHearsCnps<type>;
constexpr bool hears_acks(RateControl which) {
  switch (which) { MPRDMA_ALGORITHMS(MPRDMA_OTHER_, MPRDMA_HEARS_ACKS_) }
  return false;
}
constexpr bool hears_cnps(RateControl which) {
  switch (which) { MPRDMA_ALGORITHMS(MPRDMA_OTHER_, MPRDMA_HEARS_CNPS_) }
  return false;
}
#undef MPRDMA_HEARS_ACKS_
#undef MPRDMA_HEARS_CNPS_
#undef MPRDMA_CHECK_WINDOW_
#undef MPRDMA_CHECK_RATE_
#undef MPRDMA_OTHER_

}  // namespace mprdma::cc
