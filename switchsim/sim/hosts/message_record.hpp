// The times at which a message was posted and was complete.
#pragma once

#include <cstdint>

#include "switchsim/model/sim_time.hpp"

namespace mprdma::switchsim {

struct MessageRecord {
  SimTime posted;
  SimTime completed;
  uint64_t bytes = 0;
  // Flow completion time.
  [[nodiscard]] SimSpan fct() const { return completed - posted; }
};

}  // namespace mprdma::switchsim
