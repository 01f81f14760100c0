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

// Its inverse, 1/ms. What is not complete at the end has taken at least the time since the message
// before it.
inline double per_longest(const switchsim::Result& result) {
  double longest = longest_us(result);
  for (const auto& flow : result.flows) {
    const switchsim::SimTime from =
        flow.messages.empty() ? switchsim::SimTime() : flow.messages.back().completed;
    longest = std::max(longest, static_cast<double>((result.end - from).count_ps()) / 1e6);
  }
  return 1e3 / longest;
}

}  // namespace mprdma::figures
