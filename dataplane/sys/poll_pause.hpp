// Pause between polls of a source that cannot notify: from kPollPauseMin, doubled after each poll
// that found nothing, up to kPollPauseMax.
#pragma once

#include "base/units.hpp"

namespace mprdma::dataplane {

inline constexpr Duration kPollPauseMin = Duration::us(50);
inline constexpr Duration kPollPauseMax = Duration::ms(1);

}  // namespace mprdma::dataplane
