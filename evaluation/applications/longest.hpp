// The message that took longest: what an application notices first.
#pragma once

#include <algorithm>

#include "switchsim/sim/result/result.hpp"

namespace mprdma::figures {

// Of all messages that are complete, from time 0 on; microseconds.
inline double longest_us(const switchsim::Result& result) {
  double most = 0;
  for (const auto& flow : result.flows) {
    for (const auto& message : flow.messages) {
      most = std::max(most, static_cast<double>(message.fct().count_ps()) / 1e6);
    }
  }
  return most;
}

}  // namespace mprdma::figures
