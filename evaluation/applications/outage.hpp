// How long a cut keeps closed loops from their work: what one who waits for the messages notices.
// Loops have one message outstanding and pause between messages, so that a loop learns of the cut
// only with its next message; times from the cut on contain that pause.
#pragma once

#include <vector>

#include "switchsim/model/sim_time.hpp"
#include "switchsim/sim/result/result.hpp"

namespace mprdma::figures {

struct Outage {
  // From the cut to the loop's next completion, us.
  double next_us = 0;
  // From the cut to the first completion after which kOutageMessages messages, one after the other,
  // come at kOutageRate of the rate from the warm-up to the cut at least, us.
  double back_us = 0;
  // The message that the cut met, from its post to its completion, us.
  double message_us = 0;
};
inline constexpr size_t kOutageMessages = 4;
inline constexpr double kOutageRate = 0.9;

// When something is cut, and what is compared with.
struct Cut {
  switchsim::SimTime warm_up;
  switchsim::SimTime at;
};

// The longest time that a message took of those that were posted after the warm-up and complete at
// the cut, us.
double slowest_before_us(const switchsim::Result& result, const Cut& cut);

// The loops that were cut: the next message took more than kOutageFactor times as long as any of
// the run before the cut. Loops that were not cut wait in fuller queues for a while, which is less.
// A time that has not come at the end of the run is the time until then.
inline constexpr double kOutageFactor = 2;
std::vector<Outage> outages(const switchsim::Result& result, const Cut& cut);

// The same of every loop, cut or not.
std::vector<Outage> all_outages(const switchsim::Result& result, const Cut& cut);

}  // namespace mprdma::figures
